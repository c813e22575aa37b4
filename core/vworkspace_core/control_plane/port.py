"""The vWorkspace control plane (PULL-1)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import attrs


@attrs.frozen
class OversizedJob:
    """A job too large to be decoded: the fields needed to answer it, and the reason."""

    fields: Mapping[str, Any] = attrs.field(repr=False)
    reason: str


@attrs.frozen
class Fetched:
    """The result of a long poll. Jobs are raw JSON values: the core validates them, and answers invalid ones.

    A job too large to decode is an `OversizedJob`, which the core answers as invalid, too.

    `server_time` is the control plane's `Date` header (PULL-12), None if it sent none.
    """

    jobs: Sequence[Any] = attrs.field(repr=False)
    server_time: datetime | None = None


class ControlPlane(Protocol):
    """The vWorkspace control plane, seen from the agent (PULL-1).

    Every call may raise Unauthorized, Forbidden, Unavailable (network, 429 with retry_after, 5xx, a body
    that is not the expected JSON), NotFound and Permanent.
    """

    async def fetch(self, cluster_id: str, wait_seconds: int) -> Fetched:
        """Long-poll for jobs; return an empty list after `wait_seconds`."""
        ...

    async def ack(self, job_id: str) -> None:
        """Confirm that the job was received, before it is applied. Raises NotFound if unknown, JobClosed if closed."""
        ...

    async def status(self, job_id: str, body: Mapping[str, Any]) -> None:
        """Post progress of an open job."""
        ...

    async def result(self, job_id: str, body: Mapping[str, Any]) -> None:
        """Post the final result. A 409 (accepted before) is success here, not an error (PULL-4)."""
        ...

    async def events(self, batch: Sequence[Mapping[str, Any]]) -> None:
        """Post a batch of events that belong to no open job. Raises Invalid for a batch refused as malformed."""
        ...

    async def register(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Exchange a one-time token for a long-lived credential."""
        ...

    async def rotate(self) -> Mapping[str, Any]:
        """Request a new credential; the old one stays valid for a grace period."""
        ...
