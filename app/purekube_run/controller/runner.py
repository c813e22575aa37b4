"""A running controller: it enqueues keys for changes and resyncs, and reconciles them.

Errors that stop a reconcile are reported to users. A key is the reference of an object.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NoReturn
from weakref import WeakKeyDictionary

import anyio
import attrs

from purekube.apimachinery.manifest import ObjectRef
from purekube.controller.backoff import jitter_of
from purekube.controller.decision import Requeue
from purekube.controller.informer.changes import CacheChange
from purekube.controller.queue.own_writes import ObjectVersion
from purekube.controller.queue.workqueue import Priority, WorkQueue
from purekube.controller.reconcile import ReconcileResult
from purekube.controller.shard import WHOLE, Shard
from purekube.ports import Clock, Entropy, EventSink, KubeApi
from purekube_run.controller.controller import ControllerDefinition, For, Watches
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.observer import LoggingObserver, ReconcileObserver
from purekube_run.controller.status_reports import StatusReports, log_pass
from purekube_run.controller.worker_pool import WorkerPool
from purekube_run.process.machine import SystemEntropy

_SPREAD: Final = 0.1
"""The fraction of a resync interval over which the keys of a resync are spread, so that few are enqueued at once."""


@attrs.frozen
class ManagerOptions:
    """The options that all controllers of a process share.

    `random` returns numbers in [0, 1) for jitter; `entropy` generates secrets. `observer` is called with a controller's
    name, and returns the observer of the controller's reconciles. Ids of reconciles begin with `run_id`. `concluded` is
    called with the result of each pass (reconcile of one object). Only objects in namespaces of this process's `shard`
    (one of several parts into which namespaces are divided) are reconciled. If `namespaces` is not empty, composites
    (kinds whose objects have children) watch only these namespaces.
    """

    random: Callable[[], float]
    workers: int = 16
    run_id: str = ""
    observer: Callable[[str], ReconcileObserver] = lambda controller: LoggingObserver()
    shard: Shard = WHOLE
    entropy: Entropy = attrs.field(factory=SystemEntropy)
    namespaces: tuple[str, ...] = ()
    concluded: Callable[[ObjectRef, ReconcileResult], None] = log_pass


class Runner:
    """A running controller: it enqueues keys for changes, and reconciles them with a worker pool.

    A key is the reference of an object. While this process does not lead, changes enqueue no keys, since the queue
    would only grow. When the process becomes leader, all objects are enqueued.
    """

    def __init__(
        self, controller: ControllerDefinition, api: KubeApi, clock: Clock, events: EventSink, options: ManagerOptions
    ) -> None:
        self.controller = controller
        self._clock = clock
        self._leading = False
        self._concluded = options.concluded
        self._reports = StatusReports(controller, api, clock, events, on_write=self._record_write)
        self.pool = WorkerPool(
            self._reconcile,
            clock=clock,
            workers=controller.queue.workers,
            time_limit=controller.queue.time_limit,
            queue=_queue_of(controller),
            has_seen=controller.caches.has_seen,
            refresh=controller.caches.refresh,
            report_blocked=self._reports.report_blocked,
            not_permitted=controller.writer.not_permitted,
            observer=options.observer(controller.name),
            name=controller.name,
            run_id=options.run_id,
            admits=lambda key: options.shard.owns(key.namespace),
        )
        # Weak, since background tasks subscribe to informers that come and go.
        self._subscribed: WeakKeyDictionary[InformerRunner, list[Callable[[CacheChange], None]]] = WeakKeyDictionary()
        self.subscribe(controller.own)
        for watches in controller.watches:
            self.subscribe(watches)

    @property
    def name(self) -> str:
        """The name of the controller in metrics and logs."""
        return self.controller.name

    @property
    def informers(self) -> tuple[InformerRunner, ...]:
        """The informers that the controller needs, for its own kind and for the other kinds that it reads or writes."""
        return (*self.controller.caches, *self.controller.further)

    async def run(self, elected: Callable[[], Awaitable[None]]) -> None:
        """Reconcile until cancelled, after the caches have synced and `elected` has returned.

        `elected` waits until this process is the leader.
        """
        await self.controller.synced()
        await elected()
        self._leading = True
        for key in self.controller.all_keys():
            self.pool.enqueue(key, priority=Priority.BACKGROUND)
        async with anyio.create_task_group() as group:
            for task in self.controller.background:
                group.start_soon(task, self, name=f"{self.name} background")
            group.start_soon(self.pool.run, name=self.name)
            if self.controller.resync is not None:
                group.start_soon(self._resync, self.controller.resync, name=f"{self.name} resync")

    def enqueue(self, key: ObjectRef, *, priority: Priority = Priority.LIVE, after: float = 0.0) -> None:
        """Request a reconcile of an object after at most `after` seconds.

        Keys of a higher `priority` are reconciled first. Nothing happens while this process does not lead (hold the
        Lease of the leader election).
        """
        if self._leading:
            self.pool.enqueue(key, priority=priority, after=after)

    def subscribe(self, watches: For | Watches) -> None:
        """Also enqueue keys for the changes that the informers in `watches` report."""
        handle = self.pool.handler(watches.to, urgency_of=watches.urgency)

        def wake(change: CacheChange) -> None:
            if self._leading:
                handle(change)

        for informer in watches.informers:
            informer.subscribe(wake)
            self._subscribed.setdefault(informer, []).append(wake)

    def close(self) -> None:
        """Unsubscribe from all informers, so that their changes enqueue no more keys."""
        for informer, handlers in self._subscribed.items():
            for wake in handlers:
                informer.unsubscribe(wake)
        self._subscribed.clear()

    async def _reconcile(self, key: ObjectRef) -> ReconcileResult:
        """Reconcile an object, unless another controller writes its status.

        Then pass the result to the options' `concluded`.
        """
        stored = await self.controller.stored(key)
        if stored is not None and await self._reports.is_anothers(key, stored):
            return ReconcileResult(requeue=Requeue.SLOW)
        result = await self.controller.reconciler.reconcile(key, stored, partial(self._record_write, key))
        await self._reports.report_conflict(key, result)
        self._concluded(key, result)
        return result

    def _record_write(self, key: ObjectRef, written: ObjectVersion) -> None:
        self.controller.on_write(key, written)
        self.pool.record_write(key, written)

    async def _resync(self, every: float) -> NoReturn:
        """Enqueue all keys at background priority every `every` seconds, even if nothing changed (REC-8)."""
        rounds = 0
        while True:
            await self._clock.sleep(every)
            rounds += 1
            for key in self.controller.all_keys():
                self.controller.on_resync(key)
                after = jitter_of(key, rounds) * every * _SPREAD
                self.pool.enqueue(key, priority=Priority.BACKGROUND, after=after)


def _queue_of(controller: ControllerDefinition) -> WorkQueue[ObjectRef]:
    exclusion_key = controller.queue.exclusion_key
    if exclusion_key is None:
        return WorkQueue(group_of=_namespace)
    return WorkQueue(group_of=_namespace, exclusion_key=exclusion_key)


def _namespace(key: ObjectRef) -> str | None:
    return key.namespace
