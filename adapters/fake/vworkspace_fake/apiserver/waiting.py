"""A pollable watch as an async iterator, for faces that run under an event loop."""

from collections.abc import AsyncIterator, Awaitable, Callable

from vworkspace_core.ports import WatchEvent
from vworkspace_fake.apiserver.watching import WatchStream

__all__ = ["follow"]


async def follow(
    stream: WatchStream, timeout_seconds: float, sleep: Callable[[float], Awaitable[None]] | None = None
) -> AsyncIterator[WatchEvent]:
    """Events of `stream` as they come, until it ends or `timeout_seconds` have passed (W-19).

    `sleep` measures the timeout (a virtual clock's, or asyncio's when None). Raises the stream's
    ApiFailure after what came before it.
    """
    import asyncio  # here, so that importing the fake costs no event loop

    ready = asyncio.Event()
    stream.on_ready = ready.set
    timer = asyncio.ensure_future((sleep or asyncio.sleep)(timeout_seconds))
    timer.add_done_callback(lambda _: stream.end())
    try:
        while True:
            ready.clear()
            for event in stream.drain():
                yield event
            if stream.ended:
                break
            await ready.wait()
        for event in stream.drain():
            yield event
        if stream.failure is not None:
            raise stream.failure
    finally:
        timer.cancel()
        stream.end()
