"""Boxes in a process: reading their files, and running the operators that these describe (PH-6)."""
