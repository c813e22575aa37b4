"""The functions of CEL and of its Kubernetes libraries that rules may use.

A function is looked up by name, by whether it is a method, and by its number of arguments. Whoever calls one
that is not in these tables is told so when the CRD is compiled.
"""

import base64
import binascii
import ipaddress
from collections.abc import Callable, Mapping
from datetime import UTC, timedelta
from decimal import Decimal
from typing import Any, Final
from urllib.parse import urlsplit

from vworkspace_fake.apiserver.cel.arguments import items_of, text_of
from vworkspace_fake.apiserver.cel.conversions import (
    to_bool,
    to_bytes,
    to_double,
    to_duration,
    to_int,
    to_string,
    to_timestamp,
    to_uint,
)
from vworkspace_fake.apiserver.cel.lists import (
    distinct,
    extreme,
    index_of,
    is_sorted,
    last_index_of,
    subset,
    total,
)
from vworkspace_fake.apiserver.cel.quantities import is_quantity, parse_quantity
from vworkspace_fake.apiserver.cel.texts import char_at, contains, matches, split, substring
from vworkspace_fake.apiserver.cel.values import (
    ABSENT,
    CelError,
    OptionalValue,
    cel_equal,
    compare_values,
    no_overload,
    type_name,
)
from vworkspace_fake.apiserver.schema.gopattern import go_pattern

__all__ = ["FUNCTIONS", "METHODS", "NAMESPACES"]

Function = Callable[..., Any]


def size(value: Any) -> int:
    """Characters, bytes, items or entries."""
    if isinstance(value, (str, bytes, list, Mapping)):
        return len(value)
    raise no_overload()


def is_ip(text: Any) -> bool:
    """Whether a text is an IP address."""
    try:
        ipaddress.ip_address(text_of(text))
    except ValueError:
        return False
    return True


def is_cidr(text: Any) -> bool:
    """Whether a text is a network in CIDR notation."""
    try:
        ipaddress.ip_network(text_of(text), strict=False)
    except ValueError:
        return False
    return "/" in text


def is_url(text: Any) -> bool:
    """Whether a text is an absolute URL or path."""
    try:
        parts = urlsplit(text_of(text))
    except ValueError:
        return False
    return bool(parts.scheme and (parts.netloc or parts.path)) or text.startswith("/")


def to_quantity(text: Any) -> Decimal:
    """A Kubernetes quantity: `1Gi`, `100m`."""
    found = parse_quantity(text_of(text))
    if found is None:
        raise CelError(f"invalid quantity {text!r}")
    return found


def _quantity(value: Any) -> Decimal:
    if not isinstance(value, Decimal):
        raise no_overload()
    return value


def _decode64(text: Any) -> bytes:
    try:
        return base64.b64decode(text_of(text), validate=True)
    except binascii.Error as error:
        raise CelError("invalid base64") from error


def _optional(value: Any) -> OptionalValue:
    if not isinstance(value, OptionalValue):
        raise no_overload()
    return value


def _value_of(value: Any) -> Any:
    found = _optional(value)
    if not found.present:
        raise CelError("optional.none() dereference")
    return found.value


def _or(value: Any, other: Any) -> OptionalValue:
    return _optional(value) if _optional(value).present else _optional(other)


FUNCTIONS: Final[Mapping[tuple[str, int], Function]] = {
    ("size", 1): size,
    ("int", 1): to_int,
    ("uint", 1): to_uint,
    ("double", 1): to_double,
    ("string", 1): to_string,
    ("bool", 1): to_bool,
    ("bytes", 1): to_bytes,
    ("timestamp", 1): to_timestamp,
    ("duration", 1): to_duration,
    ("dyn", 1): lambda value: value,
    ("type", 1): type_name,
    ("matches", 2): matches,
    ("isIP", 1): is_ip,
    ("isCIDR", 1): is_cidr,
    ("isURL", 1): is_url,
    ("isQuantity", 1): lambda text: is_quantity(text_of(text)),
    ("quantity", 1): to_quantity,
}

