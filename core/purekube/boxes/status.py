"""The status of a box's object: declared fields and conditions, and those of the engine (PH-6).

Each expression fails on its own: a field without a value yet is left out, an error is reported.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.meta import ConditionStatus
from purekube.boxes.box import Box, StatusCondition
from purekube.boxes.evaluation import Evaluation, variables
from purekube.boxes.expressions import BoxExpression, ExpressionFailure
from purekube.boxes.templates import Template
from purekube.cel.values import ABSENT
from purekube.composites.parent import READY, STALLED
from purekube.graph import GraphReason, Scope

_WITHOUT_VALUE: Final = "NoValueYet"


@attrs.frozen
class Reported:
    """The results of a status's expressions: fields, conditions, and errors."""

    fields: Mapping[str, Any] = attrs.field(factory=dict)
    conditions: tuple[DesiredCondition, ...] = ()
    faults: tuple[str, ...] = ()


def report(box: Box, evaluation: Evaluation, scope: Scope) -> Reported:
    """Evaluate the declared fields and conditions, in a complete scope."""
    faults: list[str] = []
    fields: dict[str, Any] = {}
    for name, template in box.status_fields.items():
        value = _rendered(evaluation, scope, template, faults)
        if value is not ABSENT:
            fields[name] = value
    conditions = tuple(_condition(evaluation, scope, condition, faults) for condition in box.conditions)
    return Reported(fields, conditions, tuple(faults))


def _rendered(evaluation: Evaluation, scope: Scope, template: Template, faults: list[str]) -> Any:
    """Return the value; `ABSENT` if there is none. A fault is recorded."""
    try:
        return evaluation.render(template, evaluation.variables(scope, variables(template.expressions)))
    except ExpressionFailure as failure:
        if not failure.is_missing:
            faults.append(str(failure))
        return ABSENT


def _condition(evaluation: Evaluation, scope: Scope, asked: StatusCondition, faults: list[str]) -> DesiredCondition:
    status, why = _truth(evaluation, scope, asked.status, faults)
    reason = _text(_rendered(evaluation, scope, asked.reason, faults))
    message = _text(_rendered(evaluation, scope, asked.message, faults))
    if status is ConditionStatus.UNKNOWN:
        return DesiredCondition(asked.type, status, _WITHOUT_VALUE, message or why)
    return DesiredCondition(asked.type, status, reason or asked.type, message)


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


def with_faults(conditions: Sequence[DesiredCondition], faults: Sequence[str]) -> tuple[DesiredCondition, ...]:
    """Set Ready to False if the status could not be evaluated, unless it is not True already."""
    ready = next((condition for condition in conditions if condition.type == READY), None)
    if not faults or ready is None or ready.status is not ConditionStatus.TRUE:
        return tuple(conditions)
    failed = GraphReason.EXPRESSION_FAILED.value
    stalled = DesiredCondition(STALLED, ConditionStatus.TRUE, failed, faults[0])
    others = [condition for condition in conditions if condition.type not in (READY, STALLED)]
    return (DesiredCondition(READY, ConditionStatus.FALSE, failed, faults[0]), *others, stalled)
