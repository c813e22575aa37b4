"""The embedded servers as processes: the API server with who may reach it, and simulated controllers beside it."""
