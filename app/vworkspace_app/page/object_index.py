"""The rows of the page's list of objects. They follow changes while the page is open, and are dropped afterwards.

If the page is not open, a change costs one comparison. This runs on the event loop that owns the caches.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

import anyio
import anyio.lowlevel

from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.controller.informer.changes import CacheChange
from purekube_run.controller.informer import InformerRunner
from vworkspace_core.overview.object_list import ListRow, row_of

_TOGETHER: Final = 32
"""The number of rows that are made before other tasks get a turn."""
IDLE_SECONDS: Final = 300.0


class ListIndex:
    """The rows of the page's list of objects, one for each object in `informers`. They are built at the first request.

    `is_watched` reports whether a browser has the page open. If none has for `idle` seconds, the rows are dropped.
    """

    def __init__(
        self, informers: Iterable[InformerRunner], is_watched: Callable[[], bool], idle: float = IDLE_SECONDS
    ) -> None:
        self._informers: defaultdict[Kind, list[InformerRunner]] = defaultdict(list)
        self._is_watched = is_watched
        self._idle = idle
        self._rows: dict[ObjectRef, ListRow] | None = None
        self._stale: dict[ObjectRef, None] = {}
        self._turn = anyio.Lock()
        self._sleep: asyncio.TimerHandle | None = None
        self.add(informers)

    def add(self, informers: Iterable[InformerRunner]) -> None:
        """Add the objects of further informers to the list.

        There may be several informers of one kind if each of them covers another namespace.
        """
        for runner in informers:
            self._informers[runner.kind].append(runner)
            runner.subscribe(self._changed)
            if self._rows is not None:
                self._stale |= dict.fromkeys(_refs(runner))

    def remove(self, informers: Iterable[InformerRunner]) -> None:
        """Remove the objects of these informers from the list."""
        for runner in informers:
            self._informers[runner.kind].remove(runner)
            runner.unsubscribe(self._changed)
            if self._rows is not None:
                self._stale |= dict.fromkeys(_refs(runner))

    async def rows(self) -> tuple[ListRow, ...]:
        """Return the rows of all objects that are in the caches now."""
        async with self._turn:
            if self._rows is None:
                self._rows = {}
                every = (runner for informers in self._informers.values() for runner in informers)
                self._stale = {ref: None for runner in every for ref in _refs(runner)}
            rows = self._rows
            while self._stale:
                for _ in range(min(_TOGETHER, len(self._stale))):
                    self._take(rows, self._stale.popitem()[0])
                await anyio.lowlevel.checkpoint()
            self._put_off_sleep()
            return tuple(rows.values())

    def _take(self, rows: dict[ObjectRef, ListRow], ref: ObjectRef) -> None:
        found = (runner.store.get(ref.namespace, ref.name) for runner in self._informers[ref.kind])
        manifest = next((each for each in found if each is not None), None)
        if manifest is None:
            rows.pop(ref, None)
        else:
            rows[ref] = row_of(ref.kind, manifest)

    def _changed(self, change: CacheChange) -> None:
        if self._rows is not None:
            self._stale[change.ref] = None

    def _put_off_sleep(self) -> None:
        if self._sleep is not None:
            self._sleep.cancel()
        self._sleep = asyncio.get_running_loop().call_later(self._idle, self._fall_asleep)

    def _fall_asleep(self) -> None:
        self._sleep = None
        if self._is_watched():
            self._put_off_sleep()
        else:
            self._rows, self._stale = None, {}


def _refs(runner: InformerRunner) -> list[ObjectRef]:
    return [ObjectRef(runner.kind, namespace or None, name) for namespace, name in runner.store.names()]
