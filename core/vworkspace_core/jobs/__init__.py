"""The agent's half of pull mode: wire types, scope, plans, and the job machine, all without I/O."""
