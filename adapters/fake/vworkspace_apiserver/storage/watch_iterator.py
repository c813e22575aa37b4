"""A pollable watch as an async iterator, for handlers that run under an event loop."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from vworkspace_apiserver.storage.watch_stream import WatchStream
from vworkspace_core.ports import WatchEvent

BOOKMARK_SECONDS: Final = 60.0
"""How often a watch gets a bookmark."""

Sleep = Callable[[float], Awaitable[None]]


async def follow(
    stream: WatchStream, timeout_seconds: float, version: Callable[[], int], sleep: Sleep | None = None
) -> AsyncIterator[WatchEvent]:
    """Events of `stream` as they come, until it ends or `timeout_seconds` have passed (W-19).

    Bookmarks carry the `version` of their moment. `sleep` measures time (a virtual clock's, or asyncio's when
    None). Raises the stream's ApiFailure after what came before it.
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
            timer.result()  # a clock that fails is not mistaken for the end of the time
    finally:
        timer.cancel()
        stream.end()


async def _tick(stream: WatchStream, seconds: float, version: Callable[[], int], sleep: Sleep) -> None:
    """Bookmarks while the time lasts."""
    while seconds > 0:
        await sleep(min(BOOKMARK_SECONDS, seconds))
        seconds -= BOOKMARK_SECONDS
        stream.bookmark(version())
