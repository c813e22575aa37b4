"""A `JobStore` in memory, for tests. It behaves like `KubeJobStore`, which stores jobs in the cluster.

A job is a unit of work that the control plane sends to the agent, the operator in a cluster. The data survive a
simulated crash of the agent (PULL-4).
"""

from collections.abc import Sequence

import attrs

from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import canonical_json
from vworkspace_core.jobs.job_store import JobRecord, Tombstone


@attrs.define
class MemoryJobStore:
    """A store of the control plane's jobs in memory, with a record of each open job (a job without a final result).

    A record is refused if it has more than `longest` bytes as JSON. A tombstone is what remains of a finished job. If
    there are more than `remembered` tombstones, the oldest are forgotten.
    """

    longest: int = 1024 * 1024
    remembered: int = 10_000
    records: dict[str, JobRecord] = attrs.field(factory=dict)
    tombstones: dict[str, Tombstone] = attrs.field(factory=dict)

    async def load(self) -> Sequence[JobRecord]:
        """Return the record of every open job (a job without a final result), oldest first."""
        return list(self.records.values())

    async def put(self, record: JobRecord) -> None:
        """Write or replace the record of one job. Raises Invalid if the record is too large."""
        size = len(canonical_json([record.raw, record.state]))
        if size > self.longest:
            raise Invalid(f"the record of job {record.job_id} has {size} bytes, at most {self.longest} can be kept")
        self.records[record.job_id] = record

    async def close(self, job_id: str, tombstone: Tombstone | None) -> None:
        """Remove the record of a job, and store its `tombstone` (what remains of a finished job) if there is one."""
        if tombstone is not None:
            self.tombstones.pop(tombstone.idempotency_key, None)
            self.tombstones[tombstone.idempotency_key] = tombstone
            while len(self.tombstones) > self.remembered:
                del self.tombstones[next(iter(self.tombstones))]
        self.records.pop(job_id, None)

    async def tombstone(self, idempotency_key: str) -> Tombstone | None:
        """Return the tombstone (the remains of a finished job) with this idempotency key, or None if there is none."""
        return self.tombstones.get(idempotency_key)

    async def newest(self, object_key: str) -> Tombstone | None:
        """Return the tombstone (the remains) of the newest finished job about the object `object_key`.

        The object's key is a job's idempotency key without its end, `@` and the generation. The newest job is the one
        with the highest generation of the object. Return None if no finished job about the object is remembered.
        """
        mine = (
            tombstone
            for key, tombstone in self.tombstones.items()
            if key.rpartition("@")[0].lower() == object_key.lower()
        )
        return max(mine, key=lambda tombstone: tombstone.generation, default=None)
