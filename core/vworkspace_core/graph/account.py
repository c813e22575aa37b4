"""What a plan comes to: the owner's conditions, and the sentence that names what is in the way (L13, L14)."""

from enum import StrEnum

from vworkspace_core.apimachinery.conditions import Wanted
from vworkspace_core.graph.plan import Plan
from vworkspace_core.graph.teardown import Teardown


class GraphReason(StrEnum):
    """Reasons of Ready, Reconciling and Stalled."""

    RESOURCES_READY = "ResourcesReady"
    RESOURCE_NOT_READY = "ResourceNotReady"
    WAITING_FOR_DEPENDENCY = "WaitingForDependency"
    WAITING_FOR_GATE = "WaitingForGate"
    WAITING_FOR_EXTERNAL = "WaitingForExternal"
    RESOURCE_FAILED = "ResourceFailed"
    FIELD_CONFLICT = "FieldConflict"
    NAME_TAKEN = "NameTaken"
    EXPRESSION_FAILED = "ExpressionFailed"
    MISSING_KIND = "MissingKind"
    DENIED = "Denied"
    PRUNING = "Pruning"
    DELETING = "Deleting"
    STABLE = "Stable"


def conditions_of(plan: Plan) -> tuple[Wanted, ...]:
    """Ready, Reconciling and Stalled. Whenever Ready is not True its message names the obstacle itself."""
    raise NotImplementedError


def conditions_of_teardown(teardown: Teardown) -> tuple[Wanted, ...]:
    """Ready, Reconciling, Stalled and Deleting of an owner that goes."""
    raise NotImplementedError
