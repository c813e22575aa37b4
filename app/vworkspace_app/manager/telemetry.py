"""The interface by which metrics and probes observe the manager, so that the manager depends on neither (RUN-5)."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import attrs

from purekube.controller.shard import WHOLE, Shard
from purekube.ports import KubeApi
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.informers import Informers
from purekube_run.controller.manager import ControllerManager
from purekube_run.controller.observer import LoggingObserver, ReconcileObserver
from purekube_run.controller.worker_pool import WorkerPool
from vworkspace_app.credentials.live_credential import Live
from vworkspace_app.jobs.agent import Agent
from vworkspace_core.credentials.secret import Credentials

if TYPE_CHECKING:
    from purekube_run.boxes.applied_boxes import AppliedBoxes
    from purekube_run.boxes.served_boxes import Follower
    from purekube_run.composites.controller import CompositeReconciler
    from purekube_run.reconcilers.extensions import ExtensionManager, Extensions


@attrs.frozen
class Components:
    """The parts of an operator process that metrics and the web page read, such as informers and the job agent.

    `informers` are those of the operator itself, and `managers` run the controllers. `agent` is None if the process
    pulls no jobs. `leases` returns the names of the Leases, each with whether the process holds it. `applied` loads and
    unloads the boxes that users apply to the cluster as OperatorBoxes; it is None if this process does not run them.
    `api` is the client of the API server.
    """

    informers: Informers
    managers: tuple[ControllerManager, ...]
    extensions: "Extensions"
    events: BackgroundEvents
    credentials: Live[Credentials]
    agent: Agent | None
    leases: Callable[[], tuple[tuple[str, bool], ...]]
    shard: Shard = WHOLE
    applied: "AppliedBoxes | None" = None
    api: KubeApi | None = None

    @property
    def worker_pools(self) -> Mapping[str, WorkerPool]:
        """The worker pools by controller name, as in metrics and logs."""
        return {name: pool for manager in self.managers for name, pool in manager.worker_pools.items()}

    @property
    def further(self) -> tuple[InformerRunner, ...]:
        """The informers that are not in `informers`, such as those of boxes.

        Each may watch only a part of a kind's objects.
        """
        every = (informer for manager in self.managers for informer in manager.informers)
        own = frozenset(self.informers)
        return tuple(informer for informer in dict.fromkeys(every) if informer not in own)

    @property
    def loaded(self) -> tuple[InformerRunner, ...]:
        """The informers in `further` that only applied boxes (OperatorBoxes in the cluster) need."""
        return tuple(runner for box in self._boxes for runner in (*box.informers, *box.externals))

    @property
    def composites(self) -> "tuple[CompositeReconciler, ...]":
        """The composites (boxes and pure reconcilers) that run, including the boxes that are applied to the cluster."""
        return (*self.extensions.composites, *self._boxes)

    @property
    def _boxes(self) -> "tuple[CompositeReconciler, ...]":
        return () if self.applied is None else tuple(box.reconciler for box in self.applied.served.values())

    def follow_composites(self, follower: "Follower") -> None:
        """Call `follower` with each composite (box or pure reconciler) that runs now or is loaded later, and True.

        When a composite is unloaded, `follower` is called with it and False.
        """
        for composite in self.extensions.composites:
            follower(composite, True)
        if self.applied is not None:
            self.applied.follow(follower)


def components_of_extensions(
    running: "ExtensionManager",
    events: BackgroundEvents,
    leases: Callable[[], tuple[tuple[str, bool], ...]] = tuple,
    applied: "AppliedBoxes | None" = None,
) -> Components:
    """Return the components of a process that runs only boxes and Python controllers, without the operator's own.

    `running` is the manager that runs them, `events` sends their Kubernetes Events, and `leases` returns the names of
    the Leases, each with whether the process holds it. `applied` has the boxes that users apply to the cluster; None if
    the process runs none of these.
    """
    return Components(
        Informers(()), (running,), running.extensions, events, Live(Credentials()), None, leases, applied=applied
    )


class Telemetry(Protocol):
    """The interface of a receiver of events in the process, such as the end of a job, for metrics or the page.

    Its methods are synchronous, and must not raise.
    """

    def observer(self, controller: str) -> ReconcileObserver:
        """Return an observer of the reconciles of the controller named `controller`."""
        ...

    def job_ended(self, outcome: str) -> None:
        """Record that a job of the control plane ended with this outcome."""
        ...

    def attach(self, components: Components) -> None:
        """Read the state of `components`, the parts of the process such as its informers, from now on.

        It is called once, before any of these parts runs.
        """
        ...


class LogOnly:
    """A `Telemetry` without metrics. Reconciles are only logged."""

    def observer(self, controller: str) -> ReconcileObserver:
        """Return an observer that logs the reconciles of a controller."""
        return LoggingObserver()

    def job_ended(self, outcome: str) -> None:
        """Do nothing, since the agent logs the outcome."""

    def attach(self, components: Components) -> None:
        """Do nothing, since this telemetry does not read the state of the process's components."""
