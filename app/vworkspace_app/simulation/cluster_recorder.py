"""The recorder of a real cluster: what the operator's own caches hold, and the Events, change by change (SIM-3).

It lists and watches what `run` does, and reads no Secret. It needs the rights to get, list and watch those kinds.
"""

import secrets
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

import anyio
import attrs

from purekube.apimachinery.resources import EVENT
from purekube.apimachinery.timestamps import format_time
from purekube.controller.informer.changes import CacheChange
from purekube.ports import Clock, KubeApi
from purekube_run.controller.informer import InformerRunner
from vworkspace_app import VERSION
from vworkspace_app.manager.caches import informers_of
from vworkspace_app.simulation.masking import Masker
from vworkspace_app.simulation.recording_file import (
    END,
    FORMAT,
    LARGEST,
    LISTED,
    MOST_CHANGES,
    RecordedChange,
    RecordingHead,
    line_of,
)

_SYNC_SECONDS: Final = 60.0
"""The longest time for which a first list is waited for."""


@attrs.define
class ClusterRecorder:
    """The recording of one cluster. `write` gets each line of the file."""

    api: KubeApi
    clock: Clock
    write: Callable[[bytes], object]
    counts: Counter[str] = attrs.field(factory=Counter)
    missing: list[str] = attrs.field(factory=list)
    """The kinds that could not be listed, each with the reason."""
    _began: float = 0.0
    _bytes: int = 0
    _full: anyio.Event = attrs.field(factory=anyio.Event)
    _masker: Masker = attrs.field(factory=lambda: Masker(secrets.token_bytes(32)))

    async def record(self, seconds: float, cluster_id: str = "") -> None:
        """Record for so many seconds, or until the file is full. Raises what `KubeApi.list` raises."""
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
        self.counts[change.ref.kind.kind] += 1
        self._put(line)

    def _put(self, line: bytes) -> None:
        self._bytes += len(line)
        self.write(line)
