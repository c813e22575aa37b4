"""The engine that runs the simulated controllers of a cluster, and helpers to write the CRDs of their kinds."""
