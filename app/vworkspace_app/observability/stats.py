"""The statistics of the operator's process as one immutable value, and their conversion to metrics.

They include the state of caches, queues and the job agent. The event loop takes new statistics every second.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TypeAlias

import attrs

from purekube.apimachinery.manifest import Kind
from purekube.controller.health import Vitals, WorkerPoolVitals
from purekube.controller.informer.messages import InformerPhase
from purekube.controller.shard import WHOLE, Shard
from purekube_run.controller.informer_stats import InformerStats
from purekube_run.controller.observer import WorkerPoolStats
from vworkspace_app import VERSION
from vworkspace_app.observability import catalogue as c
from vworkspace_app.observability.condition_counts import ConditionSample, Unready
from vworkspace_core.control_plane.connection import Connectivity


@attrs.frozen
class AgentStats:
    """The statistics of the job agent, which carries out jobs of the control plane.

    `lag` is the age in seconds of the oldest unanswered job. `occupancy` is the used fraction of the event buffer, from
    0 to 1.
    """

    connectivity: Connectivity
    open_jobs: int
    lag: float
    occupancy: float


@attrs.frozen
class ProcessStats:
    """The statistics of the operator's process at one time: informers, worker pools, job agent, and numbers of objects.

    `taken_at` is the time by the monotonic clock. `credential_age` is in seconds, None if unknown.
    """

    taken_at: float
    vitals: Vitals = attrs.field(factory=Vitals)
    informers: tuple[InformerStats, ...] = ()
    worker_pools: tuple[WorkerPoolStats, ...] = ()
    agent: AgentStats | None = None
    credential_age: float | None = None
    managed_namespaces: int = 0
    events: tuple[tuple[str, int], ...] = ()
    leases: tuple[tuple[str, bool], ...] = ()
    """The names of the Leases for which this process is a candidate, each with whether it holds the Lease."""
    instances: tuple[ConditionSample, ...] = ()
    operations: tuple[ConditionSample, ...] = ()
    parents: tuple[tuple[Kind, tuple[ConditionSample, ...]], ...] = ()
    """The counts by condition for each kind whose objects a box or a pure reconciler reconciles."""
    unready: tuple[Unready, ...] = ()
    shard: Shard = WHOLE
    boxes: tuple[ConditionSample, ...] = ()
    rollouts: tuple[tuple[str, Mapping[str, int]], ...] = ()
    """The names of the applied boxes, each with the numbers of its objects by the state of the rollout."""


class LatestStats:
    """A holder of the newest statistics.

    One thread replaces them; any thread may read them, because the statistics are immutable.
    """

    def __init__(self, first: ProcessStats) -> None:
        self._current = first

    def replace(self, stats: ProcessStats) -> None:
        """Replace the newest statistics by `stats`."""
        self._current = stats

    @property
    def current(self) -> ProcessStats:
        """The newest statistics of the process."""
        return self._current


Samples: TypeAlias = list[tuple[tuple[str, ...], float]]
MetricSamples: TypeAlias = tuple[c.Metric, Samples]

_PYTHON = ".".join(map(str, sys.version_info[:3]))


def stats_metrics(stats: ProcessStats, now: float) -> Iterator[MetricSamples]:
    """Yield each metric with its samples, made from `stats`.

    `now` is the present time by the monotonic clock with which the statistics were taken.
    """
    yield c.BUILD, [((VERSION, _PYTHON), 1.0)]
    yield c.SHARD, [((str(stats.shard.index), str(stats.shard.count)), 1.0)]
    yield c.LOOP_SILENCE, [((), max(0.0, now - stats.taken_at))]
    yield c.NAMESPACES, [((), float(stats.managed_namespaces))]
    yield c.CREDENTIAL_AGE, [((), age)] if (age := stats.credential_age) is not None else []
    yield c.EVENTS, [((outcome,), float(count)) for outcome, count in stats.events]
    yield c.LEADER, [((name,), float(leads)) for name, leads in stats.leases]
    yield from _conditions(c.INSTANCES, c.INSTANCES_OLDEST, [((), stats.instances)])
    yield from _conditions(c.OPERATION_STATES, c.OPERATIONS_OLDEST, [((), stats.operations)])
    kinds = [((kind.group, kind.kind), samples) for kind, samples in stats.parents]
    yield from _conditions(c.PARENTS, c.PARENTS_OLDEST, kinds)
    yield from _conditions(c.BOXES, c.BOXES_OLDEST, [((), stats.boxes)])
    yield c.BOX_OBJECTS, [((box, state), float(n)) for box, counts in stats.rollouts for state, n in counts.items()]
    yield c.UNREADY, [(_named(one), one.seconds) for one in stats.unready]
    yield from _agent(stats.agent)
    yield from _drivers(list(zip(stats.vitals.worker_pools, stats.worker_pools, strict=True)))
    yield from _informers(stats.informers)


def _conditions(
    counts: c.Metric, oldest: c.Metric, kinds: Iterable[tuple[tuple[str, ...], Iterable[ConditionSample]]]
) -> Iterator[MetricSamples]:
    samples = [((*kind, *sample.labels), sample) for kind, found in kinds for sample in found]
    yield counts, [(labels, float(sample.count)) for labels, sample in samples]
    yield oldest, [(labels, sample.oldest) for labels, sample in samples if sample.oldest is not None]


def _named(one: Unready) -> tuple[str, ...]:
    ref = one.ref
    return ref.kind.group, ref.kind.kind, ref.namespace or "", ref.name, one.reason


def _agent(agent: AgentStats | None) -> Iterator[MetricSamples]:
    state = Connectivity.UNKNOWN if agent is None else agent.connectivity
    yield c.CONNECTIVITY, [((value.value,), float(value is state)) for value in Connectivity]
    yield c.OPEN_JOBS, [((), float(agent.open_jobs))] if agent else []
    yield c.JOB_LAG, [((), agent.lag)] if agent else []
    yield c.OCCUPANCY, [((), agent.occupancy)] if agent else []


def _drivers(worker_pools: list[tuple[WorkerPoolVitals, WorkerPoolStats]]) -> Iterator[MetricSamples]:
    yield c.MAX_WORKERS, [((pool.name,), float(pool.workers)) for pool, _ in worker_pools]
    yield c.ACTIVE_WORKERS, [((pool.name,), float(pool.running)) for pool, _ in worker_pools]
    yield c.LONGEST, [((pool.name, pool.name), pool.oldest) for pool, _ in worker_pools]
    yield c.UNFINISHED, [((pool.name, pool.name), pool.unfinished) for pool, _ in worker_pools]
    yield c.LIVE_READS, [((pool.name,), float(stats.live_reads)) for pool, stats in worker_pools]
    yield c.ADDS, [((pool.name, pool.name), float(stats.queue.adds)) for pool, stats in worker_pools]
    yield c.RETRIES, [((pool.name, pool.name), float(stats.queue.retries)) for pool, stats in worker_pools]
    yield (
        c.DEPTH,
        [
            ((pool.name, pool.name, priority.name.lower()), float(count))
            for pool, stats in worker_pools
            for priority, count in stats.queue.ready.items()
        ],
    )


def _informers(informers: Iterable[InformerStats]) -> Iterator[MetricSamples]:
    """Yield the metrics of informers by kind. Several informers of one kind, each for a namespace, count as one."""

    def by_kind(informer: InformerStats) -> tuple[str, str]:
        return informer.kind.group, informer.kind.kind

    kinds = [(key, list(group)) for key, group in groupby(sorted(informers, key=by_kind), by_kind)]
    yield c.SYNCED, [(key, float(all(informer.has_synced for informer in group))) for key, group in kinds]
    yield (
        c.MISSING,
        [(key, float(any(informer.phase is InformerPhase.MISSING for informer in group))) for key, group in kinds],
    )
    yield c.LAST_EVENT, [(key, max(informer.contact_age for informer in group)) for key, group in kinds]
    yield c.TROUBLES, [(key, float(sum(informer.troubles for informer in group))) for key, group in kinds]
    yield c.OBJECTS, [(key, float(sum(informer.objects for informer in group))) for key, group in kinds]
    yield c.BYTES, [(key, float(sum(informer.bytes for informer in group))) for key, group in kinds]
    yield (
        c.RELISTS,
        [
            ((*key, cause), float(sum(informer.relists.get(cause, 0) for informer in group)))
            for key, group in kinds
            for cause in sorted({cause for informer in group for cause in informer.relists})
        ],
    )
