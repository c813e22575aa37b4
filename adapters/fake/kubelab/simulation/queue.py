"""The work queue of simulated controllers: the time when each object is due, its backoff, and the number of workers."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final, TypeAlias

import attrs

from purekube.apimachinery.manifest import ObjectRef

Together: TypeAlias = "Callable[[Sequence[Callable[[], Awaitable[None]]]], Awaitable[None]]"
"""A function that runs pieces of work on different objects, and returns when all of them are done."""


async def in_turn(pieces: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Run the functions `pieces` one after the other, in order, so that a simulation can be replayed."""
    for piece in pieces:
        await piece()


def workers(count: int) -> Together:
    """Return a function that runs a list of functions, up to `count` at once, and returns when all have ended.

    A controller with `count` workers runs its passes in the same way. The returned function needs asyncio's event loop.
    """

    async def together(pieces: Sequence[Callable[[], Awaitable[None]]]) -> None:
        import asyncio

        waiting = iter(pieces)

        async def worker() -> None:
            for piece in waiting:
                await piece()

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(count, len(pieces))):
                tasks.create_task(worker())

    return together


# Larger ones would overflow a float at last, and any cap is reached long before.
_LARGEST_EXPONENT: Final = 64


@attrs.frozen
class FailureBackoff:
    """The delay of client-go's exponential failure rate limiter: `base * 2**(failures - 1)` seconds, at most `cap`.

    As in client-go, the delay has no jitter, unlike the delay of `purekube.controller.backoff`.
    """

    base: float
    cap: float

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after `failures` consecutive failures (1 or more)."""
        # client-go: util/workqueue/default_rate_limiters.go, TypedItemExponentialFailureRateLimiter.When.
        return min(self.base * 2.0 ** min(failures - 1, _LARGEST_EXPONENT), self.cap)


class DueTimes:
    """A work queue of simulated controllers: the time at which each object is due for a reconcile pass.

    An object counts as having no work left if its next pass is only the regular one at the end of an interval.
    """

    def __init__(self) -> None:
        self._due: dict[ObjectRef, datetime] = {}
        self._intervals: set[ObjectRef] = set()
        self._not_before: dict[ObjectRef, datetime] = {}
        self._first: datetime | None = None
        """The least of `_due`, if `_is_known`."""
        self._is_known = True

    def add(self, ref: ObjectRef, when: datetime, *, interval: bool = False) -> None:
        """Make the object due at `when`, unless it is due earlier already.

        After `hold`, the object is not due before the end of the hold. With `interval` the pass is only the regular one
        at the end of an interval, so the object counts as having no work left.
        """
        # client-go's queue keeps an object once, at the earliest of its times (util/workqueue/delaying_queue.go).
        when = max(when, self._not_before.get(ref, when))
        self._due[ref] = min(when, self._due.get(ref, when))
        self._is_known = False
        (self._intervals.add if interval else self._intervals.discard)(ref)

    def hold(self, ref: ObjectRef, until: datetime) -> None:
        """Let the object become due no earlier than `until`, even if `add` gives an earlier time. `take` ends this."""
        self._not_before[ref] = until

    def take(self, ref: ObjectRef) -> bool:
        """Remove the object from the queue. Return whether the object was in the queue."""
        self._not_before.pop(ref, None)
        self._intervals.discard(ref)
        self._is_known = False
        return self._due.pop(ref, None) is not None

    drop = take

    def at(self, now: datetime) -> list[ObjectRef]:
        """Return the objects that are due at `now`, sorted by their references."""
        return sorted(ref for ref, when in self._due.items() if when <= now)

    def first(self) -> datetime | None:
        """Return when the first object is due, or None if the queue is empty."""
        if not self._is_known:
            self._first, self._is_known = min(self._due.values(), default=None), True
        return self._first

    def first_work(self) -> datetime | None:
        """Return when the first object with work left is due, or None if there is no such object.

        Objects whose next pass is only the regular one at the end of an interval are skipped.
        """
        return min((when for ref, when in self._due.items() if ref not in self._intervals), default=None)

    def clear(self) -> None:
        """Remove all objects from the queue."""
        self._due.clear()
        self._is_known = False
        self._intervals.clear()
        self._not_before.clear()
