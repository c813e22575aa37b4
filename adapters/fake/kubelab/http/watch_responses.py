"""The response to a watch: chunked, with one JSON line for each event, sent as soon as the event occurs."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any

from starlette.types import Receive, Send

from kubelab.model.failure import ApiFailure, status_body
from kubelab.model.records import encode
from kubelab.storage.watch_stream import Line, WatchStream

RenderLine = Callable[[Line], bytes]
"""A function that renders one event as a line of the response."""


async def send_watch(
    stream: WatchStream,
    receive: Receive,
    send: Send,
    *,
    take: Callable[[], Awaitable[list[Line]]],
    render: RenderLine,
    content_type: bytes,
    audit_id: str,
    timing: AbstractContextManager[None],
) -> None:
    """Send the events of `stream` as an HTTP response, one line for each event.

    The response ends when the stream ends, its time has passed or the client disconnects. `receive` and `send` are the
    ASGI functions of the request. `take` returns the events that wait to be sent; if it raises ApiFailure, the stream
    ends with that error. `render` turns an event into a line. `audit_id` is the answer's header of that name. `timing`
    sends bookmarks and ends the stream in time.
    """
    ready = asyncio.Event()
    stream.on_ready = ready.set
    gone = asyncio.ensure_future(_disconnected(receive))
    # ASGI reports a client that has gone only to a pending receive; a stream without events would never notice.
    gone.add_done_callback(lambda _: stream.end())
    headers = [
        (b"content-type", content_type),
        # apiserver: endpoints/filters/cachecontrol.go.
        (b"cache-control", b"no-cache, private"),
        (b"audit-id", audit_id.encode("latin-1", "replace")),
    ]
    try:
        with timing:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            # kube-apiserver flushes the head before the first event (endpoints/handlers/watch.go).
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            while True:
                ready.clear()
                lines = []
                try:
                    lines = await take()
                except ApiFailure as failure:
                    stream.fail(failure)
                if lines:
                    await send({"type": "http.response.body", "body": b"".join(map(render, lines)), "more_body": True})
                elif stream.ended:
                    break
                else:
                    await ready.wait()
            await send({"type": "http.response.body", "body": _last_line(stream), "more_body": False})
    finally:
        gone.cancel()


async def _disconnected(receive: Receive) -> None:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return


def _last_line(stream: WatchStream) -> bytes:
    """Return the ERROR line of a stream that failed (W-11). It is empty if the stream did not fail."""
    if stream.failure is None:
        return b""
    error: dict[str, Any] = {"type": "ERROR", "object": status_body(stream.failure)}
    return encode(error) + b"\n"
