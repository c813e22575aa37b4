"""The errors of expressions: one at compilation, and three kinds of failure at evaluation.

The failures are distinct because callers react differently: `Missing` is a value that does not exist (yet),
`EvaluationError` an expression that can never work on such data, `LimitExceeded` one that costs too much.
"""


class CelSyntaxError(ValueError):
    """The error for a text that is no program; `line` and `column` count from 1 and are 0 if the place is unknown."""

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
    """The error for an evaluation without a result."""


class EvaluationError(CelError):
    """Data of a kind that the expression cannot work on: a wrong type, a division by zero, an overflow."""


class Missing(CelError):
    """A field, key or variable that does not exist."""


class LimitExceeded(CelError):
    """An evaluation that was stopped because it exceeded its limits. No operator absorbs this error."""


def no_overload() -> EvaluationError:
    """Return the failure of an operator or function that does not take these types."""
    return EvaluationError("no such overload")
