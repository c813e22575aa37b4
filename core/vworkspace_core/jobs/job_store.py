"""The durable store of open jobs and tombstones (PULL-4)."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs


@attrs.frozen
class JobRecord:
    """An open job in the form that survives a crash between ack and result (PULL-4)."""

    job_id: str
    raw: Mapping[str, Any] = attrs.field(repr=False)
    state: Mapping[str, Any] = attrs.field(factory=dict, repr=False)


@attrs.frozen
class Tombstone:
    """The record of a closed job: proof that its idempotencyKey had its effect (PULL-3, PULL-4)."""

    idempotency_key: str
    outcome: str
    object_uid: str = ""
    generation: int = 0
    closed_at: str = ""


class JobStore(Protocol):
    """The durable store of open jobs and tombstones. Raises Unavailable; `put` raises Invalid for a record too large.

    A record is written before its ack and deleted after its result was accepted; tombstones outlive it.
    """

    async def load(self) -> Sequence[JobRecord]:
        """Return every open job."""
        ...

    async def put(self, record: JobRecord) -> None:
        """Write or replace the record of one job."""
        ...

    async def close(self, job_id: str, tombstone: Tombstone | None) -> None:
        """Remove the record and, if given, remember the tombstone. Idempotent."""
        ...

    async def tombstone(self, idempotency_key: str) -> Tombstone | None:
        """Return the tombstone of a key, if its effect happened."""
        ...

    async def newest(self, object_key: str) -> Tombstone | None:
        """Return the tombstone of the highest generation whose key is `<object_key>@<generation>`, if there is one.

        `object_key` is `<kind>/<namespace>/<name>`; without it, a late apply would resurrect what a newer delete
        removed, since a deleted object carries no generation any more.
        """
        ...
