"""The recording of a cluster: a file with a head, then one line of JSON for each change of an object (SIM-3).

The recorder lists and watches the kinds that the command `run` watches, and Events, but no Secrets. It needs the rights
to get, list and watch them. In every object, secrets are masked before it is written: the module `masking` replaces
them by hashes. A truncated recording is read up to its last complete line.
"""

import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any, Final

import anyio
import attrs
import msgspec

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import EVENT
from purekube.apimachinery.timestamps import format_time, parse_time
from purekube.controller.informer.changes import CacheChange
from purekube.ports import Clock, KubeApi
from purekube_run.controller.informer import InformerRunner
from purekube_run.simulation.input_file import BadFile, Bounds, check_bounds, converted, decoded, read_bytes
from vworkspace_app import VERSION
from vworkspace_app.manager.operator_caches import informers_of
from vworkspace_app.simulation.masking import Masker
from vworkspace_app.simulation.run_history import SHOWN_KINDS
from vworkspace_core.api.kinds import ALL_KINDS, CLUSTER

FORMAT: Final = "vworkspace.io/recording/v1"
LARGEST: Final = 256 * 1024 * 1024
"""The maximum size of a recording in bytes; `record` ends before it would exceed that."""
MOST_CHANGES: Final = 500_000
LISTED: Final = "listed"
END: Final = "end"
_TYPES: Final = (LISTED, "added", "updated", "deleted")
_LONGEST: Final = 86_400.0 * 7
_HEAD_BYTES: Final = 4096
_KINDS: Final[Mapping[tuple[str, str], Kind]] = {
    (kind.api_version, kind.kind): kind for kind in (*ALL_KINDS, *SHOWN_KINDS, EVENT)
}
_NAME: Final = re.compile(r"[a-z0-9A-Z](?:[-._:a-zA-Z0-9]{0,251}[a-zA-Z0-9])?")


@attrs.frozen
class RecordingHead:
    """The first line of a recording: when it began, the cluster's id, and the version of the recorder."""

    format: str
    started: str
    cluster_id: str = ""
    version: str = ""


@attrs.frozen
class RecordedChange:
    """A line of a recording: the seconds since the recording began, the type of change, and the object.

    The type is `listed` for an object of the first list, and otherwise `added`, `updated` or `deleted`. The last line
    has the type `end` and no object.
    """

    at: float
    type: str
    object: dict[str, Any]


@attrs.frozen
class RecordedObject:
    """A recorded change of an object of a known kind.

    `manifest` is the object after the change, or None if it was deleted. `last` is the last known state of the object.
    `is_listed` is True if the object was in the first list of its kind, and thus existed before the recording.
    """

    at: float
    ref: ObjectRef
    manifest: Manifest | None
    last: Manifest
    is_listed: bool = False


@attrs.frozen
class Recording:
    """A recording that was read from a file: when it began, every change in order, and its length in seconds."""

    start: datetime
    cluster_id: str
    changes: tuple[RecordedObject, ...]
    seconds: float


def line_of(value: RecordingHead | RecordedChange) -> bytes:
    """Return a line of a recording's file, as JSON."""
    return msgspec.json.encode(attrs.asdict(value), order="sorted") + b"\n"


