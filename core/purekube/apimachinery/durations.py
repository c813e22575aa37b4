"""Durations as text: Go's (`1h30m`), with days as people write them (`30d`), and ages as kubectl shows (`5m30s`)."""

import re
from datetime import datetime, timedelta
from typing import Final

NANOS: Final = 1_000_000_000
_PART: Final = re.compile(r"(\d+)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)|\.(\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_WHOLE: Final = re.compile(r"[+-]?(?:(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+|0)", re.ASCII)
_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": NANOS,
    "m": 60 * NANOS,
    "h": 3_600 * NANOS,
}
_LONGEST: Final = 2**63 - 1
_DAYS: Final = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII)
LONGEST_SECONDS: Final = 100 * 365 * 86_400
"""The longest duration to accept, a hundred years: Go's own durations overflow at 292 years."""


def is_duration(text: str) -> bool:
    """Report whether `text` is a Go duration (`time.ParseDuration`), even a duration too large for 64 bits."""
    return _WHOLE.fullmatch(text) is not None


def nanoseconds_of(text: str) -> int | None:
    """Return the nanoseconds of a Go duration; None if `text` is not a duration, or does not fit into 64 bits."""
    # A longest text keeps the pattern and the sums cheap; Go itself has no such limit.
    if len(text) > 200 or not is_duration(text):
        return None
    total = 0
    for whole, part, unit, rest, other in _PART.findall(text):
        fraction = part or rest
        factor = _UNITS[unit or other]
        total += int(whole or 0) * factor
        if fraction:
            total += int(fraction[:18]) * factor // 10 ** len(fraction[:18])
    if total > _LONGEST:
        return None
    return -total if text.startswith("-") else total


def seconds_of(text: str, otherwise: float | None = None) -> float:
    """Return the seconds of a Go duration; for any other string, return `otherwise`.

    Raises ValueError for any other string if `otherwise` is None.
    """
    nanos = nanoseconds_of(text)
    if nanos is None and otherwise is None:
        raise ValueError(f"not a duration: {text!r}")
    return nanos / NANOS if nanos is not None else otherwise or 0.0


def seconds_with_days(text: str) -> int:
    """Return the seconds in a duration such as `30d`, `720h` or `1d12h`. Go's own durations have no days.

    Raises ValueError for other texts, for zero, and for more than a century.
    """
    match = _DAYS.fullmatch(text)
    if match is None or not text:
        raise ValueError("must be a duration such as 30d, 720h or 1d12h")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if not 0 < total <= LONGEST_SECONDS:
        raise ValueError("must be longer than nothing and not longer than a hundred years")
    return total


def go_duration(seconds: float) -> str:
    """Format `seconds` as Go prints a `time.Duration`: `0s`, `250ms`, `1.5s`, `5m0s`, `1h0m0s`."""
    millis = round(seconds * 1000)
    if millis == 0:
        return "0s"
    if millis < 1000:
        return f"{millis}ms"
    minutes, rest = divmod(millis, 60_000)
    hours, minutes = divmod(minutes, 60)
    tail = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{tail}"
    return f"{minutes}m{tail}" if minutes else tail


def human_duration(span: timedelta) -> str:
    """Format a span in at most two units, as Kubernetes prints ages, such as `5m30s` or `47h`. Seconds appear only in
    spans below ten minutes.
    """
    seconds = int(span.total_seconds())
    # apimachinery: pkg/util/duration, HumanDuration. Less than two seconds into the future is taken for a difference of
    # clocks.
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 10:
        return _pair(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _pair(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    years = days // 365
    return _pair(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def age(since: str | None, now: datetime) -> str:
    """Format the time from the API timestamp `since` until `now`, as kubectl shows ages. Return `<unknown>` if `since`
    is None or empty, and `<invalid>` if it is not a time.
    """
    if not since:
        return "<unknown>"
    try:
        return human_duration(now - datetime.fromisoformat(since))
    except ValueError:
        return "<invalid>"


def _pair(first: int, first_unit: str, second: int, second_unit: str) -> str:
    return f"{first}{first_unit}{second}{second_unit}" if second else f"{first}{first_unit}"
