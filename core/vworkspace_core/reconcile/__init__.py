"""The pure reconciliation core: `reconcile(source, observed, context) -> Decision` (REC-2)."""

from vworkspace_core.reconcile.application_instance import reconcile
from vworkspace_core.reconcile.decision import (
    Apply,
    Context,
    Create,
    Decision,
    Delete,
    Failure,
    Finalizer,
    MergePatch,
    Observed,
    Policy,
    Requeue,
    Settings,
    Snapshot,
)

__all__ = [
    "Apply",
    "Context",
    "Create",
    "Decision",
    "Delete",
    "Failure",
    "Finalizer",
    "MergePatch",
    "Observed",
    "Policy",
    "Requeue",
    "Settings",
    "Snapshot",
    "reconcile",
]
