"""Stored objects moved to the storage version of their kind (PH-8)."""
