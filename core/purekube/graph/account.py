"""The conditions of an owner (the object for which a graph's objects exist), derived from the plan of its objects.

Their messages name the graph node (the child resource) that keeps the owner from being ready.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import assert_never

from purekube.apimachinery.conditions import DELETING, READY, RECONCILING, STALLED, DesiredCondition
from purekube.apimachinery.meta import ConditionStatus
from purekube.apimachinery.problems import listed
from purekube.graph.plan import Plan
from purekube.graph.states import NodeState, Observation
from purekube.graph.teardown import MOST_NAMES, Teardown, messages_of

_TRUE, _FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


class GraphReason(StrEnum):
    """The reasons of the conditions Ready, Reconciling and Stalled of a graph's owner."""

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
    PROGRESSING = "Progressing"


def conditions_of(plan: Plan) -> tuple[DesiredCondition, ...]:
    """Return the conditions Ready, Reconciling and Stalled of an owner for the plan of its objects. Unless Ready is
    True, the message of Ready names the resource that is the obstacle, not the resources that wait for that one (PH-1).
    """
    unready = [observation for observation in plan.everything if not observation.is_ready]
    obstacles = [observation for observation in unready if not observation.waits_for] or unready
    return (_ready(unready, obstacles), _reconciling(plan, unready, obstacles), _stalled(unready, obstacles))


def _ready(unready: Sequence[Observation], obstacles: Sequence[Observation]) -> DesiredCondition:
    if not obstacles:
        return DesiredCondition(READY, _TRUE, GraphReason.RESOURCES_READY)
    also = _also(obstacles[0], obstacles)
    return DesiredCondition(READY, _FALSE, reason_of(obstacles[0]), message_of(obstacles[0], unready) + also)


def _reconciling(plan: Plan, unready: Sequence[Observation], obstacles: Sequence[Observation]) -> DesiredCondition:
    moving = next((obstacle for obstacle in obstacles if not obstacle.is_stalled), None)
    if moving is not None:
        return DesiredCondition(RECONCILING, _TRUE, GraphReason.PROGRESSING, message_of(moving, unready))
    if plan.going:
        return DesiredCondition(RECONCILING, _TRUE, GraphReason.PRUNING, messages_of(plan.going))
    return DesiredCondition(RECONCILING, _FALSE, GraphReason.STABLE)


def _stalled(unready: Sequence[Observation], obstacles: Sequence[Observation]) -> DesiredCondition:
    stuck = next((obstacle for obstacle in obstacles if obstacle.is_stalled), None)
    if stuck is None:
        return DesiredCondition(STALLED, _FALSE, GraphReason.STABLE)
    return DesiredCondition(STALLED, _TRUE, reason_of(stuck), message_of(stuck, unready) + _also(stuck, obstacles))


def _also(first: Observation, obstacles: Sequence[Observation]) -> str:
    """Return a sentence that names the stalled resources in `obstacles` other than `first`; "" if there are none."""
    others = [f"{one.name} ({one.state})" for one in obstacles if one.is_stalled and one is not first]
    return f". Also stalled: {listed(others, MOST_NAMES)}" if others else ""


def message_of(obstacle: Observation, others: Iterable[Observation] = ()) -> str:
    """Return a message about a resource that is not ready: its name, its message, its position in the file that
    declares it (if it is from a file), and the `others` that wait for it.

    The waiting resources are a separate sentence, so that a shell command in the first sentence can be copied.
    """
    told = f"{obstacle.name}: {obstacle.message or obstacle.state}"
    place = f" ({obstacle.place})" if str(obstacle.place) else ""
    behind = _behind(obstacle, others)
    return told + place + (f". Waiting behind it: {behind}" if behind else "")


def _behind(obstacle: Observation, others: Iterable[Observation]) -> str:
    """Return the ids of the resources in `others` that wait for `obstacle`, directly or not, as text."""
    held = {obstacle.node: None}
    for observation in others:
        if any(target in held for target in observation.waits_for):
            held.setdefault(observation.node, None)
    return listed(list(held)[1:], MOST_NAMES)


def reason_of(obstacle: Observation) -> GraphReason:
    """Return the reason of the condition Ready for the state of `obstacle`, a resource that is not ready."""
    match obstacle.state:
        case NodeState.WAITING | NodeState.PROGRESSING if obstacle.is_external:
            return GraphReason.WAITING_FOR_EXTERNAL
        case NodeState.MISSING_KIND:
            return GraphReason.MISSING_KIND
        case NodeState.ERROR:
            return GraphReason.EXPRESSION_FAILED
        case NodeState.WAITING:
            return GraphReason.WAITING_FOR_DEPENDENCY
        case NodeState.FOREIGN:
            return GraphReason.NAME_TAKEN
        case NodeState.HELD:
            return GraphReason.WAITING_FOR_GATE
        case NodeState.CONFLICT:
            return GraphReason.FIELD_CONFLICT
        case NodeState.DENIED:
            return GraphReason.DENIED
        case NodeState.REFUSED | NodeState.FAILED:
            return GraphReason.RESOURCE_FAILED
        case NodeState.PENDING | NodeState.PROGRESSING | NodeState.LEAVING | NodeState.RETRYING:
            return GraphReason.RESOURCE_NOT_READY
        case NodeState.READY | NodeState.EXCLUDED | NodeState.LEFT:
            return GraphReason.RESOURCES_READY
        case _:
            assert_never(obstacle.state)


def conditions_of_teardown(teardown: Teardown) -> tuple[DesiredCondition, ...]:
    """Return the conditions Ready, Reconciling, Stalled and Deleting of an owner that is being deleted."""
    reason, message = teardown.step, teardown.message
    stalled = DesiredCondition(STALLED, _TRUE, GraphReason.RESOURCE_FAILED, message)
    return (
        DesiredCondition(READY, _FALSE, GraphReason.DELETING, message),
        DesiredCondition(RECONCILING, _TRUE, GraphReason.DELETING, message),
        stalled if teardown.is_stalled else DesiredCondition(STALLED, _FALSE, GraphReason.STABLE),
        DesiredCondition(DELETING, _TRUE, reason, message),
    )
