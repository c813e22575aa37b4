"""Instants on the wire: RFC 3339 text with an offset, in whole seconds when we write it."""

from datetime import UTC, datetime, timedelta
from typing import Final

import attrs

__all__ = ["Instant", "format_time", "parse_time", "shifted"]

_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)


@attrs.frozen
class Instant:
    """One moment on both clocks: `wall` to tell it, `seconds` (monotonic) to measure from it.

    The wall clock may be stepped by a day; how long something lasted must not depend on that.
    """

    wall: datetime
    seconds: float

    def since(self, earlier: "Instant") -> float:
        """Seconds from `earlier` to this."""
        return self.seconds - earlier.seconds


def parse_time(text: str) -> datetime:
    """`text` as an aware UTC instant. Raises ValueError with what is wrong."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"must be an RFC 3339 time such as 2026-01-31T12:00:00Z, not {text[:64]!r}") from None
    if instant.tzinfo is None:
        raise ValueError(f"must name its offset (Z or +01:00): {text[:64]!r}")
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"lies outside the calendar: {text[:64]!r}") from None


def format_time(instant: datetime) -> str:
    """`instant` as the API server writes times: UTC, whole seconds, `Z`."""
    return instant.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def shifted(instant: datetime, by: timedelta) -> datetime:
    """`instant + by`, stopped at the ends of the calendar: a peer's wild time must not raise (PULL-7)."""
    try:
        return instant + by
    except OverflowError:
        return _LAST if by > timedelta(0) else _FIRST
