"""The parts of the commands `status`, `check` and `diff`: they read a cluster and show objects as text (SEE-1)."""