METHODS: Final[Mapping[tuple[str, int], Function]] = {
    ("size", 0): size,
    ("contains", 1): contains,
    ("startsWith", 1): lambda text, part: text_of(text).startswith(text_of(part)),
    ("endsWith", 1): lambda text, part: text_of(text).endswith(text_of(part)),
    ("matches", 1): matches,
    ("find", 1): lambda text, pattern: ((m := go_pattern(text_of(pattern)).search(text_of(text))) and m.group()) or "",
    ("findAll", 1): lambda text, pattern: [m.group() for m in go_pattern(text_of(pattern)).finditer(text_of(text))],
    ("charAt", 1): char_at,
    ("indexOf", 1): index_of,
    ("indexOf", 2): index_of,
    ("lastIndexOf", 1): last_index_of,
    ("lowerAscii", 0): lambda text: "".join(c.lower() if c.isascii() else c for c in text_of(text)),
    ("upperAscii", 0): lambda text: "".join(c.upper() if c.isascii() else c for c in text_of(text)),
    ("replace", 2): lambda text, old, new: text_of(text).replace(text_of(old), text_of(new)),
    ("replace", 3): lambda text, old, new, limit: text_of(text).replace(text_of(old), text_of(new), limit),
    ("reverse", 0): lambda text: text_of(text)[::-1],
    ("split", 1): split,
    ("split", 2): split,
    ("substring", 1): substring,
    ("substring", 2): substring,
    ("trim", 0): lambda text: text_of(text).strip(),
    ("join", 0): lambda items: "".join(map(text_of, items_of(items))),
    ("join", 1): lambda items, separator: text_of(separator).join(map(text_of, items_of(items))),
    ("isSorted", 0): is_sorted,
    ("sum", 0): total,
    ("min", 0): lambda items: extreme(items, -1),
    ("max", 0): lambda items: extreme(items, 1),
    ("distinct", 0): distinct,
    ("getFullYear", 0): lambda time: time.astimezone(UTC).year,
    ("getHours", 0): lambda value: int(value.total_seconds() // 3600) if isinstance(value, timedelta) else value.hour,
    ("getMinutes", 0): lambda value: int(value.total_seconds() // 60) if isinstance(value, timedelta) else value.minute,
    ("getSeconds", 0): lambda value: int(value.total_seconds()) if isinstance(value, timedelta) else value.second,
    ("hasValue", 0): lambda value: _optional(value).present,
    ("value", 0): _value_of,
    ("orValue", 1): lambda value, other: _optional(value).value if _optional(value).present else other,
    ("or", 1): _or,
    ("isGreaterThan", 1): lambda left, right: _quantity(left) > _quantity(right),
    ("isLessThan", 1): lambda left, right: _quantity(left) < _quantity(right),
    ("compareTo", 1): lambda left, right: compare_values(_quantity(left), _quantity(right)),
    ("sign", 0): lambda value: compare_values(_quantity(value), Decimal(0)),
    ("isInteger", 0): lambda value: _quantity(value) == int(_quantity(value)),
    ("asInteger", 0): lambda value: int(_quantity(value)),
    ("asApproximateFloat", 0): lambda value: float(_quantity(value)),
    ("add", 1): lambda left, right: _quantity(left) + (right if isinstance(right, int) else _quantity(right)),
    ("sub", 1): lambda left, right: _quantity(left) - (right if isinstance(right, int) else _quantity(right)),
}

NAMESPACES: Final[Mapping[tuple[str, str, int], Function]] = {
    ("optional", "of", 1): lambda value: OptionalValue(value, True),
    ("optional", "none", 0): lambda: ABSENT,
    ("optional", "ofNonZeroValue", 1): lambda value: OptionalValue(value, True) if value else ABSENT,
    ("sets", "contains", 2): subset,
    ("sets", "equivalent", 2): lambda left, right: subset(left, right) and subset(right, left),
    ("sets", "intersects", 2): lambda left, right: any(
        any(cel_equal(a, b) for b in items_of(right)) for a in items_of(left)
    ),
    ("base64", "encode", 1): lambda data: base64.b64encode(to_bytes(data)).decode(),
    ("base64", "decode", 1): _decode64,
    ("math", "greatest", 1): lambda items: extreme(items, 1),
    ("math", "greatest", 2): lambda left, right: extreme([left, right], 1),
    ("math", "least", 1): lambda items: extreme(items, -1),
    ("math", "least", 2): lambda left, right: extreme([left, right], -1),
}
