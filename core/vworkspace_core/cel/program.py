"""The door of the language: from a text to a program, and from a program and its variables to a value."""

from collections.abc import Mapping
from typing import Any

import attrs

from vworkspace_core.cel.check import Checked, check
from vworkspace_core.cel.errors import LimitExceeded
from vworkspace_core.cel.evaluate import build
from vworkspace_core.cel.library import FUNCTIONS
from vworkspace_core.cel.limits import LIMITS, Budget, Limits
from vworkspace_core.cel.operators import Evaluator
from vworkspace_core.cel.parser import parse
from vworkspace_core.cel.resolve import resolved
from vworkspace_core.cel.signatures import FunctionTable
from vworkspace_core.cel.syntax import Expression
from vworkspace_core.cel.types import DYN, CelType


@attrs.frozen
class Environment:
    """What an expression may speak of: variables with their types, functions, and how much it may cost.

    `container` is the namespace in which names are looked up first, as the language has it: `a.b` finds `a.b.x` as `x`.
    """

    variables: Mapping[str, CelType] = attrs.field(factory=dict)
    functions: FunctionTable = FUNCTIONS
    limits: Limits = LIMITS
    container: str = ""


@attrs.frozen(eq=False)
class Program:
    """A compiled expression. `checked` says what it gives and reads; None where it was compiled without a check."""

    text: str
    tree: Expression
    checked: Checked | None
    limits: Limits
    run: Evaluator = attrs.field(repr=False)

    @property
    def type(self) -> CelType:
        """The type of its values."""
        return DYN if self.checked is None else self.checked.type

    def evaluate(self, variables: Mapping[str, Any], budget: Budget | None = None) -> Any:
        """Its value. Raises Missing, EvaluationError or LimitExceeded, and nothing else.

        A budget that is given is shared with whatever else spends from it.
        """
        return self.evaluate_in(prepared(variables, Budget.of(self.limits) if budget is None else budget))

    def evaluate_in(self, scope: dict[Any, Any]) -> Any:
        """Its value in a scope that `prepared` has made. Raises as `evaluate`."""
        try:
            return self.run(scope)
        except RecursionError as error:
            raise LimitExceeded("the data is nested too deeply") from error


def prepared(variables: Mapping[str, Any], budget: Budget) -> dict[Any, Any]:
    """A scope that several programs are evaluated in; all of them spend from the budget."""
    return {**variables, None: budget}


def compile_expression(text: str, environment: Environment, *, checked: bool = True) -> Program:
    """A program. Raises CelSyntaxError with line and column."""
    tree = parse(text, environment.limits)
    names = frozenset(environment.variables)
    if environment.container or any("." in name for name in names):
        tree = resolved(tree, names, environment.container)
    result = check(tree, text, environment.variables, environment.functions) if checked else None
    return Program(text, tree, result, environment.limits, build(tree, environment.functions, names))
