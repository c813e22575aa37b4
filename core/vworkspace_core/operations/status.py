"""The desired status of an Operation, and the patch if the live status differs from it (REC-6 c, RES-2, RES-4)."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import attrs

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.meta import ConditionStatus
from purekube.apimachinery.secret_material import safe
from purekube.controller.decision import Decision
from purekube.controller.status import LiveStatus, event_of, status_change
from vworkspace_core.api.codec import unstructure
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.api.labels import request_mark
from vworkspace_core.api.operation import EngineRef, LogsRef, Operation, Phase
from vworkspace_core.api.reasons import OperationConditionType as Type
from vworkspace_core.api.reasons import OperationReason as Reason
from vworkspace_core.api.reasons import headline
from vworkspace_core.operations.context import OperationContext
from vworkspace_core.operations.identity import condition_of

_OWN: Final = frozenset(Type)

MOST_OUTPUTS: Final = 32
LONGEST_OUTPUT: Final = 1024
_LONGEST_NAME: Final = 128


def small_outputs(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return `given`, an engine's outputs, without lists and without maps inside maps.

    At most `MOST_OUTPUTS` entries are kept, and strings are cut at `LONGEST_OUTPUT` characters.
    """
    return {name: _small(value) for name, value in _few(given) if not isinstance(value, list)}


def _small(value: Any) -> Any:
    """Return `value` with long strings cut. If it is a mapping, nested mappings and lists in it are left out."""
    if isinstance(value, Mapping):
        return {name: _small(part) for name, part in _few(value) if not isinstance(part, Mapping | list)}
    return value[:LONGEST_OUTPUT] if isinstance(value, str) else value


def _few(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name[:_LONGEST_NAME], value) for name, value in islice(given.items(), MOST_OUTPUTS))


@attrs.frozen
class WantedStatus:
    """The desired status of an Operation, from which its conditions and fields are written.

    A condition that is None here is left out of the status, with two exceptions: a present condition Accepted is kept,
    and a present condition Blocked becomes False. Times are RFC 3339 strings.
    """

    phase: Phase
    running: DesiredCondition
    accepted: DesiredCondition | None = None
    ended: DesiredCondition | None = None
    blocked: DesiredCondition | None = None
    degraded: DesiredCondition | None = None
    started_at: str | None = None
    finished_at: str | None = None
    outputs: Mapping[str, Any] = attrs.field(factory=dict, converter=small_outputs)
    logs_ref: LogsRef | None = None
    engine_ref: EngineRef | None = None


def unblocked_status(operation: Operation) -> WantedStatus:
    """Return the Operation's present status as a desired status, without the condition Blocked."""
    status = operation.status
    ended = (_as_it_is(operation, kind) for kind in (Type.SUCCEEDED, Type.FAILED, Type.CANCELLED))
    return WantedStatus(
        status.phase or Phase.PENDING,
        running=_as_it_is(operation, Type.RUNNING)
        or DesiredCondition(Type.RUNNING, ConditionStatus.FALSE, Reason.ENGINE_NOT_STARTED),
        ended=next((condition for condition in ended if condition is not None), None),
        degraded=_as_it_is(operation, Type.DEGRADED),
        started_at=status.started_at,
        finished_at=status.finished_at,
        outputs=status.outputs or {},
        logs_ref=status.logs_ref,
        engine_ref=status.engine_ref,
    )


def _as_it_is(operation: Operation, kind: str) -> DesiredCondition | None:
    condition = condition_of(operation, kind)
    return (
        None
        if condition is None
        else DesiredCondition(condition.type, condition.status, condition.reason, condition.message)
    )


def with_status(
    decision: Decision, operation: Operation, wanted_status: WantedStatus, context: OperationContext
) -> Decision:
    """Return `decision` with `wanted_status` as the status to write, and an Event for each change of a condition.

    `context` has the time of the changes. If the Operation's status is up to date already, neither a status nor an
    Event is added.
    """
    desired = tuple(
        attrs.evolve(condition, message=safe(condition.message))
        for condition in _desired_conditions(operation, wanted_status)
    )
    fields = _fields(operation, wanted_status, desired)
    decision = attrs.evolve(decision, row=" ".join((wanted_status.phase.value, str(fields.get("reason", "")))))
    live = _live(operation)
    change = status_change(live, desired, fields, context.now)
    if change is None:
        return decision
    return change.added_to(decision, (event_of(transition, live) for transition in change.transitions))


def _live(operation: Operation) -> LiveStatus:
    status = operation.status
    return LiveStatus.of(
        OPERATION,
        operation.metadata,
        status.observed_generation,
        tuple(condition for condition in status.conditions if condition.type in _OWN),
        _without_none(
            phase=None if status.phase is None else status.phase.value,
            reason=status.reason or None,
            message=status.message or None,
            startedAt=status.started_at,
            finishedAt=status.finished_at,
            outputs=status.outputs or None,
            logsRef=_json(status.logs_ref),
            engineRef=_json(status.engine_ref),
            observedRequest=status.observed_request,
        ),
    )


def _fields(
    operation: Operation, wanted_status: WantedStatus, conditions: tuple[DesiredCondition, ...]
) -> dict[str, Any]:
    """Return all fields of the desired status except the conditions, as JSON. Absent fields are left out."""
    return _without_none(
        phase=wanted_status.phase.value,
        **headline(OPERATION, conditions),
        startedAt=wanted_status.started_at,
        finishedAt=wanted_status.finished_at,
        outputs=dict(wanted_status.outputs) or None,
        logsRef=_json(wanted_status.logs_ref),
        engineRef=_json(wanted_status.engine_ref),
        observedRequest=request_mark(operation.metadata.annotations),
    )


def _json(value: LogsRef | EngineRef | None) -> dict[str, Any] | None:
    return None if value is None else unstructure(value)


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _desired_conditions(operation: Operation, wanted_status: WantedStatus) -> Iterator[DesiredCondition]:
    accepted = condition_of(operation, Type.ACCEPTED)
    if wanted_status.accepted is not None:
        yield wanted_status.accepted
    elif accepted is not None:
        yield DesiredCondition(accepted.type, accepted.status, accepted.reason, accepted.message)
    yield wanted_status.running
    if wanted_status.ended is not None:
        yield wanted_status.ended
    if wanted_status.blocked is not None:
        yield wanted_status.blocked
    elif condition_of(operation, Type.BLOCKED) is not None:
        yield DesiredCondition(Type.BLOCKED, ConditionStatus.FALSE, Reason.UNBLOCKED)
    if wanted_status.degraded is not None:
        yield wanted_status.degraded
