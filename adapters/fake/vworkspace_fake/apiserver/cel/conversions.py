"""The conversions of CEL: `int(x)`, `string(x)`, `timestamp(x)` and their kin."""

from datetime import UTC, datetime, timedelta
from typing import Any

from vworkspace_fake.apiserver.cel.arguments import text_of
from vworkspace_fake.apiserver.cel.durations import parse_duration
from vworkspace_fake.apiserver.cel.values import CelError, Uint, no_overload

__all__ = [
    "to_bool",
    "to_bytes",
    "to_double",
    "to_duration",
    "to_int",
    "to_string",
    "to_timestamp",
    "to_uint",
]


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
    return value if isinstance(value, bytes) else text_of(value).encode()


def to_timestamp(value: Any) -> datetime:
    """RFC 3339 text, or seconds since 1970."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return datetime.fromtimestamp(value, UTC)
    try:
        found = datetime.fromisoformat(text_of(value).replace("Z", "+00:00"))
    except ValueError as error:
        raise CelError(f"invalid timestamp {value!r}") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def to_duration(value: Any) -> timedelta:
    """`1h30m`."""
    if isinstance(value, timedelta):
        return value
    found = parse_duration(text_of(value))
    if found is None:
        raise CelError(f"invalid duration {value!r}")
    return found
