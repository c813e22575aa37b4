"""An expression of a box with its place in the file, and its failures."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from purekube.apimachinery.places import Place
from purekube.cel import Budget, CelError, Missing, Program

_HIDDEN: Final = "it cannot be evaluated, and what it reads is secret"


class ExpressionFailure(Exception):
    """The failure of an expression, with its place.

    `is_missing`: what it reads does not exist yet, so its reader waits.
    """

    def __init__(self, place: Place, error: CelError) -> None:
        self.place = place
        self.is_missing = isinstance(error, Missing)
        self.problem = str(error)
        super().__init__(f"{place}: {self.problem}")


@attrs.frozen(eq=False)
class BoxExpression:
    """A program, and the place of its text."""

    program: Program
    place: Place
    is_secret: bool = False
    """True if its value reveals data of a Secret: then the message of a failure is not repeated."""

    def evaluate(self, scope: Mapping[str, Any], budget: Budget | None = None) -> Any:
        """Return the expression's value, which may be an `OptionalValue`. Raises ExpressionFailure."""
        try:
            return self.program.evaluate(scope, budget)
        except CelError as error:
            raise self.failure(error) from error

    def evaluate_in(self, scope: dict[Any, Any]) -> Any:
        """Return the expression's value in a scope that `cel.prepared` has made. Raises ExpressionFailure."""
        try:
            return self.program.evaluate_in(scope)
        except CelError as error:
            raise self.failure(error) from error

    def failure(self, error: CelError) -> ExpressionFailure:
        """Return the failure to report for an error of the evaluation."""
        return ExpressionFailure(self.place, type(error)(_HIDDEN) if self.is_secret else error)

    def holds(self, scope: Mapping[str, Any], budget: Budget | None = None) -> bool:
        """Report whether the expression gives true. Raises ExpressionFailure."""
        return self.evaluate(scope, budget) is True
