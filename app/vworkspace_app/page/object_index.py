"""The rows of the list of objects, kept up to date while the page is open, and dropped after an idle while.

An operator whose page is not open pays for one comparison per change. Runs on the loop that owns the caches.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import anyio
import anyio.lowlevel

from purekube.apimachinery.manifest import ObjectRef
from purekube.controller.informer.changes import CacheChange
from purekube_run.controller.informer import InformerRunner
from vworkspace_core.overview.object_list import ListRow, row_of

_TOGETHER: Final = 32
"""The number of rows that are made before other tasks get a turn."""
IDLE_SECONDS: Final = 300.0


class ListIndex:
    """An index of list rows for the objects in `informers`, built on demand.

    `is_watched` reports whether any browser has the page open.
    """

    def __init__(
        self, informers: Iterable[InformerRunner], is_watched: Callable[[], bool], idle: float = IDLE_SECONDS
    ) -> None:
        self._informers = {runner.kind: runner for runner in informers}
        self._is_watched = is_watched
        self._idle = idle
        self._rows: dict[ObjectRef, ListRow] | None = None
        self._stale: dict[ObjectRef, None] = {}
        self._turn = anyio.Lock()
        self._sleep: asyncio.TimerHandle | None = None
        for runner in self._informers.values():
            runner.subscribe(self._changed)

    async def rows(self) -> tuple[ListRow, ...]:
        """Return all rows, from the present content of the caches."""
        async with self._turn:
            if self._rows is None:
                self._rows = {}
                self._stale = {ref: None for runner in self._informers.values() for ref in _refs(runner)}
            rows = self._rows
            while self._stale:
                for _ in range(min(_TOGETHER, len(self._stale))):
                    self._take(rows, self._stale.popitem()[0])
                await anyio.lowlevel.checkpoint()
            self._put_off_sleep()
            return tuple(rows.values())

    def _take(self, rows: dict[ObjectRef, ListRow], ref: ObjectRef) -> None:
        manifest = self._informers[ref.kind].store.get(ref.namespace, ref.name)
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
