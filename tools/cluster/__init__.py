"""A cluster of real controllers on this machine, for `make cluster` and `make test-cluster`."""
