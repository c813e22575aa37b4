"""The controllers of one process: their caches, and a queue with workers for each (RUN-1, RUN-3, RUN-4).

A controller waits only for its own caches, and has its own workers. So no controller is delayed by another one whose
calls are slow, whose kind is not installed, or whose kind may not be listed.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.abc
import attrs

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.controller.queue.workqueue import Priority
from purekube.ports import Clock, EventSink, KubeApi
from purekube_run.controller.controller import ControllerDefinition
from purekube_run.controller.definitions import wake_when_served
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.informers import Informers
from purekube_run.controller.runner import ManagerOptions, Runner
from purekube_run.controller.worker_pool import WorkerPool

T = TypeVar("T")


async def elected_at_once() -> None:
    """Return immediately: without leader election this process may write from the start."""


@attrs.frozen
class Election:
    """The functions by which a manager takes part in leader election. By default there is no election.

    `elected` returns once this process may write. `leases` returns the name of each Lease for which the process is a
    candidate, and whether the process holds it. `before_write` is called by the API client; it raises if this process
    may no longer write.
    """

    elected: Callable[[], Awaitable[None]] = elected_at_once
    leases: Callable[[], tuple[tuple[str, bool], ...]] = tuple
    before_write: Callable[[], None] = lambda: None


class ControllerManager:
    """A manager that runs all controllers of one process on `api`. Construct it in the event loop that runs it.

    `shared` are informers that several controllers use, including the one for CRDs. `controllers` are loaded at once;
    others can be loaded and unloaded while the manager runs. `events` receives the controllers' Events.
    """

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        controllers: Iterable[ControllerDefinition],
        events: EventSink,
        shared: Informers,
        options: ManagerOptions,
    ) -> None:
        self.shared = shared
        definitions = shared.find(CUSTOM_RESOURCE_DEFINITION)
        if definitions is not None:
            definitions.subscribe(wake_when_served(lambda: self.informers))
        self._api, self._clock, self._events, self._options = api, clock, events, options
        self._group: anyio.abc.TaskGroup | None = None
        self._elected: Callable[[], Awaitable[None]] = elected_at_once
        self._watching: dict[InformerRunner, anyio.CancelScope] = {}
        self._working: dict[Runner, anyio.CancelScope] = {}
        self.runners: tuple[Runner, ...] = ()
        self._pools: dict[str, WorkerPool] = {}
        for controller in controllers:
            self.load(controller)

    def load(self, controller: ControllerDefinition) -> Runner:
        """Add a controller, and return its runner, which is the argument for `unload`.

        The controller starts at once if the manager is running.
        """
        runner = Runner(controller, self._api, self._clock, self._events, self._options)
        self.runners = (*self.runners, runner)
        self._pools[runner.name] = runner.pool
        self._settle()
        return runner

    async def unload(self, runner: Runner) -> None:
        """Wait until the controller's running reconciles have ended, then remove the controller.

        Informers that no other controller uses are stopped, too. If the wait is cancelled, the controller is removed at
        once, and its running reconciles are cancelled.
        """
        try:
            await runner.pool.finish()
        finally:
            runner.close()
            self.runners = tuple(each for each in self.runners if each is not runner)
            self._pools.pop(runner.name, None)
            self._settle()

    def _settle(self) -> None:
        """Start informers and controllers that were added, and cancel informers and controllers that were removed.

        Does nothing before the manager runs.
        """
        if self._group is None:
            return
        _cancel_others(self._watching, self.informers)
        _cancel_others(self._working, self.runners)
        for informer in self.informers:
            if informer not in self._watching:
                self._watching[informer] = scope = anyio.CancelScope()
                self._group.start_soon(_within, scope, informer.run, name=f"informer {informer.kind.kind}")
        for runner in self.runners:
            if runner not in self._working:
                self._working[runner] = scope = anyio.CancelScope()
                self._group.start_soon(_within, scope, partial(runner.run, self._elected), name=runner.name)

    @property
    def own_informers(self) -> tuple[InformerRunner, ...]:
        """The informers of the controllers that are not among the `shared` informers given to the manager.

        Each runs as long as a controller uses it.
        """
        own = (informer for runner in self.runners for informer in runner.informers)
        shared = frozenset(self.shared)
        return tuple(informer for informer in dict.fromkeys(own) if informer not in shared)

    @property
    def informers(self) -> tuple[InformerRunner, ...]:
        """The informers of all controllers, beginning with the shared informers."""
        return (*self.shared, *self.own_informers)

    @property
    def worker_pools(self) -> Mapping[str, WorkerPool]:
        """The worker pools of the controllers that run now, by controller name."""
        return self._pools

    @property
    def is_backlogged(self) -> bool:
        """Report whether any controller has keys (references of objects to reconcile) that wait for a worker.

        Keys of background priority, such as resyncs, do not count.
        """
        return any(runner.pool.is_backlogged for runner in self.runners)

    @property
    def has_synced(self) -> bool:
        """Report whether every cache has synced."""
        return all(informer.has_synced for informer in self.informers)

    @property
    def is_at_rest(self) -> bool:
        """Report whether there is nothing to do: every cache has synced, and no reconcile runs or is due later."""
        return self.has_synced and not any(pool.has_keys for pool in self.worker_pools.values())

    def enqueue(self, name: str, key: ObjectRef, *, priority: Priority = Priority.LIVE) -> None:
        """Request that the controller with the name `name` reconciles the object `key`.

        Objects of a higher `priority` are reconciled first. Nothing happens if there is no such controller, or while
        this process does not lead (hold the Lease of the leader election).
        """
        for runner in self.runners:
            if runner.name == name:
                runner.enqueue(key, priority=priority)

    def enqueue_all(self, name: str) -> None:
        """Request that the named controller, if it exists, reconciles all its objects with background priority."""
        for runner in self.runners:
            if runner.name == name:
                for key in runner.controller.all_keys():
                    runner.enqueue(key, priority=Priority.BACKGROUND)

    async def wait_ready(self) -> None:
        """Wait until every cache has synced."""
        for informer in self.informers:
            await informer.wait_for_sync()

    async def run(self, elected: Callable[[], Awaitable[None]] = elected_at_once) -> None:
        """Run all informers and controllers until cancelled.

        Informers list and watch immediately. Controllers reconcile once `elected` returns, which it does when this
        process may write.
        """
        async with anyio.create_task_group() as group:
            self.start(group, elected)

    def start(self, group: anyio.abc.TaskGroup, elected: Callable[[], Awaitable[None]]) -> None:
        """Start a task in `group` for each informer and each controller, and return at once.

        Informers list and watch immediately. Controllers reconcile once `elected` returns, which it does when this
        process may write.
        """
        self._group, self._elected = group, elected
        self._settle()

    async def finish(self) -> None:
        """Start no further reconciles, and wait until running reconciles have ended.

        After a grace period, they are cancelled (RUN-4).
        """
        async with anyio.create_task_group() as group:
            for runner in self.runners:
                group.start_soon(runner.pool.finish)


def _cancel_others(running: dict[T, anyio.CancelScope], left: Collection[T]) -> None:
    """Cancel and remove every task scope in `running` whose key is not in `left`."""
    for each in [each for each in running if each not in left]:
        running.pop(each).cancel()


async def _within(scope: anyio.CancelScope, run: Callable[[], Awaitable[Any]]) -> None:
    with scope:
        await run()
