"""Trials of a box without a cluster, on the embedded API server: the work of `box plan` and `box test`."""
