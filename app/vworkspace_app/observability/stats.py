"""Statistics of the process as one value: taken on the event loop each second, read by the thread that serves them."""

import attrs

from purekube.apimachinery.manifest import Kind
from purekube.controller.health import Vitals
from purekube.controller.shard import WHOLE, Shard
from purekube_run.controller.informer_stats import InformerStats
from purekube_run.controller.worker_stats import WorkerPoolStats
from vworkspace_app.observability.condition_counts import ConditionSample, Unready
from vworkspace_core.control_plane.connection import Connectivity


@attrs.frozen
class AgentStats:
    """Statistics of the agent. `lag` is the age of the oldest unanswered job, `occupancy` a part of 1."""

    connectivity: Connectivity
    open_jobs: int
    lag: float
    occupancy: float


@attrs.frozen
class ProcessStats:
    """The statistics of the process.

    `taken_at` is on the monotonic clock. `credential_age` is None if it is unknown.
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
    """The names of the Leases that this process is a candidate for, and whether it leads."""
    instances: tuple[ConditionSample, ...] = ()
    operations: tuple[ConditionSample, ...] = ()
    parents: tuple[tuple[Kind, tuple[ConditionSample, ...]], ...] = ()
    """The number of objects with each condition, and the oldest of them, by kind."""
    unready: tuple[Unready, ...] = ()
    shard: Shard = WHOLE


class LatestStats:
    """A holder of the newest statistics. One thread writes, any thread reads: the value itself never changes."""

    def __init__(self, first: ProcessStats) -> None:
        self._current = first

    def replace(self, stats: ProcessStats) -> None:
        """Replace the statistics."""
        self._current = stats

    @property
    def current(self) -> ProcessStats:
        """The newest statistics."""
        return self._current
