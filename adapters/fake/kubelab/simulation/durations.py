"""Durations and times as Go's libraries write and read them (`5m0s`, `1m30s`, `2026-01-01T00:00:00Z`)."""

import re
from typing import Final

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")


def parse_duration(text: str) -> float:
    """Return the seconds of a Go duration such as `1h30m`.

    Raises ValueError for text that the CRDs' pattern refuses.
    """
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"not a duration: {text!r}")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


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
