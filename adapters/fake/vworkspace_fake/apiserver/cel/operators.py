"""The operators of CEL on values."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from vworkspace_fake.apiserver.cel.values import CelError, cel_equal, is_number, no_overload

__all__ = ["Program", "Variables", "arithmetic", "boolean", "contained", "decided"]

Variables: TypeAlias = Mapping[str, Any]
Program: TypeAlias = Callable[[Variables], Any]


def boolean(value: Any) -> bool:
    """`value` when it is a bool, an error otherwise."""
    if isinstance(value, bool):
        return value
    raise no_overload()


def decided(left: Program, right: Program, deciding: bool) -> Program:
    """`&&` (False decides) and `||` (True decides): the deciding operand wins over an error in the other."""

    def run(variables: Variables) -> bool:
        try:
            first = boolean(left(variables))
        except CelError:
            if boolean(right(variables)) is deciding:
                return deciding
            raise
        return deciding if first is deciding else boolean(right(variables))

    return run


def contained(value: Any, where: Any) -> bool:
    """`in`: an item of a list, a key of a map."""
    if isinstance(where, list):
        return any(cel_equal(value, item) for item in where)
    if isinstance(where, Mapping):
        return any(cel_equal(value, key) for key in where)
    raise no_overload()


def arithmetic(operator: str, left: Any, right: Any) -> Any:
    """`+ - * / %` on numbers of one kind, texts, lists and times."""
    if operator == "+" and type(left) is type(right) and isinstance(left, (str, bytes, list)):
        return left + right
    if operator in "+-" and isinstance(left, (datetime, timedelta)):
        return _times(operator, left, right)
    if not (is_number(left) and is_number(right)) or isinstance(left, float) != isinstance(right, float):
        raise no_overload()
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return _divide(left, right)
        case _:
            return _remainder(left, right)


def _times(operator: str, left: Any, right: Any) -> Any:
    try:
        return left + right if operator == "+" else left - right
    except TypeError as error:
        raise no_overload() from error


def _divide(left: Any, right: Any) -> Any:
    if isinstance(left, float):
        return left / right if right else float("inf") if left > 0 else float("-inf")
    if right == 0:
        raise CelError("division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: Any, right: Any) -> Any:
    if isinstance(left, float):
        raise no_overload()
    if right == 0:
        raise CelError("modulus by zero")
    return left - right * _divide(left, right)
