"""Leader election as a state machine: one candidate, one Lease."""
