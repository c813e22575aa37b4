"""The status of a box's object: declared fields and conditions beside those of the engine (D13, L21).

Each expression fails for itself: what has no value yet is left out, what cannot have one is told.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import attrs

from vworkspace_core.apimachinery.conditions import Transition, Wanted
from vworkspace_core.apimachinery.manifest import get_path
from vworkspace_core.apimachinery.meta import Condition, ConditionStatus, condition_json
from vworkspace_core.apimachinery.timestamps import parse_time
from vworkspace_core.boxes.box import Box, StatusCondition
from vworkspace_core.boxes.box_object import READY, RECONCILING, STALLED, BoxObject
from vworkspace_core.boxes.evaluation import Evaluation, variables
from vworkspace_core.boxes.expressions import BoxExpression, ExpressionFailure
from vworkspace_core.boxes.templates import Template
from vworkspace_core.cel.values import ABSENT
from vworkspace_core.controller.decision import Decision
from vworkspace_core.controller.status import LiveStatus, Minor, event_of, status_change
from vworkspace_core.graph import GraphReason, Scope
from vworkspace_core.ports import KubernetesEvent

_BAD_WHEN_TRUE: Final = (STALLED,)
_TOLD: Final = (READY, STALLED, "Deleting")
"""Conditions whose changes are told by an Event; what is under way stands in the status."""
_COMMENTARY_SECONDS: Final = 10.0
"""So long after a transition the details of an obstacle may wait."""
_WITHOUT_VALUE: Final = "NoValueYet"


@attrs.frozen
class Reported:
    """What the expressions of a status came to: fields, conditions, and what could not be evaluated."""

    fields: Mapping[str, Any] = attrs.field(factory=dict)
    conditions: tuple[Wanted, ...] = ()
    faults: tuple[str, ...] = ()


def report(box: Box, evaluation: Evaluation, scope: Scope) -> Reported:
    """The declared fields and conditions, in a scope where everything is known."""
    faults: list[str] = []
    fields: dict[str, Any] = {}
    for name, template in box.status_fields.items():
        value = _rendered(evaluation, scope, template, faults)
        if value is not ABSENT:
            fields[name] = value
    conditions = tuple(_condition(evaluation, scope, one, faults) for one in box.conditions)
    return Reported(fields, conditions, tuple(faults))


def _rendered(evaluation: Evaluation, scope: Scope, template: Template, faults: list[str]) -> Any:
    """The value; `ABSENT` where there is none. A fault is noted."""
    try:
        return evaluation.render(template, evaluation.variables(scope, variables(template.expressions)))
    except ExpressionFailure as failure:
        if not failure.is_missing:
            faults.append(str(failure))
        return ABSENT


def _condition(evaluation: Evaluation, scope: Scope, asked: StatusCondition, faults: list[str]) -> Wanted:
    status, why = _truth(evaluation, scope, asked.status, faults)
    reason = _text(_rendered(evaluation, scope, asked.reason, faults))
    message = _text(_rendered(evaluation, scope, asked.message, faults))
    if status is ConditionStatus.UNKNOWN:
        return Wanted(asked.type, status, _WITHOUT_VALUE, message or why)
    return Wanted(asked.type, status, reason or asked.type, message)


def _truth(
    evaluation: Evaluation, scope: Scope, expression: BoxExpression, faults: list[str]
) -> tuple[ConditionStatus, str]:
    try:
        value = evaluation.evaluate(expression, evaluation.variables(scope, variables((expression,))))
    except ExpressionFailure as failure:
        if not failure.is_missing:
            faults.append(str(failure))
        return ConditionStatus.UNKNOWN, failure.problem
    return (ConditionStatus.TRUE if value is True else ConditionStatus.FALSE), ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def with_faults(conditions: Sequence[Wanted], faults: Sequence[str]) -> tuple[Wanted, ...]:
    """A status that could not be evaluated keeps Ready from True, unless something else does already."""
    ready = next((one for one in conditions if one.type == READY), None)
    if not faults or ready is None or ready.status is not ConditionStatus.TRUE:
        return tuple(conditions)
    failed = GraphReason.EXPRESSION_FAILED.value
    stalled = Wanted(STALLED, ConditionStatus.TRUE, failed, faults[0])
    others = [one for one in conditions if one.type not in (READY, STALLED)]
    return (Wanted(READY, ConditionStatus.FALSE, failed, faults[0]), *others, stalled)


def with_status(
    decision: Decision,
    box: Box,
    parent: BoxObject,
    wanted: Iterable[Wanted],
    fields: Mapping[str, Any],
    now: datetime,
) -> Decision:
    """The decision with the whole status and its Events; unchanged where the status says so already, or may wait."""
    live, wanted = _live(box, parent), tuple(wanted)
    change = status_change(
        live, wanted, fields, now, minor=_minor(box, live, wanted), write_condition=condition_as_written
    )
    if change is None:
        return decision
    if change.is_minor and (wait := _seconds_until_due(live, now)) > 0:
        return attrs.evolve(decision, requeue=decision.requeue.no_later_than(wait))
    return change.added_to(decision, _events(box, parent, change.transitions))


def _minor(box: Box, live: LiveStatus, wanted: Sequence[Wanted]) -> Minor:
    """How far the same obstacle has come is commentary; another obstacle is news."""
    before, now = (_obstacle(conditions) for conditions in (live.conditions, wanted))
    if not now or before != now:
        return Minor()
    return Minor(frozenset((READY, RECONCILING)), frozenset(box.status_fields))


def _obstacle(conditions: Iterable[Condition | Wanted]) -> str:
    """What is in the way, by its name; empty where nothing is."""
    ready = next((one for one in conditions if one.type == READY), None)
    return "" if ready is None or ready.status is ConditionStatus.TRUE else ready.message.partition(": ")[0]


def _seconds_until_due(live: LiveStatus, now: datetime) -> float:
    """Right after a transition several reports follow one another; what lasts is told as it comes."""
    try:
        latest = max(parse_time(one.last_transition_time) for one in live.conditions)
    except ValueError:  # none there, or one that somebody else wrote
        return 0.0
    return _COMMENTARY_SECONDS - (now - latest).total_seconds()


def condition_as_written(condition: Condition) -> Mapping[str, Any]:
    """Only the fields of the common form: others' CRDs know no more."""
    return {key: value for key, value in condition_json(condition).items() if key != "reasonTransitionTime"}


def _live(box: Box, parent: BoxObject) -> LiveStatus:
    status, meta = parent.manifest.get("status"), parent.metadata
    observed = get_path(status, "observedGeneration")
    fields = {name: status[name] for name in box.status_fields if name in status} if isinstance(status, Mapping) else {}
    return LiveStatus(
        parent.ref(box.kind),
        meta.resource_version,
        meta.generation,
        observed if isinstance(observed, int) else None,
        parent.conditions,
        fields,
    )


def _events(box: Box, parent: BoxObject, changes: Iterable[Transition]) -> Iterator[KubernetesEvent]:
    for change in changes:
        condition = change.condition
        if condition.type in _TOLD and (change.previous is not None or condition.status is ConditionStatus.TRUE):
            bad = condition.type in _BAD_WHEN_TRUE and condition.status is ConditionStatus.TRUE
            yield event_of(change, parent.ref(box.kind), parent.metadata.uid, warning=bad)
