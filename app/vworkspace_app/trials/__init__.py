"""A box tried without a cluster: what `box plan` and `box test` do, on the embedded API server."""
