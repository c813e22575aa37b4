"""An expression of a box with its place in the file, and what its evaluation may end in."""

from collections.abc import Mapping
from typing import Any

import attrs

from vworkspace_core.apimachinery.places import Place
from vworkspace_core.cel import Budget, CelError, Missing, Program


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

    def evaluate(self, scope: Mapping[str, Any], budget: Budget | None = None) -> Any:
        """Its value, an `OptionalValue` included. Raises ExpressionFailure."""
        try:
            return self.program.evaluate(scope, budget)
        except CelError as error:
            raise ExpressionFailure(self.place, error) from error

    def holds(self, scope: Mapping[str, Any], budget: Budget | None = None) -> bool:
        """Whether it gives true. Raises ExpressionFailure."""
        return self.evaluate(scope, budget) is True
