"""The work queue: which key is reconciled next, and when a key is tried again."""
