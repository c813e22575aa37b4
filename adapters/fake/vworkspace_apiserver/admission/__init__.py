"""Admission webhooks of the embedded API server: which are asked, what they are asked, what they answer."""
