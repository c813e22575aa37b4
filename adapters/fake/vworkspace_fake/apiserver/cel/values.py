"""Values and errors of CEL, as far as JSON and Python do not have them already.

null is None, bool, string, bytes, list and map are Python's, int is `int`, double is `float`, timestamp a
`datetime`, duration a `timedelta`.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import attrs

__all__ = [
    "ABSENT",
    "CelError",
    "KeyedList",
    "OptionalValue",
    "SetList",
    "Uint",
    "cel_equal",
    "compare_values",
    "no_overload",
    "type_name",
]


class CelError(Exception):
    """An evaluation that has no result: a missing key, a wrong type, division by zero."""


class Uint(int):
    """An unsigned integer: another type than int, though comparable with it."""


class SetList(list[Any]):
    """A list of `x-kubernetes-list-type: set`: equal whatever the order."""


class KeyedList(list[Any]):
    """A list of `x-kubernetes-list-type: map`: equal whatever the order."""


@attrs.frozen
class OptionalValue:
    """A value that may be absent (`.?field`, `optional.of`)."""

    value: Any = None
    present: bool = False


ABSENT: Final = OptionalValue()


def no_overload() -> CelError:
    """The error of an operator or function that does not take these types."""
    return CelError("no such overload")


_TYPE_NAMES: Final[tuple[tuple[type, str], ...]] = (
    (bool, "bool"),
    (Uint, "uint"),
    (int, "int"),
    (float, "double"),
    (str, "string"),
    (bytes, "bytes"),
    (datetime, "google.protobuf.Timestamp"),
    (timedelta, "google.protobuf.Duration"),
    (Decimal, "kubernetes.Quantity"),
    (list, "list"),
    (Mapping, "map"),
    (OptionalValue, "optional_type"),
)


def type_name(value: Any) -> str:
    """Name of a value's type, as `type(x)` gives it."""
    if value is None:
        return "null_type"
    return next((name for kind, name in _TYPE_NAMES if isinstance(value, kind)), "type")


def is_number(value: Any) -> bool:
    """Whether a value is an int, uint or double."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def cel_equal(left: Any, right: Any) -> bool:
    """`==`: numbers by value, containers member by member, values of different types never."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if is_number(left) and is_number(right):
        return bool(left == right)
    if isinstance(left, list) and isinstance(right, list):
        return _lists_equal(left, right)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(cel_equal(item, right[key]) for key, item in left.items())
    if isinstance(left, OptionalValue) and isinstance(right, OptionalValue):
        return left.present == right.present and cel_equal(left.value, right.value)
    return type(left) is type(right) and bool(left == right)


def _lists_equal(left: list[Any], right: list[Any]) -> bool:
    if len(left) != len(right):
        return False
    if isinstance(left, (SetList, KeyedList)) or isinstance(right, (SetList, KeyedList)):
        return all(any(cel_equal(item, other) for other in right) for item in left)
    return all(cel_equal(item, other) for item, other in zip(left, right, strict=True))


def compare_values(left: Any, right: Any) -> int:
    """-1, 0 or 1. Raises CelError for values without an order between them."""
    comparable = (
        (is_number(left) and is_number(right))
        or (isinstance(left, bool) and isinstance(right, bool))
        or (type(left) is type(right) and isinstance(left, (str, bytes, datetime, timedelta, Decimal)))
    )
    if not comparable:
        raise no_overload()
    return int(left > right) - int(left < right)
