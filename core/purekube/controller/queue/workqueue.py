"""The work queue: which key (an object to reconcile) is reconciled next, and when a failed one is tried again (RUN-2).

A deterministic data structure: time is an argument, jitter a hash of key and attempt. It holds keys, not events: a key
that is added twice before it is taken is handed out once.

Guarantees
    One worker per key: a key handed out is not handed out again before its `done`.
    Nothing is lost: a key added while it is being worked on is handed out once more afterwards.
    Earliest wins: of several adds the earliest time counts, and the highest priority.
    Started work is finished first: a key whose downstream controller has reported a final result (`VERDICT`) goes
    before keys that are new, so that it waits only for other such keys.
    No starvation: groups (namespaces) of one priority take turns, and once a key of a lower priority has
    waited for `ageing` seconds its priority gets every fourth take.
    Mutual exclusion: of keys with the same `exclusion_key` at most one is processed; the others wait for its `done`,
    and go before it if it is added again (OPS-5).
Assumption
    `now` never goes backwards between calls.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from enum import IntEnum
from typing import Final, Generic, TypeVar, assert_never

import attrs

from purekube.controller.backoff import Backoff, jitter_of
from purekube.controller.decision import REFUSED_SECONDS, SLOW_SECONDS, Requeue, RequeuePace

K = TypeVar("K", bound=Hashable)


class Priority(IntEnum):
    """The priorities of keys (objects to reconcile). A key with a higher priority is processed first."""

    BACKGROUND = 0
    """Objects of the initial list, and resyncs: they are not urgent."""
    LIVE = 1
    """A change that was just observed."""
    VERDICT = 2
    """A downstream controller has reported a final result: only the status is left to write."""
    URGENT = 3
    """A person, or a job of the control plane (a unit of work that a server sends), requested the reconcile."""


@attrs.frozen
class Processing:
    """A key that a worker has taken: its priority, when it was taken, and for how many seconds it had been ready until
    then.
    """

    priority: Priority
    taken_at: float
    waited: float


@attrs.frozen
class QueueStats:
    """Counts of keys (objects to reconcile) for metrics: keys ready per priority, delayed, and being processed.

    `adds` and `retries` are the numbers of adds and retries since the start.
    """

    ready: dict[Priority, int]
    delayed: int
    processing: int
    adds: int
    retries: int


class PriorityLevel(Generic[K]):
    """The ready keys (objects to reconcile) of one priority, in groups (namespaces) that take turns so that none
    starves another.

    Keys are kept in two orders: by group for the turns, and by age to find keys that have waited too long. All calls
    take constant time.
    """

    def __init__(self) -> None:
        self._since: OrderedDict[K, float] = OrderedDict()
        self._turns: OrderedDict[Hashable, OrderedDict[K, None]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._since)

    def push(self, key: K, group: Hashable, now: float) -> None:
        """Add a key at the end of its group. The key must not be in this level yet."""
        self._since[key] = now
        self._turns.setdefault(group, OrderedDict())[key] = None

    def remove(self, key: K, group: Hashable) -> None:
        """Remove a key from this level, of which it must be a part. `group` is the group in which it was added."""
        keys = self._turns[group]
        del keys[key]
        if not keys:
            del self._turns[group]
        del self._since[key]

    @property
    def oldest_since(self) -> float:
        """The time when the oldest key became ready. Raises StopIteration if the level is empty."""
        return next(iter(self._since.values()))

    @property
    def next_in_turn(self) -> K:
        """The first key of the group whose turn it is."""
        return next(iter(next(iter(self._turns.values()))))

    def pass_turn(self, group: Hashable) -> None:
        """Move a group that was just served to the end of the order in which groups take turns."""
        if group in self._turns:
            self._turns.move_to_end(group)


_OVERTAKEN: Final = Backoff(base=0.05, cap=30.0)
"""The backoff after the second and each further pass in a row on an outdated copy: the cache may need a moment."""


class RateLimiter(Generic[K]):
    """The number of failures of each key (object to reconcile) since its last success, and the delay that follows from
    it.

    `total` counts all retries.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._failures: dict[K, int] = {}
        self.total = 0

    def failures(self, key: K) -> int:
        """Return the number of failures of a key since its last success."""
        return self._failures.get(key, 0)

    def delay(self, key: K, requeue: Requeue) -> float | None:
        """Return the seconds until the key is reconciled again as `requeue` says; None if it is not requeued.

        The call updates the key's failure count: the pace of `requeue` says whether it counts a failure, resets the
        count, or keeps it.
        """
        match requeue.pace:
            case RequeuePace.NONE:
                # As client-go's Forget: a success, even one with a later pass, begins the backoff again.
                self._failures.pop(key, None)
                return requeue.after
            case RequeuePace.SLOW:
                self._failures.pop(key, None)
                return requeue.no_later_than(SLOW_SECONDS).after
            case RequeuePace.BACKOFF:
                return max(requeue.not_before, self._backoff_of(key))
            case RequeuePace.REFUSED:
                return max(requeue.not_before, min(REFUSED_SECONDS, self._backoff_of(key)))
            case RequeuePace.IMMEDIATE:
                attempt = self._count(key)
                again = _OVERTAKEN.delay(attempt - 1, jitter_of(key, attempt)) if attempt > 1 else 0.0
                return max(requeue.not_before, again)
            case RequeuePace.TOLD:
                self._count(key)
                return requeue.after
            case RequeuePace.UNDECIDED:
                return requeue.after
            case _:
                assert_never(requeue.pace)

    def _backoff_of(self, key: K) -> float:
        attempt = self._count(key)
        return self._backoff.delay(attempt, jitter_of(key, attempt))

    def _count(self, key: K) -> int:
        self.total += 1
        self._failures[key] = attempt = self._failures.get(key, 0) + 1
        return attempt


