"""What can become of an expression beside a value: no program, or one of three failures.

The failures are kept apart, since they mean different things to whoever waits for the value: `Missing` is a value
that is not there (yet), `EvaluationError` an expression that can never work on such data, `LimitExceeded` one that
costs too much.
"""


class CelSyntaxError(ValueError):
    """A text that is no program; `line` and `column` count from 1 and are 0 where no place is known."""

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
    """An evaluation that has no result."""


class EvaluationError(CelError):
    """The data is of a kind that the expression cannot work on: a wrong type, a division by zero, an overflow."""


class Missing(CelError):
    """A field, key or variable that is not there."""


class LimitExceeded(CelError):
    """The evaluation was ended because it costs more than its limits allow. No operator absorbs it."""


def no_overload() -> EvaluationError:
    """The failure of an operator or function that does not take these types."""
    return EvaluationError("no such overload")
