"""The controllers of a process: caches that they share, and a queue with workers for each (PH-7).

A controller waits for its own caches only: one whose kind is not installed, or may not be listed, delays no other; nor
does one with slow calls, since each has its own workers.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any, Final, TypeAlias, cast

import anyio
import attrs
import structlog

from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from purekube.controller.backoff import jitter_of
from purekube.controller.informer.changes import CacheChange
from purekube.controller.informer.store import ObjectStore
from purekube.controller.queue.event_handlers import KeysOf
from purekube.controller.queue.read_your_writes import ObjectVersion
from purekube.controller.queue.workqueue import Priority, WorkQueue
from purekube.controller.shard import WHOLE, Shard
from purekube.ports import Clock, EventSink, KubeApi
from purekube.reconcilers.access import asks_for_api, declared_verbs
from purekube.reconcilers.blocked_pass import blocked_words, not_permitted, remedy
from purekube.reconcilers.controllers import (
    AnyController,
    Promise,
    controller_problems,
    kind_of,
    manager_of,
    name_of,
    promises_of,
)
from purekube_run.controller.blocked_pass import BlockedPassReporter
from purekube_run.controller.definitions import slim_definition, wake_when_served
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.informers import Informers
from purekube_run.controller.observer import LoggingObserver, ReconcileObserver
from purekube_run.controller.worker_pool import WorkerPool
from purekube_run.process.errors import CommandError
from purekube_run.reconcilers.passes import ControllerPasses, rules_of
from purekube_run.reconcilers.rights import DeclaredRights
from purekube_run.reconcilers.wakes import Wakes
from purekube_run.reconcilers.watches import ControllerWatches, watches_of

_log = structlog.get_logger("operator")

_PREFIX: Final = "controller-"
_WRITING: Final = 60.0
"""The seconds that a pass may take in addition to its call, for its own writes."""
_SPREAD: Final = 0.1

ControllerFactory: TypeAlias = Callable[[KubeApi], AnyController]
"""A function that makes a controller with the API that it requires."""

GivenController: TypeAlias = AnyController | type[AnyController] | ControllerFactory
"""A controller, or what makes one: its class, or a function."""


@attrs.frozen
class ControllerOptions:
    """Options of all controllers. `random` gives numbers in [0, 1) for jitter, `observer` makes the observer of each.

    Each of several shards works on the objects in its own namespaces.
    """

    random: Callable[[], float]
    run_id: str = ""
    observer: Callable[[str], ReconcileObserver] = lambda controller: LoggingObserver()
    shard: Shard = WHOLE


@attrs.define(eq=False)
class RunningController:
    """One controller with its caches and its workers."""

    controller: AnyController
    watches: ControllerWatches
    passes: ControllerPasses
    pool: WorkerPool
    clock: Clock
    leading: bool = False

    @property
    def name(self) -> str:
        """The name in metrics and logs."""
        return f"{_PREFIX}{name_of(self.controller)}"

    async def run(self, elected: Callable[[], Awaitable[None]]) -> None:
        """Work until cancelled, once the caches are full and this process is elected."""
        for runner in self.watches:
            await runner.wait_for_sync()
        missing = [runner.kind.crd_name for runner in self.watches if runner.missing]
        _log.info("caches of the controller are settled", controller=self.name, missing=missing)
        await elected()
        self.leading = True
        for key in self.keys():
            self.pool.enqueue(key, priority=Priority.BACKGROUND)
        async with anyio.create_task_group() as group:
            group.start_soon(self.pool.run, name=self.name)
            if self.controller.resync is not None:
                group.start_soon(self._resync, self.controller.resync)

    def keys(self) -> Iterator[ObjectRef]:
        """Yield every object that the controller watches."""
        kind = kind_of(self.controller)
        for namespace, name in self.watches.own.store.names():
            yield ObjectRef(kind, namespace or None, name)

    async def _resync(self, every: float) -> None:
        """Enqueue every object each interval, at background priority, spread over a tenth of the interval."""
        rounds = 0
        while True:
            await self.clock.sleep(every)
            rounds += 1
            for key in self.keys():
                self.passes.wakes.resync(key)
                after = jitter_of(key, rounds) * every * _SPREAD
                self.pool.enqueue(key, priority=Priority.BACKGROUND, after=after)

    def subscribe(self) -> None:
        """Subscribe to the changes that wake objects."""
        wakes = self.passes.wakes
        self._wake(self.watches.own, wakes.of_itself)
        for runner in dict.fromkeys(self.watches.owned):
            self._wake(runner, wakes.of_owned)
        for runner in dict.fromkeys(self.watches.read):
            self._wake(runner, wakes.of_read)

    def _wake(self, runner: InformerRunner, keys_of: KeysOf) -> None:
        handle = self.pool.handler(keys_of)

        def wake(change: CacheChange) -> None:
            if self.leading:
                handle(change)

        runner.subscribe(wake)


class Controllers:
    """The controllers of one process on `api`, which is passed to classes and functions that require it.

    `shared` watches definitions; if it is given, the caller runs it. Construct it in the event loop that runs it.
    Raises CommandError for controllers that cannot run together.
    """

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        controllers: Sequence[GivenController],
        events: EventSink,
        options: ControllerOptions,
        shared: Informers | None = None,
    ) -> None:
        bound = tuple(bind(one, api) for one in controllers)
        refuse_problems([controller for controller, _ in bound])
        self._runs_shared = shared is None
        self.shared = Informers(_definitions(api, clock, options.random)) if shared is None else shared
        watches = watches_of(api, clock, options.random, [controller for controller, _ in bound])
        self.running = tuple(
            _running(api, clock, controller, rights, watched, events, options)
            for (controller, rights), watched in zip(bound, watches, strict=True)
        )
        for one in self.running:
            one.subscribe()
        definitions = self.shared.find(CUSTOM_RESOURCE_DEFINITION)
        if definitions is not None and self.running:
            definitions.subscribe(wake_when_served(self._own_informers))

    @property
    def controllers(self) -> tuple[AnyController, ...]:
        """The running controllers, with the API that they were given."""
        return tuple(one.controller for one in self.running)

    @property
    def worker_pools(self) -> Mapping[str, WorkerPool]:
        """The worker pools by the name of their controller."""
        return {one.name: one.pool for one in self.running}

    @property
    def _own_informers(self) -> tuple[InformerRunner, ...]:
        return tuple(dict.fromkeys(runner for one in self.running for runner in one.watches))

    @property
    def informers(self) -> Iterable[InformerRunner]:
        """The informers of all controllers."""
        return (*(self.shared if self._runs_shared else ()), *self._own_informers)

    async def wait_ready(self) -> None:
        """Wait until every cache has synced."""
        for runner in self.informers:
            await runner.wait_for_sync()

    async def run(self, elected: Callable[[], Awaitable[None]]) -> None:
        """Watch at once, work once `elected` returns, until cancelled."""
        async with anyio.create_task_group() as group:
            for runner in self.informers:
                group.start_soon(runner.run, name=f"informer {runner.kind.kind}")
            for one in self.running:
                group.start_soon(one.run, elected, name=one.name)

    async def finish(self) -> None:
        """Begin no further work, and wait for the running calls; the end of the grace period cancels them (RUN-4)."""
        async with anyio.create_task_group() as group:
            for one in self.running:
                group.start_soon(one.pool.finish)


def bind(given: GivenController, api: KubeApi) -> tuple[AnyController, DeclaredRights]:
    """Return a controller with the API that it was given, if it requires one, and the rights of that API.

    Making a controller already needs the API, so its verbs are declared afterwards. Raises CommandError if no
    controller can be made.
    """
    verbs: dict[Kind, frozenset[str]] = {}
    rights = DeclaredRights("a controller", verbs)
    limited = rights.around(api)
    made = _made(given, limited)
    if not hasattr(made, "kind"):
        raise CommandError(f"{_name(given)} is no Reconciler or Watcher, and makes none")
    if asks_for_api(made):
        made = attrs.evolve(cast("Any", made), api=limited)
    verbs |= declared_verbs(made)
    rights.name = f"the controller {name_of(made)}"
    return made, rights


def _made(given: Any, api: KubeApi) -> AnyController:
    try:
        if isinstance(given, type):
            return cast("AnyController", given(api=api) if asks_for_api(given) else given())
        if hasattr(given, "kind"):
            return cast("AnyController", given)
        return cast("AnyController", given(api) if signature(given).parameters else given())
    except Exception as error:
        raise CommandError(f"{_name(given)} could not be made: {type(error).__name__}: {error}") from error


def _name(given: Any) -> str:
    return getattr(given, "__qualname__", type(given).__qualname__)


def refuse_problems(controllers: Sequence[AnyController]) -> None:
    """Raise CommandError with every reason why these cannot run together."""
    problems = controller_problems(controllers)
    if problems:
        raise CommandError("\n".join(problems))


def _definitions(api: KubeApi, clock: Clock, random: Callable[[], float]) -> Iterator[InformerRunner]:
    store = ObjectStore(CUSTOM_RESOURCE_DEFINITION, transform=slim_definition)
    yield InformerRunner(api, CUSTOM_RESOURCE_DEFINITION, clock=clock, random=random, store=store)


def _running(
    api: KubeApi,
    clock: Clock,
    controller: AnyController,
    rights: DeclaredRights,
    watches: ControllerWatches,
    events: EventSink,
    options: ControllerOptions,
) -> RunningController:
    name = f"{_PREFIX}{name_of(controller)}"
    wakes = Wakes(controller, rules_of(controller), watches.own.store)
    passes = ControllerPasses(controller, api, watches, clock, events, wakes)
    speaks = Promise.CONDITIONS in promises_of(controller)
    blocked = BlockedPassReporter(
        {kind_of(controller): blocked_words(controller)} if speaks else {},
        api,
        watches.informers,
        None,
        clock,
        events,
        manager=manager_of(controller),
        remedy=partial(remedy, controller),
    )
    pool = WorkerPool(
        passes.reconcile,
        clock=clock,
        workers=controller.workers,
        time_limit=_time_limit(controller),
        queue=WorkQueue(group_of=lambda key: key.namespace),
        has_seen=watches.informers.has_seen,
        refresh=watches.informers.refresh,
        report_blocked=blocked.report,
        not_permitted=partial(not_permitted, controller),
        observer=options.observer(name),
        name=name,
        run_id=options.run_id,
        admits=lambda key: options.shard.owns(key.namespace),
    )

    def wrote(key: ObjectRef, written: ObjectVersion) -> None:
        wakes.wrote(key, *written)
        pool.record_write(key, written)

    passes.on_write = blocked.on_write = wrote
    rights.on_write = wrote
    return RunningController(controller, watches, passes, pool, clock)


def _time_limit(controller: AnyController) -> float:
    """Return the limit of a whole pass; a call has its own, and a call without one is not cancelled here either."""
    return controller.timeout + _WRITING if Promise.LIMIT in promises_of(controller) else float("inf")
