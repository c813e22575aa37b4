"""The work queue: which key is reconciled next, and when a failed one is tried again (RUN-2).

A deterministic data structure: time is an argument, jitter a hash of key and attempt. It holds keys, not
events: adding a key twice does it once.

Guarantees
    One worker per key: a key handed out is not handed out again before its `done`.
    Nothing is lost: a key added while it is being worked on is handed out once more afterwards.
    Earliest wins: of several adds the earliest time counts, and the highest priority.
    No starvation: groups (namespaces) of one priority take turns, and once a key of a lower priority has
    waited for `ageing` seconds its priority gets every fourth take.
    One at a time: of keys with the same `serial_of` one is in hand at most; the others wait for its `done`, and
    come before it when it is asked for again (OPS-5).
Assumption
    `now` never goes backwards between calls.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar, assert_never

import attrs

from vworkspace_core.controller.backoff import Backoff, jitter_of
from vworkspace_core.controller.queue.outcome import (
    Failed,
    Outcome,
    Outdated,
    Postponed,
    Priority,
    QueueStats,
    Running,
    Succeeded,
)

K = TypeVar("K", bound=Hashable)


class Lane(Generic[K]):
    """Ready keys of one priority. A group is whatever must not starve another: a namespace.

    Kept in two orders: by group for whose turn it is, and by age to see what has waited too long. All
    calls take constant time.
    """

    def __init__(self) -> None:
        self._since: OrderedDict[K, float] = OrderedDict()
        self._turns: OrderedDict[Hashable, OrderedDict[K, None]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._since)

    def push(self, key: K, group: Hashable, now: float) -> None:
        """Put a key that is not in the lane at the end of its group."""
        self._since[key] = now
        self._turns.setdefault(group, OrderedDict())[key] = None

    def remove(self, key: K, group: Hashable) -> float:
        """Take a key out; returns when it came in."""
        keys = self._turns[group]
        del keys[key]
        if not keys:
            del self._turns[group]
        return self._since.pop(key)

    @property
    def oldest_since(self) -> float:
        """When the oldest key came in. Raises StopIteration when the lane is empty."""
        return next(iter(self._since.values()))

    @property
    def next_in_turn(self) -> K:
        """The first key of the group whose turn it is."""
        return next(iter(next(iter(self._turns.values()))))

    def pass_turn(self, group: Hashable) -> None:
        """Put a group that was just served behind all others."""
        if group in self._turns:
            self._turns.move_to_end(group)


_OUTDATED: Final = Backoff(base=0.05, cap=30.0)


class Retries(Generic[K]):
    """Failures by key since its last success; `total` counts all that were ever tried again."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._failures: dict[K, int] = {}
        self.total = 0

    def failures(self, key: K) -> int:
        """Failures of a key since its last success."""
        return self._failures.get(key, 0)

    def delay(self, key: K, outcome: Outcome) -> float | None:
        """Seconds until the key is wanted again after `outcome`; None when it is not."""
        match outcome:
            case Succeeded(look_again_after):
                self._failures.pop(key, None)
                return look_again_after
            case Failed(retry_after, at_most):
                attempt = self._failed(key)
                return max(retry_after, min(at_most, self._backoff.delay(attempt, jitter_of(key, attempt))))
            case Outdated():
                attempt = self._failed(key)
                return _OUTDATED.delay(attempt - 1, jitter_of(key, attempt)) if attempt > 1 else 0.0
            case Postponed(seconds):
                return seconds
            case _:
                assert_never(outcome)

    def _failed(self, key: K) -> int:
        self.total += 1
        self._failures[key] = attempt = self._failures.get(key, 0) + 1
        return attempt


# Sleeping until an instant can end a rounding error before it; without the slack the driver would spin.
_SLACK = 1e-6
_TAKES_PER_AGED = 4


@attrs.frozen
class _Wanted:
    ready_at: float
    priority: Priority

    def merged(self, other: "_Wanted | None") -> "_Wanted":
        if other is None:
            return self
        return _Wanted(min(self.ready_at, other.ready_at), max(self.priority, other.priority))


