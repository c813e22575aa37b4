"""The Cluster controller."""
