"""CEL's standard functions: sizes, texts, conversions, types."""

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final

from purekube.apimachinery.durations import NANOS
from purekube.cel.limits import Budget, EvaluationError, no_overload, of_type
from purekube.cel.moments import duration_text, parse_duration, parse_rfc3339, timestamp_of, timestamp_text
from purekube.cel.signatures import built, function, text_cost
from purekube.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    Network,
    Semver,
    Timestamp,
    TypeValue,
    Uint,
    is_number,
    type_name,
)
from purekube.regex import PatternError, compile_pattern

_TRUE: Final = frozenset(("1", "t", "true", "TRUE", "True"))
_FALSE: Final = frozenset(("0", "f", "false", "FALSE", "False"))
_INTEGER: Final = re.compile(r"[+-]?\d{1,20}", re.ASCII)
_DOUBLE: Final = re.compile(
    r"[+-]?(?:(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:e[+-]?\d{1,5})?|inf(?:inity)?)|nan", re.ASCII | re.IGNORECASE
)
_EXPONENT_FROM: Final = 6
"""The number of digits before the point above which Go's shortest notation uses an exponent."""


def text_of(value: Any) -> str:
    """Return `value` if it is a string. Raises EvaluationError otherwise."""
    return of_type(str, value)


def pattern_of(text: Any) -> Any:
    """Return the compiled regular expression `text`. Raises EvaluationError if `text` is not a string or not a valid
    expression.
    """
    try:
        return compile_pattern(text_of(text))
    except PatternError as error:
        raise EvaluationError(f"{text!r} is no regular expression: {error}") from error


def _size(value: Any) -> int:
    if isinstance(value, (str, bytes, list, Mapping)):
        return len(value)
    raise no_overload()


def _int(value: Any) -> int:
    match value:
        case bool():
            raise no_overload()
        case int():
            number = int(value)
        case float():
            if not -(2.0**63) < value < 2.0**63:  # also refuses nan; the bounds themselves overflow, as in cel-go
                raise EvaluationError("integer overflow")
            number = int(value)
        case str():
            if not _INTEGER.fullmatch(value):
                raise EvaluationError(f"{value[:64]!r} is no integer")
            number = int(value)
        case Timestamp():
            number = value.nanos // NANOS
        case Duration():
            number = value.nanos
        case _:
            raise no_overload()
    if not INT_MIN <= number <= INT_MAX:
        raise EvaluationError("integer overflow")
    return number


def _uint(value: Any) -> Uint:
    match value:
        case bool():
            raise no_overload()
        case int():
            number = int(value)
        case float():
            if not 0 <= value < 2.0**64:
                raise EvaluationError("unsigned integer overflow")
            number = int(value)
        case str():
            if not _INTEGER.fullmatch(value) or value.startswith("-"):
                raise EvaluationError(f"{value[:64]!r} is no unsigned integer")
            number = int(value)
        case _:
            raise no_overload()
    if not 0 <= number <= UINT_MAX:
        raise EvaluationError("unsigned integer overflow")
    return Uint(number)


def _double(value: Any) -> float:
    if is_number(value):
        return float(value)
    text = text_of(value)
    if not _DOUBLE.fullmatch(text):
        raise EvaluationError(f"{text[:64]!r} is no number")
    return float(text)


