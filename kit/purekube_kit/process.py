"""A process of controllers as an operator runs it, on any API server, started and killed at will."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any, Final, TypeAlias, cast

import anyio

from kubelab.entropy import SeededEntropy
from purekube.apimachinery.manifest import Kind
from purekube.boxes.box import Box
from purekube.boxes.decide import composite_of
from purekube.composites.composite import Composite
from purekube.ports import Clock, KubeApi, KubeTransport
from purekube.reconcilers import Controller, PureReconciler, Resource
from purekube.reconcilers.controllers import status_writer_of
from purekube.reconcilers.decide_pure import composite_of as composite_of_pure
from purekube_run.composites.controller import refuse_shared_kinds
from purekube_run.controller.event_recorder import BackgroundEvents
from purekube_run.controller.runner import ManagerOptions
from purekube_run.reconcilers.controllers import bind
from purekube_run.reconcilers.extensions import ExtensionManager
from purekube_run.simulation.extension_replica import Extending
from purekube_run.simulation.faults import Crash, Fault, FaultyKube, Schedule, Told, WatchFaults

Runnable: TypeAlias = Box | PureReconciler[Any, Any] | Controller[Any] | type[Controller[Any]]
"""A thing to run: a box, a reconciler of either level, a Watcher, or a class of these that needs only the API."""

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
        extending = extending_of(self._runnables)
        options = ManagerOptions(Random(0).random, entropy=extending.entropy)
        return ExtensionManager(
            self._kube,
            self._clock,
            events,
            options,
            composites=extending.composites,
            controllers=extending.controllers,
        )


def extending_of(runnables: Sequence[Runnable]) -> Extending:
    """Return what a process of these runs. Raises CommandError for some that cannot run together."""
    composites = [_composite(runnable) for runnable in runnables if isinstance(runnable, Box | PureReconciler)]
    controllers = [runnable for runnable in runnables if not isinstance(runnable, Box | PureReconciler)]
    made = (bind(controller, KubeApi(cast("KubeTransport", None))) for controller in controllers)
    refuse_shared_kinds(composites, (writer for each in made if (writer := status_writer_of(each)) is not None))
    return Extending(composites, controllers, field_manager=INSTANCE, entropy=_SameText())


def _composite(runnable: Box | PureReconciler[Any, Any]) -> Composite:
    return composite_of(runnable) if isinstance(runnable, Box) else composite_of_pure(runnable)


class _SameText:
    """An `Entropy` with the same text in all clusters: it depends on the length only."""

    def text(self, length: int, alphabet: str) -> str:
        """Return text that looks random."""
        return SeededEntropy(0).text(length, alphabet)


def kind_of(runnable: Runnable) -> Kind:
    """Return the kind that a controller reconciles."""
    kind = runnable.kind
    return kind.kind if isinstance(kind, Resource) else kind


def resource_of(runnable: Runnable) -> Resource[Any, Any] | None:
    """Return that kind's classes, if it has any."""
    return runnable.kind if isinstance(runnable.kind, Resource) else None
