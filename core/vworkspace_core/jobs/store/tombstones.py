"""The log of tombstones (records of the control plane's closed jobs), as Secrets called segments (PULL-4). Pure.

Only the last segment grows:

    vworkspace-job-tombstones-00000001, -00000002, …    some hundred tombstones each, in the order of their arrival

A log needs one small write for all jobs that close together. It is deleted in whole segments: one that is older than a
month by the API server's own clock is deleted when a new segment is begun. No clock of this machine or of the control
plane takes part, so that neither can make the store forget.

Several processes may write the log: `TombstoneLog` shares one write among the tombstones of several jobs (group
commit), and deletes the oldest Secrets (pruning).
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final, TypeAlias

import attrs
import msgspec

from purekube.apimachinery.errors import AlreadyExists, NotFound, OperatorError, Permanent, Stale, Unavailable
from purekube.apimachinery.manifest import Manifest, ObjectRef, canonical_json, metadata
from purekube.apimachinery.resources import SECRET
from purekube.apimachinery.timestamps import parse_time
from purekube.ports import KubeApi
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.jobs.job_store import Tombstone
from vworkspace_core.jobs.store.codec import (
    FORMAT,
    CorruptSecret,
    ForeignSecret,
    first_line,
    later_format,
    role_of,
    secret_manifest,
    value_of,
)

SEGMENT_ENTRIES: Final = 256
"""The most tombstones (records of closed jobs) in one segment, which is one Secret of the log."""
SEGMENT_BYTES: Final = 500_000
RETENTION: Final = timedelta(days=31)
"""The shortest time for which a tombstone is kept: the thirty days of PULL-4, and one for differences of clocks."""
MOST_TOMBSTONES: Final = 50_000
"""The most tombstones (records of closed jobs) to keep. Beyond them the oldest are deleted early and logged."""
_ROLE: Final = "tombstones"
_PREFIX: Final = "vworkspace-job-tombstones-"
_TRIES: Final = 4
_AT_ONCE: Final = 64


@attrs.frozen
class TombstoneEntry:
    """A tombstone (record of a closed job of the control plane), with the uid of the main Secret of the job's record.

    The uid identifies a record that a crash left after the job was closed.
    """

    tombstone: Tombstone
    record_uid: str


@attrs.define
class Segment:
    """One Secret of the log of tombstones (records of the control plane's closed jobs), which holds several tombstones.

    `version` is its resourceVersion, None while its content in the cluster is unknown.
    """

    number: int
    version: str | None
    created: datetime
    entries: list[TombstoneEntry] = attrs.field(repr=False)

    @property
    def name(self) -> str:
        """The name of the segment's Secret."""
        return segment_name(self.number)


SegmentSecret: TypeAlias = Segment | CorruptSecret | ForeignSecret


def segment_name(number: int) -> str:
    """Return the name of the Secret with this number in the log of tombstones (records of closed jobs).

    Names sort in the order of the numbers.
    """
    return f"{_PREFIX}{number:08d}"


def encoded(entries: Iterable[TombstoneEntry]) -> bytes:
    """Return `entries`, several tombstones (records of closed jobs), as the value of one Secret of the
    tombstone log.
    """
    rows = [[*_row(entry.tombstone), entry.record_uid] for entry in entries]
    return canonical_json({"v": FORMAT, "entries": rows})


def _row(tombstone: Tombstone) -> tuple[str, str, str, int, str]:
    return (
        tombstone.idempotency_key,
        tombstone.outcome,
        tombstone.object_uid,
        tombstone.generation,
        tombstone.closed_at,
    )


def segment_manifest(namespace: str, number: int, value: bytes, version: str = "") -> dict[str, Any]:
    """Return the Secret with this number of the log of tombstones (records of closed jobs), in `namespace`.

    `value` is its content. With `version`, a write replaces exactly that resourceVersion.
    """
    made = secret_manifest(namespace, segment_name(number), _ROLE, value)
    if version:
        made["metadata"]["resourceVersion"] = version
    return made


def read_segment(secret: Manifest) -> SegmentSecret:
    """Return the decoded content of a Secret of the log of tombstones (records of closed jobs).

    A Secret that is damaged, or of another format, gives a CorruptSecret or a ForeignSecret.
    """
    meta = metadata(secret)
    name = str(meta.get("name", ""))
    number = name.removeprefix(_PREFIX)
    try:
        if not name.startswith(_PREFIX) or not number.isdecimal():
            return ForeignSecret(name, "its name is none of a segment")
        value = msgspec.json.decode(value_of(secret, _ROLE))
        if (later := later_format(value)) is not None:
            return ForeignSecret(name, later)
        entries = [_entry(row) for row in value["entries"]]
        created = parse_time(str(meta.get("creationTimestamp")))
        return Segment(int(number), str(meta.get("resourceVersion", "")), created, entries)
    except (ValueError, TypeError, KeyError) as error:
        return CorruptSecret(name, first_line(error))


def _entry(row: Any) -> TombstoneEntry:
    key, outcome, uid, generation, closed_at, record_uid = row
    texts = (key, outcome, uid, closed_at, record_uid)
    if not all(isinstance(text, str) for text in texts) or not isinstance(generation, int):
        raise TypeError("an entry has a value of another type")
    return TombstoneEntry(Tombstone(key, outcome, uid, generation, closed_at), record_uid)


def outdated(segments: Sequence[Segment], keep: timedelta, remembered: int) -> tuple[list[Segment], int]:
    """Return a pair: the oldest segments, which may be deleted, and how many of their tombstones are not outdated.

    A segment is one Secret of the log of tombstones (records of closed jobs). A tombstone is outdated after `keep`.
    Younger segments may be deleted too while more than `remembered` tombstones are left. The creation time of the last
    segment serves as the present time.
    """
    gone: list[Segment] = []
    early, left = 0, sum(len(segment.entries) for segment in segments)
    for segment, follower in pairwise(segments):
        is_old = segments[-1].created - follower.created >= keep
        if not is_old and left <= remembered:
            break
        gone.append(segment)
        left -= len(segment.entries)
        early += 0 if is_old else len(segment.entries)
    return gone, early


@attrs.define
class TombstoneIndex:
    """An index of all stored tombstones (records of what the control plane's closed jobs have done).

    It finds a tombstone by its idempotency key (`by_key`), or by its object (`newest`); `closed` has the uids of
    the job records whose jobs have tombstones here. If several tombstones have the same key, the last of them counts.
    """

    by_key: dict[str, Tombstone] = attrs.field(factory=dict, repr=False)
    newest: dict[str, Tombstone] = attrs.field(factory=dict, repr=False)
    closed: set[str] = attrs.field(factory=set, repr=False)

    def add(self, entries: Iterable[TombstoneEntry]) -> None:
        """Add the tombstones (records of closed jobs) in `entries` to the index.

        A later one replaces an earlier one with the same idempotency key.
        """
        for entry in entries:
            tombstone = entry.tombstone
            self.by_key[tombstone.idempotency_key] = tombstone
            self._rank(tombstone)
            if entry.record_uid:
                self.closed.add(entry.record_uid)

    def counts(self, entry: TombstoneEntry) -> bool:
        """Report whether the tombstone (record of a closed job) of `entry` is still valid.

        It is no longer valid once a later tombstone with the same idempotency key has replaced it.
        """
        return self.by_key.get(entry.tombstone.idempotency_key) == entry.tombstone

    def forget(self, entries: Iterable[TombstoneEntry]) -> None:
        """Remove the tombstones (records of closed jobs) in `entries` from the index.

        A newer tombstone with the same idempotency key stays.
        """
        objects = set()
        for entry in entries:
            key = entry.tombstone.idempotency_key
            self.closed.discard(entry.record_uid)
            if self.by_key.get(key) is entry.tombstone:
                del self.by_key[key]
                objects.add(_object_key(key))
        for name in objects:
            self.newest.pop(name, None)
        for key, tombstone in self.by_key.items():
            if _object_key(key) in objects:
                self._rank(tombstone)

    def _rank(self, tombstone: Tombstone) -> None:
        if not tombstone.generation:
            return  # of a key without one, or without an effect
        name = _object_key(tombstone.idempotency_key)
        present = self.newest.get(name)
        if present is None or tombstone.generation >= present.generation:
            self.newest[name] = tombstone


def _object_key(key: str) -> str:
    return key.rpartition("@")[0].lower()


# --- the log of tombstones --------------------------------------------------------------------------------------------


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
