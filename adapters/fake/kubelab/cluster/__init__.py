"""An API server with its access, definitions and simulated controllers, served from a thread or as a process."""
