"""The durable store of open jobs and tombstones (PULL-4)."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs


@attrs.frozen
class JobRecord:
    """An open job as it is stored, to survive a crash between ack and result (PULL-4)."""

    job_id: str
    raw: Mapping[str, Any] = attrs.field(repr=False)
    state: Mapping[str, Any] = attrs.field(factory=dict, repr=False)


@attrs.frozen
class Tombstone:
    """A record that a closed job's idempotencyKey had its effect, so that it is not repeated (PULL-3, PULL-4)."""

    idempotency_key: str
    outcome: str
    object_uid: str = ""
    generation: int = 0
    closed_at: str = ""


class JobStore(Protocol):
    """The durable store of open jobs and tombstones. Raises Unavailable; `put` raises Invalid for a record too large.

    A record is written before the job is acked, and deleted after its result was accepted. Tombstones are kept longer.
    """

    async def load(self) -> Sequence[JobRecord]:
        """Return every open job."""
        ...

    async def put(self, record: JobRecord) -> None:
        """Write or replace the record of one job."""
        ...

    async def close(self, job_id: str, tombstone: Tombstone | None) -> None:
        """Remove the record and, if given, store the tombstone. Idempotent."""
        ...

    async def tombstone(self, idempotency_key: str) -> Tombstone | None:
        """Return the tombstone of an idempotency key; None if it had no effect yet."""
        ...

    async def newest(self, object_key: str) -> Tombstone | None:
        """Return the tombstone of the highest generation whose key is `<object_key>@<generation>`; None if there is
        none.

        `object_key` is `<kind>/<namespace>/<name>`. Without this record, a late apply would re-create what a newer
        delete removed, since a deleted object no longer carries a generation.
        """
        ...
