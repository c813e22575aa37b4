"""Durations and RFC 3339 times as values of expressions."""

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from purekube.apimachinery.durations import NANOS, nanoseconds_of
from purekube.cel.limits import EvaluationError
from purekube.cel.values import Duration, Timestamp

_RFC3339: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d{2}:\d{2})?)?", re.ASCII
)
_STRICT: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})", re.ASCII)
_OFFSET: Final = re.compile(r"([+-]?)(\d{1,2}):(\d{2})", re.ASCII)
_EPOCH: Final = date(1970, 1, 1).toordinal()
_FIRST: Final = (date(1, 1, 1).toordinal() - _EPOCH) * 86_400 * NANOS
_LAST: Final = (date(9999, 12, 31).toordinal() - _EPOCH + 1) * 86_400 * NANOS - 1
_LONGEST: Final = 2**63 - 1


def parse_duration(text: str) -> Duration | None:
    """Return the duration in `text`; None if it is not a duration, or does not fit into 64 bits of nanoseconds."""
    nanos = nanoseconds_of(text)
    return None if nanos is None else Duration(nanos)


def parse_rfc3339(text: str) -> Timestamp | None:
    """Return the timestamp in an RFC 3339 text in its exact form, with a time zone; None for any other text."""
    # That is what the CEL of the API server takes (cel-go: common/types/string.go, ConvertToType).
    return parse_timestamp(text) if _STRICT.fullmatch(text) else None


def parse_timestamp(text: str) -> Timestamp | None:
    """Return the timestamp in a text of the formats `date-time` and `date` of a schema; None for any other text.

    These have more forms than RFC 3339: without a time zone a time is in UTC, and a date alone means midnight.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    day, hours, minutes, seconds, fraction, zone = match.groups()
    try:
        days = date.fromisoformat(day).toordinal() - _EPOCH
    except ValueError:
        return None
    clock = tuple(int(part or 0) for part in (hours, minutes, seconds))
    if clock[0] > 23 or clock[1] > 59 or clock[2] > 59:
        return None
    total = ((days * 24 + clock[0]) * 60 + clock[1]) * 60 + clock[2] - _seconds_of(zone or "Z")
    nanos = total * NANOS + int((fraction or "").ljust(9, "0"))
    return Timestamp(nanos) if _FIRST <= nanos <= _LAST else None


def _seconds_of(zone: str) -> int:
    if zone in "Zz":
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[4:6])
    return -60 * minutes if zone[0] == "-" else 60 * minutes


def timestamp_of(nanos: int) -> Timestamp:
    """Return the timestamp `nanos` nanoseconds after 1970. Raises EvaluationError outside the years 1 to 9999."""
    if not _FIRST <= nanos <= _LAST:
        raise EvaluationError("timestamp overflow")
    return Timestamp(nanos)


def duration_of(nanos: int) -> Duration:
    """Return a duration of `nanos` nanoseconds. Raises EvaluationError if the number does not fit into 64 bits."""
    if not -_LONGEST - 1 <= nanos <= _LONGEST:
        raise EvaluationError("duration overflow")
    return Duration(nanos)


def timestamp_text(value: Timestamp) -> str:
    """Return a timestamp as RFC 3339 text in UTC, with as many fractional digits as needed."""
    seconds, nanos = divmod(value.nanos, NANOS)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    fraction = f".{nanos:09}".rstrip("0") if nanos else ""
    return f"{moment.strftime('%Y').rjust(4, '0')}-{moment:%m-%dT%H:%M:%S}{fraction}Z"


def duration_text(value: Duration) -> str:
    """Return a duration as seconds with as many fractional digits as needed: `1.5s`."""
    seconds, nanos = divmod(abs(value.nanos), NANOS)
    fraction = f".{nanos:09}".rstrip("0") if nanos else ""
    return f"{'-' if value.nanos < 0 else ''}{seconds}{fraction}s"


@lru_cache(maxsize=256)
def zone_of(name: str) -> tzinfo:
    """Return a time zone by its name or its offset from UTC (`-09:30`). Raises EvaluationError for an unknown zone."""
    match = _OFFSET.fullmatch(name)
    if match is not None and int(match[2]) < 24 and int(match[3]) < 60:
        distance = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return timezone(-distance if match[1] == "-" else distance)
    if name in ("UTC", ""):
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError) as error:
        raise EvaluationError(f"unknown time zone {name!r}") from error
