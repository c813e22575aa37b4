"""CEL's extension library of math functions, such as `math.greatest` and `math.round`."""

import math
from collections.abc import Callable
from typing import Any, Final

from purekube.cel.limits import EvaluationError, no_overload, of_type
from purekube.cel.signatures import function, list_cost
from purekube.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint, compare_values, is_number

_NUMBERS: Final = ("int", "uint", "double")


def _extreme(sign: int) -> Callable[..., Any]:
    def run(*values: Any) -> Any:
        items = values[0] if len(values) == 1 and isinstance(values[0], list) else list(values)
        if not items or not all(is_number(item) for item in items):
            raise no_overload()
        best = items[0]
        for item in items[1:]:
            if compare_values(item, best) == sign:
                best = item
        return best

    return run


def _rounded(run: Callable[[float], float]) -> Callable[[Any], float]:
    def rounded(value: Any) -> float:
        number = of_type(float, value)
        return math.copysign(run(number), number) if math.isfinite(number) else number  # a zero has a sign

    return rounded


def _half_away(value: float) -> float:
    # Not floor(x + 0.5): that sum is rounded itself, to 1.0 for the double below 0.5 and away from large odd numbers.
    whole = math.trunc(value)
    return whole + math.copysign(1.0, value) if abs(value - whole) >= 0.5 else whole


def _abs(value: Any) -> Any:
    if not is_number(value):
        raise no_overload()
    if isinstance(value, int) and value == INT_MIN:
        raise EvaluationError("integer overflow")
    return value if isinstance(value, Uint) else abs(value)


def _sign(value: Any) -> Any:
    if not is_number(value):
        raise no_overload()
    if isinstance(value, float):
        return value if math.isnan(value) or value == 0 else math.copysign(1.0, value)
    return type(value)((value > 0) - (value < 0))


def _sqrt(value: Any) -> float:
    if not is_number(value):
        raise no_overload()
    return math.sqrt(value) if value >= 0 else math.nan


def _pair(left: Any, right: Any) -> type[int]:
    if isinstance(of_type(int, left), Uint) is not isinstance(of_type(int, right), Uint):
        raise no_overload()
    return type(left)


def _bitwise(run: Callable[[int, int], int]) -> Callable[[Any, Any], int]:
    return lambda left, right: _pair(left, right)(run(int(left), int(right)))


def _not(value: Any) -> int:
    return Uint(~of_type(int, value) & UINT_MAX) if isinstance(value, Uint) else ~int(of_type(int, value))


def _distance(value: Any) -> int:
    if of_type(int, value) < 0:
        raise EvaluationError(f"negative offset: {value}")
    # A shift by 64 or more leaves nothing, as in Go; Python would compute a number of that many bits.
    return min(int(value), 64)


def _shift_left(value: Any, by: Any) -> int:
    moved = (of_type(int, value) << _distance(by)) & UINT_MAX
    if isinstance(value, Uint):
        return Uint(moved)
    return moved - 2**64 if moved > INT_MAX else moved


def _right(value: Any, by: Any) -> int:
    """Shift right logically: the sign bit moves like any other bit, and zeros are shifted in."""
    moved = (of_type(int, value) & UINT_MAX) >> _distance(by)
    if isinstance(value, Uint):
        return Uint(moved)
    return moved - 2**64 if moved > INT_MAX else moved


def _same(name: str) -> list[str]:
    return [f"math.{name}({kind}) -> {kind}" for kind in _NUMBERS]


def _any(name: str) -> list[str]:
    return [*(f"math.{name}({kind}...) -> {kind}" for kind in _NUMBERS), f"math.{name}(dyn...) -> dyn"]


FUNCTIONS: Final = (
    function(_any("greatest"), _extreme(1), cost=list_cost),
    function(_any("least"), _extreme(-1), cost=list_cost),
    function("math.ceil(double) -> double", _rounded(math.ceil)),
    function("math.floor(double) -> double", _rounded(math.floor)),
    function("math.round(double) -> double", _rounded(_half_away)),
    function("math.trunc(double) -> double", _rounded(math.trunc)),
    function(_same("abs"), _abs),
    function(_same("sign"), _sign),
    function([f"math.sqrt({kind}) -> double" for kind in _NUMBERS], _sqrt),
    function("math.isNaN(double) -> bool", lambda value: math.isnan(of_type(float, value))),
    function("math.isInf(double) -> bool", lambda value: math.isinf(of_type(float, value))),
    function("math.isFinite(double) -> bool", lambda value: math.isfinite(of_type(float, value))),
    function([f"math.bitAnd({kind}, {kind}) -> {kind}" for kind in ("int", "uint")], _bitwise(lambda a, b: a & b)),
    function([f"math.bitOr({kind}, {kind}) -> {kind}" for kind in ("int", "uint")], _bitwise(lambda a, b: a | b)),
    function([f"math.bitXor({kind}, {kind}) -> {kind}" for kind in ("int", "uint")], _bitwise(lambda a, b: a ^ b)),
    function([f"math.bitNot({kind}) -> {kind}" for kind in ("int", "uint")], _not),
    function([f"math.bitShiftLeft({kind}, int) -> {kind}" for kind in ("int", "uint")], _shift_left),
    function([f"math.bitShiftRight({kind}, int) -> {kind}" for kind in ("int", "uint")], _right),
)
