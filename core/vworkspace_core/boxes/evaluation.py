"""Evaluating a box's expressions in the scope of a graph: which variables they see, and what they may cost together."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from vworkspace_core.apimachinery.manifest import Manifest
from vworkspace_core.boxes.box import Box
from vworkspace_core.boxes.expressions import BoxExpression, ExpressionFailure
from vworkspace_core.boxes.templates import Template
from vworkspace_core.cel import LIMITS, Budget
from vworkspace_core.controller.decision import Snapshot
from vworkspace_core.graph import Child, Hold, HoldCause, Knowledge, Scope

PASS_STEPS: Final = 1_000_000
"""What all expressions of one decision may take together."""

_EVALUATION: Final = "evaluation"
_NOTHING: Final[Mapping[str, Any]] = {}


def variables(expressions: Iterable[BoxExpression]) -> frozenset[str]:
    """The variables that expressions read."""
    return frozenset(
        read.path[0] for one in expressions if one.program.checked is not None for read in one.program.checked.reads
    )


@attrs.define(eq=False)
class Evaluation:
    """The evaluations of one decision. `parent` is `self`.

    `now` is for gates alone: None where nobody asks them. `observed` says who has agreed to what. `due`: when the first
    closed gate opens by itself.
    """

    box: Box
    parent: Manifest
    now: datetime | None = None
    observed: Snapshot = attrs.field(factory=Snapshot)
    due: datetime | None = None
    _left: int = PASS_STEPS
    _objects: dict[int, tuple[Child, Manifest | None]] = attrs.field(factory=dict)

    def look_again(self, at: datetime) -> None:
        """A gate opens then."""
        self.due = at if self.due is None else min(self.due, at)

    def scope(self) -> Scope:
        """The scope to start with; the engine fills in the nodes."""
        return Scope({_EVALUATION: self})

    def variables(self, scope: Scope, names: Iterable[str], bindings: Mapping[str, Any] = _NOTHING) -> dict[str, Any]:
        """What of `names` has a value. `bindings` go before everything else."""
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
            if scope.nodes[name].knowledge is not Knowledge.UNKNOWN:
                found[name] = self._all_of(scope, name)
        elif name in scope.nodes and (objects := self._all_of(scope, name)):
            found[name] = objects[0]

    def _all_of(self, scope: Scope, node: str) -> list[Manifest]:
        children = scope.nodes.get(node)
        if children is None or children.knowledge is Knowledge.EXCLUDED:
            return []
        return [one for child in children.items if (one := self._object(child)) is not None]

    def _object(self, child: Child) -> Manifest | None:
        known = self._objects.get(id(child))
        if known is None:
            known = self._objects[id(child)] = (child, child.object)
        return known[1]

    def evaluate(self, expression: BoxExpression, values: Mapping[str, Any]) -> Any:
        """Its value. Raises ExpressionFailure."""
        budget = self._budget()
        try:
            return expression.evaluate(values, budget)
        finally:
            self._spent(budget)

    def render(self, template: Template, values: Mapping[str, Any]) -> Any:
        """The value of a whole template. Raises ExpressionFailure."""
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
    """The evaluation that a scope was started by."""
    evaluation = scope.values[_EVALUATION]
    assert isinstance(evaluation, Evaluation)
    return evaluation


def hold_of(failure: ExpressionFailure) -> Hold:
    """What a failure means for what needs the value."""
    cause = HoldCause.MISSING if failure.is_missing else HoldCause.FAULT
    return Hold(cause, failure.problem, failure.place)
