"""The telemetry for the metrics: it takes statistics of the process every second, and counts events at once (RUN-5)."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

import attrs

from purekube.apimachinery.definitions import OPERATOR_BOX
from purekube.apimachinery.manifest import Kind, get_path
from purekube.apimachinery.resources import NAMESPACE
from purekube.controller.health import Vitals
from purekube.controller.informer.changes import CacheChange, ChangeType
from purekube.controller.shard import WHOLE
from purekube.ports import Clock
from purekube_run.controller.observer import LoggingObserver, Observers, ReconcileObserver
from vworkspace_app.jobs.agent import Agent
from vworkspace_app.manager.telemetry import Components
from vworkspace_app.observability.condition_counts import (
    ConditionCounts,
    RolloutProgress,
    Unready,
    box_conditions,
    instance_conditions,
    operation_conditions,
    parent_conditions,
)
from vworkspace_app.observability.metrics import Metrics
from vworkspace_app.observability.stats import AgentStats, LatestStats, ProcessStats
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import namespace_is_managed
from vworkspace_core.jobs.machine import job_lag
from vworkspace_core.operations.engines import ENGINES

if TYPE_CHECKING:
    from purekube_run.composites.controller import CompositeReconciler

_HEARTBEAT_SECONDS: Final = 1.0


@attrs.define
class MetricsTelemetry:
    """A `Telemetry` that updates the statistics in `latest` each second, and counts events in `metrics` immediately."""

    clock: Clock
    latest: LatestStats
    metrics: Metrics
    names: int = 0
    """The maximum number of objects of each kind that metrics list by name because they are not Ready."""
    _components: Components | None = attrs.field(default=None, init=False)
    _gated: set[str] = attrs.field(factory=set, init=False)
    _instances: ConditionCounts = attrs.field(factory=instance_conditions, init=False)
    _operations: ConditionCounts = attrs.field(factory=operation_conditions, init=False)
    _boxes: ConditionCounts = attrs.field(factory=box_conditions, init=False)
    _rollouts: RolloutProgress = attrs.field(factory=RolloutProgress, init=False)
    _parents: dict[Kind, ConditionCounts] = attrs.field(factory=dict, init=False)
    _stopping: bool = attrs.field(default=False, init=False)

    def observer(self, controller: str) -> ReconcileObserver:
        """Return an observer that logs and counts the reconciles of a controller."""
        return Observers((LoggingObserver(), self.metrics.controller(controller)))

    def job_ended(self, outcome: str) -> None:
        """Count a job of the control plane that ended with this outcome."""
        self.metrics.job(outcome)

    def attach(self, components: Components) -> None:
        """Start to take statistics of `components`, the parts of the process such as its informers and its job agent.

        From now on also count the objects in their caches by condition.
        """
        self._components = components
        for engine in ENGINES.values():
            for template in engine.templates:
                self.metrics.expect_operations(template.type, engine.name)
        for kind, handler in (
            (NAMESPACE, self._count_namespace),
            (OPERATION, self._count_operation),
            (OPERATION, self._operations.count),
            (APPLICATION_INSTANCE, self._instances.count),
        ):
            runner = components.informers.find(kind)
            if runner is not None:
                runner.subscribe(partial(self._count_own, handler))
        for runner in components.further:
            if runner.kind == OPERATOR_BOX:
                runner.subscribe(self._boxes.count)
                runner.subscribe(self._rollouts.count)
        components.follow_composites(self._follow)
        self.refresh()

    def _follow(self, composite: "CompositeReconciler", is_loaded: bool) -> None:
        """Start to count the objects of a composite's kind by condition, or stop it if `is_loaded` is False."""
        counts = self._parents.setdefault(composite.composite.kind, parent_conditions())
        if not is_loaded:
            counts.forget()
            return
        # Applied boxes run in one shard, for the namespaces of all.
        is_of_shard = self._components is not None and composite in self._components.extensions.composites
        for runner in composite.parents:
            runner.subscribe(partial(self._count_own, counts.count) if is_of_shard else counts.count)

    async def run(self) -> NoReturn:
        """Update the statistics each second until cancelled.

        The updates also prove that the event loop is not blocked.
        """
        while True:
            self.refresh()
            await self.clock.sleep(_HEARTBEAT_SECONDS)

    def stop(self) -> None:
        """Report the process as not ready from now on, because it is ending."""
        self._stopping = True
        self.refresh()

    def refresh(self) -> None:
        """Update the statistics from the attached components now."""
        components = self._components
        if components is None:
            self.latest.replace(ProcessStats(self.clock.monotonic(), Vitals(stopping=self._stopping)))
            return
        worker_pools, runners = components.worker_pools, (*components.informers, *components.further)
        loaded = frozenset(components.loaded)  # one applied box must not make the process unready
        vitals = Vitals(
            started=True,
            shard="" if components.shard == WHOLE else str(components.shard),
            stopping=self._stopping,
            informers=tuple(runner.vitals() for runner in runners if runner not in loaded),
            worker_pools=tuple(pool.vitals(name) for name, pool in worker_pools.items()),
        )
        now = self.clock.now().timestamp()
        self.latest.replace(
            ProcessStats(
                self.clock.monotonic(),
                vitals,
                tuple(runner.stats() for runner in runners),
                tuple(pool.stats() for pool in worker_pools.values()),
                _agent_stats(components.agent, self.clock.now()),
                self._credential_age(components),
                len(self._gated),
                tuple((outcome.value, count) for outcome, count in components.events.counts.items()),
                components.leases(),
                self._instances.samples(now),
                self._operations.samples(now),
                tuple((kind, counts.samples(now)) for kind, counts in self._parents.items()),
                self._unready(now),
                components.shard,
                self._boxes.samples(now),
                tuple(self._rollouts.counts.items()),
            )
        )

    def _unready(self, now: float) -> tuple[Unready, ...]:
        kinds = (self._instances, *self._parents.values()) if self.names else ()
        return tuple(one for counts in kinds for one in counts.unready(self.names, now))

    def _credential_age(self, components: Components) -> float | None:
        since = components.credentials.current.since
        return None if since is None else max(0.0, (self.clock.now() - since).total_seconds())

    def _count_own(self, count: Callable[[CacheChange], None], change: CacheChange) -> None:
        """Call `count` for a change of an object of this shard, and ignore objects of other shards.

        The first shard also caches objects of other shards, which would be counted twice in the sum of all shards.
        """
        shard = WHOLE if self._components is None else self._components.shard
        if shard.owns(change.ref.name if change.ref.kind == NAMESPACE else change.ref.namespace):
            count(change)

    def _count_namespace(self, change: CacheChange) -> None:
        if change.type is not ChangeType.DELETED and namespace_is_managed(change.object):
            self._gated.add(change.ref.name)
        else:
            self._gated.discard(change.ref.name)

    def _count_operation(self, change: CacheChange) -> None:
        """Count an Operation that enters a phase. Operations that the informer lists at first are not counted.

        Only the leader counts, so that the sum over all replicas is the number of Operations.
        """
        leads = all(held for _, held in self._components.leases()) if self._components else False
        if change.initial or change.type is ChangeType.DELETED or not leads:
            return
        live = change.object
        phase = get_path(live, "status", "phase")
        if phase and phase != get_path(change.old_object or {}, "status", "phase"):
            self.metrics.operation(
                *(str(value) for value in (get_path(live, "spec", "type"), get_path(live, "spec", "engine"), phase))
            )


def _agent_stats(agent: Agent | None, now: datetime) -> AgentStats | None:
    if agent is None:
        return None
    outbox, lag = agent.outbox, job_lag(agent.state, now)
    fill = len(outbox.events) / outbox.capacity
    return AgentStats(agent.connection_state.connectivity, len(agent.state.jobs), lag, fill)
