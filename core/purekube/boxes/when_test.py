"""The evaluation of a resource's gates: whether they are open, and when time opens them (PH-4)."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from purekube.apimachinery.timestamps import format_time, parse_time, shifted
from purekube.boxes.box import BoxWhen, WhenElapsed
from purekube.boxes.evaluation import Evaluation, evaluation_of, hold_of, variables
from purekube.boxes.expressions import BoxExpression, ExpressionFailure
from purekube.cel.values import OptionalValue
from purekube.graph import Hold, HoldCause, Scope


def together(
    expressions: Sequence[BoxExpression],
) -> Callable[[Scope, Mapping[str, Any]], bool | Hold]:
    """Return a function that tests whether all hold: the first that does not, or has no value, decides."""
    names = [(expression, variables((expression,))) for expression in expressions]

    def ask(scope: Scope, bindings: Mapping[str, Any]) -> bool | Hold:
        evaluation = evaluation_of(scope)
        try:
            return all(
                evaluation.evaluate(one, evaluation.variables(scope, reads, bindings)) is True for one, reads in names
            )
        except ExpressionFailure as failure:
            return hold_of(failure)

    return ask


def when_test(gates: Sequence[BoxWhen]) -> Callable[[Scope], bool | Hold]:
    """Return a function that tests whether all gates are open; a closed one is reported with its test and its line."""
    asked = [(gate, None if gate.expression is None else together((gate.expression,))) for gate in gates]

    def ask(scope: Scope) -> bool | Hold:
        for gate, question in asked:
            answer = False if question is None else question(scope, {})
            closed = True if answer is True else _elapsed(gate, answer, scope)
            if closed is not True:
                return closed
        return True

    return ask


def _elapsed(gate: BoxWhen, answer: bool | Hold, scope: Scope) -> bool | Hold:
    """Judge the times of a gate whose expression does not hold, and schedule the next look for the first of them."""
    if isinstance(answer, Hold) and answer.cause is HoldCause.MISSING:
        answer = False
    evaluation = evaluation_of(scope)
    now = evaluation.now
    assert now is not None or not gate.times, "gates need the time"
    dues: list[datetime] = []
    for one in gate.times:
        due = _due(evaluation, one, scope)
        if isinstance(due, Hold):
            answer = answer or due
        elif due is not None and now is not None and due <= now:
            return True
        elif due is not None:
            dues.append(due)
    if isinstance(answer, Hold):
        return answer
    if not dues:
        return Hold(HoldCause.NO, _closed(gate), gate.place)
    evaluation.look_again(min(dues))
    return Hold(HoldCause.NO, f"{_closed(gate)}, at {format_time(min(dues))}", gate.place)


def _due(evaluation: Evaluation, gate: WhenElapsed, scope: Scope) -> datetime | Hold | None:
    """Return when a gate opens; None if the time that it counts from does not exist yet."""
    try:
        since = evaluation.evaluate(gate.time, evaluation.variables(scope, variables((gate.time,))))
    except ExpressionFailure as failure:
        return None if failure.is_missing else hold_of(failure)
    if isinstance(since, OptionalValue):
        since = since.value if since.present else None
    if since is None:
        return None
    try:
        return shifted(parse_time(since if isinstance(since, str) else str(since)), timedelta(seconds=gate.seconds))
    except ValueError as error:
        return Hold(HoldCause.FAULT, f"the time that it counts from {error}", gate.time.place)


def _closed(gate: BoxWhen) -> str:
    of_phase = f"gate of phase {gate.phase}: " if gate.phase else ""
    return f"{of_phase}when {gate.shown}"
