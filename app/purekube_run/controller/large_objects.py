"""Turns for passes on objects that are cached as outlines: decoded, each may take fifty times its size (RUN-11)."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar

import anyio

_PASS: ContextVar[AsyncExitStack | None] = ContextVar("pass", default=None)


@asynccontextmanager
async def one_pass() -> AsyncIterator[None]:
    """Run one pass in the block, and end its turn for large objects, if it took one."""
    async with AsyncExitStack() as ending:
        reset = _PASS.set(ending)
        try:
            yield
        finally:
            _PASS.reset(reset)


class LargeObjects:
    """The turn for the one pass that may hold large objects whole. Other passes wait until it has ended."""

    def __init__(self) -> None:
        self._lock = anyio.Lock()
        self._holder: AsyncExitStack | None = None

    async def wait(self) -> None:
        """Wait for the turn, which lasts until this pass ends. Outside of a pass, return at once."""
        ending = _PASS.get()
        if ending is None or ending is self._holder:
            return
        await ending.enter_async_context(self._lock)
        self._holder = ending
        ending.callback(self._leave)

    def _leave(self) -> None:
        self._holder = None
