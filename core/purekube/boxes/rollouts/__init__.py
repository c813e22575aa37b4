"""Applied boxes: their revisions, and the rollout that brings parents to a new revision (PH-10)."""
