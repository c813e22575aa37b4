"""The errors of expressions, and the limits of their cost: in steps, not seconds, so the same on every machine."""

from typing import Any, Final, TypeVar

import attrs

_T = TypeVar("_T")


class CelSyntaxError(ValueError):
    """A syntax or type error in an expression; `line` and `column` count from 1 and are 0 if unknown."""

    def __init__(self, problem: str, source: str = "", position: int | None = None) -> None:
        self.problem = problem
        self.line = self.column = 0
        if position is not None:
            before = source[:position]
            self.line = before.count("\n") + 1
            self.column = position - (before.rfind("\n") + 1) + 1
        where = f" at line {self.line}, column {self.column}" if self.line else ""
        super().__init__(f"{problem}{where}")


class CelError(Exception):
    """The base of all failures of an evaluation."""


class EvaluationError(CelError):
    """The failure of an expression on values of the wrong type, a division by zero, or an overflow."""


class Missing(CelError):
    """The failure of an expression that reads a field, key or variable that does not exist."""


class LimitExceeded(CelError):
    """The error for an evaluation that exceeded its limits. Unlike other errors, `||` and `&&` do not absorb it."""


def no_overload() -> EvaluationError:
    """Return the error for operands or arguments of types that the operator or function does not accept."""
    return EvaluationError("no such overload")


def of_type(wanted: type[_T], value: Any) -> _T:
    """Return `value` if it is of the type `wanted`; a boolean is not an int here. Raises EvaluationError otherwise."""
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise no_overload()
    return value


@attrs.frozen
class Limits:
    """Limits of one expression (`text` characters, `depth` levels) and of one evaluation of the expression.

    `steps` limits the work; `built_text` and `built_items` limit the characters and items that an evaluation creates.
    """

    text: int = 4096
    depth: int = 64
    chain: int = 200
    """The largest number of operators of one precedence, or of members, in a row: `a + b + c`, `a.b.c`."""
    steps: int = 100_000
    built_text: int = 1_000_000
    built_items: int = 10_000


LIMITS: Final = Limits()
"""The limits that apply to an expression unless its environment sets others."""


@attrs.define
class Budget:
    """The remaining steps, characters and items of an evaluation. Several evaluations may share one budget."""

    steps: int = LIMITS.steps
    text: int = LIMITS.built_text
    items: int = LIMITS.built_items

    @classmethod
    def of(cls, limits: Limits) -> "Budget":
        """Return a new budget with all that `limits` allow."""
        return cls(limits.steps, limits.built_text, limits.built_items)

    def spend(self, steps: int) -> None:
        """Subtract `steps` from the remaining steps. Raises LimitExceeded if too few steps remain."""
        self.steps -= steps
        if self.steps < 0:
            raise LimitExceeded("the expression takes too many steps")

    def build_text(self, characters: int) -> None:
        """Subtract `characters`, the length of a created text, from the remaining characters. Raises LimitExceeded if
        too few remain.
        """
        self.text -= characters
        if self.text < 0:
            raise LimitExceeded("the expression builds too much text")

    def build_items(self, count: int) -> None:
        """Subtract `count`, the length of a created list or map, from the remaining items. Raises LimitExceeded if too
        few remain.
        """
        self.items -= count
        if self.items < 0:
            raise LimitExceeded("the expression builds too many items")
