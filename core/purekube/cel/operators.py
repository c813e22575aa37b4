"""The operators of CEL, such as `+` and `==`, compiled to functions or applied to values."""

import math
import operator as plain
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from purekube.cel.limits import Budget, EvaluationError, LimitExceeded, Missing, no_overload
from purekube.cel.moments import duration_of, timestamp_of
from purekube.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    Timestamp,
    Uint,
    cel_equal,
    compare_values,
    is_number,
    summed_lists,
)

Scope: TypeAlias = dict[Any, Any]
"""A scope: the values of variables by name, and the `Budget` of the evaluation under the key None."""

Evaluator: TypeAlias = Callable[[Scope], Any]
"""A compiled expression: a function from a scope to the expression's value."""

_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": plain.lt,
    "<=": plain.le,
    ">": plain.gt,
    ">=": plain.ge,
}


def boolean(value: Any) -> bool:
    """Return `value` if it is a bool. Raises EvaluationError otherwise."""
    if value is True or value is False:
        return bool(value)
    raise no_overload()


def decided(left: Evaluator, right: Evaluator, deciding: bool) -> Evaluator:
    """Compile `&&` or `||` to a function of the scope (the variables with their values). `left` and `right` are the
    compiled operands.

    `deciding` is the value of an operand that decides the result: False for `&&`, True for `||`. If one operand has
    this value, it decides the result even if the other operand fails.
    """

    def run(scope: Scope) -> bool:
        try:
            first = left(scope)
            if boolean(first) is deciding:
                return deciding
        except LimitExceeded:
            raise
        # cel-spec, "Logical Operators": an error on one side is absorbed if the other side decides.
        except (EvaluationError, Missing):
            if right(scope) is deciding:
                return bool(deciding)
            raise
        return boolean(right(scope))

    return run


def equality(left: Evaluator, right: Evaluator, equal: bool) -> Evaluator:
    """Compile `==` (with `equal`) or `!=` (without it) to a function of the scope (the variables with their values).

    `left` and `right` are the compiled operands.
    """

    def run(scope: Scope) -> bool:
        first, second = left(scope), right(scope)
        if type(first) is str and type(second) is str:
            if len(first) > 1_000:
                scope[None].spend(min(len(first), len(second)) // 16)
            return bool(first == second) is equal
        return cel_equal(first, second, scope[None]) is equal

    return run


def comparison(operator: str, left: Evaluator, right: Evaluator) -> Evaluator:
    """Compile `<`, `<=`, `>` or `>=` to a function of the scope (the variables with their values).

    `left` and `right` are the compiled operands.
    """
    compare = _COMPARISONS[operator]

    def run(scope: Scope) -> bool:
        first, second = left(scope), right(scope)
        if type(first) is int and type(second) is int:
            return compare(first, second)
        if isinstance(first, float) and isinstance(second, float):
            return compare(first, second)
        order = compare_values(first, second)
        return order != 2 and compare(order, 0)

    return run


def contained(value: Any, where: Any, budget: Budget) -> bool:
    """Report whether `value in where` in CEL: `value` is an item of the list, or a key of the map, `where`.

    The search spends steps of `budget`. Raises EvaluationError if `where` is neither a list nor a map, or if no map can
    have the key `value`.
    """
    if isinstance(where, list):
        budget.spend(len(where))
        return any(cel_equal(value, item, budget) for item in where)
    if isinstance(where, Mapping):
        if type(value) is str:
            return value in where
        if isinstance(value, (list, Mapping)):
            raise no_overload()
        budget.spend(len(where))
        return any(cel_equal(value, key, budget) for key in where)
    raise no_overload()


def negated(value: Any) -> Any:
    """Evaluate `-x` for an int or a double."""
    if not is_number(value) or isinstance(value, Uint):
        raise no_overload()
    if value == INT_MIN and isinstance(value, int):
        raise EvaluationError("integer overflow")
    return -value


def arithmetic(operator: str, left: Any, right: Any, budget: Budget) -> Any:
    """Return the result of CEL's `operator`: `+ - * / %` on numbers of one type, `+` on strings and lists, `+ -` on
    times.

    The length of a new text or list is subtracted from `budget`. Raises EvaluationError for operands of other types, an
    overflow and a division by zero.
    """
    if isinstance(left, int) and isinstance(right, int):
        return _integers(operator, left, right)
    if isinstance(left, float) and isinstance(right, float):
        return _doubles(operator, left, right)
    if operator == "+" and type(left) is type(right) and isinstance(left, (str, bytes)):
        budget.build_text(len(left) + len(right))
        return left + right
    if operator == "+" and isinstance(left, list) and isinstance(right, list):
        return summed_lists(left, right, budget)
    if operator in "+-" and isinstance(left, (Timestamp, Duration)) and isinstance(right, (Timestamp, Duration)):
        return _times(operator, left, right)
    raise no_overload()


def _integers(operator: str, left: int, right: int) -> int:
    unsigned = isinstance(left, Uint)
    if isinstance(left, bool) or isinstance(right, bool) or unsigned is not isinstance(right, Uint):
        raise no_overload()
    result = _calculated(operator, int(left), int(right))
    low, high = (0, UINT_MAX) if unsigned else (INT_MIN, INT_MAX)
    if not low <= result <= high:
        raise EvaluationError("unsigned integer overflow" if unsigned else "integer overflow")
    return Uint(result) if unsigned else result


def _calculated(operator: str, left: int, right: int) -> int:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    if right == 0:
        raise EvaluationError("division by zero" if operator == "/" else "modulus by zero")
    # As in Go, towards zero, and a remainder has the sign of the dividend; Python rounds down.
    quotient = abs(left) // abs(right)
    quotient = quotient if (left < 0) == (right < 0) else -quotient
    if operator == "/":
        return quotient
    if left == INT_MIN and right == -1:
        raise EvaluationError("integer overflow")
    return left - right * quotient


def _doubles(operator: str, left: float, right: float) -> float:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/" if right:
            return left / right
        case "/":
            # IEEE 754 gives an infinity where Python raises ZeroDivisionError.
            signs = math.copysign(1, left) * math.copysign(1, right)
            return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, signs)
    raise no_overload()


def _times(operator: str, left: Timestamp | Duration, right: Timestamp | Duration) -> Timestamp | Duration:
    total = left.nanos + right.nanos if operator == "+" else left.nanos - right.nanos
    match left, right, operator:
        case (Duration(), Duration(), _) | (Timestamp(), Timestamp(), "-"):
            return duration_of(total)
        case (Timestamp(), Duration(), _) | (Duration(), Timestamp(), "+"):
            return timestamp_of(total)
    raise no_overload()
