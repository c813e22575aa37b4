"""The entry points of CEL: the compilation of a text to a program, and the evaluation of a program."""

from collections.abc import Mapping
from typing import Any

import attrs

from purekube.cel.check import Checked, check
from purekube.cel.evaluate import build
from purekube.cel.library import FUNCTIONS
from purekube.cel.limits import LIMITS, Budget, CelSyntaxError, LimitExceeded, Limits
from purekube.cel.operators import Evaluator
from purekube.cel.parser import parse
from purekube.cel.resolve import resolved
from purekube.cel.signatures import FunctionTable
from purekube.cel.syntax import Expression
from purekube.cel.types import DYN, CelType


@attrs.frozen
class Environment:
    """The input of a compilation in addition to the expression: variables with their types, functions, and cost limits.

    `container` is the namespace in which CEL looks up names first: in the container `a.b`, `x` finds `a.b.x`.
    """

    variables: Mapping[str, CelType] = attrs.field(factory=dict)
    functions: FunctionTable = FUNCTIONS
    limits: Limits = LIMITS
    container: str = ""


@attrs.frozen(eq=False)
class Program:
    """A compiled expression. `checked` has its type and the paths that it reads; None if compiled without a check."""

    text: str
    tree: Expression
    checked: Checked | None
    limits: Limits
    run: Evaluator = attrs.field(repr=False)

    @property
    def type(self) -> CelType:
        """The type of the program's values."""
        return DYN if self.checked is None else self.checked.type

    def evaluate(self, variables: Mapping[str, Any], budget: Budget | None = None) -> Any:
        """Return the program's value. `variables` maps names to values.

        Several evaluations may share one budget, from which all of them spend. Raises only Missing, EvaluationError or
        LimitExceeded.
        """
        return self.evaluate_in(prepared(variables, Budget.of(self.limits) if budget is None else budget))

    def evaluate_in(self, scope: dict[Any, Any]) -> Any:
        """Return the program's value in a scope made by `prepared`. Raises the same errors as `evaluate`."""
        try:
            return self.run(scope)
        except RecursionError as error:
            raise LimitExceeded("the data is nested too deeply") from error


def prepared(variables: Mapping[str, Any], budget: Budget) -> dict[Any, Any]:
    """Return a scope with `variables`, for the evaluation of one or several programs. All of them spend from
    `budget`.
    """
    return {**variables, None: budget}


def compile_expression(text: str, environment: Environment, *, checked: bool = True) -> Program:
    """Compile the expression `text`. Raises CelSyntaxError with line and column if it is invalid.

    `environment` has the variables and functions that the expression may use, and its limits. Without `checked`, types
    are not checked.
    """
    try:
        return _compiled(text, environment, checked)
    except RecursionError as error:  # within the limits, long chains of operators in many parentheses are that deep
        raise CelSyntaxError("the expression is nested too deeply") from error


def _compiled(text: str, environment: Environment, checked: bool) -> Program:
    tree = parse(text, environment.limits)
    names = frozenset(environment.variables)
    if any("." in name for name in names):
        tree = resolved(tree, names, environment.container)
    result = check(tree, text, environment.variables, environment.functions) if checked else None
    return Program(text, tree, result, environment.limits, build(tree, environment.functions, names))
