"""Durations: people write `30d`, but Go (Velero) has no days."""

import re
from typing import Final

LONGEST_SECONDS: Final = 100 * 365 * 86_400
"""A hundred years; Go's own durations overflow at 292."""

_PARTS: Final = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII)


def seconds_of(text: str) -> int:
    """Return the seconds in `30d`, `720h`, `1d12h`.

    Raises ValueError for other texts, for zero, and beyond a century.
    """
    match = _PARTS.fullmatch(text)
    if match is None or not text:
        raise ValueError("must be a duration such as 30d, 720h or 1d12h")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if not 0 < total <= LONGEST_SECONDS:
        raise ValueError("must be longer than nothing and not longer than a hundred years")
    return total


def go_duration(seconds: int) -> str:
    """Return the duration as Go prints it: `720h0m0s`."""
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}h{minute}m{second}s"
