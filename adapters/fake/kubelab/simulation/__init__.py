"""The engine that runs all simulated controllers, and the definitions of their kinds."""
