"""What all simulated controllers share: how they are run, and the definitions of their kinds."""
