"""Who watches the manager at work. The manager itself knows no metrics and no probes (RUN-5)."""

from collections.abc import Callable, Mapping
from typing import Protocol

import attrs

from vworkspace_app.composites.running import Composites, RunningComposite
from vworkspace_app.controller.event_recorder import BackgroundEvents
from vworkspace_app.controller.informer import InformerRunner
from vworkspace_app.controller.informers import Informers
from vworkspace_app.controller.observer import LoggingObserver, ReconcileObserver
from vworkspace_app.controller.worker_pool import WorkerPool
from vworkspace_app.credentials.live import Live
from vworkspace_app.jobs.agent import Agent
from vworkspace_app.reconcilers.running import RunningController
from vworkspace_core.controller.shard import WHOLE, Shard
from vworkspace_core.credentials.secret import Credentials


@attrs.frozen
class Components:
    """What there is to look at. `agent` is None where there is none; `leases` as `Election` has them.

    `further` are the informers of composites, each of which watches its own part of a kind.
    `composites`, and `controllers` in Python, are those at work, each with its caches.
    """

    informers: Informers
    worker_pools: Mapping[str, WorkerPool]
    events: BackgroundEvents
    credentials: Live[Credentials]
    agent: Agent | None
    leases: Callable[[], tuple[tuple[str, bool], ...]]
    shard: Shard = WHOLE
    further: tuple[InformerRunner, ...] = ()
    composites: tuple[RunningComposite, ...] = ()
    controllers: tuple[RunningController, ...] = ()


def components_of_composites(
    running: Composites, events: BackgroundEvents, leases: Callable[[], tuple[tuple[str, bool], ...]] = tuple
) -> Components:
    """What there is to look at where composites run and nothing else."""
    return Components(
        Informers(()),
        running.worker_pools,
        events,
        Live(Credentials()),
        None,
        leases,
        further=tuple(running.informers),
        composites=running.running,
    )


class Telemetry(Protocol):
    """Told of what happens, synchronously. Must not raise."""

    def observer(self, controller: str) -> ReconcileObserver:
        """Who is told of the reconciles of a controller."""
        ...

    def job_ended(self, outcome: str) -> None:
        """A job came to a result."""
        ...

    def attach(self, components: Components) -> None:
        """Look at these from now on; subscribe to what is of interest. Called once, before anything runs."""
        ...


class LogOnly:
    """`Telemetry` without metrics: reconciles are in the log."""

    def observer(self, controller: str) -> ReconcileObserver:
        """The log."""
        return LoggingObserver()

    def job_ended(self, outcome: str) -> None:
        """The agent writes it to the log itself."""

    def attach(self, components: Components) -> None:
        """Nothing is looked at."""
