"""A process with a reconciler and a watcher, a cluster, and everything that goes wrong between them (L27).

What calls are made is written down outside of the process, so that it outlives it. Time passes only in `run`.
"""

import asyncio
import itertools
from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any

import anyio
import attrs
import structlog

from kubelab.clock import VirtualClock, VirtualTimeLoop
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.errors import NotFound, OperatorError
from purekube.apimachinery.manifest import Manifest, ObjectRef, metadata
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from purekube.ports import PatchType
from purekube.reconcilers import Backoff, Object, Reconciler, Request, Result, Terminal, Watcher
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.controller.runner import ManagerOptions
from purekube_run.reconcilers.extensions import ExtensionManager
from tests.support.chaos_network import Killed, Network, Restarted, SlowKube
from tests.support.controller_site import NS, SHOP, ShopSpec, ShopStatus
from vworkspace_core.api.labels import FIELD_MANAGER

Shop = Object[ShopSpec, ShopStatus]

TOO_MANY = 13
"""So many replicas are refused for good."""
TIME_LIMIT = 20.0


@attrs.frozen
class Made:
    """A call that came to its end: who made it, what for, of which incarnation, and how it ended."""

    controller: str
    what: str
    uid: str
    image: str
    replicas: int
    ended: str


@attrs.define
class Witness:
    """Sees every call, of all processes."""

    world: "ControllerChaos"
    calls: list[Made] = attrs.field(factory=list)
    in_hand: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    wrongs: list[str] = attrs.field(factory=list)
    """What must never be."""
    begun: set[tuple[str, str]] = attrs.field(factory=set)
    slow: float = 0.0
    lingering: float = 0.0
    """Seconds that a call which is cancelled still takes."""
    failures: list[BaseException] = attrs.field(factory=list)

    async def call(self, controller: str, what: str, shop: Shop) -> None:
        """One call: it takes its time, and fails where it is told to."""
        uid, key = shop.metadata.uid, (controller, shop.metadata.name)
        finalizer = f"example.com/{controller}"
        self.in_hand[key] += 1
        if self.in_hand[key] > 1:
            self.wrongs.append(f"{key} is worked on twice at once")
        if what != "delete" and not any(name.startswith(finalizer) for name in shop.metadata.finalizers):
            self.wrongs.append(f"{key}: {what} without the finalizer")
        self.begun.add((controller, uid))
        ended = "cancelled"
        try:
            await self._take_time()
            if self.failures:
                ended = "failed"
                raise self.failures.pop(0)
            if shop.spec.replicas == TOO_MANY and what != "delete":
                ended = "terminal"
                raise Terminal("TooMany", "at most twelve")
            ended = "well"
        finally:
            self.in_hand[key] -= 1
            self.calls.append(Made(controller, what, uid, shop.spec.image, shop.spec.replicas, ended))

    async def _take_time(self) -> None:
        try:
            await asyncio.sleep(self.slow)
        except asyncio.CancelledError:
            if not self.world.process.network.dead:
                await asyncio.sleep(self.lingering)
            raise


@attrs.define
class Shops(Reconciler[Shop, int]):
    kind = SHOP
    timeout = TIME_LIMIT
    retry = Backoff(1.0, 30.0)
    witness: Witness

    async def reconcile(self, request: Request[Shop, int]) -> Result[int]:
        what = "delete" if request.deleting else "reconcile"
        await self.witness.call("shops", what, request.object)
        return Result(ShopStatus(request.object.spec.image, request.object.spec.replicas))


@attrs.define
class Audit(Watcher[Shop]):
    kind = SHOP
    timeout = TIME_LIMIT
    retry = Backoff(1.0, 30.0)
    witness: Witness

    async def on_add(self, new: Shop) -> None:
        await self.witness.call("audit", "add", new)

    async def on_sync(self, now: Shop) -> None:
        await self.witness.call("audit", "sync", now)

    async def on_update(self, old: Shop, new: Shop) -> None:
        await self.witness.call("audit", "update", new)

    async def on_delete(self, last: Shop) -> None:
        await self.witness.call("audit", "delete", last)


class Process(Killed):
    """One process of the controllers, the leader while it runs."""

    def __init__(self, world: "ControllerChaos") -> None:
        self.world = world
        self.network = Network(world.loop.now, self.die, lambda: None)
        self.kube = SlowKube(world.kube, self.network)
        self.main = world.loop.create_task(self._run())

    async def _run(self) -> None:
        world, clock = self.world, VirtualClock()
        events = BackgroundEvents(self.kube, clock, instance="chaos", field_manager=FIELD_MANAGER)
        options = ManagerOptions(Random(world.starts).random)
        controllers = [Shops(world.witness), Audit(world.witness)]
        made = ExtensionManager(self.kube, clock, events, options, controllers=controllers)
        async with anyio.create_task_group() as group:
            group.start_soon(made.run)
            group.start_soon(events.run)


class ControllerChaos(Restarted[Process]):
    """Everything around one cluster."""

    def __init__(self) -> None:
        structlog.configure(processors=[_nothing])
        self.loop = VirtualTimeLoop()
        self.kube = InProcessKube(ApiServer(now=self.loop.now, collects=True))
        self.witness = Witness(self)
        self.starts = 0
        self.deleted: set[str] = set()
        self._images = (f"web:{number}" for number in itertools.count(1))
        run_sync(self.kube.create(SHOP.crd(), kind=CUSTOM_RESOURCE_DEFINITION, field_manager="setup"))
        run_sync(self.kube.create(NAMESPACE.manifest(NS), kind=NAMESPACE, field_manager="setup"))
        self.process = self.run(self.start())

    async def start(self) -> Process:
        """A new process, which knows what is durable."""
        self.starts += 1
        return Process(self)

    # --- what people do ----------------------------------------------------------------------------------------------

    def find(self, name: str) -> Manifest | None:
        """An object as it stands."""
        try:
            return run_sync(self.kube.get(ObjectRef(SHOP.kind, NS, name)))
        except NotFound:
            return None

    def create(self, name: str) -> None:
        """Make a shop where there is none."""
        spec = {"image": next(self._images), "replicas": 1}
        manifest = {**SHOP.kind.manifest(name, NS), "spec": spec}
        with suppress(OperatorError):
            run_sync(self.kube.create(manifest, kind=SHOP.kind, field_manager="kubectl"))

    def edit(self, name: str, replicas: int) -> None:
        """Change its spec, if it is there."""
        self._patch(name, {"spec": {"image": next(self._images), "replicas": replicas}})

    def label(self, name: str, value: str) -> None:
        """Change its labels only."""
        self._patch(name, {"metadata": {"labels": {"value": value}}})

    def _patch(self, name: str, patch: Any) -> None:
        ref = ObjectRef(SHOP.kind, NS, name)
        with suppress(OperatorError):
            run_sync(self.kube.patch(ref, patch, patch_type=PatchType.MERGE, field_manager="kubectl-edit"))

    def delete(self, name: str) -> None:
        """Delete it, if it is there."""
        live = self.find(name)
        if live is not None:
            self.deleted.add(str(metadata(live)["uid"]))
            run_sync(self.kube.delete(ObjectRef(SHOP.kind, NS, name)))


def _nothing(logger: Any, name: str, line: Any) -> Any:
    raise structlog.DropEvent
