"""The agent's driver: performs the effects of the job machine, through the ports (PULL-2, PULL-5, PULL-7)."""
