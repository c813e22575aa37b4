"""Wiring of the in-cluster operator, from ports alone: the same for production, the demo and simulations.

Start order: informers, then reconciles once every cache is settled, then the agent: a job is applied only when
the operator can see what comes of it.
"""

import random as random_source
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial

import anyio
import attrs
import structlog

from vworkspace_app.clusters.controller import by_spec
from vworkspace_app.controller.blocked_pass import BlockedPassReporter
from vworkspace_app.controller.definitions import poke_when_served
from vworkspace_app.controller.event_recorder import BackgroundEvents
from vworkspace_app.controller.informer import InformerRunner
from vworkspace_app.controller.informers import Informers
from vworkspace_app.controller.observer import LoggingObserver, ReconcileObserver
from vworkspace_app.controller.resync import resync
from vworkspace_app.controller.worker_pool import Reconcile, WorkerPool
from vworkspace_app.instances.controller import InstanceController
from vworkspace_app.manager.caches import AWAITED_KINDS, ENGINE_KINDS, FLUX_KINDS, informers_of
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_app.operations.controller import Approvals, OperationController
from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef
from vworkspace_core.apimachinery.resources import (
    APPLICATION_INSTANCE,
    CLUSTER,
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    NAMESPACE,
    OPERATION,
    OWN_KINDS,
)
from vworkspace_core.clusters.controllers import IN_A_ROW
from vworkspace_core.controller.informer.changes import Change
from vworkspace_core.controller.queue.event_handlers import KeysOf, WaitOf, itself, wait_for_progress, without_delay
from vworkspace_core.controller.queue.read_your_writes import ObjectVersion
from vworkspace_core.controller.queue.workqueue import Priority, WorkQueue
from vworkspace_core.instances.blocked_pass import decide_blocked_instance
from vworkspace_core.operations.blocked_pass import decide_blocked_operation
from vworkspace_core.ports import Clock, KubeApi

_log = structlog.get_logger("operator")

_INSTALL = "vworkspace-operator manifests --crds-only | kubectl apply --server-side -f -"
_QUEUE_NEWS_SECONDS = 2.0
"""How long what an Operation says of the one before it may be behind: a long queue is not read anew at each step."""

_STUCK_SECONDS = 10.0
"""How often a start that takes long is looked at."""

_DECIDE_BLOCKED = {APPLICATION_INSTANCE: decide_blocked_instance, OPERATION: decide_blocked_operation}


async def at_once() -> None:
    """Leads without an election."""


