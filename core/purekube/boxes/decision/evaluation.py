"""The evaluation of a box's expressions: their variables, the step budget that they share, `when` gates (conditions for
writes), and the parent's status (PH-4, PH-6).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import attrs

from purekube.apimachinery.conditions import READY, STALLED, DesiredCondition
from purekube.apimachinery.manifest import Manifest, text_or_empty
from purekube.apimachinery.meta import ConditionStatus
from purekube.apimachinery.timestamps import format_time, parse_time, shifted
from purekube.boxes.box import Box, BoxWhen, StatusCondition, WhenElapsed
from purekube.boxes.expressions import BoxExpression, ExpressionFailure
from purekube.boxes.templates import Template
from purekube.cel import LIMITS, Budget
from purekube.cel.values import ABSENT, OptionalValue
from purekube.controller.decision import Snapshot
from purekube.graph.account import GraphReason
from purekube.graph.node import Child, Hold, HoldCause, NodeKnowledge, Scope

PASS_STEPS: Final = 1_000_000
"""The limit of evaluation steps for all expressions of one decision together."""

_EVALUATION: Final = "evaluation"
_NOTHING: Final[Mapping[str, Any]] = {}


def variables(expressions: Iterable[BoxExpression]) -> frozenset[str]:
    """Return the names of all variables that the expressions read."""
    return frozenset(
        read.path[0]
        for expression in expressions
        if expression.program.checked is not None
        for read in expression.program.checked.reads
    )


@attrs.define(eq=False)
class Evaluation:
    """The data that all expressions of one decision share, and the budget of steps that limits their cost together.

    `parent` is the value of the variable `self`. `now` is read only by `when` gates (conditions for writes), and is
    None if no gate is evaluated. `observed` has the other namespaces and the Secrets, whose annotations say whether the
    box may use them. `due` is the earliest time at which a closed gate will open; None if no such time is known.
    """

    box: Box
    parent: Manifest
    now: datetime | None = None
    observed: Snapshot = attrs.field(factory=Snapshot)
    due: datetime | None = None
    _left: int = PASS_STEPS
    _objects: dict[int, tuple[Child, Manifest | None]] = attrs.field(factory=dict)

    def look_again(self, at: datetime) -> None:
        """Record `at`, the time at which a `when` gate (a condition for writes) opens, so that the object is reconciled
        again at that time.
        """
        self.due = at if self.due is None else min(self.due, at)

    def scope(self) -> Scope:
        """Return a new scope for this evaluation: the place from which expressions get the values of variables.

        It has no resources at first. The graph engine adds each resource once it is evaluated.
        """
        return Scope({_EVALUATION: self})

    def variables(self, scope: Scope, names: Iterable[str], bindings: Mapping[str, Any] = _NOTHING) -> dict[str, Any]:
        """Return the values of the variables in `names`, by name. Variables that have no value yet are left out.

        Values in `bindings` take precedence over all others.
        """
        found: dict[str, Any] = {}
        for name in names:
            if name in bindings:
                found[name] = bindings[name]
            elif name == "self":
                found[name] = self.parent
            elif name in self.box.lists:
                found[name] = [one for node in self.box.lists[name] for one in self._all_of(scope, node)]
            else:
                self._put(found, scope, name)
        return found

    def _put(self, found: dict[str, Any], scope: Scope, name: str) -> None:
        node = self.box.node(name)
        if node is not None and node.iteration is not None:
            if scope.nodes[name].knowledge is not NodeKnowledge.UNKNOWN:
                found[name] = self._all_of(scope, name)
        elif name in scope.nodes and (objects := self._all_of(scope, name)):
            found[name] = objects[0]

    def _all_of(self, scope: Scope, node: str) -> list[Manifest]:
        children = scope.nodes.get(node)
        if children is None or children.knowledge is NodeKnowledge.EXCLUDED:
            return []
        return [one for child in children.items if (one := self._object(child)) is not None]

    def _object(self, child: Child) -> Manifest | None:
        known = self._objects.get(id(child))
        if known is None:
            known = self._objects[id(child)] = (child, child.object)
        return known[1]

    def evaluate(self, expression: BoxExpression, values: Mapping[str, Any]) -> Any:
        """Return the value of an expression. `values` has the values of its variables, by name.

        Its steps are subtracted from the budget that all expressions of the decision share. Raises ExpressionFailure if
        the evaluation fails.
        """
        budget = self._budget()
        try:
            return expression.evaluate(values, budget)
        finally:
            self._spent(budget)

    def render(self, template: Template, values: Mapping[str, Any]) -> Any:
        """Return the value of a template with its expressions evaluated. `values` has the values of their variables, by
        name.

        Their steps are subtracted from the budget that all expressions of the decision share. Raises ExpressionFailure
        if an expression fails.
        """
        budget = self._budget()
        try:
            return template.render(values, budget)
        finally:
            self._spent(budget)

    def _budget(self) -> Budget:
        budget = Budget.of(LIMITS)
        budget.steps = min(budget.steps, self._left)
        return budget

    def _spent(self, budget: Budget) -> None:
        self._left -= min(LIMITS.steps, self._left) - max(budget.steps, 0)


def evaluation_of(scope: Scope) -> Evaluation:
    """Return the evaluation for which the method `Evaluation.scope` made this scope."""
    evaluation = scope.values[_EVALUATION]
    assert isinstance(evaluation, Evaluation)
    return evaluation


def hold_of(failure: ExpressionFailure) -> Hold:
    """Return the Hold (a reason to wait) for a resource whose expression failed with `failure`."""
    cause = HoldCause.MISSING if failure.is_missing else HoldCause.FAULT
    return Hold(cause, failure.problem, failure.place)


_WITHOUT_VALUE: Final = "NoValueYet"


@attrs.frozen
class Reported:
    """The evaluated status of a parent (object of the box's kind): its fields and conditions.

    `faults` are the messages of expressions that failed.
    """

    fields: Mapping[str, Any] = attrs.field(factory=dict)
    conditions: tuple[DesiredCondition, ...] = ()
    faults: tuple[str, ...] = ()


def report(box: Box, evaluation: Evaluation, scope: Scope) -> Reported:
    """Evaluate the status fields and conditions that the box declares, after all its resources were evaluated.

    A field whose expression fails is left out of the result, and so is one whose value has another type than the CRD
    declares: the API server would refuse the whole status for it. The error is added to the result's `faults`, unless
    the expression merely reads a value that does not exist yet.
    """
    faults: list[str] = []
    fields: dict[str, Any] = {}
    for name, template in box.status_fields.items():
        value = _rendered(evaluation, scope, template, faults)
        if value is ABSENT:
            continue
        if wrong := _wrong_type(box, name, value):
            faults.append(f"spec.status.fields.{name}: {wrong}")
        else:
            fields[name] = value
    conditions = tuple(_condition(evaluation, scope, condition, faults) for condition in box.conditions)
    return Reported(fields, conditions, tuple(faults))


def _wrong_type(box: Box, name: str, value: Any) -> str:
    """Return the message that the field `name` of the status cannot hold `value` by the CRD; "" if it can.

    Null is always accepted, because the API server drops it.
    """
    status = None if box.schema is None else box.schema.child("status")
    field = None if status is None else status.child(name)
    if field is None or type(value) is field.plain:
        return ""
    from purekube.schema.structure import check_structure  # slow to import, and few commands report a status

    causes = check_structure(field, value, path=f"status.{name}")
    wrong = (cause.message for cause in causes if cause.reason == "FieldValueTypeInvalid")
    return next((message for message in wrong if not message.endswith('"null"')), "")


def _rendered(evaluation: Evaluation, scope: Scope, template: Template, faults: list[str]) -> Any:
    """Return the value of a status field's template; `ABSENT` if an expression in it fails. The error is appended to
    `faults`, unless the expression only reads a value that does not exist yet.
    """
    try:
        return evaluation.render(template, evaluation.variables(scope, variables(template.expressions)))
    except ExpressionFailure as failure:
        if not failure.is_missing:
            faults.append(str(failure))
        return ABSENT


def _condition(evaluation: Evaluation, scope: Scope, asked: StatusCondition, faults: list[str]) -> DesiredCondition:
    status, why = _truth(evaluation, scope, asked.status, faults)
    reason = text_or_empty(_rendered(evaluation, scope, asked.reason, faults))
    message = text_or_empty(_rendered(evaluation, scope, asked.message, faults))
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


def with_faults(conditions: Sequence[DesiredCondition], faults: Sequence[str]) -> tuple[DesiredCondition, ...]:
    """Return `conditions`, with Ready=False and Stalled=True if any expression of the status failed (`faults`). The
    conditions are unchanged if `faults` is empty, or if Ready is not True.
    """
    ready = next((condition for condition in conditions if condition.type == READY), None)
    if not faults or ready is None or ready.status is not ConditionStatus.TRUE:
        return tuple(conditions)
    failed = GraphReason.EXPRESSION_FAILED.value
    stalled = DesiredCondition(STALLED, ConditionStatus.TRUE, failed, faults[0])
    others = [condition for condition in conditions if condition.type not in (READY, STALLED)]
    return (DesiredCondition(READY, ConditionStatus.FALSE, failed, faults[0]), *others, stalled)


def together(expressions: Sequence[BoxExpression]) -> Callable[[Scope, Mapping[str, Any]], bool | Hold]:
    """Return a function that tests whether all expressions are true, in order.

    The function takes the scope of variables, and values that take precedence over the scope's. It returns True if all
    are true, False if one is not, and a Hold (a reason to wait) if the evaluation of an expression fails.
    """
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
    """Return a function that tests whether all `when` gates (conditions for writes) are open.

    It returns True if they are. For a closed gate it returns a Hold: a reason to wait, with the gate's test and its
    line in the file.
    """
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
    """Return True if the delay of a `when` gate has passed; otherwise return a Hold (a reason to wait), and record when
    the delay ends. `answer` is the result of the gate's expression, which was not true: False, or a Hold.
    """
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
    """Return the time at which the delay of a `when` gate ends. Return None if the timestamp from which the delay
    counts does not exist yet, and a Hold (a reason to wait) if its expression fails.
    """
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
    return f"{of_phase}waits until {gate.shown}"
