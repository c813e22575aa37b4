"""The engine of all simulated controllers: running them, and the definitions of their kinds."""
