"""One replica: a simulated process of an operator with its own machine and connections, which can be killed and started
again.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime
from functools import partial
from random import Random
from typing import Protocol

from purekube.ports import KubeApi
from purekube_run.controller.observer import LoggingObserver, Reconciled, ReconcileObserver
from purekube_run.process.machine import Machine
from purekube_run.simulation.connection import Disturbance, KubeConnection, Link, ObservedWrite, ReplicaClock
from purekube_run.simulation.faults import Schedule, WatchFaults, calm


class Surroundings(Protocol):
    """The interface that a replica needs of the cluster in which it runs.

    A replica is a simulated process of an operator, which can be killed and started again. Simulated clusters (`World`)
    implement this interface. In tests with a real cluster, the kit's `RealCluster` implements it.
    """

    seed: int

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop in which the replica runs."""
        ...

    def now(self) -> datetime:
        """Return the current time of the cluster: virtual time if the cluster is simulated."""
        ...

    def api_of(self, replica: "Replica") -> KubeApi:
        """Return a client of the API server whose requests come from the replica's user."""
        ...

    def version(self) -> int:
        """Return the version of the API server's store, or 0 if unknown."""
        ...

    def note(self, actor: str, what: str) -> None:
        """Add a line to the trace, the record of what happens in the run: `what` happened, and the `actor` that caused
        it.
        """
        ...

    def written(self, write: ObservedWrite) -> None:
        """Record a write of a replica (a simulated process) that reached the API server."""
        ...

    def reconciled(self, replica: str, controller: str, done: Reconciled) -> None:
        """Record a finished reconcile, of which `done` is the report.

        `replica` and `controller` are the names of the replica and of the controller that made it.
        """
        ...

    def replica_ended(self, replica: "Replica", error: BaseException | None) -> None:
        """Record that the process of a replica ended. `error` is the error that ended it, or None if it was killed."""
        ...


class WorldObserver(LoggingObserver):
    """An observer of one controller's reconciles: it logs the report about each finished reconcile, and passes it to
    the simulated cluster.
    """

    def __init__(self, replica: str, controller: str, world: Surroundings) -> None:
        super().__init__()
        self._passes_on = partial(world.reconciled, replica, controller)

    def reconciled(self, done: Reconciled) -> None:
        """Log the report `done` on a reconcile, and pass it to the simulated cluster."""
        super().reconciled(done)
        self._passes_on(done)


class Replica(ABC):
    """A simulated process of an operator, which can be killed and started again. Its requests come from `user`.

    `starts` counts its starts, each of which has its own random numbers. `latency` is the minimum and maximum time of a
    request in seconds; None for no latency.
    """

    def __init__(
        self, world: Surroundings, name: str, *, user: str, latency: tuple[float, float] | None = (0.001, 0.008)
    ) -> None:
        self.name = name
        self.user = user
        self.clock = ReplicaClock(world.now, world.loop)
        self.starts = 0
        self.disturbances: list[Disturbance] = []
        """The faults that are scheduled for its next requests, in this life or a later one."""
        self.schedule: Schedule = calm
        """The function that decides on further faults of its requests, in every life."""
        self.most_items = 0
        """The most objects that a page of a list has, in every life; 0 for as many as are requested."""
        self.streams = WatchFaults()
        """The faults of its watches, in every life."""
        self.task: asyncio.Task[None] | None = None
        self.unique = ""
        """The end of the identity by which its present life holds Leases."""
        self._world = world
        self._latency = latency
        self.link = self.new_link()

    @abstractmethod
    async def main(self, machine: Machine) -> None:
        """Run the process on a simulated machine, from its start to its end. A subclass implements this for its
        process.
        """

    @property
    def is_running(self) -> bool:
        """Report whether the process runs."""
        return self.task is not None and not self.task.done() and not self.link.dead

    def start(self) -> None:
        """Start a new process. It remembers nothing of an earlier process, and knows only the cluster's state."""
        self.starts += 1
        self.link = self.new_link()
        self.task = self._world.loop.create_task(self.main(self._machine()), name=f"{self.name} {self.starts}")
        self.task.add_done_callback(self._over)

    def kill(self, reason: str) -> None:
        """End the process as SIGKILL does: its tasks stop, and its pending requests do not reach the API server.

        `reason` says why, for the trace (the record of what happens in the run).
        """
        if not self.link.dead:
            self.link.dead = True
            self._world.note(self.name, f"killed: {reason}")
            if self.task is not None:
                self.task.cancel()

    def connect(self, before_write: Callable[[], None] = lambda: None, **_: object) -> KubeConnection:
        """Return a new connection of this simulated process to the API server.

        `before_write` is called before each write. To refuse the write, it raises an error, for example because the
        process is no longer the leader. Other keyword arguments are ignored.
        """
        world = self._world
        return KubeConnection(world.api_of(self), self.link, before_write, world.written, world.version)

    def observer(self, controller: str) -> ReconcileObserver:
        """Return an observer of a controller's reconciles.

        It logs them, and passes them to the simulated cluster under the name `controller`.
        """
        return WorldObserver(self.name, controller, self._world)

    def new_link(self) -> Link:
        """Return the simulated network between the process and the API server, without faults, for a new start."""
        random = Random(f"{self._world.seed}/{self.name}/{self.starts}/network")
        return Link(self, random, self._world.loop.time, self._latency)

    def _machine(self) -> Machine:
        random = Random(f"{self._world.seed}/{self.name}/{self.starts}")
        self.unique = unique = f"{random.getrandbits(64):016x}"
        return Machine(self.clock, self.clock.boottime, random.random, self.name, lambda: unique)

    def _over(self, task: "asyncio.Task[None]") -> None:
        if self.link.dead or task.cancelled():
            self._world.replica_ended(self, None)
            return
        self.link.dead = True
        self._world.replica_ended(self, task.exception())
