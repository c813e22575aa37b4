"""What the operator says of itself: the status of the Cluster object of its own id (RES-3, RES-4)."""
