"""A cluster in which controllers run as in a process, under virtual time: informers, queues, workers, Events (PH-7)."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
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
from purekube.apimachinery.errors import NotFound
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, EVENT, NAMESPACE
from purekube.controller.shard import WHOLE, Shard
from purekube.ports import Clock, KubeApi, PatchType
from purekube.reconcilers import Resource, resource
from purekube_kit.kube_apiserver import OPERATOR_USER
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.controller.runner import ManagerOptions
from purekube_run.reconcilers.extensions import ExtensionManager
from purekube_run.simulation.faults import WatchFaults
from tests.support.faulty_kube import FaultyKube
from tests.support.patience import PATIENCE, pause_after
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


SHOP: Final[Resource[ShopSpec, ShopStatus]] = resource("example.com", "v1", "Shop", ShopSpec, ShopStatus)


@attrs.define
class ControllerSite:
    """`admin` is whoever acts, `api` what controllers run on, whose calls fail as `faults` says."""

    admin: KubeApi
    api: KubeApi
    clock: Clock
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

    async def edit(self, ref: ObjectRef, patch: Mapping[str, Any]) -> Manifest:
        """A merge patch by somebody."""
        return await self.admin.patch(ref, patch, patch_type=PatchType.MERGE, field_manager="kubectl-edit")

    async def get(self, ref: ObjectRef) -> Manifest | None:
        """An object; None where there is none."""
        try:
            return await self.admin.get(ref)
        except NotFound:
            return None

    async def condition(self, ref: ObjectRef, kind: str = "Ready") -> tuple[str, str, str]:
        """Status, reason and message of a condition; empty where it has none."""
        for condition in get_path(await self.get(ref), "status", "conditions") or ():
            if condition["type"] == kind:
                return condition["status"], condition["reason"], condition["message"]
        return "", "", ""

    async def finalizers(self, ref: ObjectRef) -> Sequence[str]:
        """Those of an object."""
        return get_path(await self.get(ref), "metadata", "finalizers") or ()

    async def events(self, reason: str = "") -> list[str]:
        """The notes of the Events of a reason."""
        page = await self.admin.list(EVENT)
        return [item["note"] for item in page.items if not reason or item["reason"] == reason]

    async def until(self, holds: Callable[[], Awaitable[Any]], within: float = PATIENCE) -> None:
        """Wait for something to come about. Raises TimeoutError."""
        began = self.clock.monotonic()
        with anyio.fail_after(within):
            while not await holds():
                await self.clock.sleep(pause_after(self.clock.monotonic() - began, 0.05))

    async def until_gone(self, ref: ObjectRef) -> None:
        """Wait until it is not there."""

        async def is_gone() -> bool:
            return await self.get(ref) is None

        await self.until(is_gone)

    async def until_ready(self, ref: ObjectRef, status: str = "True") -> None:
        """Wait for a status of Ready at the present generation."""

        async def says_so() -> bool:
            live = await self.get(ref)
            conditions = get_path(live, "status", "conditions") or ()
            return any(
                condition["type"] == "Ready"
                and condition["status"] == status
                and condition["observedGeneration"] == get_path(live, "metadata", "generation")
                for condition in conditions
            )

        await self.until(says_so)


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
