"""The overview of `status`: our objects in a cluster, read once or watched, as text or data (SEE-1)."""
