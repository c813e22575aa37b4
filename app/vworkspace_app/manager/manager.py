"""The manager: caches, controllers and optionally the agent of one operator process, on ports alone.

Production, the demo, the tests and programs that embed the operator run this; only `production` knows adapters. Start
order: informers, then reconciles once every cache has synced and this process is elected, then the agent: a job is
applied only when the operator can see its effect.
"""

import random as random_source
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial

import anyio
import attrs
import structlog

from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from purekube.composites.composite import Composite
from purekube.controller.informer.changes import CacheChange
from purekube.controller.queue.event_handlers import (
    KeysOf,
    Urgency,
    UrgencyOf,
    at_once,
    itself,
    verdict_first,
    what_is_begun,
)
from purekube.controller.queue.read_your_writes import ObjectVersion
from purekube.controller.queue.workqueue import Priority, WorkQueue
from purekube.ports import Clock, KubeApi
from purekube_run.composites.running import CompositeOptions, Composites
from purekube_run.controller.blocked_pass import BlockedPassReporter
from purekube_run.controller.definitions import wake_when_served
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.controller.informers import Informers
from purekube_run.controller.resync import resync
from purekube_run.controller.worker_pool import Reconcile, WorkerPool
from purekube_run.reconcilers.running import ControllerOptions, Controllers, GivenController
from vworkspace_app.clusters.controller import ClusterController, ClusterSettings, by_spec
from vworkspace_app.credentials.live import Live
from vworkspace_app.instances.controller import InstanceController
from vworkspace_app.manager.agent import AgentOptions, ManagedAgent
from vworkspace_app.manager.caches import AWAITED_KINDS, ENGINE_KINDS, FLUX_KINDS, CacheScope, informer_of, informers_of
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_app.manager.telemetry import Components, LogOnly, Telemetry
from vworkspace_app.operations.controller import ApprovalChecks, OperationController
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION, OWN_KINDS
from vworkspace_core.api.remedies import crds_remedy, not_permitted, remedy
from vworkspace_core.clusters.controllers import IN_A_ROW
from vworkspace_core.credentials.secret import Credentials
from vworkspace_core.instances.blocked_pass import INSTANCE_WORDS
from vworkspace_core.operations.blocked_pass import OPERATION_WORDS

_log = structlog.get_logger("operator")

_QUEUE_NEWS = Urgency(after=2.0)
"""The delay before an Operation's status reports a shorter queue: a long queue is not read again at each step."""

_STUCK_SECONDS = 10.0
"""The interval at which a slow start is checked."""


_BLOCKED_WORDS = {words.kind: words for words in (INSTANCE_WORDS, OPERATION_WORDS)}


async def elected_at_once() -> None:
    """Return at once: without an election, this process leads."""


@attrs.frozen
class Election:
    """The part of leader election that the manager needs; the default is no election, and every write passes.

    `elected` returns once this process may write. `leases` names the Leases that it is a candidate for, and whether it
    holds them. `before_write` raises when this process may no longer write; the client of the API server calls it.
    """

    elected: Callable[[], Awaitable[None]] = elected_at_once
    leases: Callable[[], tuple[tuple[str, bool], ...]] = tuple
    before_write: Callable[[], None] = lambda: None


