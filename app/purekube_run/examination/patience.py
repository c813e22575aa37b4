"""Waits of the examiner, which last longer on a busy machine."""

import os
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import anyio

T = TypeVar("T")

_LOOK: Final = 0.05
_AT_MOST: Final = 5.0
"""The greatest result of `busyness`, so that a wait for an effect that never occurs still ends."""


def busyness() -> float:
    """Return the load per processor: the tasks that compete for each processor, on average over the last minute, from 1
    to 5.

    With a result of 3, an operator gets a third of a processor. The result is 1 if the system reports no load.
    """
    try:
        load = os.getloadavg()[0]
    except OSError:
        return 1.0
    return min(_AT_MOST, max(1.0, load / (os.cpu_count() or 1)))


def no_wait(look: Callable[[], T]) -> Callable[[], Awaitable[T]]:
    """Return an asynchronous function that calls the synchronous function `look`, as an argument for `first_true`."""

    async def called() -> T:
        return look()

    return called


async def first_true(
    look: Callable[[], Awaitable[T | None]], seconds: float, busyness: Callable[[], float] = busyness
) -> T | None:
    """Call `look` repeatedly until its result is true, and return that result, or None after a timeout.

    The timeout is `seconds` multiplied by the result of `busyness`. It is computed again after each call of `look`,
    because a machine may become busy during a wait.
    """
    began = anyio.current_time()
    with anyio.move_on_after(seconds * busyness()) as scope:
        while True:
            if result := await look():
                return result
            scope.deadline = began + seconds * busyness()
            await anyio.sleep(_LOOK)
    return None
