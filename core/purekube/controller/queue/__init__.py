"""The work queue: which key (an object to reconcile) is next, and when a key is tried again."""
