"""The intake of reviews: how much of them is held at one time, and which is judged next (RUN-11).

Any pod may post to the webhooks. So a large review never delays a small one: the beginning of every body has room, an
incomplete body is dropped for others that need its room, small reviews have turns of their own, and of the waiting ones
the smallest is judged first.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio
import attrs
from starlette.requests import Request

LARGEST: Final = 3 * 1024 * 1024
"""The maximum bytes of a review.

An API server takes requests of 3 MiB at most; larger objects are refused, not judged.
"""
BUDGET: Final = 24 * 1024 * 1024
"""The bytes of all reviews that are being read at one time: beyond them the API server is asked to try again."""
SMALL: Final = 64 * 1024
"""The bytes at the beginning of each review that do not count towards the budget."""

_LONG: Final = 0.005
"""The seconds from which a part of a review is a burden on the event loop."""
_OLDEST_EVERY: Final = 8
"""One turn in so many goes to the oldest review, so that large ones are judged, too."""


@attrs.define(eq=False)
class ReviewBody:
    """The part of a review's body that has arrived so far."""

    content: bytearray = attrs.field(factory=bytearray)
    refusal: int = 0
    """The HTTP code to answer instead of a judgement; 0 for none."""
    reading: anyio.CancelScope = attrs.field(factory=anyio.CancelScope)

    @property
    def counted(self) -> int:
        """The number of bytes by which the body counts against the memory limit."""
        return max(0, len(self.content) - SMALL)


@attrs.define
class Bodies:
    """The bodies of reviews that are in memory now, which have a total limit."""

    _held: dict[ReviewBody, bool] = attrs.field(factory=dict)
    """The bodies, with whether each is complete."""

    async def read(self, request: Request) -> ReviewBody:
        """Read a body and hold it until `let_go`. If it cannot be read, return an empty one with a refusal."""
        body = ReviewBody()
        self._held[body] = False
        try:
            with body.reading:
                async for chunk in request.stream():
                    body.content += chunk
                    if len(body.content) > LARGEST:
                        self._refuse(body, 413)
                    while self._counted() > BUDGET:
                        self._refuse(max(self._halves(), key=lambda half: half.counted), 503)
                    if body.refusal:
                        break
        except BaseException:
            self.let_go(body)
            raise
        if not body.refusal:
            self._held[body] = True
        return body

    def let_go(self, body: ReviewBody) -> None:
        """Stop holding a body."""
        self._held.pop(body, None)

    def _counted(self) -> int:
        return sum(body.counted for body in self._held)

    def _halves(self) -> list[ReviewBody]:
        return [body for body, is_whole in self._held.items() if not is_whole]

    def _refuse(self, body: ReviewBody, code: int) -> None:
        body.refusal, body.content = code, bytearray()
        body.reading.cancel()
        self.let_go(body)


@attrs.define
class Turns:
    """A lock that gives reviews their turns one at a time, with pauses for the event loop.

    After each part of a review the event loop is free for as long as that part took. Otherwise reviews that arrive
    together would block it for the sum of their times (RUN-11). `now` is the monotonic clock.
    """

    now: Callable[[], float]
    _waiting: list[tuple[int, int, anyio.Event]] = attrs.field(factory=list)
    """Waiting reviews by size and number."""
    _number: int = 0
    _given: int = 0
    _is_taken: bool = False
    _began: float = 0.0
    _free_at: float = 0.0

    @asynccontextmanager
    async def taken(self, size: int) -> AsyncIterator[None]:
        """Wait for the turn of a review of `size` bytes, and hold it while the block runs."""
        await self._wait(size)
        try:
            await anyio.sleep(max(0.0, self._free_at - self.now()))
            self._began = self.now()
            yield
            ended = self.now()
            self._free_at = 2 * ended - self._began
        finally:
            self._next()

    async def rest(self) -> None:
        """Let the event loop run between two parts of a review, unless the last part was short."""
        took = self.now() - self._began
        if took >= _LONG:
            await anyio.sleep(took)
            self._began = self.now()

    async def _wait(self, size: int) -> None:
        if not self._is_taken:
            self._is_taken = True
            return
        self._number += 1
        waiter = (size, self._number, anyio.Event())
        self._waiting.append(waiter)
        try:
            await waiter[2].wait()
        except BaseException:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            else:
                self._next()
            raise

    def _next(self) -> None:
        """Give the turn to the smallest waiting review; at intervals to the oldest."""
        self._is_taken = bool(self._waiting)
        if self._waiting:
            self._given += 1
            by_age = not self._given % _OLDEST_EVERY
            waiter = min(self._waiting, key=lambda one: one[1] if by_age else one[:2])
            self._waiting.remove(waiter)
            waiter[2].set()


class Lanes:
    """Two locks, one for small reviews and one for large reviews. `now` is the monotonic clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._small, self._large = Turns(now), Turns(now)

    def of(self, size: int) -> Turns:
        """Return the lock for a review of this size in bytes."""
        return self._small if size <= SMALL else self._large
