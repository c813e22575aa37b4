"""The agent's driver: performs what the job machine asks for, through the ports (PULL-2, PULL-5, PULL-7)."""
