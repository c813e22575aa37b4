"""Times as Kubernetes writes them: RFC 3339 text in UTC."""

from datetime import UTC, datetime

__all__ = ["microtime", "timestamp"]


def timestamp(moment: datetime) -> str:
    """In whole seconds, as the API server keeps times (`metav1.Time`). `moment` knows its time zone."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def microtime(moment: datetime) -> str:
    """With microseconds, as leases and events have times (`metav1.MicroTime`). `moment` knows its time zone."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
