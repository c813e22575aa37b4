"""The intake of reviews: how many of their bytes are in memory, and which review is judged next (RUN-11).

Any pod may post to the webhooks, so a large review must never delay a small one. The first bytes of every body always
have room; an incomplete body is dropped if others need its room. Small reviews are judged one at a time, and so are
large ones, but each group has its own lock, so that no small review waits for a large one. Of the reviews that wait for
a lock, the smallest is usually judged first.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import anyio
import attrs
from starlette.requests import Request

Rest: TypeAlias = Callable[[], Awaitable[None]]
"""A function to await between two parts of a review, so that other tasks get a turn."""
LARGEST: Final = 3 * 1024 * 1024
"""The maximum size of a review in bytes.

An API server accepts requests of at most 3 MiB. A larger review is refused without being judged.
"""
BUDGET: Final = 24 * 1024 * 1024
"""The maximum bytes of all reviews in memory. Beyond it the largest incomplete one is refused, to be tried again."""
SMALL: Final = 64 * 1024
"""The number of first bytes of each review that do not count towards the budget."""

_LONG: Final = 0.005
"""The seconds above which a part of a review is followed by a pause, so that other tasks get a turn."""
_OLDEST_EVERY: Final = 8
"""Every eighth turn goes to the oldest waiting review, so that large ones are judged, too."""


@attrs.define(eq=False)
class ReviewBody:
    """The body of a review as far as it has been received, in `content`. It may be refused, with an HTTP code.

    `reading` is the scope that cancels its reception.
    """

    content: bytearray = attrs.field(factory=bytearray)
    refusal: int = 0
    """The HTTP code to answer instead of judging the review; 0 to judge it."""
    reading: anyio.CancelScope = attrs.field(factory=anyio.CancelScope)

    @property
    def counted(self) -> int:
        """The number of bytes that count towards the memory budget: all after the first `SMALL` bytes."""
        return max(0, len(self.content) - SMALL)


@attrs.define
class Bodies:
    """The bodies of reviews in memory, which together must not exceed a budget in bytes."""

    _held: dict[ReviewBody, bool] = attrs.field(factory=dict)
    """The bodies, each with whether it is complete."""

    async def read(self, request: Request) -> ReviewBody:
        """Read the body of a request, and keep it in memory until `let_go`.

        If the body is too large or the budget is exhausted, return an empty body with the HTTP code of the refusal.
        """
        body = ReviewBody()
        self._held[body] = False
        try:
            with body.reading:
                async for chunk in request.stream():
                    body.content += chunk
                    if len(body.content) > LARGEST:
                        self._refuse(body, 413)
                    while sum(body.counted for body in self._held) > BUDGET:
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
        """Remove a body from memory, so that its bytes no longer count."""
        self._held.pop(body, None)

    def _halves(self) -> list[ReviewBody]:
        return [body for body, is_whole in self._held.items() if not is_whole]

    def _refuse(self, body: ReviewBody, code: int) -> None:
        body.refusal, body.content = code, bytearray()
        body.reading.cancel()
        self.let_go(body)


@attrs.define
class Turns:
    """A lock by which reviews are judged one at a time, with pauses for other tasks of the event loop.

    After each part of a review the event loop is left free for as long as the part took. Otherwise reviews that arrive
    together would block it for the sum of their times (RUN-11). `now` is the monotonic clock.
    """

    now: Callable[[], float]
    _waiting: list[tuple[int, int, anyio.Event]] = attrs.field(factory=list)
    """The waiting reviews: size, number by arrival, and the event that is set when it is their turn."""
    _number: int = 0
    _given: int = 0
    _is_taken: bool = False
    _began: float = 0.0
    _free_at: float = 0.0

    @asynccontextmanager
    async def taken(self, size: int) -> AsyncIterator[None]:
        """Wait until a review of `size` bytes gets the lock, and hold the lock while the block runs.

        The smallest waiting review comes first, but every eighth time the oldest.
        """
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
        """Pause between two parts of a review for as long as the last part took, unless it was short."""
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
        """Pass the lock to the smallest waiting review, but every eighth time to the oldest."""
        self._is_taken = bool(self._waiting)
        if self._waiting:
            self._given += 1
            by_age = not self._given % _OLDEST_EVERY
            waiter = min(self._waiting, key=lambda one: one[1] if by_age else one[:2])
            self._waiting.remove(waiter)
            waiter[2].set()


class Lanes:
    """A pair of locks for judging reviews, so that small ones need not wait for large ones.

    `now` is the monotonic clock.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._small, self._large = Turns(now), Turns(now)

    def of(self, size: int) -> Turns:
        """Return the lock for a review of this size in bytes."""
        return self._small if size <= SMALL else self._large
