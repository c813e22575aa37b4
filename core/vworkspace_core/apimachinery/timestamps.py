"""Times as Kubernetes writes them: RFC 3339 text in UTC."""

from datetime import UTC, datetime, timedelta
from typing import Final

import attrs

LARGEST_SKEW: Final = timedelta(minutes=10)
"""What clocks may differ; beyond that somebody is wrong or lies, and the difference is not used (PULL-12)."""


def format_time(instant: datetime) -> str:
    """In whole seconds, as the API server keeps times (`metav1.Time`). `instant` knows its time zone."""
    return instant.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def microtime(instant: datetime) -> str:
    """With microseconds, as leases and events have times (`metav1.MicroTime`). `instant` knows its time zone."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def exact_time(instant: datetime) -> str:
    """As exactly as it is known: with the microseconds, unless there are none. `instant` knows its time zone."""
    return instant.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def later_of(now: datetime, skew: timedelta) -> datetime:
    """The later of our clock and the control plane's, which is `skew` ahead by an unsigned header (PULL-12).

    What must not be used after its expiry has expired as soon as either clock says so.
    """
    return now + skew if timedelta(0) < skew <= LARGEST_SKEW else now


_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)


@attrs.frozen
class Instant:
    """One point in time on both clocks: `wall` to tell it, `seconds` (monotonic) to measure from it.

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


def shifted(instant: datetime, by: timedelta) -> datetime:
    """`instant + by`, stopped at the ends of the calendar: a peer's wild time must not raise (PULL-7)."""
    try:
        return instant + by
    except OverflowError:
        return _LAST if by > timedelta(0) else _FIRST
