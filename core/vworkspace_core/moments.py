"""Times as Kubernetes writes them: RFC 3339 text in UTC."""

from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["LARGEST_SKEW", "later_of", "microtime", "timestamp"]

LARGEST_SKEW: Final = timedelta(minutes=10)
"""What clocks may differ; beyond that somebody is wrong or lies, and the difference is not used (PULL-12)."""


def timestamp(moment: datetime) -> str:
    """In whole seconds, as the API server keeps times (`metav1.Time`). `moment` knows its time zone."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def microtime(moment: datetime) -> str:
    """With microseconds, as leases and events have times (`metav1.MicroTime`). `moment` knows its time zone."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def later_of(now: datetime, skew: timedelta) -> datetime:
    """The later of our clock and the control plane's, which is `skew` ahead by an unsigned header (PULL-12).

    What must not be used after its expiry has expired as soon as either clock says so.
    """
    return now + skew if timedelta(0) < skew <= LARGEST_SKEW else now
