"""The interface to the vWorkspace control plane (PULL-1), and the errors that its HTTP answers mean (PULL-7)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

import attrs

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
    """Return the exception for an HTTP answer of the control plane whose `status` is not a success.

    `retry_after` is the delay in seconds that the answer demands, None if it demands none.
    """
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
    """Return an HTTP date as an aware time, or None if the text is missing or malformed."""
    if not text:
        return None
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else None


def seconds_of(retry_after: str | None, now: datetime) -> float | None:
    """Return the seconds from `now` that a `Retry-After` header demands, or None if the header is missing or malformed.

    The header has a number of seconds or an HTTP date.
    """
    if not retry_after:
        return None
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    until = parse_http_date(text)
    return None if until is None else max(0.0, (until - now).total_seconds())


@attrs.frozen
class OversizedJob:
    """A job of the control plane that is too large to decode, reduced to a reason and the fields needed to answer."""

    fields: Mapping[str, Any] = attrs.field(repr=False)
    reason: str


@attrs.frozen
class Fetched:
    """The result of a long poll: jobs (requests of the control plane) as raw JSON values, not yet validated.

    A job too large to decode is an `OversizedJob`. `server_time` is the time in the control plane's `Date` header
    (PULL-12), None if there was none.
    """

    jobs: Sequence[Any] = attrs.field(repr=False)
    server_time: datetime | None = None


class ControlPlane(Protocol):
    """The vWorkspace control plane (the server that sends jobs), seen from the operator's agent (PULL-1).

    Every call may raise Unauthorized, Forbidden, Unavailable (network, 429 with retry_after, 5xx, a body
    that is not the expected JSON), NotFound and Permanent.
    """

    async def fetch(self, cluster_id: str, wait_seconds: int) -> Fetched:
        """Long-poll for jobs. Return a result without jobs if none has come within `wait_seconds`."""
        ...

    async def ack(self, job_id: str) -> None:
        """Confirm that the job was received, before it is applied.

        Raises NotFound if the control plane does not know the job, JobClosed if the job is closed.
        """
        ...

    async def status(self, job_id: str, body: Mapping[str, Any]) -> None:
        """Post a report on the progress of an open job. `body` is the report, with the phase of the job's object."""
        ...

    async def result(self, job_id: str, body: Mapping[str, Any]) -> None:
        """Post the final result of a job, which `body` has.

        The answer 409, which means that a result was accepted before, counts as success (PULL-4).
        """
        ...

    async def events(self, batch: Sequence[Mapping[str, Any]]) -> None:
        """Post a batch of events that belong to no open job. Raises Invalid if the batch is refused as malformed."""
        ...

    async def register(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Exchange the one-time token in `body` for a long-lived credential, and return the answer that contains it."""
        ...

    async def rotate(self) -> Mapping[str, Any]:
        """Request a new credential, and return the answer with it.

        The old credential stays valid for a grace period.
        """
        ...
