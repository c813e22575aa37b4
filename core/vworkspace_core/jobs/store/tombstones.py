"""The log of tombstones (records of the control plane's closed jobs), as Secrets called segments (PULL-4). Pure.

Only the last segment grows:

    vworkspace-job-tombstones-00000001, -00000002, …    some hundred tombstones each, in the order of their arrival

A log needs one small write for all jobs that close together. It is deleted in whole segments: one that is older than a
month by the API server's own clock is deleted when a new segment is begun. No clock of this machine or of the control
plane takes part, so that neither can make the store forget.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final, TypeAlias

import attrs
import msgspec

from purekube.apimachinery.manifest import Manifest, canonical_json, metadata
from purekube.apimachinery.timestamps import parse_time
from vworkspace_core.jobs.job_store import Tombstone
from vworkspace_core.jobs.store.codec import (
    FORMAT,
    CorruptSecret,
    ForeignSecret,
    first_line,
    later_format,
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
    """Return two answers: the oldest segments, which may be deleted, and how many of their tombstones are not outdated.

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
        for tombstone in self._of(objects):
            self._rank(tombstone)

    def _of(self, objects: set[str]) -> Iterator[Tombstone]:
        return (tombstone for key, tombstone in self.by_key.items() if _object_key(key) in objects)

    def _rank(self, tombstone: Tombstone) -> None:
        name = _object_key(tombstone.idempotency_key)
        present = self.newest.get(name)
        if present is None or tombstone.generation >= present.generation:
            self.newest[name] = tombstone


def _object_key(key: str) -> str:
    return key.rpartition("@")[0].lower()
