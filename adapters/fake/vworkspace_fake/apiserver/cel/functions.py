"""The functions of CEL and of its Kubernetes libraries that rules may use.

A function is looked up by name, by whether it is a method, and by its number of arguments. Whoever calls one
that is not in these tables is told so when the CRD is compiled.
"""

import base64
import binascii
import ipaddress
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final
from urllib.parse import urlsplit

from vworkspace_fake.apiserver.cel.durations import parse_duration
from vworkspace_fake.apiserver.cel.quantities import is_quantity, parse_quantity
from vworkspace_fake.apiserver.cel.values import (
    ABSENT,
    CelError,
    OptionalValue,
    Uint,
    cel_equal,
    compare_values,
    is_number,
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


def to_int(value: Any) -> int:
    """Conversion to int, of timestamps to seconds."""
    if isinstance(value, datetime):
        return int(value.timestamp())
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise no_overload()
    try:
        return int(value)
    except (ValueError, OverflowError) as error:
        raise CelError(f"cannot convert {value!r} to int") from error


def to_uint(value: Any) -> Uint:
    """Conversion to uint."""
    number = to_int(value)
    if number < 0:
        raise CelError("unsigned integer overflow")
    return Uint(number)


def to_double(value: Any) -> float:
    """Conversion to double."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise no_overload()
    try:
        return float(value)
    except ValueError as error:
        raise CelError(f"cannot convert {value!r} to double") from error


def to_string(value: Any) -> str:
    """Conversion to string."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case bytes():
            return value.decode()
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case timedelta():
            return f"{value.total_seconds():g}s"
        case int():
            return str(int(value))
        case float():
            return str(int(value)) if value.is_integer() else repr(value)
    raise no_overload()


def to_bool(value: Any) -> bool:
    """Conversion to bool."""
    if isinstance(value, bool):
        return value
    if value in ("1", "t", "true", "TRUE", "True"):
        return True
    if value in ("0", "f", "false", "FALSE", "False"):
        return False
    raise no_overload()


def to_bytes(value: Any) -> bytes:
    """Conversion to bytes."""
    return value if isinstance(value, bytes) else _text(value).encode()


def to_timestamp(value: Any) -> datetime:
    """RFC 3339 text, or seconds since 1970."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return datetime.fromtimestamp(value, UTC)
    try:
        found = datetime.fromisoformat(_text(value).replace("Z", "+00:00"))
    except ValueError as error:
        raise CelError(f"invalid timestamp {value!r}") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def to_duration(value: Any) -> timedelta:
    """`1h30m`."""
    if isinstance(value, timedelta):
        return value
    found = parse_duration(_text(value))
    if found is None:
        raise CelError(f"invalid duration {value!r}")
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise no_overload()
    return value


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise no_overload()
    return value


def matches(text: Any, pattern: Any) -> bool:
    """Whether the pattern is found anywhere in the text."""
    return go_pattern(_text(pattern)).search(_text(text)) is not None


def contains(text: Any, part: Any) -> bool:
    """Substring, or subset of a `sets` argument."""
    return _text(part) in _text(text)


def substring(text: Any, start: Any, end: Any = None) -> str:
    """Characters from `start` up to `end`."""
    text = _text(text)
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise CelError(f"index out of range: {start}")
    return str(text[start:stop])


def char_at(text: Any, index: Any) -> str:
    """One character; the empty string right behind the last."""
    text = _text(text)
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return str(text[index : index + 1])


def index_of(where: Any, what: Any, start: int = 0) -> int:
    """First position of a part of a text or an item of a list, -1 when there is none."""
    if isinstance(where, list):
        return next((i for i, item in enumerate(where) if cel_equal(item, what)), -1)
    return _text(where).find(_text(what), start)


def last_index_of(where: Any, what: Any) -> int:
    """Last position of a part of a text or an item of a list, -1 when there is none."""
    if isinstance(where, list):
        return max((i for i, item in enumerate(where) if cel_equal(item, what)), default=-1)
    return _text(where).rfind(_text(what))


def split(text: Any, separator: Any, limit: int = -1) -> list[Any]:
    """Parts between separators, at most `limit` of them."""
    if limit == 0:
        return []
    if limit == 1:
        return [_text(text)]
    if not separator:
        return list(_text(text))
    return list(_text(text).split(_text(separator), limit - 1 if limit > 0 else -1))


def is_sorted(items: Any) -> bool:
    """Whether no item is less than the one before it."""
    items = _items(items)
    return all(compare_values(a, b) <= 0 for a, b in pairwise(items))


def extreme(items: Any, sign: int) -> Any:
    """The least (sign -1) or greatest (sign 1) item."""
    items = _items(items)
    if not items:
        raise CelError("min or max of an empty list")
    best = items[0]
    for item in items[1:]:
        if compare_values(item, best) == sign:
            best = item
    return best


def total(items: Any) -> Any:
    """Sum of numbers or durations."""
    items = _items(items)
    if not all(is_number(item) for item in items) and not all(isinstance(item, timedelta) for item in items):
        raise no_overload()
    return sum(items[1:], items[0]) if items else 0


def distinct(items: Any) -> list[Any]:
    """Items without repetitions."""
    out: list[Any] = []
    for item in _items(items):
        if not any(cel_equal(item, one) for one in out):
            out.append(item)
    return out


def _subset(items: Any, part: Any) -> bool:
    return all(any(cel_equal(one, item) for item in _items(items)) for one in _items(part))


def is_ip(text: Any) -> bool:
    """Whether a text is an IP address."""
    try:
        ipaddress.ip_address(_text(text))
    except ValueError:
        return False
    return True


def is_cidr(text: Any) -> bool:
    """Whether a text is a network in CIDR notation."""
    try:
        ipaddress.ip_network(_text(text), strict=False)
    except ValueError:
        return False
    return "/" in text


def is_url(text: Any) -> bool:
    """Whether a text is an absolute URL or path."""
    try:
        parts = urlsplit(_text(text))
    except ValueError:
        return False
    return bool(parts.scheme and (parts.netloc or parts.path)) or text.startswith("/")


def to_quantity(text: Any) -> Decimal:
    """A Kubernetes quantity: `1Gi`, `100m`."""
    found = parse_quantity(_text(text))
    if found is None:
        raise CelError(f"invalid quantity {text!r}")
    return found


def _quantity(value: Any) -> Decimal:
    if not isinstance(value, Decimal):
        raise no_overload()
    return value


def _decode64(text: Any) -> bytes:
    try:
        return base64.b64decode(_text(text), validate=True)
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
    ("isQuantity", 1): lambda text: is_quantity(_text(text)),
    ("quantity", 1): to_quantity,
}

METHODS: Final[Mapping[tuple[str, int], Function]] = {
    ("size", 0): size,
    ("contains", 1): contains,
    ("startsWith", 1): lambda text, part: _text(text).startswith(_text(part)),
    ("endsWith", 1): lambda text, part: _text(text).endswith(_text(part)),
    ("matches", 1): matches,
    ("find", 1): lambda text, pattern: ((m := go_pattern(_text(pattern)).search(_text(text))) and m.group()) or "",
    ("findAll", 1): lambda text, pattern: [m.group() for m in go_pattern(_text(pattern)).finditer(_text(text))],
    ("charAt", 1): char_at,
    ("indexOf", 1): index_of,
    ("indexOf", 2): index_of,
    ("lastIndexOf", 1): last_index_of,
    ("lowerAscii", 0): lambda text: "".join(c.lower() if c.isascii() else c for c in _text(text)),
    ("upperAscii", 0): lambda text: "".join(c.upper() if c.isascii() else c for c in _text(text)),
    ("replace", 2): lambda text, old, new: _text(text).replace(_text(old), _text(new)),
    ("replace", 3): lambda text, old, new, limit: _text(text).replace(_text(old), _text(new), limit),
    ("reverse", 0): lambda text: _text(text)[::-1],
    ("split", 1): split,
    ("split", 2): split,
    ("substring", 1): substring,
    ("substring", 2): substring,
    ("trim", 0): lambda text: _text(text).strip(),
    ("join", 0): lambda items: "".join(map(_text, _items(items))),
    ("join", 1): lambda items, separator: _text(separator).join(map(_text, _items(items))),
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
    ("sets", "contains", 2): _subset,
    ("sets", "equivalent", 2): lambda left, right: _subset(left, right) and _subset(right, left),
    ("sets", "intersects", 2): lambda left, right: any(
        any(cel_equal(a, b) for b in _items(right)) for a in _items(left)
    ),
    ("base64", "encode", 1): lambda data: base64.b64encode(to_bytes(data)).decode(),
    ("base64", "decode", 1): _decode64,
    ("math", "greatest", 1): lambda items: extreme(items, 1),
    ("math", "greatest", 2): lambda left, right: extreme([left, right], 1),
    ("math", "least", 1): lambda items: extreme(items, -1),
    ("math", "least", 2): lambda left, right: extreme([left, right], -1),
}
