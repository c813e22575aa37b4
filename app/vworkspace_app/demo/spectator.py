"""The recorder of changes in the demo's cluster, which watches the API server over HTTP like any other client."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import anyio
import attrs

from kubelab.simulation.running import reflect
from purekube.apimachinery.manifest import Kind, Manifest
from purekube.apimachinery.resources import EVENT, HELM_RELEASE, OCI_REPOSITORY
from purekube.ports import KubeApi, WatchEvent, WatchEventType
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

PATIENCE: Final = 180.0
"""The time limit in seconds of a wait. It is generous, so that a busy machine does not exceed it."""

_RELIST_SECONDS: Final = 0.05

WATCHED = (APPLICATION_INSTANCE, OCI_REPOSITORY, HELM_RELEASE, EVENT)


class TooSlow(Exception):
    """The error raised when a change or a result did not occur within the time limit."""


@attrs.frozen
class Sighting:
    """A recorded change of an object: the type of the watch event, and the object after it.

    `at` is the time of the change in seconds since the demo started.
    """

    at: float
    kind: Kind
    type: WatchEventType
    object: Manifest


class Spectator:
    """A recorder of every change of the watched kinds, in order of arrival, for which a story can wait."""

    def __init__(
        self,
        api: KubeApi,
        started: float,
        kinds: Iterable[Kind] = WATCHED,
        namespace: str | None = None,
        patience: float = PATIENCE,
    ) -> None:
        """Prepare to watch `namespace`, or all namespaces if None.

        `started` is the monotonic time at which the demo started; `patience` is the time limit of waits in seconds.
        """
        self.patience = patience
        self._api = api
        self._kinds = tuple(kinds)
        self._started = started
        self._namespace = namespace
        self._changed = anyio.Event()
        self.sightings: list[Sighting] = []

    def elapsed(self) -> float:
        """Return the seconds since the demo started."""
        return time.monotonic() - self._started

    async def run(self) -> None:
        """Watch the cluster and record changes until cancelled."""
        pause = partial(anyio.sleep, _RELIST_SECONDS)
        follow = partial(reflect, namespace=self._namespace)
        async with anyio.create_task_group() as group:
            for kind in self._kinds:
                group.start_soon(follow, self._api, kind, _Notebook(self, kind), pause)

    def record(self, sighting: Sighting) -> None:
        """Record a change, and wake up all waits."""
        self.sightings.append(sighting)
        self._changed.set()

    async def until(self, desired: Callable[[Sighting], bool], what: str, *, since: int = 0) -> Sighting:
        """Return the first recorded change, from index `since` on, for which `desired` is true; wait for it if needed.

        Raises TooSlow after the time limit, with `what` in its message.
        """
        with anyio.move_on_after(self.patience):
            position = since
            while True:
                while position < len(self.sightings):
                    if desired(self.sightings[position]):
                        return self.sightings[position]
                    position += 1
                self._changed = anyio.Event()
                await self._changed.wait()
        raise TooSlow(f"{what}: not seen within {self.patience:g} seconds")


@attrs.frozen
class _Notebook:
    """The handler of the watch of one kind, which records each change.

    After a new list of the kind, all listed objects are recorded again.
    """

    spectator: Spectator
    kind: Kind

    def replace(self, items: Sequence[Manifest]) -> None:
        for manifest in items:
            self.handle(WatchEvent(WatchEventType.ADDED, manifest))

    def handle(self, event: WatchEvent) -> None:
        self.spectator.record(Sighting(self.spectator.elapsed(), self.kind, event.type, event.object))
