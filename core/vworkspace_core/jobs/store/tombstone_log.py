"""The log of tombstones in the cluster: group commit, concurrent writers, pruning (PULL-4).

A tombstone is the record of a closed job, which was a request of the control plane. The log is kept in Secrets. Group
commit means that tombstones of several jobs share one write. Pruning deletes the oldest Secrets of the log.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any, Final

import attrs

from purekube.apimachinery.errors import AlreadyExists, NotFound, OperatorError, Permanent, Stale, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.resources import SECRET
from purekube.ports import KubeApi
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.jobs.store.codec import CorruptSecret, ForeignSecret, role_of
from vworkspace_core.jobs.store.tombstones import (
    SEGMENT_BYTES,
    Segment,
    TombstoneEntry,
    TombstoneIndex,
    encoded,
    outdated,
    read_segment,
    segment_manifest,
    segment_name,
)

_TRIES: Final = 4
_AT_ONCE: Final = 64


@attrs.define
class TombstoneLog:
    """The writer of the log of tombstones (records of the control plane's closed jobs) in one namespace.

    `index` has the tombstones that are stored durably.
    """

    _api: KubeApi
    _namespace: str
    _lock: AbstractAsyncContextManager[Any]
    _report: Callable[[str], None]
    _keep: timedelta
    _remembered: int
    _size: int
    index: TombstoneIndex = attrs.field(factory=TombstoneIndex, init=False)
    _segments: list[Segment] = attrs.field(factory=list, init=False)
    _unwritten: list[TombstoneEntry] = attrs.field(factory=list, init=False)
    _next: int = attrs.field(default=1, init=False)

    def take(self, contents: Iterable[Segment | CorruptSecret | ForeignSecret]) -> None:
        """Replace the log's state by `contents`, the decoded Secrets that were read from the cluster.

        A Secret that is damaged, or not the operator's, is reported and not used. Tombstones that wait to be written
        still wait.
        """
        self.index, self._segments = TombstoneIndex(), []
        for content in contents:
            if isinstance(content, Segment):
                self._segments.append(content)
            else:
                self._report(f"Secret {self._namespace}/{content.name} is not used: {content.why}")
        self._segments.sort(key=lambda segment: segment.number)
        self._next = self._segments[-1].number + 1 if self._segments else 1
        for segment in self._segments:
            self.index.add(segment.entries)

    async def remember(self, entry: TombstoneEntry) -> None:
        """Store the tombstone (record of a closed job) in `entry` durably.

        Tombstones that arrive during a write share the next write.
        """
        if self._has(entry):
            return
        self._unwritten.append(entry)
        try:
            async with self._lock:
                while self._is_unwritten(entry):
                    await self._flush()
        finally:
            if self._is_unwritten(entry):  # it failed: the caller will retry
                self._unwritten = [waiting_entry for waiting_entry in self._unwritten if waiting_entry is not entry]

    def _is_unwritten(self, entry: TombstoneEntry) -> bool:
        return any(waiting_entry is entry for waiting_entry in self._unwritten)

    def _has(self, entry: TombstoneEntry) -> bool:
        if entry.record_uid:
            return entry.record_uid in self.index.closed
        # The record is gone: either an earlier try closed it, or it never existed.
        present = self.index.by_key.get(entry.tombstone.idempotency_key)
        return present is not None and attrs.evolve(present, closed_at="") == attrs.evolve(
            entry.tombstone, closed_at=""
        )

    async def _flush(self) -> None:
        batch = self._unwritten[:_AT_ONCE]
        for _ in range(_TRIES):
            if await self._write(batch):
                written = {id(entry) for entry in batch}
                self._unwritten = [entry for entry in self._unwritten if id(entry) not in written]
                return
        raise Unavailable("the tombstones are being written by somebody else too: is a second operator at work?")

    async def _write(self, batch: list[TombstoneEntry]) -> bool:
        """Try once to write the tombstones (records of closed jobs) in `batch`.

        Return False if another writer had changed the log, so that the batch must be tried again.
        """
        last = self._segments[-1] if self._segments else None
        if last is not None and last.version is None and not await self._reread(last):
            return False
        if last is None or self._is_full(last, batch):
            return await self._begin_segment(batch)
        known = set(last.entries)
        # An earlier try, whose answer was lost, may have written them.
        fresh = [entry for entry in batch if entry not in known or not self.index.counts(entry)]
        return not fresh or await self._extend(last, fresh)

    def _is_full(self, last: Segment, batch: list[TombstoneEntry]) -> bool:
        if not last.entries:
            return False
        together = [*last.entries, *batch]
        return len(together) > self._size or len(encoded(together)) > SEGMENT_BYTES

    async def _extend(self, last: Segment, fresh: list[TombstoneEntry]) -> bool:
        entries = [*last.entries, *fresh]
        manifest = segment_manifest(self._namespace, last.number, encoded(entries), last.version or "")
        last.version = None
        try:
            written = await self._api.update(manifest, kind=SECRET, field_manager=FIELD_MANAGER)
        except (Stale, NotFound):
            return False
        last.version, last.entries = str(written["metadata"]["resourceVersion"]), entries
        self.index.add(fresh)
        return True

    async def _begin_segment(self, batch: list[TombstoneEntry]) -> bool:
        manifest = segment_manifest(self._namespace, self._next, encoded(batch))
        try:
            made = await self._api.create(manifest, kind=SECRET, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            await self._adopt()
            return False
        self._append(made)
        await self._prune()
        return True

    async def _adopt(self) -> None:
        """Read the next segment (a Secret of the log) and add it to the log, after a create found that the segment
        exists.

        Another writer created it, or this writer did in an earlier try that was not answered.
        """
        name = segment_name(self._next)
        try:
            self._append(await self._api.get(ObjectRef(SECRET, self._namespace, name)))
        except NotFound:
            return
        except Permanent:
            self._report(f"Secret {self._namespace}/{name} is not used: it is in the way of the tombstones")
            self._next += 1

    def _append(self, secret: Manifest) -> None:
        segment = read_segment(secret) if role_of(secret) else None
        if not isinstance(segment, Segment):
            raise Permanent("not a segment")
        self._segments.append(segment)
        self._next = segment.number + 1
        self.index.add(segment.entries)

    async def _reread(self, last: Segment) -> bool:
        """Read the segment `last` (a Secret of the log) again, after an unanswered write or a write by another process.

        Return False if the segment cannot be used: its Secret holds something else, or was created again by another
        process.
        """
        try:
            segment = read_segment(await self._api.get(ObjectRef(SECRET, self._namespace, last.name)))
        except NotFound:
            return await self._restore(last)
        if not isinstance(segment, Segment):
            self._report(f"Secret {self._namespace}/{last.name} is not used any more: {segment.why}")
            self._segments.pop()
            return False
        known = set(last.entries)
        fresh = [entry for entry in segment.entries if entry not in known]
        self.index.add(fresh)
        last.entries, last.version = [*last.entries, *fresh], segment.version
        return True

    async def _restore(self, last: Segment) -> bool:
        """Create the segment `last` (a Secret of the log) again with its known content, after another client deleted
        it.

        Return False if the segment exists.
        """
        manifest = segment_manifest(self._namespace, last.number, encoded(last.entries))
        try:
            made = await self._api.create(manifest, kind=SECRET, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            return False
        last.version = str(made["metadata"]["resourceVersion"])
        return True

    async def _prune(self) -> None:
        """Delete each segment (a Secret of the log) of which all tombstones (records of closed jobs) are outdated.

        If a segment cannot be deleted now, that is tried again when the next segment begins.
        """
        gone, early = outdated(self._segments, self._keep, self._remembered)
        if early:
            self._report(f"{early} tombstones are forgotten early: there are more than {self._remembered} of a month")
        for segment in gone:
            try:
                await self._api.delete(ObjectRef(SECRET, self._namespace, segment.name))
            except NotFound:
                pass
            except OperatorError as error:
                self._report(f"Secret {self._namespace}/{segment.name} cannot be removed yet: {error.message}")
                return
            self._segments.remove(segment)
            self.index.forget(segment.entries)
