"""Leader election as a machine: one candidate, one Lease."""
