"""The decisive condition of an object: the REASON and MESSAGE of every table (RES-1, RES-2).

`kubectl get` cannot choose between conditions by a JSONPath, so the choice is written into the status.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.meta import Condition
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.reasons import InstanceConditionType as I
from vworkspace_core.api.reasons import InstanceReason
from vworkspace_core.api.reasons import OperationConditionType as O

DECISIVE: Final[Mapping[Kind, Sequence[tuple[str, str]]]] = {
    APPLICATION_INSTANCE: (
        (I.DELETING, "True"),
        (I.BLOCKED, "True"),
        (I.STALLED, "True"),
        (I.SUSPENDED, "True"),
        (I.DEGRADED, "True"),
        (I.RECONCILING, "True"),
        (I.READY, "True"),
        (I.READY, "False"),
    ),
    OPERATION: (
        (O.FAILED, "True"),
        (O.CANCELLED, "True"),
        (O.BLOCKED, "True"),
        (O.ACCEPTED, "False"),
        (O.RUNNING, "True"),
        (O.SUCCEEDED, "True"),
        (O.RUNNING, "False"),
        (O.ACCEPTED, "True"),
    ),
}
"""Type and status of conditions; the first that holds decides. A recurring Operation has succeeded and still runs."""


BEFORE_RECONCILING: Final = frozenset({InstanceReason.WAITING_FOR_SECRET})
"""Reasons of Ready=False that decide before Reconciling: Flux keeps retrying for what only a person can provide."""


def headline(kind: Kind, conditions: Sequence[Condition | DesiredCondition]) -> dict[str, str]:
    """Return `reason` and `message` of the decisive condition; neither if there is none."""
    there = {(condition.type, str(condition.status)): condition for condition in conditions}
    decides = next((there[key] for key in DECISIVE[kind] if key in there), None)
    ready = there.get((I.READY, "False"))
    if kind == APPLICATION_INSTANCE and decides is not None and decides.type == I.RECONCILING and ready is not None:
        decides = ready if ready.reason in BEFORE_RECONCILING else decides
    fields = {} if decides is None else {"reason": str(decides.reason), "message": decides.message}
    return {name: text for name, text in fields.items() if text}
