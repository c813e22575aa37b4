"""The target of an Operation: whether it is ready for work (OPS-3)."""

from collections.abc import Mapping

from purekube.apimachinery.meta import Condition, ConditionStatus
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.reasons import InstanceConditionType as Type


def is_ready(target: ApplicationInstance) -> bool:
    """Report whether a target is Ready at its generation, or was when it was suspended.

    A suspended target keeps the Ready of an old generation. Maintenance works on a target in exactly that state.
    """
    ready = _conditions(target).get(Type.READY)
    if ready is None or ready.status is not ConditionStatus.TRUE:
        return False
    return ready.observed_generation == target.metadata.generation or is_suspended(target)


def is_suspended(target: ApplicationInstance) -> bool:
    """Report whether the operator has reported, for the present generation, that the release is suspended."""
    condition = _conditions(target).get(Type.SUSPENDED)
    if condition is None or condition.status is not ConditionStatus.TRUE:
        return False
    return condition.observed_generation == target.metadata.generation


def why_not_ready(target: ApplicationInstance) -> str:
    """Return why the target is not Ready, from its own conditions."""
    conditions = _conditions(target)
    blocked, ready = conditions.get(Type.BLOCKED), conditions.get(Type.READY)
    name = f"the target {target.metadata.name}"
    for condition in (blocked if blocked is not None and blocked.status is ConditionStatus.TRUE else None, ready):
        if condition is not None and (condition is blocked or condition.status is not ConditionStatus.TRUE):
            message = f": {condition.message}" if condition.message else ""
            return f"{name} is not Ready ({condition.type}={condition.status}/{condition.reason}{message})"
    return f"{name} is not Ready yet" if ready is None else f"{name} is not Ready yet in its newest form"


def _conditions(target: ApplicationInstance) -> Mapping[str, Condition]:
    return {condition.type: condition for condition in target.status.conditions}
