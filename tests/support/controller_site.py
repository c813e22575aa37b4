"""A cluster in which controllers run as in a process, under virtual time: informers, queues, workers, Events (PH-7)."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any, Final

import anyio
import attrs
from structlog.testing import capture_logs

from kubelab.clock import VirtualClock
from kubelab.inprocess import InProcessKube
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Kind, ObjectRef, get_path
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, EVENT, NAMESPACE
from purekube.controller.shard import WHOLE, Shard
from purekube.reconcilers import Object, Resource, Watcher, resource
from purekube_kit.kube_apiserver import OPERATOR_USER
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.controller.runner import ManagerOptions
from purekube_run.reconcilers.extensions import ExtensionManager
from purekube_run.simulation.faults import WatchFaults
from tests.support.faulty_kube import FaultyKube
from tests.support.site import Site
from tests.support.virtual_time import run as run_in_virtual_time
from vworkspace_core.api.labels import FIELD_MANAGER

NS: Final = "team"
_OPERATOR: Final = Caller(OPERATOR_USER, agent="controllers/1")


@attrs.frozen
class ShopSpec:
    """A shop."""

    image: str = "web:1"
    replicas: int = 1


@attrs.frozen
class ShopStatus:
    """What came of it."""

    remote_id: str = ""
    seen: int = 0


Shop = Object[ShopSpec, ShopStatus]
SHOP: Final[Resource[ShopSpec, ShopStatus]] = resource("example.com", "v1", "Shop", ShopSpec, ShopStatus)


@attrs.define
class Audit(Watcher[Shop]):
    """Keeps what it is told."""

    kind = SHOP
    told: list[tuple[Any, ...]] = attrs.field(factory=list)

    async def on_add(self, new: Shop) -> None:
        self.told.append(("add", new.spec.replicas))

    async def on_sync(self, now: Shop) -> None:
        self.told.append(("sync", now.spec.replicas))

    async def on_update(self, old: Shop, new: Shop) -> None:
        self.told.append(("update", old.spec.replicas, new.spec.replicas))

    async def on_delete(self, last: Shop) -> None:
        self.told.append(("delete", last.spec.replicas))


@attrs.define
class ControllerSite(Site):
    """A site of controllers in Python, whose calls fail as `faults` says."""

    faults: FaultyKube
    server: ApiServer

    @asynccontextmanager
    async def running(
        self, *controllers: Any, elected_after: float = 0.0, shard: Shard = WHOLE
    ) -> AsyncIterator[ExtensionManager]:
        """Controllers at work while the block runs: a process that starts, and is gone without a word after it.

        It may write once it is elected, after so many seconds.
        """
        events = BackgroundEvents(self.api, self.clock, instance="test", field_manager=FIELD_MANAGER)
        options = ManagerOptions(Random(0).random, shard=shard)
        made = ExtensionManager(self.api, self.clock, events, options, controllers=controllers)
        async with anyio.create_task_group() as group:
            group.start_soon(events.run)
            group.start_soon(made.run, partial(self.clock.sleep, elected_after))
            await made.wait_ready()
            yield made
            group.cancel_scope.cancel()

    async def install(self, *resources: Resource[Any, Any]) -> None:
        """Their CRDs."""
        for one in resources:
            await self.admin.create(one.crd(), kind=CUSTOM_RESOURCE_DEFINITION, field_manager="setup")

    async def create(self, name: str = "shop", kind: Kind = SHOP.kind, **fields: Any) -> ObjectRef:
        """Somebody creates an object."""
        if kind == SHOP.kind:
            fields = {"spec": {}, **fields}
        await self.admin.create({**kind.manifest(name, NS), **fields}, kind=kind, field_manager="kubectl")
        return ObjectRef(kind, NS, name)

    async def finalizers(self, ref: ObjectRef) -> Sequence[str]:
        """Those of an object."""
        return get_path(await self.get(ref), "metadata", "finalizers") or ()

    async def events(self, reason: str = "") -> list[str]:
        """The notes of the Events of a reason."""
        page = await self.admin.list(EVENT)
        return [item["note"] for item in page.items if not reason or item["reason"] == reason]


def play(
    story: Callable[[ControllerSite], Awaitable[None]], *, rbac: bool = False, streams: WatchFaults | None = None
) -> None:
    """Run a story in a world of its own, with shops installed. `streams` are the faults of the controllers' watches."""

    async def main() -> None:
        clock = VirtualClock()
        server = ApiServer(now=clock.now, collects=True, rbac=rbac)
        admin = InProcessKube(server)
        faults = FaultyKube(InProcessKube(server, caller=_OPERATOR), streams=streams)
        site = ControllerSite(admin, faults, clock, faults, server)
        await site.install(SHOP)
        await admin.create(NAMESPACE.manifest(NS), kind=NAMESPACE, field_manager="setup")
        await story(site)

    with capture_logs():  # to render tracebacks is dearer than all the rest
        run_in_virtual_time(main)
