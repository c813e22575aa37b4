"""`status`: what a cluster holds of ours, read once or followed, and printed for people or programs (SEE-1)."""