def double_text(value: float) -> str:
    """Return a number in Go's shortest notation: `1e+06`, `0.1`, `+Inf`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return f"{value:g}"  # a zero has a sign
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0")
    point = len(digits) + exponent
    minus = "-" if sign else ""
    if -4 <= point - 1 < _EXPONENT_FROM:
        return minus + _plain(text, point)
    tail = f".{text[1:]}" if len(text) > 1 else ""
    return f"{minus}{text[0]}{tail}e{point - 1:+03}"


def _plain(digits: str, point: int) -> str:
    if point <= 0:
        return f"0.{'0' * -point}{digits}"
    if point >= len(digits):
        return digits + "0" * (point - len(digits))
    return f"{digits[:point]}.{digits[point:]}"


def _string(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case bytes():
            return _decoded(value)
        case int():
            return str(int(value))
        case float():
            return double_text(value)
        case Timestamp():
            return timestamp_text(value)
        case Duration():
            return duration_text(value)
        case IPv4Address() | IPv6Address():
            return str(value)
        case Network():
            return f"{value.address}/{value.prefix}"
        case Semver():
            pre = f"-{'.'.join(value.prerelease)}" if value.prerelease else ""
            build = f"+{value.build}" if value.build else ""
            return f"{value.major}.{value.minor}.{value.patch}{pre}{build}"
        case _:
            raise no_overload()


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise EvaluationError("the bytes are no text in UTF-8") from error


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if text_of(value) in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise EvaluationError(f"{value[:64]!r} is neither true nor false")


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else text_of(value).encode("utf-8", "surrogatepass")


def _timestamp(value: Any) -> Timestamp:
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return timestamp_of(int(value) * NANOS)
    timestamp = parse_rfc3339(text_of(value))
    if timestamp is None:
        raise EvaluationError(f"{value[:64]!r} is no timestamp such as 2026-01-31T12:00:00Z")
    return timestamp


def _duration(value: Any) -> Duration:
    if isinstance(value, Duration):
        return value
    duration = parse_duration(text_of(value))
    if duration is None:
        raise EvaluationError(f"{value[:64]!r} is no duration such as 1h30m")
    return duration


def _type(value: Any) -> TypeValue:
    return TypeValue(type_name(value))


def _matches(budget: Budget, text: Any, pattern: Any) -> bool:
    compiled, text = pattern_of(pattern), text_of(text)
    # Each character may be tried at each position of the pattern, until the automaton's states are cached.
    budget.spend(1 + len(text) // 4 + min(len(text), 2_000) * compiled.size // 256)
    return bool(compiled.matches_in(text))


def _convert(run: Any) -> Any:
    return lambda budget, value: built(budget, run(value))


FUNCTIONS: Final = (
    function(["size(string) -> int", "size(bytes) -> int", "size(list($A)) -> int", "size(map($A, $B)) -> int"], _size),
    function(
        ["string.size() -> int", "bytes.size() -> int", "list($A).size() -> int", "map($A, $B).size() -> int"], _size
    ),
    function("string.contains(string) -> bool", lambda a, b: text_of(b) in text_of(a), cost=text_cost),
    function("string.startsWith(string) -> bool", lambda a, b: text_of(a).startswith(text_of(b)), cost=text_cost),
    function("string.endsWith(string) -> bool", lambda a, b: text_of(a).endswith(text_of(b)), cost=text_cost),
    function("string.matches(string) -> bool", _matches, with_budget=True),
    function("matches(string, string) -> bool", _matches, with_budget=True),
    function([f"int({kind}) -> int" for kind in ("int", "uint", "double", "string", "timestamp", "duration")], _int),
    function([f"uint({kind}) -> uint" for kind in ("uint", "int", "double", "string")], _uint),
    function([f"double({kind}) -> double" for kind in ("double", "int", "uint", "string")], _double),
    function(
        [
            f"string({kind}) -> string"
            for kind in ("string", "bool", "int", "uint", "double", "bytes", "timestamp", "duration", "ip", "cidr")
        ],
        _convert(_string),
        cost=text_cost,
        with_budget=True,
    ),
    function(["bool(bool) -> bool", "bool(string) -> bool"], _bool),
    function(["bytes(bytes) -> bytes", "bytes(string) -> bytes"], _convert(_bytes), cost=text_cost, with_budget=True),
    function(
        ["timestamp(timestamp) -> timestamp", "timestamp(string) -> timestamp", "timestamp(int) -> timestamp"],
        _timestamp,
    ),
    function(["duration(duration) -> duration", "duration(string) -> duration"], _duration),
    function("dyn($A) -> dyn", lambda value: value),
    function("type($A) -> type", _type),
)