def is_recording(path: Path) -> bool:
    """Report whether a file is a recording, which its first line shows. Raises BadFile if the file cannot be read."""
    try:
        with path.open("rb") as file:
            first = file.readline(_HEAD_BYTES)
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        raise BadFile(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    return b'"vworkspace.io/recording/' in first


def read_recording(path: Path) -> Recording:
    """Return the recording in a file. Raises BadFile if the file is not a recording."""
    lines = read_bytes(path, LARGEST).split(b"\n")
    head: RecordingHead = converted(path, decoded(path, lines[0], "line 1: "), RecordingHead, "line 1: ")
    if head.format != FORMAT:
        raise BadFile(path, f"line 1: $.format: {head.format[:60]!r} is not {FORMAT}: another version recorded it")
    try:
        start = parse_time(head.started)
    except ValueError as error:
        raise BadFile(path, f"line 1: $.started: {error}") from error
    changes, seconds = list[RecordedObject](), 0.0
    for number, change in _changes(path, lines):
        seconds = change.at
        if change.type != END:
            changes.append(_object(path, number, change))
    return Recording(start, head.cluster_id or _only_cluster(changes), tuple(changes), seconds)


def _only_cluster(changes: list[RecordedObject]) -> str:
    """Return the cluster id of the recorded Cluster objects, or "" if there are none or several ids."""
    ids = {str(get_path(change.last, "spec", "clusterId") or "") for change in changes if change.ref.kind == CLUSTER}
    return ids.pop() if len(ids) == 1 else ""


def _changes(path: Path, lines: list[bytes]) -> Iterator[tuple[int, RecordedChange]]:
    before = 0.0
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        if number > MOST_CHANGES:
            raise BadFile(path, f"line {number}: there are more than {MOST_CHANGES:,} changes")
        if number == len(lines):
            return  # without its line end: the recording was cut off while it was written
        change: RecordedChange = converted(
            path, decoded(path, line, f"line {number}: "), RecordedChange, f"line {number}: "
        )
        check_bounds(path, change, {"at": Bounds(before, _LONGEST)}, f"line {number}: $.")
        before = change.at
        yield number, change


def _object(path: Path, number: int, change: RecordedChange) -> RecordedObject:
    manifest, meta = change.object, change.object.get("metadata")
    kind = _KINDS.get((str(manifest.get("apiVersion")), str(manifest.get("kind"))))
    if kind is None:
        raise BadFile(path, f"line {number}: $.object.kind: {str(manifest.get('kind'))[:60]!r} is of no recorded kind")
    if change.type not in _TYPES:
        raise BadFile(path, f"line {number}: $.type: {change.type[:60]!r} is none of {', '.join(_TYPES)}")
    for field in ("name", "namespace") if kind.namespaced else ("name",):
        name = meta.get(field) if isinstance(meta, dict) else None
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise BadFile(path, f"line {number}: $.object.metadata.{field}: {str(name)[:60]!r} is no name")
    where = metadata(manifest)
    ref = ObjectRef(kind, str(where["namespace"]) if kind.namespaced else None, str(where["name"]))
    present = None if change.type == "deleted" else manifest
    return RecordedObject(change.at, ref, present, manifest, change.type == LISTED)


_SYNC_SECONDS: Final = 60.0
"""The maximum seconds to wait for the first lists."""


def counts_text(counts: Mapping[ObjectRef, int]) -> str:
    """Return in words how many states of how many objects of each kind were recorded.

    `counts` has the number of recorded states of each object.
    """
    states: dict[str, list[int]] = {}
    for ref, number in sorted(counts.items()):
        states.setdefault(ref.kind.kind, []).append(number)
    told = (f"{sum(numbers):,} states of {len(numbers):,} {kind}" for kind, numbers in sorted(states.items()))
    return ", ".join(told) or "nothing"


@attrs.define
class ClusterRecorder:
    """The recorder of a cluster, which watches the cluster and calls `write` with each line of the recording's file."""

    api: KubeApi
    clock: Clock
    write: Callable[[bytes], object]
    counts: Counter[ObjectRef] = attrs.field(factory=Counter)
    """The number of recorded states of each object."""
    missing: list[str] = attrs.field(factory=list)
    """The kinds that could not be listed, each with the reason."""
    _began: float = 0.0
    _bytes: int = 0
    _full: anyio.Event = attrs.field(factory=anyio.Event)
    _masker: Masker = attrs.field(factory=lambda: Masker(secrets.token_bytes(32)))

    async def record(self, seconds: float, cluster_id: str = "") -> None:
        """Record the cluster for this number of seconds, or until the file is full.

        `cluster_id` is written to the head of the recording. Raises the errors of `KubeApi.list`.
        """
        self._began = self.clock.monotonic()
        head = RecordingHead(FORMAT, format_time(self.clock.now()), cluster_id, VERSION)
        self._put(line_of(head))
        random = Random(0)  # jitter of retries
        runners = [
            *informers_of(self.api, self.clock, random.random),
            InformerRunner(self.api, EVENT, clock=self.clock, random=random.random),
        ]
        for runner in runners:
            runner.subscribe(self._changed)
        async with anyio.create_task_group() as group:
            for runner in runners:
                group.start_soon(runner.run, name=f"record {runner.kind.kind}")
            with anyio.move_on_after(seconds):
                with anyio.move_on_after(min(seconds, _SYNC_SECONDS)):
                    for runner in runners:
                        await runner.wait_for_sync()
                await self._full.wait()
            self.missing = [f"{runner.kind.kind}: {runner.trouble()[0]}" for runner in runners if not runner.has_synced]
            group.cancel_scope.cancel()
        self._put(line_of(RecordedChange(self._seconds(), END, {})))

    def _seconds(self) -> float:
        return round(self.clock.monotonic() - self._began, 3)

    def _changed(self, change: CacheChange) -> None:
        kind = LISTED if change.initial else change.type.value
        manifest = {"apiVersion": change.ref.kind.api_version, "kind": change.ref.kind.kind, **change.object}
        line = line_of(RecordedChange(self._seconds(), kind, self._masker.masked(manifest)))
        if self._full.is_set() or self._bytes + len(line) > LARGEST or self.counts.total() + 2 >= MOST_CHANGES:
            self._full.set()
            return
        self.counts[change.ref] += 1
        self._put(line)

    def _put(self, line: bytes) -> None:
        self._bytes += len(line)
        self.write(line)