class WorkQueue(Generic[K]):
    """See the module. `group_of` names what takes turns; `ageing` is in seconds.

    `serial_of` names what a key is worked on alone for, None for nothing; it is asked when the key's turn comes.
    """

    def __init__(
        self,
        *,
        group_of: Callable[[K], Hashable] = lambda key: None,
        serial_of: Callable[[K], Hashable | None] = lambda key: None,
        backoff: Backoff = Backoff(),  # noqa: B008 (frozen)
        ageing: float = 30.0,
    ) -> None:
        self._group_of = group_of
        self._serial_of = serial_of
        self._ageing = ageing
        self._lanes: dict[Priority, Lane[K]] = {priority: Lane() for priority in sorted(Priority, reverse=True)}
        self._pending: dict[K, _Wanted] = {}  # every key asked for and not taken, wherever it waits
        self._ready: dict[K, Priority] = {}  # those of them that are in a lane
        self._delays: list[tuple[float, int, K]] = []  # a heap; entries overtaken by an earlier add are skipped
        self._running: dict[K, Running] = {}
        self._serials: dict[K, Hashable] = {}  # what keys in hand are worked on alone for
        self._parked: dict[Hashable, dict[K, None]] = {}  # pending keys by what is in hand for another
        self._retries: Retries[K] = Retries(backoff)
        self._sequence = 0
        self._since_aged = 0
        self._closed = False
        self._adds = 0

    def add(self, key: K, now: float, *, priority: Priority = Priority.LIVE, after: float = 0.0) -> bool:
        """Ask for `key`, in `after` seconds at the latest. False after `shutdown`."""
        if self._closed:
            return False
        self._adds += 1
        self._want(key, _Wanted(now + after, priority), now)
        return True

    def hasten(self, key: K, now: float) -> None:
        """Look at `key` now if it is asked for and only waits for its time; otherwise nothing."""
        wanted = self._pending.get(key)
        if wanted is not None and not self._closed:
            self._want(key, _Wanted(now, wanted.priority), now)

    def take(self, now: float) -> K | None:
        """The next key to work on, None when none is ready. The caller owes a `done`."""
        self._promote(now)
        self._park()
        lane = self._choose(now)
        if lane is None:
            return None
        key = lane.next_in_turn
        waited = now - lane.remove(key, group := self._group_of(key))
        lane.pass_turn(group)
        self._running[key] = Running(self._ready.pop(key), now, waited)
        if (serial := self._serial_of(key)) is not None:
            self._serials[key] = serial
            self._parked[serial] = {}
        del self._pending[key]
        return key

    def done(self, key: K, now: float, outcome: Outcome) -> None:
        """Give a taken key back. Raises KeyError for a key that is not in hand."""
        running = self._running.pop(key)
        self._unpark(key, now)
        asked_meanwhile = self._pending.pop(key, None)
        delay = self._retries.delay(key, outcome)
        if delay is not None and not self._closed:
            asked_meanwhile = _Wanted(now + delay, running.priority).merged(asked_meanwhile)
        if asked_meanwhile is not None:
            self._want(key, asked_meanwhile, now)

    def next_wakeup(self, now: float) -> float | None:
        """Seconds until `take` can give something, 0 when it can now, None when nothing is waiting."""
        self._promote(now)
        self._park()
        if self._ready:
            return 0.0
        return self._delays[0][0] - now if self._delays else None

    def running(self, key: K) -> Running | None:
        """What is known of a key in hand."""
        return self._running.get(key)

    @property
    def oldest_taken(self) -> float | None:
        """When the key that is in hand for longest was taken."""
        return min((one.taken_at for one in self._running.values()), default=None)

    def unfinished(self, now: float) -> float:
        """For how long all keys in hand have been so, together."""
        return sum(now - one.taken_at for one in self._running.values())

    def failures(self, key: K) -> int:
        """Failures of a key since its last success."""
        return self._retries.failures(key)

    def shutdown(self, now: float, *, drain: bool = False) -> None:
        """Accept nothing more and forget delayed keys; ready ones are still handed out only with `drain`."""
        self._promote(now)
        self._closed = True
        self._delays.clear()
        parked = {key: None for keys in self._parked.values() for key in keys}
        kept = {**self._ready, **self._running, **parked} if drain else {}
        for key in [key for key in self._pending if key not in kept]:
            self._withdraw(key)
            del self._pending[key]

    @property
    def drained(self) -> bool:
        """After `shutdown`: nothing is left to hand out and nothing in hand."""
        return self._closed and not self._pending and not self._running

    @property
    def stats(self) -> QueueStats:
        """Counts at this moment."""
        ready = {priority: len(lane) for priority, lane in self._lanes.items()}
        waiting = len(self._pending) - len(self._ready) - sum(1 for key in self._running if key in self._pending)
        return QueueStats(ready, waiting, len(self._running), self._adds, self._retries.total)

    def _want(self, key: K, asked: _Wanted, now: float) -> None:
        known = self._pending.get(key)
        wanted = asked.merged(known)
        if wanted == known:
            return
        self._pending[key] = wanted
        if key not in self._running:
            self._place(key, wanted, now)

    def _place(self, key: K, wanted: _Wanted, now: float) -> None:
        """Put a pending key where it waits: into its lane when its time has come, else among the delayed."""
        if wanted.ready_at <= now + _SLACK:
            if self._ready.get(key) is not wanted.priority:
                self._withdraw(key)
                self._ready[key] = wanted.priority
                self._lanes[wanted.priority].push(key, self._group_of(key), now)
        elif not self._closed:
            self._sequence += 1
            heapq.heappush(self._delays, (wanted.ready_at, self._sequence, key))
            self._forget_overtaken()
        else:
            del self._pending[key]

    def _withdraw(self, key: K) -> None:
        priority = self._ready.pop(key, None)
        if priority is not None:
            self._lanes[priority].remove(key, self._group_of(key))

    def _promote(self, now: float) -> None:
        """Move delayed keys whose time has come into their lanes, and drop overtaken entries on top."""
        while self._delays:
            ready_at, _, key = self._delays[0]
            if self._waits(key, ready_at):
                if ready_at > now + _SLACK:
                    return
                self._place(key, self._pending[key], now)
            heapq.heappop(self._delays)

    def _park(self) -> None:
        """Put keys whose turn it would be aside while another one of the same serial is in hand."""
        for lane in self._lanes.values():
            while lane and (serial := self._serial_of(lane.next_in_turn)) in self._parked:
                key = lane.next_in_turn
                self._withdraw(key)
                self._parked[serial][key] = None

    def _unpark(self, key: K, now: float) -> None:
        """Let what waited for `key` to be done have its turn."""
        for other in self._parked.pop(self._serials.pop(key, None), {}):
            if other in self._pending and other not in self._running:
                self._place(other, self._pending[other], now)

    def _waits(self, key: K, ready_at: float) -> bool:
        """Whether a heap entry still says when its key is due."""
        wanted = self._pending.get(key)
        return (
            wanted is not None and wanted.ready_at == ready_at and key not in self._ready and key not in self._running
        )

    def _forget_overtaken(self) -> None:
        """Keep the heap within twice the keys that wait, however often they are added earlier."""
        if len(self._delays) > 2 * len(self._pending) + 64:
            self._delays = [entry for entry in self._delays if self._waits(entry[2], entry[0])]
            heapq.heapify(self._delays)

    def _choose(self, now: float) -> Lane[K] | None:
        """The highest lane with keys; every fourth time the lower one whose oldest key has aged most."""
        filled = [lane for lane in self._lanes.values() if lane]
        aged = [lane for lane in filled[1:] if now - lane.oldest_since >= self._ageing]
        self._since_aged = self._since_aged + 1 if aged else 0
        if self._since_aged >= _TAKES_PER_AGED:
            self._since_aged = 0
            return min(aged, key=lambda lane: lane.oldest_since)
        return filled[0] if filled else None
