"""Classes for the values of CEL that neither JSON nor Python has.

CEL's null is None; bool, string, bytes, list and map are Python's types, int is `int` and double is `float`. Times have
nanoseconds.
"""

import math
from collections.abc import Mapping
from decimal import Decimal
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from itertools import islice
from typing import Any, Final, TypeAlias

import attrs

from purekube.cel.limits import Budget, EvaluationError, Missing, no_overload

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1

Address: TypeAlias = IPv4Address | IPv6Address
"""An IP address, the value of the function `ip()` in Kubernetes' library."""


class Uint(int):
    """An unsigned 64-bit integer: a type distinct from int, though the two can be compared."""


class SetList(list[Any]):
    """A list of `x-kubernetes-list-type: set`. Equality ignores the order of its items."""


class KeyedList(list[Any]):
    """A list of `x-kubernetes-list-type: map`. Equality ignores the order of its items. `keys` are its key fields."""

    keys: tuple[str, ...] = ()


@attrs.frozen
class OptionalValue:
    """A value that may be absent (`.?field`, `optional.of`)."""

    value: Any = None
    present: bool = False


ABSENT: Final = OptionalValue()


@attrs.frozen(order=True)
class Timestamp:
    """A point in time in nanoseconds since 1970 (UTC), from year 1 to year 9999."""

    nanos: int


@attrs.frozen(order=True)
class Duration:
    """A span of time in nanoseconds, limited to 64 bits."""

    nanos: int


@attrs.frozen
class TypeValue:
    """A type as a value: the result of `type(x)`, and the meaning of names such as `int`."""

    name: str


@attrs.frozen
class Network:
    """The value of the function `cidr()` in Kubernetes' library: an address, whose host bits may be set, with the
    length of its prefix.
    """

    address: Address
    prefix: int

    @property
    def network(self) -> IPv4Network | IPv6Network:
        """The CIDR block as an object of Python's `ipaddress`, with the host bits of the address cleared."""
        if isinstance(self.address, IPv4Address):
            return IPv4Network((self.address, self.prefix), strict=False)
        return IPv6Network((self.address, self.prefix), strict=False)


@attrs.frozen
class Url:
    """A URL, the value of the function `url()` in Kubernetes' library."""

    scheme: str
    host: str
    hostname: str
    port: str
    path: str
    query: tuple[tuple[str, tuple[str, ...]], ...]


@attrs.frozen
class Semver:
    """The value of the function `semver()` in Kubernetes' library: a semantic version. The order ignores build
    metadata.
    """

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()
    build: str = attrs.field(default="", eq=False)

    @property
    def precedence(self) -> tuple[Any, ...]:
        """The sort key by the precedence rules of the semantic version specification."""
        parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.prerelease)
        return (self.major, self.minor, self.patch, not self.prerelease, parts)


_TYPE_NAMES: Final[Mapping[type, str]] = {
    type(None): "null_type",
    bool: "bool",
    Uint: "uint",
    int: "int",
    float: "double",
    str: "string",
    bytes: "bytes",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    Decimal: "kubernetes.Quantity",
    list: "list",
    SetList: "list",
    KeyedList: "list",
    dict: "map",
    OptionalValue: "optional_type",
    TypeValue: "type",
    IPv4Address: "net.IP",
    IPv6Address: "net.IP",
    Network: "net.CIDR",
    Url: "kubernetes.URL",
    Semver: "kubernetes.Semver",
}


def type_name(value: Any) -> str:
    """Return the name of a value's type, as `type(x)` does."""
    name = _TYPE_NAMES.get(type(value))
    if name is not None:
        return name
    return "map" if isinstance(value, Mapping) else "list" if isinstance(value, list) else "dyn"


