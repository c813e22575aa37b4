"""Observers of the manager at work. The manager itself knows no metrics and no probes (RUN-5)."""

from collections.abc import Callable, Mapping
from typing import Protocol

import attrs

from purekube.controller.shard import WHOLE, Shard
from purekube.ports import KubeApi
from purekube_run.composites.controller import CompositeReconciler
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.informers import Informers
from purekube_run.controller.observer import LoggingObserver, ReconcileObserver
from purekube_run.controller.worker_pool import WorkerPool
from purekube_run.reconcilers.extensions import ExtensionManager
from purekube_run.reconcilers.passes import ControllerPasses
from vworkspace_app.credentials.live_credential import Live
from vworkspace_app.jobs.agent import Agent
from vworkspace_core.credentials.secret import Credentials


@attrs.frozen
class Components:
    """The parts of a process that telemetry observes. `agent` is None without one; `leases` is that of `Election`.

    `further` are the informers of composites, each of which watches its own part of a kind. `composites` and
    `controllers` (in Python) are the running ones, each with its caches. `api` is the operator's API server.
    """

    informers: Informers
    worker_pools: Mapping[str, WorkerPool]
    events: BackgroundEvents
    credentials: Live[Credentials]
    agent: Agent | None
    leases: Callable[[], tuple[tuple[str, bool], ...]]
    shard: Shard = WHOLE
    further: tuple[InformerRunner, ...] = ()
    composites: tuple[CompositeReconciler, ...] = ()
    controllers: tuple[ControllerPasses, ...] = ()
    api: KubeApi | None = None


def components_of_extensions(
    running: ExtensionManager, events: BackgroundEvents, leases: Callable[[], tuple[tuple[str, bool], ...]] = tuple
) -> Components:
    """Return the components of a process that runs only extensions."""
    return Components(
        Informers(()),
        running.worker_pools,
        events,
        Live(Credentials()),
        None,
        leases,
        further=tuple(running.informers),
        composites=running.extensions.composites,
        controllers=running.extensions.python,
    )


class Telemetry(Protocol):
    """A receiver of synchronous calls about what happens in the process. It must not raise."""

    def observer(self, controller: str) -> ReconcileObserver:
        """Return the observer of a controller's reconciles."""
        ...

    def job_ended(self, outcome: str) -> None:
        """Record that a job ended with this outcome."""
        ...

    def attach(self, components: Components) -> None:
        """Observe these components from now on. Called once, before anything runs."""
        ...


class LogOnly:
    """A `Telemetry` without metrics. Reconciles are only logged."""

    def observer(self, controller: str) -> ReconcileObserver:
        """Return an observer that logs."""
        return LoggingObserver()

    def job_ended(self, outcome: str) -> None:
        """Do nothing, since the agent logs the outcome."""

    def attach(self, components: Components) -> None:
        """Do nothing."""
