"""The embedded servers as processes: the API server with its access rules, and simulated controllers."""
