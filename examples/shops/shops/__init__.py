"""Shops in a service outside of the cluster."""
