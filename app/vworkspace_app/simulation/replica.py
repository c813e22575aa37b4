"""One replica of the operator: what `run` runs, on a machine of its own, killed and started again at will."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Final, Protocol

import anyio
import attrs

from kubelab.clock import VirtualTimeLoop
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from purekube_run.process.machine import Machine
from purekube_run.simulation.connection import Disturbance, KubeConnection, Link, ObservedWrite, ReplicaClock
from vworkspace_app.credentials.live import Live
from vworkspace_app.manager.configuration import agent_settings, credentials_source, operator_settings
from vworkspace_app.manager.leader_election import leader_election
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.production import production_manager
from vworkspace_app.manager.startup import first_credentials
from vworkspace_app.settings import RunSettings
from vworkspace_app.settings.table import shard_in
from vworkspace_app.simulation.control import ControlConnection
from vworkspace_core.operations.builtin import builtin_templates
from vworkspace_fake.controlplane import ControlPlaneServer

USER_PREFIX: Final = "system:serviceaccount:vworkspace-system:"


class Surroundings(Protocol):
    """The part of a world that a replica meets."""

    seed: int
    loop: VirtualTimeLoop
    server: ApiServer
    control: ControlPlaneServer

    def note(self, actor: str, what: str) -> None:
        """Add a line to the trace."""
        ...

    def written(self, write: ObservedWrite) -> None:
        """Note a write that reached the API server."""
        ...

    def replica_ended(self, replica: "Replica", error: BaseException | None) -> None:
        """Note that a process ended: with an error, or killed, without one."""
        ...


class Replica:
    """One process of the operator. `starts` counts its lives; each has its own random numbers."""

    def __init__(self, world: Surroundings, name: str, settings: RunSettings) -> None:
        self.name = name
        self.clock = ReplicaClock(world.loop)
        self.starts = 0
        self.disturbances: list[Disturbance] = []
        """Troubles that are ordered for its next requests, in this life or a later one."""
        self.manager: Manager | None = None
        self.ended: BaseException | None = None
        """The error that ended the last life, if it was not killed."""
        self._world = world
        self._settings = settings
        self._task: asyncio.Task[None] | None = None
        self.link = self._new_link()

    @property
    def user(self) -> str:
        """The user of its calls."""
        return f"{USER_PREFIX}{self.name}"

    @property
    def is_running(self) -> bool:
        """Return whether the process lives."""
        return self._task is not None and not self._task.done() and not self.link.dead

    def start(self) -> None:
        """Start a process, which knows what is durable."""
        self.starts += 1
        self.link = self._new_link()
        self.ended, self.manager = None, None
        self._task = self._world.loop.create_task(self._main(), name=f"{self.name} {self.starts}")
        self._task.add_done_callback(self._over)

    def kill(self, reason: str) -> None:
        """End the process as SIGKILL does: nothing of it runs on, and nothing it sent arrives."""
        if not self.link.dead:
            self.link.dead = True
            self._world.note(self.name, f"killed: {reason}")
            if self._task is not None:
                self._task.cancel()

    async def wait_ended(self) -> None:
        """Wait until all tasks of the process have ended."""
        if self._task is not None:
            with suppress(BaseException):
                await asyncio.wait([self._task])

    def _new_link(self) -> Link:
        random = Random(f"{self._world.seed}/{self.name}/{self.starts}/network")
        return Link(self.name, random, self.kill, self._world.loop.time, self.disturbances)

    def _over(self, task: "asyncio.Task[None]") -> None:
        if self.link.dead or task.cancelled():
            self._world.replica_ended(self, None)
            return
        self.link.dead = True
        self.ended = task.exception()
        self._world.replica_ended(self, self.ended)

    def _connect(self, before_write: Callable[[], None] = lambda: None, **_: object) -> KubeConnection:
        caller = Caller(self.user, agent="vworkspace-operator/1")
        return KubeConnection(self._world.server, caller, self.link, before_write, self._world.written)

    async def _main(self) -> None:
        """Run what `run` runs, on the connections of this replica."""
        random = Random(f"{self._world.seed}/{self.name}/{self.starts}")
        unique = f"{random.getrandbits(64):016x}"
        machine = Machine(self.clock, self.clock.boottime, random.random, self.name, lambda: unique)
        settings, shard = self._settings, shard_in(self._settings)
        async with leader_election(settings, self._connect, machine) as election:
            api = self._connect(election.before_write)
            source = credentials_source(settings, api)
            registers = election.elected if shard.is_first else anyio.sleep_forever
            credentials, installation = await first_credentials(api, source, "simulated", registers, self.clock)
            decided = operator_settings(settings, credentials.cluster_id, builtin_templates(), installation)
            async with production_manager(
                api,
                attrs.evolve(decided, identity=self.name),
                source,
                Live(credentials),
                agent=agent_settings(settings),
                election=election,
                machine=machine,
                connect=lambda *told: ControlConnection(self._world.control, self.link, *told),
            ) as manager:
                self.manager = manager
                await manager.run()
