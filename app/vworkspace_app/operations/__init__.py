"""The Operation controller."""
