"""Translation of the control plane's HTTP answers into the core's own errors (PULL-1, PULL-7)."""

from datetime import datetime
from email.utils import parsedate_to_datetime

from purekube.apimachinery.errors import (
    Forbidden,
    Invalid,
    NotFound,
    OperatorError,
    Permanent,
    Unauthorized,
    Unavailable,
)


def error_of(status: int, message: str, retry_after: float | None = None) -> OperatorError:
    """Return the error for an answer with `status`, which is not a success."""
    match status:
        case 400 | 413 | 415 | 422:
            return Invalid(message)
        case 401:
            return Unauthorized(message)
        case 403:
            return Forbidden(message)
        case 404 | 410:
            return NotFound(message)
        case 408 | 425 | 429:
            return Unavailable(message, retry_after=retry_after, status=status, may_have_happened=False)
        case _ if status >= 500:
            return Unavailable(message, retry_after=retry_after, status=status)
        case _:
            return Permanent(message, status=status)


def parse_http_date(text: str | None) -> datetime | None:
    """Parse an HTTP date as an aware time; None if it is missing or malformed."""
    if not text:
        return None
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def seconds_of(retry_after: str | None, now: datetime) -> float | None:
    """Return `Retry-After` in seconds from `now`, in both its forms; None if it is missing or malformed."""
    if not retry_after:
        return None
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    until = parse_http_date(text)
    return None if until is None else max(0.0, (until - now).total_seconds())