class Operator:
    """One operator process: caches, controllers and events on `api`, under `clock`.

    `approvals` says what approval claims are checked with; `random` gives numbers in [0, 1) for jitter; `observer`
    says who is told of the reconciles of a controller. `lead` returns when this process may write: until then it
    only keeps its caches warm (RUN-4).
    """

    def __init__(
        self,
        api: KubeApi,
        settings: OperatorSettings,
        clock: Clock,
        *,
        approvals: Approvals | None = None,
        random: Callable[[], float] = random_source.random,
        observer: Callable[[str], ReconcileObserver] = lambda controller: LoggingObserver(),
        lead: Callable[[], Awaitable[None]] = at_once,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._lead = lead
        self.informers = informers = Informers(informers_of(api, clock, random))
        self.events = BackgroundEvents(api, clock, instance=settings.identity)
        self.blocked_passes = BlockedPassReporter(
            _DECIDE_BLOCKED, api, informers, settings.decisions.cluster_id, clock, self.events
        )
        self.instances = InstanceController(
            api, informers, settings.decisions, clock, self.events, self.blocked_passes.report_unmanaged
        )
        self.operations = OperationController(
            api,
            informers,
            settings.operations,
            clock,
            self.events,
            attrs.evolve(
                approvals or Approvals(), required_bindings=settings.required_bindings, namespace=settings.namespace
            ),
            settings.templates,
            self.blocked_passes.report_unmanaged,
        )
        self._observer = observer
        self._run_id = f"{int(random() * 2**32):08x}"
        self.instance_driver = self.driver(
            "applicationinstance", self.instances.reconcile, WorkQueue(group_of=_namespace)
        )
        exclusion_key = self.operations.exclusion_key
        self.operation_driver = self.driver(
            "operation", self.operations.reconcile, WorkQueue(group_of=_namespace, exclusion_key=exclusion_key)
        )
        self.instances.wrote, self.operations.wrote = self.instance_driver.wrote, self.operation_driver.wrote
        self.blocked_passes.wrote = self._wrote
        self._leading = False
        self._subscribe()

    def driver(
        self, name: str, reconcile: Reconcile, queue: WorkQueue[ObjectRef] | None = None, *, workers: int | None = None
    ) -> WorkerPool:
        """A driver of a controller of that name, which reads what it wrote from the caches; somebody has to run it."""
        return WorkerPool(
            reconcile,
            clock=self._clock,
            workers=self._settings.workers if workers is None else workers,
            queue=queue,
            has_seen=self.informers.has_seen,
            refresh=self.informers.refresh,
            tell=self.blocked_passes.report,
            observer=self._observer(name),
            name=name,
            run_id=self._run_id,
        )

    def _wrote(self, key: ObjectRef, written: ObjectVersion) -> None:
        driver = self.instance_driver if key.kind == APPLICATION_INSTANCE else self.operation_driver
        driver.wrote(key, written)

    def on_own_objects(self, handler: Callable[[Change], None]) -> None:
        """Tell `handler` of every change of an ApplicationInstance or Operation; call before `run`."""
        for kind in (APPLICATION_INSTANCE, OPERATION):
            self._runner(kind).subscribe(handler)

    def own_objects(self) -> Iterator[Manifest]:
        """Every ApplicationInstance and Operation as the caches hold them."""
        for kind in (APPLICATION_INSTANCE, OPERATION):
            yield from self.informers.store(kind).objects()

    def approval_secret_changed(self) -> None:
        """Look again at every Operation that waits for its approval (OPS-4)."""
        for key in self.operations.awaiting_approval():
            self.operation_driver.enqueue(key, priority=Priority.URGENT)

    def on_clusters(self, handler: Callable[[Change], None]) -> None:
        """Tell `handler` of every change of a Cluster; call before `run`."""
        self._runner(CLUSTER).subscribe(handler)

    @property
    def drivers(self) -> Mapping[str, WorkerPool]:
        """The drivers by the name of their controller, as metrics and logs have it."""
        return {"applicationinstance": self.instance_driver, "operation": self.operation_driver}

    async def wait_ready(self) -> None:
        """Wait until every cache is settled."""
        await self.informers.wait_settled()

    async def wait_ready_or_stuck(self) -> None:
        """Wait until every cache is settled; or until one is not going to be by itself, and the Cluster can tell so."""
        async with anyio.create_task_group() as group:

            async def first(wait: Callable[[], Awaitable[None]]) -> None:
                await wait()
                group.cancel_scope.cancel()

            group.start_soon(first, self.wait_ready)
            group.start_soon(first, self._wait_stuck)

    async def _wait_stuck(self) -> None:
        await self._runner(CLUSTER).wait_settled()
        while not all(runner.settled or runner.trouble()[1] >= IN_A_ROW for runner in self.informers):
            await self._clock.sleep(_STUCK_SECONDS)

    async def run(self) -> None:
        """Run until cancelled."""
        every = self._settings.resync_seconds
        async with anyio.create_task_group() as group:
            group.start_soon(self.informers.run, name="informers")
            group.start_soon(self.events.run, name="events")
            await self.wait_ready()
            self._tell_settled()
            await self._lead()
            # A standby keeps no keys, which would only pile up: whoever begins looks at everything, from warm caches.
            self._leading = True
            for driver, keys in (
                (self.instance_driver, self.instances.keys),
                (self.operation_driver, self.operations.keys),
            ):
                for key in keys():
                    driver.enqueue(key, priority=Priority.BACKGROUND)
                group.start_soon(driver.run, name="driver")
                group.start_soon(partial(resync, driver, keys, clock=self._clock, every=every), name="resync")

    async def finish(self) -> None:
        """Reconcile nothing more, and wait for the reconciles in hand."""
        async with anyio.create_task_group() as group:
            for driver in self.drivers.values():
                group.start_soon(driver.finish)

    def _tell_settled(self) -> None:
        _log.info("caches are settled", kinds=len(self.informers.stats()))
        missing = [kind.crd_name for kind in OWN_KINDS if self._runner(kind).missing]
        if missing:
            _log.warning("definitions are not installed; waiting for them", missing=missing, install=_INSTALL)
        absent = [kind.crd_name for kind in (*FLUX_KINDS, *ENGINE_KINDS) if self._runner(kind).missing]
        if absent:
            _log.info("engines not installed: " + ", ".join(absent), remark="each is used as soon as it is there")

    def _runner(self, kind: Kind) -> InformerRunner:
        runner = self.informers.find(kind)
        assert runner is not None, f"no informer of {kind.kind}"
        return runner

    def _subscribe(self) -> None:
        """What wakes what: the change of a kind, and the keys of each controller that it concerns."""
        instances, operations = self.instances, self.operations
        self._wake(self.instance_driver, (APPLICATION_INSTANCE,), itself)
        self._wake(
            self.instance_driver, (*FLUX_KINDS, CONFIG_MAP), instances.keys_of_downstream, wait_of=wait_for_progress
        )
        self._wake(self.instance_driver, (OPERATION,), instances.keys_of_operation)
        self._wake(self.instance_driver, (NAMESPACE,), instances.keys_of_namespace)
        self._wake(self.instance_driver, (CLUSTER,), by_spec(instances.all_keys))
        self._wake(self.operation_driver, (OPERATION,), operations.keys_of_operation)
        self._wake(self.operation_driver, (OPERATION,), operations.keys_behind, wait_of=lambda _: _QUEUE_NEWS_SECONDS)
        self._wake(self.operation_driver, ENGINE_KINDS, operations.keys_of_engine_object)
        self._wake(self.operation_driver, AWAITED_KINDS, operations.keys_awaiting)
        self._wake(self.operation_driver, (APPLICATION_INSTANCE,), operations.keys_of_target)
        self._wake(self.operation_driver, (NAMESPACE,), operations.keys_of_namespace)
        self._runner(CUSTOM_RESOURCE_DEFINITION).subscribe(poke_when_served(iter(self.informers)))
        definitions = (CUSTOM_RESOURCE_DEFINITION,)
        self._wake(self.instance_driver, definitions, _when_defined(FLUX_KINDS, instances.all_keys))
        self._wake(self.operation_driver, definitions, _when_defined(ENGINE_KINDS, operations.open_keys))

    def _wake(
        self, driver: WorkerPool, kinds: Iterable[Kind], keys_of: KeysOf, *, wait_of: WaitOf = without_delay
    ) -> None:
        handle = driver.handler(keys_of, wait_of=wait_of)

        def wake(change: Change) -> None:
            if self._leading:
                handle(change)

        for kind in kinds:
            self._runner(kind).subscribe(wake)


def _namespace(key: ObjectRef) -> str | None:
    return key.namespace


def _when_defined(kinds: Iterable[Kind], keys_of: KeysOf) -> KeysOf:
    """`keys_of` a definition that came or went, if it is one of `kinds`."""
    names = {kind.crd_name for kind in kinds}
    return lambda change: keys_of(change) if change.ref.name in names else iter(())
