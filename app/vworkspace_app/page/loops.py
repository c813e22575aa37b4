"""Calls from the event loop that serves the page to coroutines on the loop that owns the caches."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

import anyio

from vworkspace_app.page.screens import Unanswered

T = TypeVar("T")

_PATIENCE: Final = 5.0
"""The seconds without an answer after which the other event loop counts as blocked."""


class OtherLoop:
    """A way to run coroutines on the event loop that created it, for callers on other loops and threads."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    async def __call__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run the coroutine that `work` returns on that event loop, and return its result.

        Raises its exceptions, and Unanswered if that loop is blocked or has ended.
        """
        if asyncio.get_running_loop() is self._loop:
            return await work()
        asked = work()
        try:
            future = asyncio.run_coroutine_threadsafe(asked, self._loop)
        except RuntimeError:  # the loop is closed
            asked.close()
            raise Unanswered("the operator has stopped") from None
        try:
            with anyio.fail_after(_PATIENCE):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise Unanswered(f"the operator has not answered for {_PATIENCE:g} s") from None
        finally:
            future.cancel()
