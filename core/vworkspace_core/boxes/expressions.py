"""An expression of a box with its place in the file, and what its evaluation may end in."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from vworkspace_core.apimachinery.places import Place
from vworkspace_core.cel import Budget, CelError, Missing, Program

_HIDDEN: Final = "it cannot be evaluated, and what it reads is secret"


class ExpressionFailure(Exception):
    """An expression without a value, with its place. `is_missing`: what it reads is not there yet, its reader waits."""

    def __init__(self, place: Place, error: CelError) -> None:
        self.place = place
        self.is_missing = isinstance(error, Missing)
        self.problem = str(error)
        super().__init__(f"{place}: {self.problem}")


@attrs.frozen(eq=False)
class BoxExpression:
    """A program, and where its text stands."""

    program: Program
    place: Place
    is_secret: bool = False
    """Its value tells of the data of a Secret: what went wrong with it is not repeated."""

    def evaluate(self, scope: Mapping[str, Any], budget: Budget | None = None) -> Any:
        """Its value, an `OptionalValue` included. Raises ExpressionFailure."""
        try:
            return self.program.evaluate(scope, budget)
        except CelError as error:
            raise self.failure(error) from error

    def evaluate_in(self, scope: dict[Any, Any]) -> Any:
        """The same in a scope that `cel.prepared` has made."""
        try:
            return self.program.evaluate_in(scope)
        except CelError as error:
            raise self.failure(error) from error

    def failure(self, error: CelError) -> ExpressionFailure:
        """What is told of an evaluation that ended so."""
        return ExpressionFailure(self.place, type(error)(_HIDDEN) if self.is_secret else error)

    def holds(self, scope: Mapping[str, Any], budget: Budget | None = None) -> bool:
        """Whether it gives true. Raises ExpressionFailure."""
        return self.evaluate(scope, budget) is True
