"""The `JobStore` on a `KubeApi`: in production over HTTP, in simulations on the embedded API server (PULL-4).

The modules `codec` and `tombstones` say what each call leaves when the process dies between two of its writes. `close`
commits by writing the tombstone, which names the record that it closes: if that record is still there after a crash,
the next `load` removes it and does not resume the job.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from datetime import timedelta
from typing import Any

from purekube.apimachinery.errors import AlreadyExists, NotFound, OperatorError, Permanent, Stale, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.resources import SECRET
from purekube.ports import KubeApi
from vworkspace_core.api.labels import FIELD_MANAGER, JOB_STORE
from vworkspace_core.jobs.job_store import JobRecord, Tombstone
from vworkspace_core.jobs.store import codec
from vworkspace_core.jobs.store.codec import role_of
from vworkspace_core.jobs.store.tombstones import (
    MOST_TOMBSTONES,
    RETENTION,
    SEGMENT_ENTRIES,
    TombstoneEntry,
    TombstoneLog,
    read_segment,
)

# A Secret may hold a mebibyte, so a page of the usual 500 objects could take half a gigabyte.
_PAGE = 50


class KubeJobStore:
    """A store that keeps records of the control plane's open jobs, and of what closed jobs did, in Secrets of
    `namespace`.

    The latter records are called tombstones.

    `lock` is held while tombstones are written. `report` gets a line about every Secret that cannot be used. A record
    has at most `longest` bytes, and one Secret at most `room`. The store needs the rights get, list, create, update and
    delete on Secrets.
    """

    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        *,
        lock: AbstractAsyncContextManager[Any] | None = None,
        report: Callable[[str], None] = lambda _: None,
        longest: int = codec.LONGEST,
        room: int = codec.ONE_SECRET,
        keep: timedelta = RETENTION,
        remembered: int = MOST_TOMBSTONES,
        segment: int = SEGMENT_ENTRIES,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._report = report
        self._longest, self._room = longest, room
        self._heads: dict[str, codec.Head] = {}
        self._order = 0
        self._tombstones = TombstoneLog(api, namespace, lock or nullcontext(), report, keep, remembered, segment)
        self._is_loaded = False

    async def load(self) -> Sequence[JobRecord]:
        """Return every open job of the control plane, oldest first.

        Everything is read from the cluster again, and steps that a crash interrupted are completed.
        """
        self._heads.clear()
        self._is_loaded = False
        secrets = await self._all()
        self._tombstones.take(read_segment(secret) for secret in secrets if role_of(secret) == "tombstones")
        contents = [codec.read_record(secret) for secret in secrets if role_of(secret) != "tombstones"]
        parts = {part.name: part.content for part in contents if isinstance(part, codec.PayloadChunk)}
        heads = sorted((head for head in contents if isinstance(head, codec.Head)), key=lambda head: head.order)
        self._order = max((head.order for head in heads), default=0)
        records = [codec.record_of(head, parts) for head in heads if await self._is_open(head)]
        bad = [secret for secret in (*records, *contents) if isinstance(secret, codec.CorruptSecret)]
        useless: list[codec.CorruptSecret | codec.ForeignSecret] = [
            *bad,
            *(secret for secret in contents if isinstance(secret, codec.ForeignSecret)),
        ]
        for secret in useless:
            self._report(f"Secret {self._namespace}/{secret.name} is not used: {secret.why}")
        self._is_loaded = True
        whole = [record for record in records if isinstance(record, JobRecord)]
        return [*whole, *(codec.corrupt_record(secret) for secret in bad if secret.job_id)]

    async def put(self, record: JobRecord) -> None:
        """Write or replace the record of one open job of the control plane. Raises Invalid if it is too large."""
        await self._ensure_loaded()
        payload = codec.payload_of(record, self._longest, self._room)
        # During a write the cluster's content is unknown, and after a failure it stays unknown: the head is read again
        # then.
        head = self._heads.pop(record.job_id, None)
        if head is None:
            head = await self._begun(record, payload)
        if head.digest != payload.digest or bool(head.parts) != payload.is_split or not head.is_whole:
            head = await self._replaced(head, record, payload)
        elif head.state != record.state:
            head = await self._written(head, record, payload, head.parts)
        self._heads[record.job_id] = head

    async def close(self, job_id: str, tombstone: Tombstone | None) -> None:
        """Remove the record of the control plane's job `job_id`, and store `tombstone` if it is given.

        A tombstone is the record of what a closed job has done. Calling this method again has no effect.
        """
        await self._ensure_loaded()
        head = self._heads.get(job_id) or await self._find(job_id)
        if tombstone is not None:
            await self._tombstones.remember(TombstoneEntry(tombstone, head.uid if head else ""))
        if head is not None:
            await self._delete(head.name, head.uid)
        self._heads.pop(job_id, None)

    async def tombstone(self, idempotency_key: str) -> Tombstone | None:
        """Return the tombstone (record of a closed job) of an idempotency key, from memory, or None if
        there is none.
        """
        await self._ensure_loaded()
        return self._tombstones.index.by_key.get(idempotency_key)

    async def newest(self, object_key: str) -> Tombstone | None:
        """Return the tombstone (record of a closed job) of the highest generation for an object, from memory.

        `object_key` is `<kind>/<namespace>/<name>` of the object. A generation is the control plane's counter of jobs
        for it. Return None if there is no tombstone for the object.
        """
        await self._ensure_loaded()
        return self._tombstones.index.newest.get(object_key.lower())

    # --- reading --------------------------------------------------------------------------------------------

    async def _ensure_loaded(self) -> None:
        if not self._is_loaded:
            await self.load()

    async def _all(self) -> list[Manifest]:
        secrets: list[Manifest] = []
        token = ""
        while True:
            page = await self._api.list(
                SECRET, namespace=self._namespace, label_selector=JOB_STORE, limit=_PAGE, continue_token=token
            )
            secrets += page.items
            token = page.continue_token
            if not token:
                return secrets

    async def _is_open(self, head: codec.Head) -> bool:
        """Report whether the job with the head (main) Secret `head` is to be continued.

        If its record is closed or was never complete, the record is removed.
        """
        if head.is_whole and head.uid not in self._tombstones.index.closed:
            self._heads[head.job_id] = head
            return True
        try:
            await self._delete(head.name, head.uid)
        except OperatorError as error:
            self._report(f"Secret {self._namespace}/{head.name} is left over and cannot be removed: {error.message}")
        return False

    async def _find(self, job_id: str) -> codec.Head | None:
        """Return the job's head Secret as stored in the cluster, or None if there is none.

        Raises Permanent if a foreign Secret has its name.
        """
        name = codec.head_name(job_id)
        try:
            content = codec.read_record(await self._api.get(self._ref(name)))
        except NotFound:
            return None
        match content:
            case codec.Head():
                return content
            case codec.CorruptSecret(job_id=known, uid=uid, version=version) if known:
                return codec.Head(job_id, name, uid, version, 0, {}, is_whole=False)
            case _:
                raise Permanent(
                    f"Secret {self._namespace}/{name} is in the way of job {job_id} and is none of its: delete it"
                )

    # --- writing --------------------------------------------------------------------------------------------

    async def _begun(self, record: JobRecord, payload: codec.Payload) -> codec.Head:
        """Return the head (main) Secret of the job's record. Create the Secret if it does not exist yet, without the
        mark that the record is complete.
        """
        self._order += 1
        manifest = codec.head_manifest(self._namespace, record, payload, self._order, whole=False)
        try:
            return self._head(await self._api.create(manifest, kind=SECRET, field_manager=FIELD_MANAGER))
        except AlreadyExists:
            present = await self._find(record.job_id)
        if present is not None and present.uid not in self._tombstones.index.closed:
            return present
        if present is not None:  # left over from an earlier job with this id, which is closed
            await self._delete(present.name, present.uid)
        return self._head(await self._api.create(manifest, kind=SECRET, field_manager=FIELD_MANAGER))

    async def _replaced(self, head: codec.Head, record: JobRecord, payload: codec.Payload) -> codec.Head:
        """Replace the payload of a record: write new part Secrets, then the main Secret `head`, and delete the old
        parts.
        """
        parts = codec.part_manifests(self._namespace, head, payload) if payload.is_split else []
        for part in parts:
            await self._part(part)
        names = tuple(part["metadata"]["name"] for part in parts)
        written = await self._written(head, record, payload, names)
        for name in set(head.parts) - set(names):
            await self._delete(name)
        return written

    async def _part(self, part: dict[str, Any]) -> None:
        try:
            await self._api.create(part, kind=SECRET, field_manager=FIELD_MANAGER)
        except AlreadyExists as error:
            name = part["metadata"]["name"]
            present = await self._api.get(self._ref(name))
            if present.get("data") != part["data"]:
                raise Permanent(f"Secret {self._namespace}/{name} is in the way and is no part of a job") from error

    async def _written(
        self, head: codec.Head, record: JobRecord, payload: codec.Payload, parts: Sequence[str]
    ) -> codec.Head:
        manifest = codec.head_manifest(self._namespace, record, payload, head.order, parts=parts)
        manifest["metadata"] |= {"resourceVersion": head.version, "uid": head.uid}
        where = f"Secret {self._namespace}/{head.name}"
        try:
            return self._head(await self._api.update(manifest, kind=SECRET, field_manager=FIELD_MANAGER))
        except Stale as error:
            raise Unavailable(f"{where} was changed by another writer: is a second operator at work?") from error
        except NotFound as error:
            raise Unavailable(f"{where} was deleted by somebody while its job is open; it is written again") from error

    def _head(self, written: Manifest) -> codec.Head:
        content = codec.read_record(written)
        if not isinstance(content, codec.Head):
            raise Permanent(f"Secret {self._namespace}/{content.name} does not hold what was written to it")
        return content

    async def _delete(self, name: str, uid: str | None = None) -> None:
        with suppress(NotFound, Stale):  # gone already, or replaced by another: not ours to delete
            await self._api.delete(self._ref(name), uid=uid)

    def _ref(self, name: str) -> ObjectRef:
        return ObjectRef(SECRET, self._namespace, name)
