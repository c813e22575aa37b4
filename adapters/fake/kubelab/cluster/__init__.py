"""The embedded API server with its callers, CRDs and simulated controllers, served from a thread or as a process."""
