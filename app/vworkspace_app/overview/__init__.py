"""`status`: our objects in a cluster, read once or followed, and printed for people or programs (SEE-1)."""
