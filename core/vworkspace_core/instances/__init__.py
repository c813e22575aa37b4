"""The pure reconciliation core of ApplicationInstances: `reconcile(source, observed, context) -> Decision` (REC-2)."""
