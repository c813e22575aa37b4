"""HTTP for untrusted clients: no client can keep others from probes, metrics and webhooks (RUN-11).

Every connection has a deadline for its TLS handshake, for the head of a request, for its body, and for the request with
its response. The number of open connections is limited; `ConnectionLimit` decides which one is closed for a new one. So
a flood of connections uses a bounded number of file descriptors, and prompt requests are still answered.
"""

import asyncio
import resource
import socket
import ssl
import struct
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Mapping
from email.utils import formatdate
from typing import Any, Final, TypeAlias, cast

import anyio
import attrs
import structlog
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from purekube_run.process.connection_limit import Client, ConnectionLimit, ConnectionStage, address_of

_log = structlog.get_logger("http")

_BACKLOG: Final = 4096
"""The number of connections that the kernel queues until they are accepted. A further client retries after a second."""
_ACCEPTED_AT_ONCE: Final = 16
"""The number of connections accepted in a row before other tasks of the event loop run."""
_LONGEST_HEAD: Final = 32 * 1024
"""The maximum size of a request's head (request line and headers), in bytes."""
_LAST_SECONDS: Final = 1.0
"""The seconds in which running requests can be answered when the server stops."""
# A reset frees the socket at once; a normal close would keep unsent data for a client that does not read it (socket(7),
# SO_LINGER).
_NO_LINGER: Final = struct.pack("ii", 1, 0)
"""The value of SO_LINGER with which a socket is closed by a reset, without waiting for unsent data."""
_CLIENT: Final = "client"
_TOO_MANY: Final = PlainTextResponse(
    "too many requests at one time: ask again\n", 503, headers={"connection": "close", "retry-after": "1"}
)


def _most_connections() -> int:
    """Return the default limit of connections: an eighth of the limit of file descriptors, but from 8 to 128."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 128 if soft == resource.RLIM_INFINITY else max(8, min(128, soft // 8))


PeerCertificate: TypeAlias = Mapping[str, Any]
"""A verified client certificate, as `ssl.SSLSocket.getpeercert` returns it."""


@attrs.frozen
class ConnectionLimits:
    """The limits of one port of a server: the number of open connections, and the times in seconds that clients may
    take.

    `head` is the time for the TLS handshake, and for the head of a request. `body` is the time for a request's body,
    and `whole` that for a request with its response. A connection is closed after `idle` seconds without a request.
    """

    connections: int = attrs.field(factory=_most_connections)
    head: float = 5.0
    """The time for the TLS handshake, and again from the first byte of a request to the end of its head."""
    body: float = 5.0
    whole: float = 30.0
    """The time for a request and its response, so that a client which reads slowly cannot keep a connection forever."""
    idle: float = 30.0
    streams: frozenset[str] = frozenset()
    """The paths with endless responses. The client must read each part of such a response within `whole` seconds."""
    probes: frozenset[str] = frozenset()
    """The paths of health probes. A connection is not closed to make room while it answers a probe."""


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens on `host` and `port`. Port 0 selects a free port.

    The host `::` means every address of the machine, of IPv4 and IPv6. Raises OSError (with errno) if the address
    cannot be bound.
    """
    if host == "::" and not socket.has_dualstack_ipv6():
        host = ""  # every address of IPv4, as the kernel has no IPv6
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=host == "::")
    listener.setblocking(False)
    return listener


def url_of(host: str, listener: socket.socket, scheme: str = "http") -> str:
    """Return the base URL of a listening socket: `scheme`, `host` and the socket's port."""
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{listener.getsockname()[1]}"


