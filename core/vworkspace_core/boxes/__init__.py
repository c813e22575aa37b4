"""Operators from a file: so far their gates and the functions of their expressions (PH-4, PH-5)."""
