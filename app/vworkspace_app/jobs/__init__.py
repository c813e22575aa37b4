"""The driver of the job agent, which performs the effects of the job machine through ports (PULL-2, PULL-5, PULL-7)."""
