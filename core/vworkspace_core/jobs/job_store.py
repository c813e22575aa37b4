"""The durable store of the control plane's open jobs, and of tombstones, which are records of closed jobs (PULL-4)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import attrs


@attrs.frozen
class JobRecord:
    """An open job of the control plane as it is stored, to survive a crash between ack and result (PULL-4).

    `raw` is the job as it was offered, `state` its progress.
    """

    job_id: str
    raw: Mapping[str, Any] = attrs.field(repr=False)
    state: Mapping[str, Any] = attrs.field(factory=dict, repr=False)


UNAPPLIED: Final = "superseded"
"""The outcome in the tombstone of a job that was superseded before its effect."""


@attrs.frozen
class Tombstone:
    """The record that a closed job of the control plane had its effect, such as an apply (PULL-3, PULL-4).

    The job must not be repeated. The record is found by the job's idempotency key. `object_uid` is the uid of the
    object. `generation` is the generation in the key, the control plane's counter of jobs for the object. The outcome
    UNAPPLIED says that the job had no effect, as a newer one had its effect first: it must not have it later either.
    """

    idempotency_key: str
    outcome: str
    object_uid: str = ""
    generation: int = 0
    closed_at: str = ""


class JobStore(Protocol):
    """The durable store of the control plane's open jobs, and of tombstones (records of what closed jobs have done).

    A record is written before the job is acked, and deleted after its result was accepted. Tombstones are kept longer.
    Methods raise Unavailable; `put` raises Invalid for a record that is too large.
    """

    async def load(self) -> Sequence[JobRecord]:
        """Return every open job of the control plane."""
        ...

    async def put(self, record: JobRecord) -> None:
        """Write or replace the record of one open job of the control plane."""
        ...

    async def close(self, job_id: str, tombstone: Tombstone | None) -> None:
        """Remove the record of the control plane's job `job_id`, and store `tombstone` if it is given.

        A tombstone is the record of what a closed job has done. Calling this method again has no effect.
        """
        ...

    async def tombstone(self, idempotency_key: str) -> Tombstone | None:
        """Return the tombstone (record of a closed job) of an idempotency key.

        Return None if no job with this key had its effect yet.
        """
        ...

    async def newest(self, object_key: str) -> Tombstone | None:
        """Return the tombstone (record of a closed job) of the highest generation for an object, or None if there is
        none.

        A generation is the control plane's counter of jobs for the object. The tombstone's key is
        `<object_key>@<generation>`; `object_key` is `<kind>/<namespace>/<name>`. The tombstone keeps a late apply from
        re-creating an object that a newer job has deleted.
        """
        ...
