"""A process of controllers as an operator runs it, on any API server, started and killed at will."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any, Final

import anyio

from purekube.ports import Clock, KubeApi
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.controller.runner import ManagerOptions
from purekube_run.reconcilers.extensions import ExtensionManager
from purekube_run.simulation.faults import Crash, Fault, FaultyKube, Schedule, Told, WatchFaults
from purekube_run.simulation.runnables import Runnable, extending_of

INSTANCE: Final = "test"


class Process:
    """Controllers that work on `api` until `kill`.

    After a `Crash` the process is dead: none of its calls reach the server.
    """

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        runnables: Sequence[Runnable],
        schedule: Schedule,
        streams: WatchFaults,
        told: Told,
    ) -> None:
        self._api = FaultyKube(api, self._fault_of, streams=streams, told=told)
        self._clock = clock
        self._runnables = runnables
        self._schedule = schedule
        self.is_dead = False
        """Killed, by a fault or by its owner: its tasks may still be about to end."""
        self.ready = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Create the process's task in a loop, which need not run yet."""
        self.task = loop.create_task(self._main())

    def kill(self) -> None:
        """Stop all calls of the process from reaching the server; its tasks end when the loop runs."""
        self.is_dead = True
        if self.task is not None:
            self.task.cancel()

    def failure(self) -> BaseException | None:
        """Return the error that ended the process, `Crash` if a fault killed it; None while it runs or after a kill."""
        if self.task is None or not self.task.done() or self.task.cancelled():
            return None
        error = self.task.exception()
        while isinstance(error, BaseExceptionGroup):
            error = next(
                (exception for exception in error.exceptions if not isinstance(exception, Crash)), error.exceptions[0]
            )
        return Crash() if self.is_dead and error is not None else error

    def _fault_of(self, call: Any) -> Fault | None:
        fault = Fault(Crash()) if self.is_dead else self._schedule(call)
        if fault is not None and isinstance(fault.error, Crash):
            self.is_dead = True
        return fault

    async def _main(self) -> None:
        events = BackgroundEvents(self._kube, self._clock, instance=INSTANCE, field_manager=INSTANCE)
        manager = self._manager(events)
        async with anyio.create_task_group() as group:
            group.start_soon(events.run)
            group.start_soon(manager.run)
            await manager.wait_ready()
            self.ready.set()

    @property
    def _kube(self) -> Any:
        """The port for the controllers, with its faults."""
        return self._api

    def _manager(self, events: BackgroundEvents) -> ExtensionManager:
        extending = extending_of(self._runnables, INSTANCE)
        options = ManagerOptions(Random(0).random, entropy=extending.entropy)
        return ExtensionManager(
            self._kube,
            self._clock,
            events,
            options,
            composites=extending.composites,
            controllers=extending.controllers,
        )
