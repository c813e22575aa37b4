"""The manager, which runs the caches, the controllers and optionally the job agent of one process.

Production, the demo, the tests and programs that embed the operator all use it; only the module `production` imports
adapters. The informers start first. The reconciles start once every cache has synced and this process is elected. The
agent starts last, since a job is applied only when the operator can see its effect.
"""

import random as random_source
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import anyio
import attrs
import structlog

from purekube.controller.queue.workqueue import Priority
from purekube.controller.reconcile_error import ReconcileErrorWords
from purekube.controller.shard import WHOLE
from purekube.ports import Clock, KubeApi
from purekube_run.controller.controller import ControllerDefinition, StatusManager
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.controller.informers import Informers
from purekube_run.controller.manager import ControllerManager, Election
from purekube_run.controller.observer import Observers, ReconcileObserver
from purekube_run.controller.runner import ManagerOptions
from purekube_run.controller.worker_pool import WorkerPool
from purekube_run.reconcilers.extensions import Extensions
from vworkspace_app.clusters.controller import ClusterReconciler, ClusterSettings
from vworkspace_app.credentials.live_credential import Live
from vworkspace_app.instances.controller import InstanceReconciler
from vworkspace_app.manager.agent import AgentOptions, ManagedAgent
from vworkspace_app.manager.operator_caches import CacheScope, informers_of
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_app.manager.telemetry import Components, LogOnly, Telemetry
from vworkspace_app.operations.controller import ENGINE_KINDS, ApprovalChecks, OperationReconciler
from vworkspace_core.api.installation import PRINTED
from vworkspace_core.api.kinds import CLUSTER, OWN_KINDS
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.api.own_status import OWN_STATUS
from vworkspace_core.api.reconcile_error import INSTANCE_WORDS, OPERATION_WORDS, words_in_cluster
from vworkspace_core.api.remedies import crds_remedy, not_permitted, remedy
from vworkspace_core.clusters.inventory import FLUX_KINDS, IN_A_ROW, AgentReport
from vworkspace_core.credentials.secret import Credentials
from vworkspace_core.overview.page_paths import page_link

if TYPE_CHECKING:
    from purekube.composites.composite import Composite
    from purekube.composites.status_writers import StatusWriter
    from purekube_run.boxes.applied_boxes import AppliedBoxes
    from purekube_run.reconcilers.controllers import GivenController
    from vworkspace_app.manager.notifier import DocumentReceiver, Notifier
    from vworkspace_app.manager.tracer import Tracer

_log = structlog.get_logger("operator")

_STUCK_SECONDS = 10.0
"""The interval in seconds at which a slow start is checked for a cache that keeps failing."""