class Manager:
    """One operator process on `api`, under `clock`. Construct it in the event loop that runs it.

    With `agent` it pulls jobs; without, it reconciles what people and GitOps tools apply, and calls no control plane
    (SEE-4). `credentials` are the live ones; without an agent only their approval secret is used. `composites` and
    `controllers` (reconcilers and watchers in Python) run in the same process. `random` gives numbers in [0, 1) for
    jitter. `ready` is set when the caches have synced. Each of several shards reconciles the objects in its own
    namespaces; only the first reports to the Cluster object, and only it may be given an agent.
    """

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        settings: OperatorSettings,
        *,
        agent: AgentOptions | None = None,
        credentials: Live[Credentials] | None = None,
        election: Election | None = None,
        telemetry: Telemetry | None = None,
        composites: Sequence[Composite] = (),
        controllers: Sequence[GivenController] = (),
        random: Callable[[], float] = random_source.random,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._election = election or Election()
        self._telemetry = telemetry or LogOnly()
        self._leading = False
        self.ready = anyio.Event()
        self.credentials = credentials or Live(Credentials())
        installed = settings.decisions.installation
        self.informers = Informers(informers_of(api, clock, random, _cache_scope(settings, agent), installed))
        self._run_id = f"{int(random() * 2**32):08x}"
        self.events = BackgroundEvents(api, clock, instance=settings.identity, is_backlogged=self._is_backlogged)
        self._blocked_passes = BlockedPassReporter(
            _BLOCKED_WORDS,
            api,
            self.informers,
            settings.decisions.cluster_id,
            clock,
            self.events,
            self._record_write,
            remedy=partial(remedy, installation=installed),
        )
        self._instances = InstanceController(
            api,
            self.informers,
            settings.decisions,
            clock,
            self.events,
            self._blocked_passes.report_unmanaged,
            on_write=self._record_write,
            is_backlogged=self._is_backlogged,
        )
        self._operations = OperationController(
            api,
            self.informers,
            settings.operations,
            clock,
            self.events,
            ApprovalChecks(
                lambda: self.credentials.current.approval_secret,
                self._skew,
                settings.required_bindings,
                settings.namespace,
            ),
            settings.templates,
            self._blocked_passes.report_unmanaged,
            on_write=self._record_write,
        )
        self._instance_driver = self._driver(
            "applicationinstance", self._instances.reconcile, WorkQueue(group_of=_namespace)
        )
        self._operation_driver = self._driver(
            "operation",
            self._operations.reconcile,
            WorkQueue(group_of=_namespace, exclusion_key=self._operations.exclusion_key),
        )
        self._subscribe()
        options = CompositeOptions(
            random,
            settings.workers,
            self._run_id,
            self._telemetry.observer,
            settings.shard,
            namespaces=settings.box_namespaces,
        )
        self._composites = Composites(api, clock, composites, self.events, options, shared=self.informers)
        self._controllers = Controllers(
            api,
            clock,
            controllers,
            self.events,
            ControllerOptions(random, self._run_id, self._telemetry.observer, settings.shard),
            shared=self.informers,
        )
        self._agent: ManagedAgent | None = None
        self._cluster: ClusterController | None = None
        if agent is not None:
            assert settings.shard.is_first, "one shard pulls jobs (RUN-13)"
            self._agent = ManagedAgent(
                agent,
                api,
                clock,
                settings,
                self.informers,
                self.credentials,
                random,
                on_change=self._tell_cluster,
                on_result=self._telemetry.job_ended,
            )
        self.credentials.subscribe(lambda _: self._approval_secret_changed())
        if settings.shard.is_first:
            self._cluster = ClusterController(
                api,
                self.informers,
                _cluster_settings(settings),
                clock,
                self.events,
                None if self._agent is None else self._agent.report,
                self.credentials,
                partial(self._driver, "cluster", workers=1),
            )

    @property
    def components(self) -> Components:
        """The parts that telemetry may look at."""
        agent = None if self._agent is None else self._agent.agent
        return Components(
            self.informers,
            self.worker_pools,
            self.events,
            self.credentials,
            agent,
            self._election.leases,
            self._settings.shard,
            (*self._composites.informers, *self._controllers.informers),
            self._composites.running,
            self._controllers.running,
        )

    @property
    def worker_pools(self) -> Mapping[str, WorkerPool]:
        """The worker pools by the name of their controller, as in metrics and logs."""
        own = {"applicationinstance": self._instance_driver, "operation": self._operation_driver}
        return {**own, **self._composites.worker_pools, **self._controllers.worker_pools}

    async def wait_ready(self) -> None:
        """Wait until every cache has synced."""
        await self.informers.wait_for_sync()

    async def run(self, stop: anyio.Event | None = None) -> None:
        """Work until cancelled; or until `stop`, and then until the work in progress is done (RUN-4)."""
        self._telemetry.attach(self.components)
        async with anyio.create_task_group() as group:
            group.start_soon(self._reconcile, name="controllers")
            group.start_soon(self._report, name="cluster status")
            group.start_soon(self._pull, name="agent")
            await (stop or anyio.Event()).wait()
            await self.finish()
            group.cancel_scope.cancel()

    async def finish(self) -> None:
        """Begin no further work, and wait for the reconciles and jobs in progress."""
        async with anyio.create_task_group() as group:
            for pool in self.worker_pools.values():
                group.start_soon(pool.finish)
            if self._agent is not None:
                group.start_soon(self._agent.finish)

    async def _reconcile(self) -> None:
        every = self._settings.resync_seconds
        async with anyio.create_task_group() as group:
            group.start_soon(self.informers.run, name="informers")
            group.start_soon(self.events.run, name="events")
            group.start_soon(self._composites.run, self._election.elected, name="composites")
            group.start_soon(self._controllers.run, self._election.elected, name="reconcilers and watchers")
            await self.wait_ready()
            self._log_missing_kinds()
            await self._election.elected()
            # A standby keeps no keys, which would only pile up: a new leader looks at every object, from warm caches.
            self._leading = True
            for driver, keys in (
                (self._instance_driver, self._instances.keys),
                (self._operation_driver, self._operations.keys),
            ):
                for key in keys():
                    driver.enqueue(key, priority=Priority.BACKGROUND)
                group.start_soon(driver.run, name="driver")
                group.start_soon(partial(resync, driver, keys, clock=self._clock, every=every), name="resync")

    async def _report(self) -> None:
        """Report to the Cluster object, even while caches cannot sync: its status says what is missing."""
        if self._cluster is None:
            return
        await self._wait_ready_or_stuck()
        await self._election.elected()
        await self._cluster.run()

    async def _pull(self) -> None:
        await self.wait_ready()
        self.ready.set()
        if self._agent is not None:
            await self._election.elected()
            await self._agent.run()

    async def _wait_ready_or_stuck(self) -> None:
        """Wait until every cache has synced, or until one keeps failing and the Cluster can report it."""
        async with anyio.create_task_group() as group:

            async def first(wait: Callable[[], Awaitable[None]]) -> None:
                await wait()
                group.cancel_scope.cancel()

            group.start_soon(first, self.wait_ready)
            group.start_soon(first, self._wait_stuck)

    async def _wait_stuck(self) -> None:
        await informer_of(self.informers, CLUSTER).wait_for_sync()
        while not all(informer.has_synced or informer.trouble()[1] >= IN_A_ROW for informer in self.informers):
            await self._clock.sleep(_STUCK_SECONDS)

    def _log_missing_kinds(self) -> None:
        _log.info("caches are settled", kinds=len(self.informers.stats()))
        missing = [kind.crd_name for kind in OWN_KINDS if self._is_missing(kind)]
        if missing:
            install = crds_remedy(self._settings.decisions.installation)
            _log.warning("definitions are not installed; waiting for them", missing=missing, install=install)
        absent = [kind.crd_name for kind in (*FLUX_KINDS, *ENGINE_KINDS) if self._is_missing(kind)]
        if absent:
            _log.info("engines not installed: " + ", ".join(absent), remark="each is used as soon as it is there")

    def _is_missing(self, kind: Kind) -> bool:
        return informer_of(self.informers, kind).missing

    def _driver(
        self, name: str, reconcile: Reconcile, queue: WorkQueue[ObjectRef] | None = None, *, workers: int | None = None
    ) -> WorkerPool:
        """Return a worker pool for the controller `name`, which sees its writes in the caches; the caller has to run
        it.
        """
        return WorkerPool(
            reconcile,
            clock=self._clock,
            workers=self._settings.workers if workers is None else workers,
            queue=queue,
            has_seen=self.informers.has_seen,
            refresh=self.informers.refresh,
            report_blocked=self._blocked_passes.report,
            not_permitted=partial(not_permitted, installation=self._settings.decisions.installation),
            observer=self._telemetry.observer(name),
            name=name,
            run_id=self._run_id,
            admits=lambda key: self._settings.shard.owns(key.namespace),
        )

    def _tell_cluster(self) -> None:
        if self._cluster is not None:
            self._cluster.look()

    def _record_write(self, key: ObjectRef, written: ObjectVersion) -> None:
        driver = self._instance_driver if key.kind == APPLICATION_INSTANCE else self._operation_driver
        driver.record_write(key, written)

    def _is_backlogged(self) -> bool:
        return any(pool.is_backlogged for pool in self.worker_pools.values())

    def _skew(self) -> timedelta:
        """Return how far the control plane's clock is ahead of ours (PULL-12)."""
        return timedelta(0) if self._agent is None else self._agent.agent.state.skew

    def _approval_secret_changed(self) -> None:
        """Enqueue every Operation that waits for its approval (OPS-4)."""
        for key in self._operations.awaiting_approval():
            self._operation_driver.enqueue(key, priority=Priority.URGENT)

    def _subscribe(self) -> None:
        """Subscribe the controllers to changes: for each kind, the keys that a change concerns."""
        instances, operations = self._instances, self._operations
        self._wake(self._instance_driver, (APPLICATION_INSTANCE,), itself)
        self._wake(
            self._instance_driver, (*FLUX_KINDS, CONFIG_MAP), instances.keys_of_downstream, urgency_of=verdict_first
        )
        self._wake(self._instance_driver, (OPERATION,), instances.keys_of_operation)
        self._wake(self._instance_driver, (NAMESPACE,), instances.keys_of_namespace)
        self._wake(self._instance_driver, (CLUSTER,), by_spec(instances.all_keys))
        self._wake(self._operation_driver, (OPERATION,), operations.keys_of_operation)
        self._wake(self._operation_driver, (OPERATION,), operations.keys_behind, urgency_of=lambda _: _QUEUE_NEWS)
        self._wake(self._operation_driver, ENGINE_KINDS, operations.keys_of_engine_object, urgency_of=what_is_begun)
        self._wake(self._operation_driver, AWAITED_KINDS, operations.keys_awaiting)
        self._wake(self._operation_driver, (APPLICATION_INSTANCE,), operations.keys_of_target)
        self._wake(self._operation_driver, (NAMESPACE,), operations.keys_of_namespace)
        informer_of(self.informers, CUSTOM_RESOURCE_DEFINITION).subscribe(wake_when_served(iter(self.informers)))
        definitions = (CUSTOM_RESOURCE_DEFINITION,)
        self._wake(self._instance_driver, definitions, _when_defined(FLUX_KINDS, instances.all_keys))
        self._wake(self._operation_driver, definitions, _when_defined(ENGINE_KINDS, operations.open_keys))

    def _wake(
        self, driver: WorkerPool, kinds: Iterable[Kind], keys_of: KeysOf, *, urgency_of: UrgencyOf = at_once
    ) -> None:
        handle = driver.handler(keys_of, urgency_of=urgency_of)

        def wake(change: CacheChange) -> None:
            if self._leading:
                handle(change)

        for kind in kinds:
            informer_of(self.informers, kind).subscribe(wake)


def _cache_scope(settings: OperatorSettings, agent: AgentOptions | None) -> CacheScope:
    """Return the scope of the caches: all our objects with an agent, which reports them; else those of the shard."""
    return CacheScope(settings.shard, settings.operations.velero_namespace, all_of_ours=agent is not None)


def _namespace(key: ObjectRef) -> str | None:
    return key.namespace


def _when_defined(kinds: Iterable[Kind], keys_of: KeysOf) -> KeysOf:
    """Return `keys_of` restricted to changes of the definitions of `kinds`."""
    names = {kind.crd_name for kind in kinds}
    return lambda change: keys_of(change) if change.ref.name in names else iter(())


def _cluster_settings(settings: OperatorSettings) -> ClusterSettings:
    return ClusterSettings(
        settings.decisions.cluster_id,
        settings.version,
        settings.credentials_secret,
        settings.disconnected_seconds,
        settings.unreachable_seconds,
        settings.decisions.policy,
        settings.every_opening,
        settings.require_signed,
        settings.decisions.installation,
    )
