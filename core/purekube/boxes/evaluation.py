"""The evaluation of a box's expressions in the scope of a graph: their variables, and their common budget."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Manifest
from purekube.boxes.box import Box
from purekube.boxes.expressions import BoxExpression, ExpressionFailure
from purekube.boxes.templates import Template
from purekube.cel import LIMITS, Budget
from purekube.controller.decision import Snapshot
from purekube.graph import Child, Hold, HoldCause, NodeKnowledge, Scope

PASS_STEPS: Final = 1_000_000
"""The most steps of all expressions of one decision together."""

_EVALUATION: Final = "evaluation"
_NOTHING: Final[Mapping[str, Any]] = {}


def variables(expressions: Iterable[BoxExpression]) -> frozenset[str]:
    """Return the variables that expressions read."""
    return frozenset(
        read.path[0]
        for expression in expressions
        if expression.program.checked is not None
        for read in expression.program.checked.reads
    )


@attrs.define(eq=False)
class Evaluation:
    """The evaluations of one decision. `parent` is `self`.

    `now` is for gates alone; None if none are evaluated. `observed` holds the consents. `due` is when the first closed
    gate opens with time.
    """

    box: Box
    parent: Manifest
    now: datetime | None = None
    observed: Snapshot = attrs.field(factory=Snapshot)
    due: datetime | None = None
    _left: int = PASS_STEPS
    _objects: dict[int, tuple[Child, Manifest | None]] = attrs.field(factory=dict)

    def look_again(self, at: datetime) -> None:
        """Record that a gate opens at that time."""
        self.due = at if self.due is None else min(self.due, at)

    def scope(self) -> Scope:
        """Return the initial scope; the engine fills in the nodes."""
        return Scope({_EVALUATION: self})

    def variables(self, scope: Scope, names: Iterable[str], bindings: Mapping[str, Any] = _NOTHING) -> dict[str, Any]:
        """Return the values of those `names` that have one. `bindings` take precedence."""
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
        """Return the value of an expression. Raises ExpressionFailure."""
        budget = self._budget()
        try:
            return expression.evaluate(values, budget)
        finally:
            self._spent(budget)

    def render(self, template: Template, values: Mapping[str, Any]) -> Any:
        """Return the value of a whole template. Raises ExpressionFailure."""
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
    """Return the evaluation that made a scope."""
    evaluation = scope.values[_EVALUATION]
    assert isinstance(evaluation, Evaluation)
    return evaluation


def hold_of(failure: ExpressionFailure) -> Hold:
    """Return the Hold that a failure means for the node that needs the value."""
    cause = HoldCause.MISSING if failure.is_missing else HoldCause.FAULT
    return Hold(cause, failure.problem, failure.place)
