"""The agent's half of pull mode: wire types, scope, applier, and the job machine, all without I/O."""
