"""HTTP to whoever can connect: probes, metrics and webhooks, which nobody can keep from the others (RUN-11).

Every connection has a deadline for its TLS handshake, for the head of a request, for its body and for the whole. No
more are open than the limit; where one more comes, the one that has been longest without a whole request makes room. So
a flood of connections that say nothing costs a bounded number of descriptors, and a probe, which says all at once,
comes through it.
"""

import asyncio
import resource
import socket
import ssl
import struct
import time
from collections import OrderedDict
from collections.abc import Callable
from email.utils import formatdate
from typing import Any, Final

import anyio
import attrs
import structlog
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

_log = structlog.get_logger("http")

_BACKLOG: Final = 128
_LONGEST_HEAD: Final = 32 * 1024
_LAST_SECONDS: Final = 1.0
_NO_LINGER: Final = struct.pack("ii", 1, 0)


def _most_connections() -> int:
    """A small part of the descriptors that the process may have: its own connections need them too."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 128 if soft == resource.RLIM_INFINITY else max(8, min(128, soft // 8))


@attrs.frozen
class Limits:
    """Of one port, in seconds. `idle` is how long a connection is kept between requests."""

    connections: int = attrs.field(factory=_most_connections)
    head: float = 5.0
    """For the TLS handshake, and again from the first byte of a request to the end of its head."""
    body: float = 5.0
    whole: float = 30.0
    """For a request and its answer, so that who reads slowly does not stay for ever either."""
    idle: float = 30.0


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises OSError (with errno) when it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    listener.setblocking(False)
    return listener


def url_of(host: str, listener: socket.socket, scheme: str = "http") -> str:
    """Base URL of what listens there."""
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{listener.getsockname()[1]}"


async def serve_guarded(
    app: Any,
    listener: socket.socket,
    *,
    limits: Limits | None = None,
    tls: ssl.SSLContext | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve an ASGI application until cancelled; `ready` is called once requests are taken."""
    door = _Door(app, limits or Limits(), tls)
    async with anyio.create_task_group() as group:
        group.start_soon(door.keep_time)
        ready()
        try:
            await door.let_in(listener)
        finally:
            listener.close()
            with anyio.CancelScope(shield=True):
                await door.close()
            group.cancel_scope.cancel()


@attrs.define(eq=False)
class _Guest:
    """One connection. `leave` ends it, at whatever stage it is."""

    leave: Callable[[], object]


class _Door:
    """The connections of one port."""

    def __init__(self, app: Any, limits: Limits, tls: ssl.SSLContext | None) -> None:
        self.limits = limits
        self.state = ServerState()
        self._tls = tls
        self._config = uvicorn.Config(
            app,
            http=_Conversation,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            h11_max_incomplete_event_size=_LONGEST_HEAD,
            timeout_keep_alive=round(limits.idle),
        )
        self._config.load()
        self._waiting: OrderedDict[_Guest, None] = OrderedDict()
        self._busy: set[_Guest] = set()
        self._greetings: dict[asyncio.Task[None], tuple[_Guest, socket.socket]] = {}

    async def keep_time(self) -> None:
        """The date header of every answer."""
        while True:
            self.state.default_headers = [(b"date", formatdate(time.time(), usegmt=True).encode())]
            await anyio.sleep(1.0)

    async def let_in(self, listener: socket.socket) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:
                # No descriptor is left, or the peer is gone already: what waits in the backlog waits a moment longer.
                _log.warning("a connection could not be accepted", why=error.strerror)
                await anyio.sleep(1.0)
                continue
            if not self._has_room():
                connection.close()
                continue
            guest = _Guest(connection.close)
            task = loop.create_task(self._greet(connection, guest))
            guest.leave = task.cancel
            self.waits(guest)
            self._greetings[task] = guest, connection
            task.add_done_callback(self._greeted)

    def _has_room(self) -> bool:
        """Whether one more fits, after the one that has waited longest has made room if need be."""
        if len(self._waiting) + len(self._busy) < self.limits.connections:
            return True
        if not self._waiting:
            return False
        oldest, _ = self._waiting.popitem(last=False)
        oldest.leave()
        return True

    async def _greet(self, connection: socket.socket, guest: _Guest) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: _Conversation(config=self._config, server_state=self.state, app_state={}, door=self, guest=guest),
            connection,
            ssl=self._tls,
            ssl_handshake_timeout=self.limits.head if self._tls else None,
        )

    def _greeted(self, task: "asyncio.Task[None]") -> None:
        """The conversation has begun; or there will be none: a port scan is nothing to tell of."""
        guest, connection = self._greetings.pop(task)
        if task.cancelled() or task.exception() is not None:
            connection.close()
            self.left(guest)

    def waits(self, guest: _Guest) -> None:
        """It has not said what it wants, or has been answered."""
        self._busy.discard(guest)
        self._waiting[guest] = None
        self._waiting.move_to_end(guest)

    def works(self, guest: _Guest) -> None:
        """Its request is being answered."""
        if self._waiting.pop(guest, self) is None:
            self._busy.add(guest)

    def left(self, guest: _Guest) -> None:
        """It is gone."""
        self._waiting.pop(guest, None)
        self._busy.discard(guest)

    async def close(self) -> None:
        """Let answers end that are under way, for a moment; everything else ends now."""
        for guest in list(self._waiting):
            guest.leave()
        for one in list(self.state.connections):
            one.shutdown()
        with anyio.move_on_after(_LAST_SECONDS):
            while self.state.tasks:
                await anyio.sleep(0.01)
        for task in list(self.state.tasks):
            task.cancel()
        for guest in [*self._waiting, *self._busy]:
            guest.leave()


class _Conversation(H11Protocol):
    """One connection's HTTP, with deadlines."""

    def __init__(self, *, door: _Door, guest: _Guest, **given: Any) -> None:
        super().__init__(**given)
        self._door = door
        self._guest = guest
        self._deadlines: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._guest.leave = self._late
        self._until("head", self._door.limits.head)

    def connection_lost(self, exc: Exception | None) -> None:
        for name in list(self._deadlines):
            self._met(name)
        self._door.left(self._guest)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._until("head", self._door.limits.head)
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._begun()
        if self.cycle is not None and not self.cycle.more_body:
            self._met("body")

    def on_response_complete(self) -> None:
        before = self.cycle
        self._met("body")  # not the whole: what was written may wait for somebody who does not read
        self._door.waits(self._guest)
        super().on_response_complete()
        if self.cycle is not before:  # the next request had come already
            self._begun()

    def _begun(self) -> None:
        limits = self._door.limits
        self._met("head")
        if not self.transport.get_write_buffer_size():
            self._met("whole")
        self._door.works(self._guest)
        if not self.cycle.response_complete:
            self._until("whole", limits.whole)
            if self.cycle.more_body:
                self._until("body", limits.body)

    def _until(self, name: str, seconds: float) -> None:
        """Within so many seconds from the first call, or the connection ends."""
        if name not in self._deadlines:
            self._deadlines[name] = self.loop.call_later(seconds, self._expired, name)

    def _expired(self, name: str) -> None:
        self._deadlines.pop(name)
        answered = self.cycle is not None and self.cycle.response_complete
        if name != "whole" or not answered or self.transport.get_write_buffer_size():
            self._late()

    def _met(self, name: str) -> None:
        if (timer := self._deadlines.pop(name, None)) is not None:
            timer.cancel()

    def _late(self) -> None:
        """End it at once, with what the kernel still holds for somebody who does not read."""
        connection = self.transport.get_extra_info("socket")
        if connection is not None and connection.fileno() >= 0:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()