def is_number(value: Any) -> bool:
    """Report whether a value is an int, uint or double."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def cel_equal(left: Any, right: Any, budget: Budget) -> bool:
    """Report whether `left == right` in CEL: numbers compare by value, lists and maps by their members. Apart from
    numbers, values of different types are never equal.

    A comparison of lists or maps spends steps of `budget`, and raises LimitExceeded if too few remain.
    """
    kind = type(left)
    if kind is type(right) and kind in _PLAIN:
        return bool(left == right)
    # In Python True == 1, in CEL bool and int are never equal.
    if kind is bool or type(right) is bool:
        return False
    if is_number(left) and is_number(right):
        return bool(left == right)
    if isinstance(left, list) and isinstance(right, list):
        return _lists_equal(left, right, budget)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return _maps_equal(left, right, budget)
    if isinstance(left, OptionalValue) and isinstance(right, OptionalValue):
        return left.present == right.present and cel_equal(left.value, right.value, budget)
    return kind is type(right) and bool(left == right)


_PLAIN: Final = frozenset((str, int, bool, type(None)))


def _lists_equal(left: list[Any], right: list[Any], budget: Budget) -> bool:
    budget.spend(min(len(left), len(right)))
    if len(left) != len(right):
        return False
    # apiserver: pkg/cel/common/valuesunstructured.go, Equal of unstructuredSetList and unstructuredMapList.
    if isinstance(left, (SetList, KeyedList)) or isinstance(right, (SetList, KeyedList)):
        budget.spend(len(left) * len(right))
        return all(any(cel_equal(item, other, budget) for other in right) for item in left)
    return all(cel_equal(item, other, budget) for item, other in zip(left, right, strict=True))


def _maps_equal(left: Mapping[Any, Any], right: Mapping[Any, Any], budget: Budget) -> bool:
    budget.spend(min(len(left), len(right)))
    if len(left) != len(right):
        return False
    for key, item in left.items():
        try:
            other = look_up(right, key)
        except Missing:
            return False
        if not cel_equal(item, other, budget):
            return False
    return True


def look_up(entries: Mapping[Any, Any], key: Any) -> Any:
    """Return the value under `key` in the map `entries`. True and 1 are different keys, unlike in Python.

    Raises Missing if the key does not exist, and EvaluationError for a value that cannot be a key.
    """
    if type(key) is not str and not isinstance(key, (int, float)):
        raise no_overload()
    try:
        value = entries[key]
    except KeyError:
        raise Missing(f"no such key: {key}") from None
    if type(key) is not str and key in (0, 1):
        stored = next(entry for entry in entries if entry == key)
        if isinstance(stored, bool) is not isinstance(key, bool):
            raise Missing(f"no such key: {key}")
    return value


def summed_lists(left: list[Any], right: list[Any], budget: Budget) -> list[Any]:
    """Return `left + right` in CEL: a concatenation, but a union if `left` is of list type set or map.

    Items of a map list that have the same keys are the same: that on the right replaces that on the left.
    """
    budget.build_items(len(left) + len(right))
    if not isinstance(left, (SetList, KeyedList)):
        return [*left, *right]
    out = type(left)(left)
    if isinstance(left, KeyedList) and isinstance(out, KeyedList):
        out.keys = left.keys
    for item in right:
        budget.spend(1 + len(out))
        # apiserver: pkg/cel/common/values.go, Add: a set has each item once, a map list may get new keys twice.
        known = islice(out, len(left) if isinstance(left, KeyedList) else None)
        at = next((at for at, one in enumerate(known) if _is_same_item(left, one, item, budget)), -1)
        if at < 0:
            out.append(item)
        else:
            out[at] = item
    return out


def _is_same_item(items: list[Any], one: Any, other: Any, budget: Budget) -> bool:
    if not isinstance(items, KeyedList):
        return cel_equal(one, other, budget)
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        raise no_overload()
    return all(cel_equal(one.get(key), other.get(key), budget) for key in items.keys)


def compare_values(left: Any, right: Any) -> int:
    """Return -1, 0 or 1 as `left` is less than, equal to or greater than `right`; 2 if either is NaN.

    Raises EvaluationError for values that have no order.
    """
    if is_number(left) and is_number(right):
        if isinstance(left, float) or isinstance(right, float):
            left, right = float(left), float(right)
            if math.isnan(left) or math.isnan(right):
                return 2
    elif isinstance(left, Semver) and isinstance(right, Semver):
        left, right = left.precedence, right.precedence
    elif type(left) is not type(right) or not isinstance(left, _ORDERED):
        raise no_overload()
    return int(left > right) - int(left < right)


_ORDERED: Final = (bool, str, bytes, Timestamp, Duration, Decimal)


def int64(value: int, what: str = "integer overflow") -> int:
    """Return `value` if it fits into signed 64 bits. Raises EvaluationError with the message `what` otherwise."""
    if not INT_MIN <= value <= INT_MAX:
        raise EvaluationError(what)
    return value


def uint64(value: int) -> Uint:
    """Return `value` as a uint. Raises EvaluationError if it does not fit into 64 bits."""
    if not 0 <= value <= UINT_MAX:
        raise EvaluationError("unsigned integer overflow")
    return Uint(value)
