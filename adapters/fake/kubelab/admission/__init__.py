"""Admission webhooks of the embedded API server: the choice of webhooks, their requests, and their answers."""
