"""The watch, read line by line.

lightkube's iterator cannot be used: it restarts without a list after a 410, loops on an HTTP 410, reconnects without
pause, never times out and requests no bookmarks. Here one call is one stream: it yields events until the server ends
it, and every other end is an `OperatorError`. Reconnecting is left to the informer.
"""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec

from purekube.apimachinery.errors import OperatorError, Unavailable
from purekube.apimachinery.nesting import decode_with
from purekube.ports import KubeRequest, WatchEvent, WatchEventType
from purekube_http.errors import in_stream_error
from purekube_http.lines import LineSplitter, LineTooLong
from purekube_http.responses import not_the_server, replace_type, why_foreign


class _Line(msgspec.Struct):
    type: str
    object: dict[str, Any]


_decode = msgspec.json.Decoder(_Line).decode
_types = {event.value: event for event in WatchEventType}


async def read_events(request: KubeRequest, response: aiohttp.ClientResponse) -> AsyncIterator[WatchEvent]:
    """Yield the events of an open watch, whether it sends full objects or only their metadata.

    Raises the error of an ERROR event (Expired for 410), and Unavailable for a line that is not a valid event. Errors
    of aiohttp are not translated.
    """
    splitter = LineSplitter()
    async for chunk in response.content.iter_any():
        try:
            lines = splitter.feed(chunk)
        except LineTooLong as error:
            raise Unavailable(f"{request}: {error}") from error
        for line in lines:
            yield decode_line(request, line)
    if splitter.rest.strip():
        raise Unavailable(f"{request}: the stream ended within a line")


def decode_line(request: KubeRequest, line: bytes) -> WatchEvent:
    """Return the event in one line of a watch.

    Raises the error of an ERROR line (Expired for 410), and Unavailable for an unreadable line.
    """
    try:
        decoded = decode_with(_decode, line, "object")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(request, f"a line is not a watch event: {error}") from error
    kind = _types.get(decoded.type)
    if kind is None:
        raise _refused(request, decoded)
    if not _has_version(decoded.object):
        raise _unreadable(request, f"a {decoded.type} event without metadata.resourceVersion")
    if request.metadata_only and (problem := replace_type(request, decoded.object)):
        raise not_the_server(request, f"a {decoded.type} event: {problem}")
    if problem := _foreign(request, kind, decoded.object):
        raise not_the_server(request, f"a {decoded.type} event: {problem}")
    return WatchEvent(kind, decoded.object)


def _foreign(request: KubeRequest, event: WatchEventType, manifest: dict[str, Any]) -> str:
    """Return why the object of an event does not belong to the watch, or an empty string if the object belongs to it.

    The object of a bookmark has only a type and a resourceVersion.
    """
    if event is not WatchEventType.BOOKMARK:
        return why_foreign(request, manifest)
    said = (manifest.get("apiVersion"), manifest.get("kind"))
    return "" if said == (request.kind.api_version, request.kind.kind) else "it is of another kind"


def _refused(request: KubeRequest, line: _Line) -> OperatorError:
    if line.type == "ERROR":
        return in_stream_error(request, line.object)
    return _unreadable(request, f"an event of unknown type {line.type[:40]!r}")


def _unreadable(request: KubeRequest, what: str) -> Unavailable:
    """Return the error for an unusable line in a response with status 200.

    `what` describes the problem. The error has the `status` 200, which the error of a broken connection does not have.
    """
    return Unavailable(f"{request}: {what}", status=200)


def _has_version(manifest: dict[str, Any]) -> bool:
    meta = manifest.get("metadata")
    return isinstance(meta, dict) and isinstance(meta.get("resourceVersion"), str)
