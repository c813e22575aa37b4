"""Boxes in a process: reading their files, and running the operators that they describe (PH-6)."""
