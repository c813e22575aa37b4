"""Ages as kubectl shows them: `45s`, `5m30s`, `3h`, `12d`."""

from datetime import datetime, timedelta


def human_duration(span: timedelta) -> str:
    """Format a span in at most two units, more exact the shorter it is, as Kubernetes prints ages."""
    seconds = int(span.total_seconds())
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
    """Format the time since an API timestamp."""
    if not since:
        return "<unknown>"
    try:
        return human_duration(now - datetime.fromisoformat(since))
    except ValueError:
        return "<invalid>"


def _pair(first: int, first_unit: str, second: int, second_unit: str) -> str:
    return f"{first}{first_unit}{second}{second_unit}" if second else f"{first}{first_unit}"
