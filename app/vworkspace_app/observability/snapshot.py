"""What the process is doing, as one value: taken on the event loop each second, read by the thread that serves it."""

import attrs

from vworkspace_app.controller.informer_stats import InformerStats
from vworkspace_app.controller.worker_stats import WorkerPoolStats
from vworkspace_app.observability.tally import Said
from vworkspace_core.control_plane.connection import Connectivity
from vworkspace_core.controller.health import Vitals


@attrs.frozen
class AgentNumbers:
    """The agent in numbers: `lag` is the age of the oldest unanswered job, `occupancy` a part of 1."""

    connectivity: Connectivity
    open_jobs: int
    lag: float
    occupancy: float


@attrs.frozen
class Snapshot:
    """`taken_at` is on the monotonic clock. `credential_age` is None where nothing tells."""

    taken_at: float
    vitals: Vitals = attrs.field(factory=Vitals)
    informers: tuple[InformerStats, ...] = ()
    drivers: tuple[WorkerPoolStats, ...] = ()
    agent: AgentNumbers | None = None
    credential_age: float | None = None
    managed_namespaces: int = 0
    events: tuple[tuple[str, int], ...] = ()
    leases: tuple[tuple[str, bool], ...] = ()
    """Names of the Leases that this process stands for, and whether it leads."""
    instances: tuple[tuple[Said, int], ...] = ()
    operations: tuple[tuple[Said, int], ...] = ()
    """How many objects say what, by condition."""


class Board:
    """Where the newest snapshot hangs. One writes, any thread reads: the value itself never changes."""

    def __init__(self, first: Snapshot) -> None:
        self._newest = first

    def put(self, snapshot: Snapshot) -> None:
        """Replace the snapshot."""
        self._newest = snapshot

    @property
    def newest(self) -> Snapshot:
        """The snapshot that was put last."""
        return self._newest
