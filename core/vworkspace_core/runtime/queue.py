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
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import attrs

from vworkspace_core.runtime.backoff import Backoff
from vworkspace_core.runtime.lane import Lane
from vworkspace_core.runtime.outcome import (
    Failed,
    Outcome,
    Outdated,
    Postponed,
    Priority,
    QueueStats,
    Running,
    Succeeded,
)
from vworkspace_core.runtime.retries import Retries

__all__ = [
    "Failed",
    "Outcome",
    "Outdated",
    "Postponed",
    "Priority",
    "QueueStats",
    "Running",
    "Succeeded",
    "WorkQueue",
]

K = TypeVar("K", bound=Hashable)

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
