"""A pollable watch as an async iterator, for handlers that run under an event loop."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from kubelab.storage.watch_stream import WatchStream
from purekube.ports import WatchEvent

BOOKMARK_SECONDS: Final = 60.0
"""The seconds between two bookmarks of a watch."""

Sleep = Callable[[float], Awaitable[None]]


async def follow(
    stream: WatchStream, timeout_seconds: float, version: Callable[[], int], sleep: Sleep | None = None
) -> AsyncIterator[WatchEvent]:
    """Yield events of `stream` as they arrive, until it ends or `timeout_seconds` have passed (W-19).

    A bookmark has the current `version`. `sleep` measures time (a virtual clock's sleep, or asyncio's when None). If
    the stream fails, its ApiFailure is raised after the events that precede it.
    """
    import asyncio  # here, so that importing the fake costs no event loop

    ready = asyncio.Event()
    stream.on_ready = ready.set
    timer = asyncio.ensure_future(_tick(stream, timeout_seconds, version, sleep or asyncio.sleep))
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
        if timer.done():
            timer.result()  # re-raise an error of the clock: it is no timeout
    finally:
        timer.cancel()
        stream.end()


async def _tick(stream: WatchStream, seconds: float, version: Callable[[], int], sleep: Sleep) -> None:
    """Send bookmarks until the time is over."""
    while seconds > 0:
        await sleep(min(BOOKMARK_SECONDS, seconds))
        seconds -= BOOKMARK_SECONDS
        stream.bookmark(version())