async def serve(
    app: Any,
    listener: socket.socket,
    *,
    limits: ConnectionLimits | None = None,
    tls: ssl.SSLContext | None = None,
    knows: Callable[[PeerCertificate], bool] = lambda certificate: True,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve an ASGI application until cancelled. `ready` is called immediately before connections are accepted.

    `limits` are the maximum number of connections, and the times that clients may take. Without `tls`, the connections
    are plain HTTP. `knows` is called with the certificate of each client, which is empty if `tls` does not require one.
    If it returns False, the client is disconnected.
    """
    port = _Port(app, limits or ConnectionLimits(), tls, knows)
    async with anyio.create_task_group() as group:
        group.start_soon(port.keep_date)
        ready()
        try:
            await port.accept(listener)
        finally:
            listener.close()
            with anyio.CancelScope(shield=True):
                await port.close()
            group.cancel_scope.cancel()


class _Port:
    """The server of one port: it accepts connections, enforces their limits, and closes them at the end."""

    def __init__(
        self,
        app: Any,
        limits: ConnectionLimits,
        tls: ssl.SSLContext | None,
        knows: Callable[[PeerCertificate], bool],
    ) -> None:
        self.limits = limits
        self.knows = knows
        self.state = ServerState()
        self._tls = tls
        self._config = uvicorn.Config(
            _Interruptible(app),
            # A class of our own on uvicorn's h11 protocol: uvicorn itself has no deadline for a head or a body, only
            # timeout_keep_alive (uvicorn/config.py).
            http=_Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            h11_max_incomplete_event_size=_LONGEST_HEAD,
            timeout_keep_alive=round(limits.idle),
        )
        self._config.load()
        self._places = ConnectionLimit(limits.connections)
        self._handshakes: dict[asyncio.Task[None], tuple[Client, socket.socket]] = {}

    async def keep_date(self) -> None:
        """Update the date header of all responses each second, until cancelled."""
        while True:
            self.state.default_headers = [(b"date", formatdate(time.time(), usegmt=True).encode())]
            await anyio.sleep(1.0)

    async def accept(self, listener: socket.socket) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        accepted = 0
        while True:
            try:
                connection, peer = await loop.sock_accept(listener)
            # EMFILE stays until a descriptor is closed: without the pause the loop would do nothing else.
            except OSError as error:
                # No descriptor is left, or the peer is already gone: the backlog waits a moment longer.
                _log.warning("a connection could not be accepted", why=error.strerror)
                await anyio.sleep(1.0)
                continue
            self._begin(connection, Client(address_of(peer), connection.close))
            accepted += 1
            if not accepted % _ACCEPTED_AT_ONCE:
                await anyio.sleep(0)  # an accept that need not wait does not yield to the event loop

    def _begin(self, connection: socket.socket, client: Client) -> None:
        """Start to serve a new connection, or close it if the connection limit is reached."""
        self._leave(self._places.enter(client))
        if client not in self._places:
            return
        task = asyncio.get_running_loop().create_task(self._handshake(connection, client))
        client.leave = task.cancel
        self._handshakes[task] = client, connection
        task.add_done_callback(self._handshake_ended)

    async def _handshake(self, connection: socket.socket, client: Client) -> None:
        # asyncio sets it only on sockets with an explicit protocol (asyncio/base_events.py, _set_nodelay), and accepted
        # ones have none.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop = asyncio.get_running_loop()
        protocol: asyncio.BaseProtocol = _Connection(
            config=self._config, server_state=self.state, app_state={_CLIENT: client}, port=self, client=client
        )
        greeted = loop.create_future()
        if self._tls is None:
            greeted.set_result(None)
        else:
            seconds = cast("int", self.limits.head)  # parts of a second are taken, too
            protocol = _Tls(loop, protocol, self._tls, greeted, True, ssl_handshake_timeout=seconds)
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection)
        try:
            await greeted
        except BaseException:
            transport.abort()
            raise

    def _handshake_ended(self, task: "asyncio.Task[None]") -> None:
        """Clean up after a TLS handshake, and if it failed, close the connection.

        A failure is not logged, since port scans cause many.
        """
        client, connection = self._handshakes.pop(task)
        if task.cancelled() or task.exception() is not None:
            connection.close()
            self.forget(client)

    def move(self, client: Client, stage: ConnectionStage) -> None:
        """Record the stage of a client, and close the connection that the limit then selects, if any."""
        self._leave(self._places.move(client, stage))

    def forget(self, client: Client) -> None:
        """Free the place of a client that has disconnected."""
        self._places.forget(client)

    def _leave(self, client: Client | None) -> None:
        if client is not None:
            client.leave()

    async def close(self) -> None:
        """Close all connections.

        A connection without a running request is closed at once, any other after a short time for its response.
        """
        for client in self._places:
            if client.stage in (ConnectionStage.UNREAD, ConnectionStage.UNHEARD, ConnectionStage.IDLE):
                client.leave()
        for connection in list(self.state.connections):
            connection.shutdown()
        with anyio.move_on_after(_LAST_SECONDS):
            while self.state.tasks:
                await anyio.sleep(0.01)
        for task in list(self.state.tasks):
            task.cancel()
        for client in self._places:
            client.leave()


class _Tls(SSLProtocol):
    """The TLS protocol of asyncio, with a read buffer of one TLS record instead of 256 KiB per connection."""

    # asyncio/sslproto.py: max_size is 256 * 1024 there, allocated for each connection before its handshake.
    max_size = 16 * 1024


class _Interruptible:
    """A wrapper around an ASGI application that makes it possible to interrupt a request.

    An interrupted request whose response has not begun is answered with status 503 and Retry-After.
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client: Client = scope["state"].pop(_CLIENT)
        abort, begun = client.leave, False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            client.leave = abort
            await send(message)

        with anyio.CancelScope() as answering:
            client.leave = answering.cancel
            await self._app(scope, receive, sending)
        client.leave = abort
        if answering.cancelled_caught and not begun:
            await _TOO_MANY(scope, receive, send)


class _Connection(H11Protocol):
    """The HTTP protocol of one connection, which is closed when the client misses a deadline."""

    def __init__(self, *, port: _Port, client: Client, **options: Any) -> None:
        super().__init__(**options)
        self._port = port
        self._client = client
        self._deadlines: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._client.leave = self._abort
        self._set_deadline("head", self._port.limits.head)
        if not self._port.knows(transport.get_extra_info("peercert") or {}):
            self._abort()

    def connection_lost(self, exc: Exception | None) -> None:
        for name in list(self._deadlines):
            self._clear_deadline(name)
        self._port.forget(self._client)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        if self.cycle is not None:
            self.cycle.body = bytearray()  # connections are reference cycles: the body would wait for collection

    def data_received(self, data: bytes) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._set_deadline("head", self._port.limits.head)
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._request_began()
        if self.cycle is not None and not self.cycle.more_body:
            self._clear_deadline("body")
        self._moved()

    def on_response_complete(self) -> None:
        before = self.cycle
        self._clear_deadline("body")  # not the whole: the rest may wait for a client that does not read
        super().on_response_complete()
        if self.cycle is not before:  # the next request had already arrived
            self._request_began()
        self._moved()

    def _request_began(self) -> None:
        limits = self._port.limits
        self._clear_deadline("head")
        if not self.transport.get_write_buffer_size():
            self._clear_deadline("whole")
        if not self.cycle.response_complete:
            if self.scope["path"] not in limits.streams:
                self._set_deadline("whole", limits.whole)
            if self.cycle.more_body:
                self._set_deadline("body", limits.body)

    def pause_writing(self) -> None:
        """Start a deadline, because the client does not read the response and the write buffer is full.

        The client must read again before the deadline, or the connection is closed.
        """
        super().pause_writing()
        self._set_deadline("reading", self._port.limits.whole)
        self._moved()

    def resume_writing(self) -> None:
        """Clear the deadline that `pause_writing` started, because the client reads the response again."""
        self._clear_deadline("reading")
        super().resume_writing()
        self._moved()

    def _moved(self) -> None:
        if (stage := self._stage()) is not self._client.stage:
            self._port.move(self._client, stage)

    def _stage(self) -> ConnectionStage:
        if "reading" in self._deadlines:
            return ConnectionStage.UNREAD
        if self.cycle is None or "head" in self._deadlines:
            return ConnectionStage.UNHEARD
        if self.cycle.response_complete:
            return ConnectionStage.IDLE
        if self.cycle.more_body:
            return ConnectionStage.UNHEARD
        return ConnectionStage.PROBE if self.scope["path"] in self._port.limits.probes else ConnectionStage.BUSY

    def _set_deadline(self, name: str, seconds: float) -> None:
        """Start the deadline `name`, unless it is running.

        If the deadline is not cleared within `seconds`, the connection is closed.
        """
        if name not in self._deadlines:
            self._deadlines[name] = self.loop.call_later(seconds, self._expired, name)

    def _expired(self, name: str) -> None:
        self._deadlines.pop(name)
        answered = self.cycle is not None and self.cycle.response_complete
        if name != "whole" or not answered or self.transport.get_write_buffer_size():
            self._abort()

    def _clear_deadline(self, name: str) -> None:
        if (timer := self._deadlines.pop(name, None)) is not None:
            timer.cancel()

    def _abort(self) -> None:
        """Close the connection by a TCP reset, which discards unsent data.

        A client that does not read thus cannot delay it.
        """
        connection = self.transport.get_extra_info("socket")
        if connection is not None and connection.fileno() >= 0:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()
