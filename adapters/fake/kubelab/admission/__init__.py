"""Admission webhooks of the embedded API server: which are called, with what, and what their answers mean."""
