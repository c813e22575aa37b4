"""The watch, read line by line by ourselves.

lightkube's iterator swallows none of what matters here: it restarts without a list after a 410, loops on
an HTTP 410, reconnects without pause, never times out and asks for no bookmarks (its edges 3 to 9). Here
one call is one stream: it yields events until the server ends it, and every other end is an error of the
core. Reconnecting is the informer's business.
"""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec

from vworkspace_core.apimachinery.errors import OperatorError, Unavailable
from vworkspace_core.apimachinery.nesting import decode_with
from vworkspace_core.ports import WatchEvent, WatchEventType
from vworkspace_kube.answers import belongs, not_the_server
from vworkspace_kube.errors import Asked, in_stream_error
from vworkspace_kube.lines import LineSplitter, LineTooLong


class _Line(msgspec.Struct):
    type: str
    object: dict[str, Any]


_decode = msgspec.json.Decoder(_Line).decode
_types = {event.value: event for event in WatchEventType}


async def read_events(asked: Asked, response: aiohttp.ClientResponse) -> AsyncIterator[WatchEvent]:
    """Events of an open stream. Raises Expired and Unavailable; aiohttp errors pass through."""
    splitter = LineSplitter()
    async for chunk in response.content.iter_any():
        try:
            lines = splitter.feed(chunk)
        except LineTooLong as error:
            raise Unavailable(f"{asked}: {error}") from error
        for line in lines:
            yield decode_line(asked, line)
    if splitter.rest.strip():
        raise Unavailable(f"{asked}: the stream ended within a line")


def decode_line(asked: Asked, line: bytes) -> WatchEvent:
    """One line of a watch. Raises Expired or Unavailable for an ERROR line and for anything unreadable."""
    try:
        decoded = decode_with(_decode, line, "object")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(asked, f"a line is not a watch event: {error}") from error
    kind = _types.get(decoded.type)
    if kind is None:
        raise _refused(asked, decoded)
    if not _has_version(decoded.object):
        raise _unreadable(asked, f"a {decoded.type} event without metadata.resourceVersion")
    if problem := _foreign(asked, kind, decoded.object):
        raise not_the_server(asked, f"a {decoded.type} event: {problem}")
    return WatchEvent(kind, decoded.object)


def _foreign(asked: Asked, event: WatchEventType, found: dict[str, Any]) -> str:
    """Why the object of an event is none that is watched; a bookmark has a type and a version only."""
    if event is not WatchEventType.BOOKMARK:
        return belongs(asked, found)
    said = (found.get("apiVersion"), found.get("kind"))
    return "" if said == (asked.kind.api_version, asked.kind.kind) else "it is of another kind"


def _refused(asked: Asked, line: _Line) -> OperatorError:
    if line.type == "ERROR":
        return in_stream_error(asked, line.object)
    return _unreadable(asked, f"an event of unknown type {line.type[:40]!r}")


def _unreadable(asked: Asked, what: str) -> Unavailable:
    """The server said 200 and then nonsense: `status` tells it from a connection that broke."""
    return Unavailable(f"{asked}: {what}", status=200)


def _has_version(manifest: dict[str, Any]) -> bool:
    meta = manifest.get("metadata")
    return isinstance(meta, dict) and isinstance(meta.get("resourceVersion"), str)
