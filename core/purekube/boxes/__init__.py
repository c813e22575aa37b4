"""Operators from a file: its classes, its reading, its gates, templates and functions (PH-4 to PH-6)."""
