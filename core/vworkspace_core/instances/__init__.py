"""The pure reconciliation core: `reconcile(source, observed, context) -> Decision` (REC-2)."""
