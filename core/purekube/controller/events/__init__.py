"""Kubernetes Events: which are written, and how."""
