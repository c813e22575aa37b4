"""The ApplicationInstance controller."""
