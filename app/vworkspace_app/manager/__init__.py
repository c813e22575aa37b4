"""The operator, wired to ports: informers, the instance controller, events, agent. Nothing here names an adapter."""
