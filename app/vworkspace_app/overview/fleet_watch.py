"""The objects of `status -w`: one watch per kind follows them, and a callback gets them after changes (SEE-1)."""

from collections.abc import Callable, Sequence
from typing import Final

import anyio

from purekube.apimachinery.errors import Expired, OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, ref_of
from purekube.apimachinery.resources import LEASE
from purekube.ports import KubeApi, WatchEventType
from vworkspace_app.install.names import NAME
from vworkspace_app.overview.reading import FLEET, OwnObjects, PermittedReader

_GATHER: Final = 0.2
"""The seconds for which further changes are awaited, to show them together."""
_PAUSE: Final = 1.0
"""The seconds before a failed watch is started again."""


class FollowedObjects:
    """The objects of the operator's own kinds and of the kinds in `boxes`, which watches keep up to date.

    `boxes` are kinds that boxes define. Only objects in `namespace` are included, or in all namespaces if it is None.
    """

    def __init__(self, api: KubeApi, namespace: str | None, system_namespace: str, boxes: Sequence[Kind] = ()) -> None:
        self._api = api
        self._kinds = (*FLEET, *boxes)
        self._namespace = namespace
        self._system_namespace = system_namespace
        self._objects: dict[ObjectRef, Manifest] = {}
        self._troubles: dict[Kind, str] = {}
        self._heard = anyio.Event()

    async def run(self, show: Callable[[OwnObjects], None]) -> None:
        """Call `show` with all objects, at first and after each change, until cancelled."""
        async with anyio.create_task_group() as group:
            for kind in self._kinds:
                group.start_soon(self._forever, kind)
            while True:
                await self._heard.wait()
                await anyio.sleep(_GATHER)
                self._heard = anyio.Event()
                show(await self._fleet())

    async def _fleet(self) -> OwnObjects:
        reader, name, leases = PermittedReader(self._api), NAME, tuple[Manifest, ...]()
        troubles = list(self._troubles.values())
        try:
            name, leases = await reader.leases(self._system_namespace)
        except OperatorError as error:  # the API server is away: the watches go on, and so does this
            troubles.append(f"{LEASE.plural}: {error.message}")
        objects = [
            (ref.kind, self._objects[ref]) for kind in self._kinds for ref in sorted(self._objects) if ref.kind == kind
        ]
        return OwnObjects(tuple(objects), leases, name, (*troubles, *reader.unreadable))

    async def _forever(self, kind: Kind) -> None:
        while True:
            await self._once(kind)
            await anyio.sleep(_PAUSE)

    async def _once(self, kind: Kind) -> None:
        try:
            await self._follow(kind)
        except Expired:
            return
        except OperatorError as error:
            self._troubles[kind] = f"{kind.plural}: {error.message}"
            self._heard.set()

    async def _follow(self, kind: Kind) -> None:
        """Watch a kind until the watch ends.

        Without a resourceVersion the watch begins with an event for each existing object.
        """
        self._objects = {ref: each for ref, each in self._objects.items() if ref.kind != kind}
        namespace = self._namespace if kind.namespaced else None
        self._heard.set()
        async for event in self._api.watch(kind, namespace=namespace):
            if self._troubles.pop(kind, ""):
                self._heard.set()
            match event.type:
                case WatchEventType.DELETED:
                    self._objects.pop(ref_of(event.object, kind), None)
                case WatchEventType.ADDED | WatchEventType.MODIFIED:
                    self._objects[ref_of(event.object, kind)] = event.object
                case WatchEventType.BOOKMARK:
                    continue
            self._heard.set()
