"""The worker pool, which hands keys of the queue to a bounded number of workers (RUN-3).

A key is the reference of an object to reconcile.
"""

import math
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import TypeAlias

import anyio
import anyio.lowlevel
import structlog

from purekube.apimachinery.errors import NotFound, OperatorError, Right, Stale, Unavailable
from purekube.apimachinery.manifest import ObjectRef
from purekube.controller.decision import Requeue, RequeuePace
from purekube.controller.health import WorkerPoolVitals
from purekube.controller.informer.changes import CacheChange, ChangeType
from purekube.controller.queue.event_handlers import KeysOf, UrgencyOf, at_once
from purekube.controller.queue.own_writes import (
    EventOrigin,
    HasSeen,
    HotLoopDetector,
    ObjectEvent,
    ObjectVersion,
    OwnWrites,
    PendingWrites,
)
from purekube.controller.queue.workqueue import Priority, WorkQueue
from purekube.controller.reconcile import ReconcileResult
from purekube.controller.reconcile_error import ReconcileError, reconcile_error_of
from purekube.ports import Clock
from purekube_run.controller.informers import one_pass
from purekube_run.controller.observer import (
    DECISION,
    LoggingObserver,
    ReconcileAttempt,
    ReconcileObserver,
    WorkerPoolCounters,
    WorkerPoolStats,
)

Reconcile: TypeAlias = Callable[[ObjectRef], Awaitable[ReconcileResult]]
"""A function that runs one pass over an object: observe, decide, execute. It may return or raise an OperatorError."""

Refresh: TypeAlias = Callable[[ObjectRef], Awaitable[None]]
"""A function that reads one object live into the cache. It may raise an OperatorError."""

ReportBlocked: TypeAlias = Callable[[ObjectRef, ReconcileError], Awaitable[None]]
"""A function that reports to users the error that stopped the pass over an object. It must not raise."""


def _everything(_: ObjectRef) -> bool:
    """Return True for every key: a process without shards reconciles all objects."""
    return True


