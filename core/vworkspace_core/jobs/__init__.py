"""The jobs that the agent fetches from the control plane: wire types, limits, plans and job machine, without I/O."""
