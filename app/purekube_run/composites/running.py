"""The controllers of all composites of a process: caches, queues and workers, one set for each (PH-6, PH-7).

Each waits for its own caches only: one whose kind is not installed, or may not be listed, delays no other.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

import anyio
import attrs
import structlog

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from purekube.composites.blocked_pass import blocked_words
from purekube.composites.composite import Composite, status_writer
from purekube.composites.remedies import not_permitted, remedy
from purekube.composites.status_writers import StatusWriter, shared_statuses
from purekube.controller.informer.changes import CacheChange
from purekube.controller.queue.event_handlers import KeysOf, UrgencyOf, at_once, itself
from purekube.controller.queue.workqueue import Priority, WorkQueue
from purekube.controller.shard import WHOLE, Shard
from purekube.ports import Clock, Entropy, EventSink, KubeApi
from purekube_run.composites.caches import account_informers, external_informers, informers_of, shared_informers
from purekube_run.composites.controller import CompositeController
from purekube_run.controller.blocked_pass import BlockedPassReporter
from purekube_run.controller.definitions import wake_when_served
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.informers import Informers
from purekube_run.controller.observer import LoggingObserver, ReconcileObserver
from purekube_run.controller.resync import resync
from purekube_run.controller.worker_pool import WorkerPool
from purekube_run.process.entropy import SystemEntropy
from purekube_run.process.errors import CommandError

_log = structlog.get_logger("operator")


@attrs.frozen
class CompositeOptions:
    """Options of all composites.

    `random` gives numbers in [0, 1) for jitter, `observer` makes the observer of each controller, `entropy` generates
    secrets. Each of several shards reconciles the objects in its own namespaces. With `namespaces` only these are
    watched.
    """

    random: Callable[[], float]
    workers: int = 16
    run_id: str = ""
    observer: Callable[[str], ReconcileObserver] = lambda controller: LoggingObserver()
    shard: Shard = WHOLE
    entropy: Entropy = attrs.field(factory=SystemEntropy)
    namespaces: tuple[str, ...] = ()


@attrs.define(eq=False)
class RunningComposite:
    """One composite with its caches and its workers."""

    controller: CompositeController
    pool: WorkerPool
    leading: bool = False

    @property
    def name(self) -> str:
        """The name of its controller in metrics and logs."""
        return self.controller.composite.controller

    @property
    def informers(self) -> Iterator[InformerRunner]:
        """The informers of this composite alone, without shared ones."""
        return chain(self.controller.informers, self.controller.externals)

    @property
    def parents(self) -> tuple[InformerRunner, ...]:
        """The informers of its own kind."""
        return tuple(one for one in self.controller.informers if one.kind == self.controller.composite.kind)

    async def run(self, clock: Clock, elected: Callable[[], Awaitable[None]]) -> None:
        """Reconcile until cancelled, once the caches are full and this process is elected."""
        for informers in (self.controller.informers, self.controller.externals, self.controller.shared):
            await informers.wait_for_sync()
        missing = [runner.kind.crd_name for runner in self.informers if runner.missing]
        composite = self.controller.composite
        _log.info(f"caches of the {composite.word} are settled", **{composite.word: composite.told}, missing=missing)
        await elected()
        self.leading = True
        keys = self.controller.keys
        for key in keys():
            self.pool.enqueue(key, priority=Priority.BACKGROUND)
        async with anyio.create_task_group() as group:
            group.start_soon(self.controller.taken.run, name=f"{self.name} taken names")
            group.start_soon(self.controller.accounts.run, name=f"{self.name} accounts")
            group.start_soon(self.pool.run, name=self.name)
            group.start_soon(partial(resync, self.pool, keys, clock=clock, every=self.controller.composite.resync))

    def subscribe(self) -> None:
        """Subscribe to the changes that wake parents."""
        controller = self.controller
        for runner in controller.informers:
            if runner in self.parents:
                self._wake(runner, itself)
            self._wake(runner, controller.keys_of_child)
        for runner in controller.externals:
            self._wake(runner, controller.keys_of_external)
        definitions, namespaces = (controller.shared.find(kind) for kind in (CUSTOM_RESOURCE_DEFINITION, NAMESPACE))
        assert definitions is not None
        definitions.subscribe(wake_when_served(self.informers))
        self._wake(definitions, controller.keys_of_definition)
        if namespaces is not None:
            self._wake(namespaces, controller.keys_of_namespace)

    def follow(self, informers: Iterable[InformerRunner]) -> Iterator[InformerRunner]:
        """Yield informers of children and externals that are started later, each of which wakes parents."""
        for runner in informers:
            self._wake(runner, self.controller.keys_of_child)
            self._wake(runner, self.controller.keys_of_external)
            yield runner

    def _wake(self, runner: InformerRunner, keys_of: KeysOf, urgency_of: UrgencyOf = at_once) -> None:
        handle = self.pool.handler(keys_of, urgency_of=urgency_of)

        def wake(change: CacheChange) -> None:
            if self.leading:
                handle(change)

        runner.subscribe(wake)


class Composites:
    """The composites of one process on `api`.

    `shared` watches definitions and namespaces; if it is given, the caller runs it. Construct it in the event loop that
    runs it.
    """

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        composites: Sequence[Composite],
        events: EventSink,
        options: CompositeOptions,
        shared: Informers | None = None,
    ) -> None:
        refuse_shared_kinds(composites)
        self._clock = clock
        self._runs_shared = shared is None
        own = shared_informers(
            api, clock, options.random, namespaces=any(one.namespaces or one.asks_namespaces for one in composites)
        )
        self.shared = Informers(own) if shared is None else shared
        self.running = tuple(_running(api, clock, one, events, options, self.shared) for one in composites)
        for one in self.running:
            one.subscribe()

    @property
    def worker_pools(self) -> Mapping[str, WorkerPool]:
        """The worker pools by the name of their controller."""
        return {one.name: one.pool for one in self.running}

    @property
    def informers(self) -> Iterable[InformerRunner]:
        """The informers of all composites."""
        shared = self.shared if self._runs_shared else ()
        return (*shared, *(runner for one in self.running for runner in one.informers))

    async def wait_ready(self) -> None:
        """Wait until every cache has synced."""
        for runner in self.informers:
            await runner.wait_for_sync()

    async def run(self, elected: Callable[[], Awaitable[None]]) -> None:
        """Watch at once, write once `elected` returns, until cancelled."""
        async with anyio.create_task_group() as group:
            for runner in self.informers:
                group.start_soon(runner.run, name=f"informer {runner.kind.kind}")
            for one in self.running:
                group.start_soon(one.run, self._clock, elected, name=one.name)

    async def finish(self) -> None:
        """Begin no further reconcile, and wait for the running ones."""
        async with anyio.create_task_group() as group:
            for one in self.running:
                group.start_soon(one.pool.finish)


def refuse_shared_kinds(composites: Iterable[Composite], others: Iterable[StatusWriter] = ()) -> None:
    """Raise CommandError if two would write the statuses of one kind; `others` write some too."""
    if told := list(shared_statuses((*map(status_writer, composites), *others))):
        raise CommandError("\n".join(told))


def _running(
    api: KubeApi, clock: Clock, composite: Composite, events: EventSink, options: CompositeOptions, shared: Informers
) -> RunningComposite:
    informers = Informers(informers_of(api, clock, options.random, composite, options.namespaces))
    externals = Informers(external_informers(api, clock, options.random, composite, options.namespaces))
    controller = CompositeController(
        composite, api, informers, externals, shared, clock, events, entropy=options.entropy, random=options.random
    )
    blocked = BlockedPassReporter(
        {composite.kind: blocked_words(composite)},
        api,
        informers,
        None,
        clock,
        events,
        manager=composite.manager,
        remedy=partial(remedy, composite),
    )
    pool = WorkerPool(
        controller.reconcile,
        clock=clock,
        workers=options.workers,
        queue=WorkQueue(group_of=_namespace),
        has_seen=informers.has_seen,
        refresh=informers.refresh,
        report_blocked=blocked.report,
        not_permitted=partial(not_permitted, composite),
        observer=options.observer(composite.controller),
        name=composite.controller,
        run_id=options.run_id,
        admits=lambda key: options.shard.owns(key.namespace),
    )
    controller.taken.wake = pool.enqueue
    controller.on_write = blocked.on_write = lambda key, written: pool.record_write(key, written)
    running = RunningComposite(controller, pool)
    controller.accounts.informers_of = lambda account: running.follow(
        account_informers(api, clock, options.random, composite, account)
    )
    return running


def _namespace(key: ObjectRef) -> str | None:
    return key.namespace