class WorkerPool:
    """A pool of workers that reconcile the keys of a queue: at most `workers` at once, and never one key twice at once.

    A key is the reference of an object. A reconcile that raises is retried with backoff. A reconcile that takes longer
    than `time_limit` seconds is cancelled. After a reconcile that wrote objects, its key waits until the cache shows
    these writes (`has_seen`). If the cache does not show them after `cache_timeout` seconds, `refresh` reads the
    objects from the API server, and the key waits no longer. `report_blocked` reports an error that stopped a pass (one
    reconcile), and `not_permitted` returns the message about a missing right. Keys for which `admits` returns False
    belong to other shards (processes for other namespaces), and are ignored. Log lines contain `name`, and a reconcile
    id that begins with `run_id`.
    """

    def __init__(
        self,
        reconcile: Reconcile,
        *,
        clock: Clock,
        workers: int = 4,
        time_limit: float = 60.0,
        queue: WorkQueue[ObjectRef] | None = None,
        has_seen: HasSeen = lambda ref, version: True,
        refresh: Refresh | None = None,
        report_blocked: ReportBlocked | None = None,
        not_permitted: Callable[[Right], str] = "may not {}".format,
        cache_timeout: float = 5.0,
        detector: HotLoopDetector[ObjectRef] | None = None,
        observer: ReconcileObserver | None = None,
        name: str = "",
        run_id: str = "",
        admits: Callable[[ObjectRef], bool] = _everything,
    ) -> None:
        self._reconcile = reconcile
        self._admits = admits
        self._clock = clock
        self._workers = workers
        self._time_limit = time_limit
        self._queue = WorkQueue(group_of=lambda ref: ref.namespace) if queue is None else queue
        self._pending_writes: PendingWrites[ObjectRef] = PendingWrites(has_seen, timeout=cache_timeout)
        self._own_writes: OwnWrites[ObjectRef] = OwnWrites()
        self._refresh = _trust_cache if refresh is None else refresh
        self._not_permitted = not_permitted
        self._report_blocked = _no_report if report_blocked is None else report_blocked
        self._counters = WorkerPoolCounters(
            observer or LoggingObserver(), HotLoopDetector() if detector is None else detector
        )
        self._name = name
        self._run_id = run_id
        self._serial = count(1)
        self._wake = anyio.Event()
        self._wakes_at = math.inf
        self._active = False
        self._ended = anyio.Event()
        self._moved_at = 0.0

    def enqueue(self, ref: ObjectRef, *, priority: Priority = Priority.LIVE, after: float = 0.0) -> None:
        """Request a reconcile of `ref` after at most `after` seconds.

        Keys of a higher `priority` are reconciled first. After `shutdown`, or if `ref` belongs to another shard (a
        process for other namespaces), nothing happens.
        """
        if not self._admits(ref):
            return
        now = self._clock.monotonic()
        self._queue.add(ref, now, priority=priority, after=after)
        self._wake_before(now)

    def handler(self, keys_of: KeysOf, *, urgency_of: UrgencyOf = at_once) -> Callable[[CacheChange], None]:
        """Return a handler for changes in informers, which enqueues the keys that `keys_of` yields for a change.

        `urgency_of` returns the priority of these keys, and the longest delay until they are reconciled. A change that
        a key's own pass wrote does not enqueue the key again if the pass reached a fixed point (another pass would
        write nothing).
        """

        def handle(change: CacheChange) -> None:
            version = None if change.type is ChangeType.DELETED else change.version
            urgency = urgency_of(change)
            event = ObjectEvent(change.ref, version, urgency.priority, urgency.after)
            for key in filter(self._admits, keys_of(change)):
                self._on_event(key, event)

        return handle

    def _on_event(self, key: ObjectRef, event: ObjectEvent) -> None:
        match self._own_writes.origin_of(key, event):
            case EventOrigin.FOREIGN:
                self.enqueue(key, priority=event.priority, after=event.after)
            case EventOrigin.OWN:
                if self._pending_writes.is_waiting(key):
                    now = self._clock.monotonic()
                    self._queue.wake(key, now)
                    self._wake_before(now)
                self._pending_writes.unseen(key)  # forgets the writes that the cache has seen by now
            case EventOrigin.DEFERRED:
                pass

    def record_write(self, key: ObjectRef, *written: ObjectVersion) -> None:
        """Record that the pass over `key` wrote the objects `written`, which counts even if the pass fails later.

        The changes that these writes cause are then known as the pass's own. The key's next pass waits until the cache
        shows them, within a time limit.
        """
        self._pending_writes.record(key, self._clock.monotonic(), written)
        for version in written:
            self._own_writes.record(key, version)

    async def run(self) -> None:
        """Reconcile keys until `shutdown` was called and the running reconciles have ended, or until cancelled."""
        slots = anyio.Semaphore(self._workers)
        self._active, self._moved_at = True, self._clock.monotonic()
        async with anyio.create_task_group() as group:
            while True:
                # The slot comes before the key: a key taken without a free worker could not give way to a more urgent
                # one.
                await slots.acquire()
                key = await self._next()
                if key is None:
                    break
                group.start_soon(self._work, key, slots, name=f"worker of {self._name}")
        self._ended.set()

    async def _work(self, key: ObjectRef | None, slots: anyio.Semaphore) -> None:
        """Reconcile `key`, then further keys as long as keys are ready, and release a slot.

        Compared with a new worker, this saves a task and two turns of the event loop.
        """
        try:
            while key is not None:
                await self._process(key)
                await anyio.lowlevel.checkpoint()  # a pass over an object at rest never waits
                key = self._take()
                self._wake_before(self._clock.monotonic())
        finally:
            slots.release()
            self._wake.set()

    def shutdown(self, *, drain: bool = False) -> None:
        """Accept no more keys, and drop the keys that wait for a later time. Running reconciles are completed.

        With `drain`, keys that wait only for a free worker are still reconciled; otherwise they are dropped, too.
        """
        self._queue.shutdown(self._clock.monotonic(), drain=drain)
        self._wake.set()

    async def finish(self) -> None:
        """Accept no more keys, and wait until the running reconciles have ended."""
        self.shutdown()
        if self._active:
            await self._ended.wait()

    @property
    def is_backlogged(self) -> bool:
        """Report whether keys wait for a worker, not counting keys of background priority (such as resyncs)."""
        return self._queue.is_backlogged

    @property
    def has_keys(self) -> bool:
        """Report whether any key is being reconciled or waits, even for a later time."""
        stats = self._queue.stats
        return bool(stats.delayed or stats.processing or any(stats.ready.values()))

    def due_in(self, key: ObjectRef) -> float | None:
        """Return the seconds until the scheduled reconcile of a key, or None if the key has none."""
        return self._queue.due_in(key, self._clock.monotonic())

    def queued(self) -> Iterator[tuple[ObjectRef, str, float]]:
        """Yield every key of the queue with its state (`processing`, `ready` or `waiting`) and a monotonic time.

        The time is the beginning of the state `processing` or `ready`, and the end of the state `waiting`.
        """
        return self._queue.entries()

    def stats(self) -> WorkerPoolStats:
        """Return the counts of reconciles so far, and the present counts of the queue's keys."""
        return self._counters.stats(self._queue.stats)

    def vitals(self, name: str) -> WorkerPoolVitals:
        """Return the worker pool's present state for health checks: its waiting keys, and how long reconciles have run.

        `name` is the name of the controller in the result.
        """
        now, queue, oldest = self._clock.monotonic(), self._queue.stats, self._queue.oldest_taken
        return WorkerPoolVitals(
            name=name,
            active=self._active,
            ready=sum(queue.ready.values()),
            running=queue.processing,
            workers=self._workers,
            oldest=0.0 if oldest is None else now - oldest,
            time_limit=self._time_limit,
            moved_ago=now - self._moved_at,
            unfinished=self._queue.unfinished(now),
        )

    async def _next(self) -> ObjectRef | None:
        """Return the next key to reconcile, or None once the queue is shut down and empty."""
        while True:
            key = self._take()
            if key is not None or self._queue.drained:
                return key
            now = self._clock.monotonic()
            wait = self._queue.next_wakeup(now)
            self._wakes_at = math.inf if wait is None else now + wait
            self._wake = anyio.Event()
            with anyio.move_on_after(wait):
                await self._wake.wait()

    def _wake_before(self, now: float) -> None:
        """Wake the loop that starts workers if a key is ready before the loop wakes anyway. `now` is the monotonic
        time.
        """
        if self._wake.is_set():
            return
        wait = self._queue.next_wakeup(now)
        if wait is not None and now + wait < self._wakes_at:
            self._wake.set()

    def _take(self) -> ObjectRef | None:
        """Return the most urgent key that is ready, or None if no key is ready."""
        now = self._clock.monotonic()
        key = self._queue.take(now)
        if key is not None:
            self._moved_at = now
        return key

    async def _process(self, key: ObjectRef) -> None:
        # Workers are tasks with contexts of their own, so that every log line of a reconcile names its object.
        DECISION.set(None)
        reconcile_id = f"{self._run_id}-{next(self._serial)}"
        structlog.contextvars.bind_contextvars(
            controller=self._name, namespace=key.namespace or "", name=key.name, reconcile_id=reconcile_id
        )
        # This holds if the task is cancelled in the middle of the reconcile, whose writes may be incomplete.
        requeue = Requeue.BACKOFF
        try:
            requeue = await self._process_key(key, reconcile_id)
        finally:
            self._moved_at = now = self._clock.monotonic()
            self._queue.done(key, now, requeue)

    async def _process_key(self, key: ObjectRef, reconcile_id: str) -> Requeue:
        """Reconcile a key, or postpone that if the cache does not show the key's last writes yet.

        Return when the key must be requeued.
        """
        started = self._clock.monotonic()
        unseen = self._pending_writes.unseen(key)
        wait = self._pending_writes.next_check(key, started) if unseen else None
        if wait is not None:
            self._counters.postponed()
            return Requeue(RequeuePace.UNDECIDED, wait)
        attempt = await self._attempt_and_enqueue_events(key, unseen, reconcile_id)
        return self._conclude(key, attempt, started)

    async def _attempt_and_enqueue_events(
        self, key: ObjectRef, unseen: tuple[ObjectRef, ...], reconcile_id: str
    ) -> ReconcileAttempt:
        """Make one attempt to reconcile a key and report its error, then enqueue the key again if objects changed
        meanwhile.

        Changes that the attempt itself wrote do not count if it reached a fixed point (another pass would write
        nothing), or if it crashed: it is repeated with backoff, and may write the same each time. The report never
        counts: a message that differs each time would repeat the attempt without end.
        """
        self._own_writes.begin(key)
        attempt = None
        try:
            attempt = await self._attempt(key, unseen)
            if attempt.crash is None and not attempt.result.at_fixed_point:
                self._own_writes.disown(key)
            await self._report_what_stopped(key, attempt, reconcile_id)
            return attempt
        finally:
            if attempt is None:  # cancelled in the middle
                self._own_writes.disown(key)
            for event in self._own_writes.end(key):
                self.enqueue(key, priority=event.priority, after=event.after)

    async def _report_what_stopped(self, key: ObjectRef, attempt: ReconcileAttempt, reconcile_id: str) -> None:
        """Report the error that ended an attempt, for example in the object's status, unless the pass reported it
        already.
        """
        error = attempt.crash or attempt.result.error
        if error is None or attempt.result.is_reported or isinstance(error, Stale | NotFound):
            return
        transient = isinstance(error, Unavailable) and not attempt.timed_out
        with anyio.move_on_after(self._time_limit):
            await self._report_blocked(
                key, reconcile_error_of(error, self._not_permitted, reconcile_id, transient=transient)
            )

    async def _attempt(self, key: ObjectRef, unseen: tuple[ObjectRef, ...]) -> ReconcileAttempt:
        """Run the reconcile within its time limit. An exception is not raised, but is part of the returned attempt."""
        with anyio.move_on_after(self._time_limit):
            try:
                return ReconcileAttempt(await self._decide(key, unseen))
            except OperatorError as error:
                return ReconcileAttempt.failed(error)
            except Exception as error:
                return ReconcileAttempt.crashed(error)
        return ReconcileAttempt.late(self._time_limit)

    async def _decide(self, key: ObjectRef, unseen: tuple[ObjectRef, ...]) -> ReconcileResult:
        """Reconcile `key`, after reading the objects in `unseen` from the API server.

        These are objects that an earlier pass wrote, and whose writes the cache did not show in time.
        """
        if unseen:
            self._counters.read_live()
            for ref in unseen:
                await self._refresh(ref)
            self._pending_writes.forget(key)
        async with one_pass():
            return await self._reconcile(key)

    def _conclude(self, key: ObjectRef, attempt: ReconcileAttempt, started: float) -> Requeue:
        """Count a finished attempt, and return when the key must be requeued. `started` is a monotonic time."""
        now, result = self._clock.monotonic(), attempt.result
        self._pending_writes.record(key, now, result.written)
        processing = self._queue.processing(key)
        waited = processing.waited if processing else 0.0
        self._counters.record(key, attempt, began=started, now=now, waited=waited)
        return result.requeue


async def _trust_cache(ref: ObjectRef) -> None:
    """Do nothing. This is the default of `refresh`: without live reads, the cache is trusted after `cache_timeout`."""


async def _no_report(key: ObjectRef, blocked: ReconcileError) -> None:
    """Do nothing. This is the default of `report_blocked`: errors appear only in the log."""