# Sleeping until an instant can end a rounding error before it; without the slack the worker pool would spin.
_SLACK = 1e-6
# One take in four goes to keys that have waited too long, so that a flood of live changes cannot starve them.
_TAKES_PER_AGED = 4
_WITH_DEADLINE = frozenset({RequeuePace.BACKOFF, RequeuePace.REFUSED})
"""The paces with which `Requeue.after` limits the backoff (OPS-12)."""


@attrs.frozen
class _QueuedKey:
    ready_at: float
    priority: Priority

    def merged(self, other: "_QueuedKey | None") -> "_QueuedKey":
        if other is None:
            return self
        return _QueuedKey(min(self.ready_at, other.ready_at), max(self.priority, other.priority))


class WorkQueue(Generic[K]):
    """A queue of keys (objects to reconcile), with priorities, delays, backoff, and turns between groups of keys.

    `group_of` returns the group of a key, such as its namespace. `exclusion_key` returns the lock that a key needs,
    None for no lock: of keys with the same lock only one is processed at a time. `exclusion_key` is called when the
    key's turn comes. Keys that have waited for `ageing` seconds get one turn in four, whatever their priority.
    """

    def __init__(
        self,
        *,
        group_of: Callable[[K], Hashable] = lambda key: None,
        exclusion_key: Callable[[K], Hashable | None] = lambda key: None,
        backoff: Backoff = Backoff(),  # noqa: B008 (frozen)
        ageing: float = 30.0,
    ) -> None:
        self._group_of = group_of
        self._exclusion_key = exclusion_key
        self._ageing = ageing
        self._levels: dict[Priority, PriorityLevel[K]] = {
            priority: PriorityLevel() for priority in sorted(Priority, reverse=True)
        }
        self._pending: dict[K, _QueuedKey] = {}  # every key added and not taken, wherever it waits
        self._ready: dict[K, Priority] = {}  # those of them that are in a level
        self._delays: list[tuple[float, int, K]] = []  # a heap; entries overtaken by an earlier add are skipped
        self._processing: dict[K, Processing] = {}
        self._exclusions: dict[K, Hashable] = {}  # the exclusion keys of the keys being processed
        self._blocked: dict[Hashable, dict[K, None]] = {}  # pending keys by the exclusion key that another key holds
        self._rate_limiter: RateLimiter[K] = RateLimiter(backoff)
        self._sequence = 0
        self._since_aged = 0
        self._closed = False
        self._adds = 0

    def add(self, key: K, now: float, *, priority: Priority = Priority.LIVE, after: float = 0.0) -> bool:
        """Add `key` to the queue, due in at most `after` seconds, and return True.

        If the key is in the queue already, the earlier time and the higher `priority` count. After `shutdown`, return
        False and add nothing.
        """
        if self._closed:
            return False
        self._adds += 1
        self._want(key, _QueuedKey(now + after, priority), now)
        return True

    def wake(self, key: K, now: float) -> None:
        """Make `key` due now if it is in the queue; otherwise do nothing."""
        desired = self._pending.get(key)
        if desired is not None and not self._closed:
            self._want(key, _QueuedKey(now, desired.priority), now)

    def take(self, now: float) -> K | None:
        """Return the next key to work on; None if no key is ready. The caller must call `done` for the key."""
        self._promote(now)
        self._block()
        level = self._choose(now)
        if level is None:
            return None
        key = level.next_in_turn
        level.remove(key, group := self._group_of(key))
        level.pass_turn(group)
        waited = max(0.0, now - self._pending.pop(key).ready_at)
        self._processing[key] = Processing(self._ready.pop(key), now, waited)
        if (exclusion := self._exclusion_key(key)) is not None:
            self._exclusions[key] = exclusion
            self._blocked[exclusion] = {}
        return key

    def done(self, key: K, now: float, requeue: Requeue) -> None:
        """Mark a taken key as done, and schedule its next turn: at the time that `requeue` gives, or at that of an add
        made meanwhile, whichever is earlier. Raises KeyError for a key that is not being processed.
        """
        if requeue.after is not None and requeue.pace in _WITH_DEADLINE and key in self._processing:
            self.add(key, now, after=requeue.after)
        processing = self._processing.pop(key)
        self._unblock(key, now)
        asked_meanwhile = self._pending.pop(key, None)
        delay = self._rate_limiter.delay(key, requeue)
        if delay is not None and not self._closed:
            asked_meanwhile = _QueuedKey(now + delay, processing.priority).merged(asked_meanwhile)
        if asked_meanwhile is not None:
            self._want(key, asked_meanwhile, now)

    def next_wakeup(self, now: float) -> float | None:
        """Return the seconds until `take` can return a key: 0 if a key is ready, None if the queue is empty."""
        self._promote(now)
        self._block()
        if self._ready:
            return 0.0
        return self._delays[0][0] - now if self._delays else None

    def due_in(self, key: K, now: float) -> float | None:
        """Return the seconds until a key in the queue is ready; None if the key is not in the queue."""
        pending = self._pending.get(key)
        return None if pending is None else max(0.0, pending.ready_at - now)

    @property
    def is_backlogged(self) -> bool:
        """True if keys above the background priority wait for a worker."""
        return any(level for priority, level in self._levels.items() if priority > Priority.BACKGROUND)

    def processing(self, key: K) -> Processing | None:
        """Return the record of a key that a worker is processing, None for other keys."""
        return self._processing.get(key)

    @property
    def oldest_taken(self) -> float | None:
        """The time when the key that has been processed for longest was taken; None if no key is being processed."""
        return min((processing.taken_at for processing in self._processing.values()), default=None)

    def unfinished(self, now: float) -> float:
        """Return the sum, over the keys being processed, of the seconds since each was taken."""
        return sum(now - processing.taken_at for processing in self._processing.values())

    def entries(self) -> Iterator[tuple[K, str, float]]:
        """Yield every key with its state and a time.

        The state is `processing` or `ready` since that time, or `waiting` until that time.
        """
        for key, processing in self._processing.items():
            yield key, "processing", processing.taken_at
        for key, queued in self._pending.items():
            if key not in self._processing:
                yield key, "ready" if key in self._ready else "waiting", queued.ready_at

    def failures(self, key: K) -> int:
        """Return the number of failures of a key since its last success."""
        return self._rate_limiter.failures(key)

    def shutdown(self, now: float, *, drain: bool = False) -> None:
        """Accept no more keys and drop delayed keys. With `drain`, `take` still returns the ready keys."""
        self._promote(now)
        self._closed = True
        blocked = {key: None for keys in self._blocked.values() for key in keys}
        handed_out = {**self._ready, **self._processing, **blocked} if drain else {}
        for key in [key for key in self._pending if key not in handed_out]:
            self._withdraw(key)
            del self._pending[key]

    @property
    def drained(self) -> bool:
        """True after `shutdown` once no key is being processed or left to hand out."""
        return self._closed and not self._pending and not self._processing

    @property
    def stats(self) -> QueueStats:
        """The present numbers of keys, adds and retries, for metrics."""
        ready = {priority: len(level) for priority, level in self._levels.items()}
        waiting = len(self._pending) - len(self._ready) - sum(1 for key in self._processing if key in self._pending)
        return QueueStats(ready, waiting, len(self._processing), self._adds, self._rate_limiter.total)

    def _want(self, key: K, asked: _QueuedKey, now: float) -> None:
        known = self._pending.get(key)
        desired = asked.merged(known)
        if desired == known:
            return
        self._pending[key] = desired
        if key not in self._processing:
            self._place(key, desired, now)

    def _place(self, key: K, desired: _QueuedKey, now: float) -> None:
        """Put a pending key into its priority's level if the key is due, otherwise into the heap of delayed keys."""
        if desired.ready_at <= now + _SLACK:
            if self._ready.get(key) is not desired.priority:
                self._withdraw(key)
                self._ready[key] = desired.priority
                self._levels[desired.priority].push(key, self._group_of(key), now)
        elif not self._closed:
            self._sequence += 1
            heapq.heappush(self._delays, (desired.ready_at, self._sequence, key))
            self._forget_overtaken()
        else:
            del self._pending[key]

    def _withdraw(self, key: K) -> None:
        priority = self._ready.pop(key, None)
        if priority is not None:
            self._levels[priority].remove(key, self._group_of(key))

    def _promote(self, now: float) -> None:
        """Move delayed keys that are due into their priorities' levels; drop outdated entries at the heap's top."""
        while self._delays:
            ready_at, _, key = self._delays[0]
            if self._waits(key, ready_at):
                if ready_at > now + _SLACK:
                    return
                self._place(key, self._pending[key], now)
            heapq.heappop(self._delays)

    def _block(self) -> None:
        """Set keys aside whose lock (exclusion key) is held by a key that is being processed, until the next key of
        each level can be taken.
        """
        for level in self._levels.values():
            while level and (exclusion := self._exclusion_key(level.next_in_turn)) in self._blocked:
                key = level.next_in_turn
                self._withdraw(key)
                self._blocked[exclusion][key] = None

    def _unblock(self, key: K, now: float) -> None:
        """Make ready the keys that waited because `key`, which needs the same lock, was being processed."""
        for other in self._blocked.pop(self._exclusions.pop(key, None), {}):
            if other in self._pending and other not in self._processing:
                self._place(other, self._pending[other], now)

    def _waits(self, key: K, ready_at: float) -> bool:
        """Report whether the heap entry (`key`, `ready_at`) is still valid. It is valid if the key is still delayed
        until exactly `ready_at`.
        """
        desired = self._pending.get(key)
        return (
            desired is not None
            and desired.ready_at == ready_at
            and key not in self._ready
            and key not in self._processing
        )

    def _forget_overtaken(self) -> None:
        """Remove the outdated entries from the heap of delayed keys, once about half of its entries are outdated."""
        if len(self._delays) > 2 * len(self._pending) + 64:
            self._delays = [entry for entry in self._delays if self._waits(entry[2], entry[0])]
            heapq.heapify(self._delays)

    def _choose(self, now: float) -> PriorityLevel[K] | None:
        """Return the highest level that has keys, or None if no level has keys.

        If lower levels have overdue keys, every fourth call returns the level with the oldest of these keys.
        """
        filled = [level for level in self._levels.values() if level]
        aged = [level for level in filled[1:] if now - level.oldest_since >= self._ageing]
        self._since_aged = self._since_aged + 1 if aged else 0
        if self._since_aged >= _TAKES_PER_AGED:
            self._since_aged = 0
            return min(aged, key=lambda level: level.oldest_since)
        return filled[0] if filled else None
