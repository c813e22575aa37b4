"""A TCP server that tests script byte by byte, and that can stand as a faulty proxy before a real server.

It speaks just enough HTTP/1.1 to read one request per connection; what it answers is up to the script.
"""

import asyncio
import json
import socket
import ssl
import struct
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

import attrs

from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import HELM_RELEASE


@attrs.frozen
class Request:
    """What came in."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return {key: values[0] for key, values in parse_qs(urlsplit(self.target).query).items()}

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "true"

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Script: TypeAlias = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


@attrs.define
class Wire:
    """Answers each request by the next script of its kind (watch or not), else by the default."""

    default: Script
    scripts: deque[Script] = attrs.field(factory=deque)
    watch_scripts: deque[Script] = attrs.field(factory=deque)
    requests: list[Request] = attrs.field(factory=list)
    port: int = 0
    tls: ssl.SSLContext | None = None
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = attrs.field(factory=set)

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Stop listening and cut what is open; `listen` again ends it."""
        assert self._server is not None
        self._server.close()
        self.cut_off()

    def cut_off(self) -> None:
        """Reset every open connection."""
        for writer in list(self._open):
            cut(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            request = await read_request(reader)
            self.requests.append(request)
            waiting = self.watch_scripts if request.is_watch else self.scripts
            await (waiting.popleft() if waiting else self.default)(request, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has gone, or was cut off: that is what the test is about
        finally:
            self._open.discard(writer)
            writer.close()


@asynccontextmanager
async def wire(default: Script | None = None, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Wire]:
    """A listening wire. Without a default, a request that no script answers is an HTTP 500."""
    served = Wire(default or status(500, "InternalError", "no script for this request"), tls=tls)
    await served.listen()
    try:
        yield served
    finally:
        await served.refuse()


async def read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, target, headers, body, asyncio.get_running_loop().time())


def answer(code: int, body: bytes, content_type: str | None = "application/json", **headers: str) -> Script:
    """A whole answer. `retry_after="1"` becomes the header `retry-after: 1`."""

    async def script(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(_head(code, content_type, {**headers, "content_length": str(len(body))}) + body)

    return script


def reply(value: Any, code: int = 200) -> Script:
    """A JSON answer."""
    return answer(code, json.dumps(value).encode())


def status(code: int, reason: str, message: str, *, details: Any = None, **headers: str) -> Script:
    """A Kubernetes Status."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
    body |= {"reason": reason} if reason else {}
    body |= {"details": details} if details else {}
    return answer(code, json.dumps(body).encode(), **headers)


def stream(*chunks: bytes, hang: bool = False, pause: float = 0.0) -> Script:
    """A chunked 200 with these chunks as they are; then a clean end, or silence for ever."""

    async def script(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(_head(200, "application/json", {"transfer_encoding": "chunked"}))
        for chunk in chunks:
            writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            await writer.drain()
            await asyncio.sleep(pause)
        if hang:
            await silence(request, writer)
        writer.write(b"0\r\n\r\n")

    return script


def event(
    type_: str, name: str = "a", version: int = 1, *, kind: Kind = HELM_RELEASE, namespace: str = "n", **fields: Any
) -> bytes:
    """One line of a watch."""
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": str(version)}
    made = {**kind.manifest(name, namespace), "metadata": meta, **fields}
    return json.dumps({"type": type_, "object": made}).encode() + b"\n"


def error_event(code: int, reason: str, message: str = "too old resource version") -> bytes:
    """An ERROR line of a watch."""
    body = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return json.dumps({"type": "ERROR", "object": body}).encode() + b"\n"


async def silence(request: Request, writer: asyncio.StreamWriter) -> None:
    """A peer that is not there any more, as seen from here: nothing, not even a close."""
    await asyncio.sleep(3600)


async def reset(request: Request, writer: asyncio.StreamWriter) -> None:
    """TCP RST."""
    cut(writer)


async def close(request: Request, writer: asyncio.StreamWriter) -> None:
    """Close without a word."""


def forward(port: int) -> Script:
    """Pass a request on to a server on this machine, and its answer back as it comes."""

    async def script(request: Request, writer: asyncio.StreamWriter) -> None:
        reader, upstream = await asyncio.open_connection("127.0.0.1", port)
        headers = {**request.headers, "connection": "close"}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        upstream.write(f"{request.method} {request.target} HTTP/1.1\r\n{lines}\r\n".encode() + request.body)
        try:
            while chunk := await reader.read(65536):
                writer.write(chunk)
                await writer.drain()
        finally:
            upstream.close()

    return script


def cut(writer: asyncio.StreamWriter) -> None:
    """Abort the connection so that the peer gets a reset, not an end."""
    raw = writer.get_extra_info("socket")
    if raw is not None and raw.fileno() >= 0:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _head(code: int, content_type: str | None, headers: dict[str, str]) -> bytes:
    named = {**({"content-type": content_type} if content_type else {}), "connection": "close"}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {code} X\r\n{lines}\r\n".encode()
