"""Two connection pools to one API server: one for requests, one for watches.

A watch keeps a connection for minutes: with one pool for both, many watches would let every later request wait for
a connection (lightkube's edge 13). A watch pool of its own cannot starve requests.
"""

import logging
import socket
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_proto import ResponseHandler
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import User
from yarl import URL

from vworkspace_core.apimachinery.errors import Permanent
from vworkspace_kube.authorities import authority_file, tls_context
from vworkspace_kube.authorization import AuthorizationSource, authorization_of

Observe = Callable[[str, str, float], None]
"""Told of each request: method, status code or `<error>`, and the seconds until its answer began (RUN-5)."""

BeforeWrite = Callable[[], None]
"""Called each time that bytes of a writing request are about to go to its connection; raises to stop it (the
leader's fence, RUN-4)."""

# What audit logs show; without a fieldManager the server would name the writer after it too (S-53).
_HEADERS = {"User-Agent": f"vworkspace-operator/{version('vworkspace-operator')}", "Accept": "application/json"}

_IDLE_SECONDS = 30.0
_UNACKNOWLEDGED_MILLISECONDS = 35_000


_log = logging.getLogger("vworkspace.requests")


class FencedBody(aiohttp.Payload):
    """The body of a writing request. Head and body leave together, and right before it the fence is asked.

    A server acts on a request when it is complete, so one that is stopped before its body has not happened.
    """

    _autoclose = True

    def __init__(self, body: bytes, media_type: str, before_write: BeforeWrite) -> None:
        super().__init__(body, content_type=media_type)
        self._size = len(body)
        self._body = body
        self._before_write = before_write

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The body as text."""
        return self._body.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send the body, unless the fence stops it."""
        self._before_write()
        await writer.write(self._body)


class ConnectionPool:
    """Connections to one API server, watched (metrics) and fenced (leader election).

    At most `connections` at once (0: as many as are asked for); an idle one is kept for 30 s if `keep`. Raises
    Permanent when the configuration's address cannot be used, or its certificates or keys cannot be loaded.
    """

    def __init__(
        self,
        config: SingleConfig,
        *,
        connections: int,
        keep: bool,
        timeout: aiohttp.ClientTimeout,
        credential_max_age: float,
        observe: Observe,
        before_write: BeforeWrite,
    ) -> None:
        self._server = _address(config)
        self._context = tls_context(config)
        self._authorities = authority_file(config, self._context, credential_max_age)
        self._authorization: AuthorizationSource = authorization_of(config.user or User(), credential_max_age)
        self._connections = connections
        self._keep = keep
        self._timeout = timeout
        self._observe = observe
        self._before_write = before_write
        self._session: aiohttp.ClientSession | None = None

    async def send(
        self,
        method: str,
        target: str,
        *,
        body: bytes | None = None,
        media_type: str = "",
        accept: str = "",
        timeout: aiohttp.ClientTimeout | None = None,
    ) -> aiohttp.ClientResponse:
        """Send one request to `target`, path and query; once more with a fresh credential after a 401.

        The fence is asked first, so as not to wait for nothing, and when bytes are to leave.
        """
        if self._authorities is not None:
            self._authorities.refresh()
        if body is not None:
            self._before_write()
        authorization = await self._authorization.current()
        wanted = {"Accept": accept} if accept else {}
        response = await self._exchange(method, target, authorization, wanted, body, media_type, timeout)
        if response.status == 401:
            renewed = await self._authorization.renewed(authorization)
            if renewed not in ("", authorization):
                response.release()
                return await self._exchange(method, target, renewed, wanted, body, media_type, timeout)
        return response

    async def close(self) -> None:
        """Close every connection, also those in use."""
        if self._session is not None:
            await self._session.close()

    async def _exchange(
        self,
        method: str,
        target: str,
        authorization: str,
        wanted: Mapping[str, str],
        body: bytes | None,
        media_type: str,
        timeout: aiohttp.ClientTimeout | None,
    ) -> aiohttp.ClientResponse:
        headers = {**wanted, "Authorization": authorization} if authorization else wanted
        data = None if body is None else FencedBody(body, media_type, self._before_write)
        began = time.monotonic()
        try:
            response = await self._opened().request(
                method,
                URL(self._server + target, encoded=True),
                data=data,
                headers=headers,
                allow_redirects=False,
                timeout=self._timeout if timeout is None else timeout,
            )
        except (aiohttp.ClientError, TimeoutError):
            self._observe(method, "<error>", time.monotonic() - began)
            _log.debug("%s %s: no answer", method, target)
            raise
        self._observe(method, str(response.status), time.monotonic() - began)
        _log.debug("%s %s: %d", method, target, response.status)
        return response

    def _opened(self) -> aiohttp.ClientSession:
        """The session, which belongs to the event loop that first sends."""
        if self._session is None:
            connector = _Connector(
                ssl=True if self._context is None else self._context,
                limit=self._connections,
                force_close=not self._keep,
                socket_factory=_socket,
                resolver=aiohttp.ThreadedResolver(),
                keepalive_timeout=_IDLE_SECONDS if self._keep else None,
            )
            self._session = aiohttp.ClientSession(
                connector=connector, headers=_HEADERS, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
            )
            # It would send a read again whose connection broke; here every failure is judged by who asked.
            self._session._retry_connection = False
        return self._session


class _Connector(aiohttp.TCPConnector):
    """A connector that aborts the connections that it does not keep.

    asyncio closes TLS politely: for up to 30 s it waits for the peer's close_notify. aiohttp forgets such a transport,
    so that closing the session does not wait for it and an event loop that ends leaves its socket open
    (asyncio.sslproto, aiohttp 3.14). Nothing is lost: the answer is complete, or nobody wants the rest.
    """

    def _release(self, key: Any, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        ends = should_close or self.force_close or protocol.should_close
        if ends and protocol.transport is not None:
            protocol.transport.abort()
        super()._release(key, protocol, should_close=should_close)


def _address(config: SingleConfig) -> str:
    """Where the server is, without a slash at the end. Raises Permanent for what no request can be sent to."""
    server = config.cluster.server.rstrip("/")
    try:
        url = URL(server)
        usable = url.scheme in ("http", "https") and url.host and url.port and url.user is None
    except ValueError:
        usable = False
    if not usable:
        raise Permanent(
            f"the server of context {config.context_name} is not an address: give http(s)://HOST[:PORT][/PATH], "
            "and who calls in `users`"
        )
    return server


def _socket(address: Any) -> socket.socket:
    """A socket whose kernel, too, notices a peer that vanished: 30 s idle, then three probes 10 s apart.

    What was sent and is not acknowledged for 35 s ends it as well, so that a long body cannot hang.
    """
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    wanted = (
        ("TCP_KEEPIDLE", 30),
        ("TCP_KEEPINTVL", 10),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", _UNACKNOWLEDGED_MILLISECONDS),
    )
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in wanted:
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
