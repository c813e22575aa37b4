"""Day-2 operations: `reconcile_operation(operation, observed, context) -> Decision` (OPS-1 to OPS-12)."""

from vworkspace_core.operations.claims import Claims
from vworkspace_core.operations.context import OperationContext, OperationObserved
from vworkspace_core.operations.override import release_request
from vworkspace_core.operations.reconcile import approval_to_spend, needs_live_view, reconcile_operation
from vworkspace_core.operations.settings import OperationSettings

__all__ = [
    "Claims",
    "OperationContext",
    "OperationObserved",
    "OperationSettings",
    "approval_to_spend",
    "needs_live_view",
    "reconcile_operation",
    "release_request",
]