class Manager:
    """The operator of one process, on the API server `api`. Create it in the event loop that runs it.

    With `agent` it pulls jobs. Without one it reconciles what users and GitOps tools apply, and calls no control plane
    (SEE-4). `credentials` may change while it runs; without an agent only their approval secret is used. `composites`
    (boxes and pure reconcilers) and `controllers` (reconcilers and watchers in Python) run in the same process. Applied
    boxes, which users apply to the cluster as OperatorBoxes, run if the settings enable them. An applied box is refused
    if its kind's status is written by a composite or by one of `writers`, the other controllers with a status. `random`
    returns numbers in [0, 1) for jitter. `receiver` gets notices about objects that need a person's attention, and
    `collector` gets the spans of traces. Without them, none are sent. `ready` is set when the caches have synced. If
    there are several shards, each reconciles the objects in its own namespaces; only the first shard reports to the
    Cluster object and may have an agent.
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
        receiver: "DocumentReceiver | None" = None,
        collector: "DocumentReceiver | None" = None,
        composites: "Sequence[Composite]" = (),
        controllers: "Sequence[GivenController]" = (),
        writers: "Sequence[StatusWriter]" = (),
        random: Callable[[], float] = random_source.random,
    ) -> None:
        self._settings = settings
        self._api = api
        self._clock = clock
        self._election = election or Election()
        self._telemetry = telemetry or LogOnly()
        self.ready = anyio.Event()
        self.credentials = credentials or Live(Credentials())
        installed = settings.decisions.installation
        self.informers = Informers(informers_of(api, clock, random, _cache_scope(settings, agent), installed))
        run_id = f"{int(random() * 2**32):08x}"
        self.events = BackgroundEvents(
            api,
            clock,
            instance=settings.identity,
            field_manager=FIELD_MANAGER,
            is_backlogged=self._is_backlogged,
            link=partial(page_link, settings.page_url),
        )
        self._tracer = None if collector is None else self._tracer_to(collector, random)
        options = ManagerOptions(
            random,
            settings.workers,
            run_id,
            self._observer,
            settings.shard,
            namespaces=settings.box_namespaces,
        )
        self._extensions = Extensions.of(api, clock, self.events, options, self.informers, composites, controllers)
        self._operations = self._operation_reconciler(api)
        own = self._own_controllers(api, None if agent is None else self._agent_report)
        every = (*own, *self._extensions.controllers(self.events, options))
        self._controllers = ControllerManager(api, clock, every, self.events, self.informers, options)
        self._managers: tuple[ControllerManager, ...] = (self._controllers,)
        runs_applied = settings.runs_applied_boxes
        self._applied = self._applied_boxes(api, options, composites, writers) if runs_applied else None
        # Its handlers of changes come after those that enqueue keys.
        self._agent = None if agent is None else self._managed_agent(api, agent, random)
        self._notifier = None if receiver is None else self._notifier_to(receiver, random)
        self.credentials.subscribe(lambda _: self._approval_secret_changed())
        self.credentials.subscribe(lambda _: self._report_again())

    def _applied_boxes(
        self,
        api: KubeApi,
        options: ManagerOptions,
        composites: "Sequence[Composite]",
        writers: "Sequence[StatusWriter]",
    ) -> "AppliedBoxes":
        """Return the runner of applied boxes, which are boxes that users applied as OperatorBox objects.

        A second manager is added to this process for them, because they run in the namespaces of every shard.
        """
        from purekube.composites.composite import status_writer  # boxes need 5 MB, and most operators run none
        from purekube_run.boxes.applied_boxes import AppliedBoxes, AppliedInstallation
        from purekube_run.reconcilers.extensions import ExtensionManager

        taken = (*writers, *map(status_writer, composites))
        clock, whole = self._clock, attrs.evolve(options, shard=WHOLE)
        manager = ExtensionManager(api, clock, self.events, whole, namespaces=True)
        namespace = self._settings.namespace
        place = "" if namespace == PRINTED.namespace else f" --system-namespace {namespace}"
        command = f"vworkspace-operator manifests --applied-boxes --rbac-only{place}"
        account, served = f"--service-account {FIELD_MANAGER}{place}", self._settings.serves_webhooks
        installed = AppliedInstallation(account, command, served)
        applied = AppliedBoxes(api, clock, self.events, manager, whole, namespace, taken, installed)
        manager.load(applied.controller())
        self._managers = (*self._managers, manager)
        return applied

    def _notifier_to(self, receiver: "DocumentReceiver", random: Callable[[], float]) -> "Notifier":
        from vworkspace_app.manager.notifier import Notifier

        settings = self._settings
        return Notifier(
            receiver,
            self.informers,
            self._clock,
            random,
            cluster=settings.decisions.cluster_id,
            shard=settings.shard,
            page_url=settings.page_url,
        )

    def _tracer_to(self, collector: "DocumentReceiver", random: Callable[[], float]) -> "Tracer":
        from vworkspace_app.manager.tracer import Tracer  # few operators send traces

        settings = self._settings
        return Tracer(
            collector,
            self.informers,
            self._clock,
            random,
            cluster=settings.decisions.cluster_id,
            shard=settings.shard,
            version=settings.version,
        )

    def _observer(self, controller: str) -> ReconcileObserver:
        observer = self._telemetry.observer(controller)
        return observer if self._tracer is None else Observers((observer, self._tracer))

    def _managed_agent(self, api: KubeApi, agent: AgentOptions, random: Callable[[], float]) -> ManagedAgent:
        assert self._settings.shard.is_first, "one shard pulls jobs (RUN-13)"
        return ManagedAgent(
            agent,
            api,
            self._clock,
            self._settings,
            self.informers,
            self.credentials,
            random,
            on_change=self._report_again,
            on_result=self._telemetry.job_ended,
            on_step=None if self._tracer is None else self._tracer.agent_stepped,
        )

    def _operation_reconciler(self, api: KubeApi) -> OperationReconciler:
        settings = self._settings
        approvals = ApprovalChecks(
            lambda: self.credentials.current.approval_secret, self._skew, settings.required_bindings, settings.namespace
        )
        return OperationReconciler(
            api, self.informers, settings.operations, self._clock, self.events, approvals, settings.templates
        )

    def _own_controllers(
        self, api: KubeApi, report: Callable[[], AgentReport] | None
    ) -> Iterator[ControllerDefinition]:
        settings, resync = self._settings, self._settings.resync_seconds
        instances = InstanceReconciler(
            api,
            self.informers,
            settings.decisions,
            self._clock,
            self.events,
            self._operations.orphaning,
            self._is_backlogged,
        )
        yield instances.controller(_writer(settings, INSTANCE_WORDS), settings.workers, resync)
        yield self._operations.controller(_writer(settings, OPERATION_WORDS), settings.workers, resync)
        if settings.shard.is_first:
            clusters = ClusterReconciler(
                api, self.informers, _cluster_settings(settings), self._clock, self.events, report, self.credentials
            )
            # Its status says what is missing, even while caches cannot sync.
            yield clusters.controller(_writer(settings, None), self._wait_ready_or_stuck)

    @property
    def components(self) -> Components:
        """The parts of the process that metrics and the web page observe."""
        agent = None if self._agent is None else self._agent.agent
        return Components(
            self.informers,
            self._managers,
            self._extensions,
            self.events,
            self.credentials,
            agent,
            self._election.leases,
            self._settings.shard,
            self._applied,
            self._api,
        )

    @property
    def worker_pools(self) -> Mapping[str, WorkerPool]:
        """The worker pools by controller name, as in metrics and logs."""
        return self.components.worker_pools

    async def wait_ready(self) -> None:
        """Wait until every cache of this process has synced."""
        await self.informers.wait_for_sync()

    async def run(self, stop: anyio.Event | None = None) -> None:
        """Run until cancelled, or until `stop` is set and running work is done (RUN-4)."""
        self._telemetry.attach(self.components)
        async with self._extensions.lifespan(), anyio.create_task_group() as group:
            for manager in self._managers:
                manager.start(group, self._election.elected)
            group.start_soon(self.events.run, name="events")
            group.start_soon(self._pull, name="agent")
            if self._notifier is not None:
                group.start_soon(self._notifier.run, self._wait_ready_and_elected, name="notices")
            if self._tracer is not None:
                group.start_soon(self._tracer.run, self._wait_ready_and_elected, name="traces")
            await (stop or anyio.Event()).wait()
            await self.finish()
            group.cancel_scope.cancel()

    async def finish(self) -> None:
        """Begin no further reconcile or job, and wait for the running ones."""
        async with anyio.create_task_group() as group:
            for manager in self._managers:
                group.start_soon(manager.finish)
            if self._agent is not None:
                group.start_soon(self._agent.finish)

    async def _pull(self) -> None:
        await self.wait_ready()
        self._log_missing_kinds()
        self.ready.set()
        if self._agent is not None:
            await self._election.elected()
            await self._agent.run()

    async def _wait_ready_and_elected(self) -> None:
        await self.wait_ready()
        await self._election.elected()

    async def _wait_ready_or_stuck(self) -> None:
        """Wait until every cache has synced, or until one keeps failing, so that the Cluster object can report the
        failure.
        """
        async with anyio.create_task_group() as group:

            async def first(wait: Callable[[], Awaitable[None]]) -> None:
                await wait()
                group.cancel_scope.cancel()

            group.start_soon(first, self.wait_ready)
            group.start_soon(first, self._wait_stuck)

    async def _wait_stuck(self) -> None:
        await self.informers[CLUSTER].wait_for_sync()
        while not all(informer.has_synced or informer.trouble()[1] >= IN_A_ROW for informer in self.informers):
            await self._clock.sleep(_STUCK_SECONDS)

    def _log_missing_kinds(self) -> None:
        _log.info("caches are settled", kinds=len(self.informers.stats()))
        missing = [runner.kind.crd_name for runner in self.informers.of(*OWN_KINDS) if runner.missing]
        if missing:
            install = crds_remedy(self._settings.decisions.installation)
            _log.warning("definitions are not installed; waiting for them", missing=missing, install=install)
        engines = self.informers.of(*FLUX_KINDS, *ENGINE_KINDS)
        absent = [runner.kind.crd_name for runner in engines if runner.missing]
        if absent:
            _log.info("engines not installed: " + ", ".join(absent), remark="each is used as soon as it is there")

    def _agent_report(self) -> AgentReport:
        assert self._agent is not None
        return self._agent.report()

    def _report_again(self) -> None:
        """Enqueue the Cluster objects, because their status may have to change."""
        self._controllers.enqueue_all("cluster")

    def _is_backlogged(self) -> bool:
        return self._controllers.is_backlogged

    def _skew(self) -> timedelta:
        """Return how far the control plane's clock is ahead of the operator's (PULL-12)."""
        return timedelta(0) if self._agent is None else self._agent.agent.state.skew

    def _approval_secret_changed(self) -> None:
        """Enqueue every Operation that waits for its approval (OPS-4)."""
        for key in self._operations.awaiting_approval():
            self._controllers.enqueue("operation", key, priority=Priority.URGENT)


def _cache_scope(settings: OperatorSettings, agent: AgentOptions | None) -> CacheScope:
    """Return the scope of the caches: the namespaces of this process's shard.

    With an agent, the objects of the operator's own kinds are cached in all namespaces.
    """
    return CacheScope(settings.shard, settings.operations.velero_namespace, all_of_ours=agent is not None)


def _writer(settings: OperatorSettings, words: ReconcileErrorWords | None) -> StatusManager:
    installation = settings.decisions.installation
    return StatusManager(
        OWN_STATUS,
        partial(not_permitted, installation=installation),
        partial(remedy, installation=installation),
        None if words is None else words_in_cluster(words, settings.decisions.cluster_id),
    )


def _cluster_settings(settings: OperatorSettings) -> ClusterSettings:
    return ClusterSettings(
        settings.decisions.cluster_id,
        settings.version,
        settings.credentials_secret,
        settings.disconnected_seconds,
        settings.unreachable_seconds,
        settings.decisions.policy,
        settings.all_weak_settings,
        settings.require_signed,
        settings.decisions.installation,
    )
