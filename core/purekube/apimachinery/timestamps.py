"""Times as Kubernetes writes them: RFC 3339 text in UTC."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Manifest, get_path

LARGEST_SKEW: Final = timedelta(minutes=10)
"""The largest difference between two clocks that is believed; beyond it one clock is wrong or forged (PULL-12)."""


def format_time(instant: datetime) -> str:
    """Format a time in whole seconds, as the API server keeps times (`metav1.Time`). `instant` has a time zone."""
    return _utc(instant).isoformat()[:19] + "Z"


def microtime(instant: datetime) -> str:
    """Format a time with microseconds, as leases and events have it (`metav1.MicroTime`). `instant` has a time zone."""
    # Always six digits: MicroTime is parsed with exactly that layout (apimachinery: pkg/apis/meta/v1/micro_time.go,
    # RFC3339Micro).
    return _utc(instant).isoformat(timespec="microseconds")[:26] + "Z"


def _utc(instant: datetime) -> datetime:
    # Nearly all times are in UTC already: converting one takes as long as printing it.
    return instant if instant.tzinfo is UTC else instant.astimezone(UTC)


def exact_time(instant: datetime) -> str:
    """Format a time with its microseconds, or in whole seconds if the microseconds are zero. `instant` has a
    time zone.
    """
    return instant.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def later_of(now: datetime, skew: timedelta) -> datetime:
    """Return the present time by the clock that is ahead: this process's clock or the control plane's (PULL-12).

    `now` is this process's time. `skew` is how far the control plane's clock is ahead, taken from an unsigned header.
    With the later time, an expiry is reached as soon as either clock has passed it. A skew beyond `LARGEST_SKEW` is
    ignored.
    """
    return now + skew if timedelta(0) < skew <= LARGEST_SKEW else now


_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)


@attrs.frozen
class Instant:
    """One moment, read from two clocks: `wall` (a date) is for display, `seconds` (monotonic) for measuring intervals.

    An interval that is measured in `seconds` stays right even if the wall clock is set forward or back meanwhile.
    """

    wall: datetime
    seconds: float

    def since(self, earlier: "Instant") -> float:
        """Return the seconds from the instant `earlier` to this instant."""
        return self.seconds - earlier.seconds


def parse_time(text: str) -> datetime:
    """Parse `text` as an aware UTC time. Raises ValueError if the text is not an RFC 3339 time with an offset."""
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


def time_or_none(value: Any) -> datetime | None:
    """Return `value` as an aware UTC time; None if `value` is not the text of a time."""
    try:
        return parse_time(value) if isinstance(value, str) else None
    except ValueError:
        return None


def time_at(manifest: Manifest | None, *path: str) -> datetime | None:
    """Return the time in the field at `path`, or None if it is missing or malformed."""
    return time_or_none(get_path(manifest, *path))


def has_come(moment: datetime, now: datetime, longest: timedelta) -> bool:
    """Report whether the wall clock has reached `moment`, which was at most `longest` ahead when it was set.

    `now` is the time by that clock. A moment more than `longest` after `now` counts as reached too: the clock must have
    been set back meanwhile, and waiting for the moment might take hours.
    """
    return moment <= now or moment - now > longest


def shifted(instant: datetime, by: timedelta) -> datetime:
    """Return `instant + by`, limited to the range of datetime.

    An absurd time from another system must not raise (PULL-7).
    """
    try:
        return instant + by
    except OverflowError:
        return _LAST if by > timedelta(0) else _FIRST
