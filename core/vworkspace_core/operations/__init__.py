"""Day-2 operations: `reconcile_operation(operation, observed, context) -> Decision` (OPS-1 to OPS-12)."""
