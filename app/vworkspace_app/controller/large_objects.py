"""One pass at a time works on objects that are not held whole: decoded, each may take fifty times its size (RUN-11)."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar

import anyio

_PASS: ContextVar[AsyncExitStack | None] = ContextVar("pass", default=None)


@asynccontextmanager
async def one_pass() -> AsyncIterator[None]:
    """Give back at the end of the block what `LargeObjects` lent within it."""
    async with AsyncExitStack() as ending:
        reset = _PASS.set(ending)
        try:
            yield
        finally:
            _PASS.reset(reset)


class LargeObjects:
    """Who works on objects that were read whole. The others wait until that pass has ended."""

    def __init__(self) -> None:
        self._lock = anyio.Lock()
        self._holder: AsyncExitStack | None = None

    async def wait(self) -> None:
        """Wait for the turn of this pass, which lasts until it ends. Outside of a pass there is nothing to wait for."""
        ending = _PASS.get()
        if ending is None or ending is self._holder:
            return
        await ending.enter_async_context(self._lock)
        self._holder = ending
        ending.callback(self._leave)

    def _leave(self) -> None:
        self._holder = None
