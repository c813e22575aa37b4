"""Two connection pools to one API server: one for requests, one for watches.

A watch keeps a connection for minutes. With one pool for both, many watches would make every later request wait for a
connection (lightkube's single pool did: with 105 watches every later GET failed). A pool of their own keeps watches
from starving requests.
"""

import logging
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_proto import ResponseHandler
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import User
from yarl import URL

from purekube.apimachinery.errors import Permanent
from purekube_http.authorities import authority_file, client_certificate, tls_context
from purekube_http.authorization import AuthorizationSource, authorization_of

Observe = Callable[[str, str, float], None]
"""A callback for each request: method, status code or `<error>`, and the seconds until its answer began (RUN-5)."""

BeforeWrite = Callable[[], None]
"""A callback just before bytes of a write are sent; it raises to stop the write (the leader's fence, RUN-4)."""

# Load balancers in front of API servers often drop connections that were idle for a minute, without a notice.
_IDLE_SECONDS = 30.0
# Without this limit Linux retransmits to a vanished peer for some fifteen minutes before it reports an error.
_UNACKNOWLEDGED_MILLISECONDS = 35_000

_log = logging.getLogger("vworkspace.requests")


class FencedBody(aiohttp.Payload):
    """The body of a write. It calls `before_write` just before it is sent, so that a former leader cannot write.

    `before_write` is the leader's fence: it raises an error if this process is no longer the leader. Head and body are
    sent together after the check. A write that is stopped here has no effect, because a server acts only on complete
    requests.
    """

    _autoclose = True

    def __init__(self, body: bytes, media_type: str, before_write: BeforeWrite) -> None:
        super().__init__(body, content_type=media_type)
        self._size = len(body)
        self._body = body
        self._before_write = before_write

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the body as text."""
        return self._body.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Call `before_write`, and then send the body. An error of `before_write` stops the write."""
        self._before_write()
        await writer.write(self._body)


class ConnectionPool:
    """The connections to one API server. `before_write` raises an error to stop the writes of a former leader.

    There are at most `connections` at once (0: no limit). With `keep` an idle connection is kept for 30 s, otherwise
    each connection serves one request. `observe` is called for every request, with its method, the status code or
    `<error>`, and the seconds until the answer began. Raises Permanent if the configured address is unusable, or if
    certificates or keys cannot be loaded. Each request carries `user_agent` as its User-Agent.
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
        user_agent: str = "",
    ) -> None:
        self._server = _address(config)
        self._headers = {"User-Agent": user_agent or _own_name(), "Accept": "application/json"}
        self._context = tls_context(config)
        self._authorities = authority_file(config, self._context, credential_max_age)
        self._certificate = client_certificate(config, self._context, credential_max_age)
        self._authorization: AuthorizationSource = authorization_of(config.user or User(), credential_max_age)
        self._connections = connections
        self._keep = keep
        self._timeout = timeout
        self._observe = observe
        self._before_write = before_write
        self._session: aiohttp.ClientSession | None = None
        self._former: aiohttp.ClientSession | None = None

    async def send(
        self,
        method: str,
        target: str,
        *,
        body: bytes | None = None,
        media_type: str = "",
        headers: Mapping[str, str] = {},
        timeout: aiohttp.ClientTimeout | None = None,
    ) -> aiohttp.ClientResponse:
        """Send one request to `target` (path and query). After a 401 send it again with a renewed credential.

        For a request with a body, `before_write` is called twice: at once, and just before the body is sent, because
        waiting for a connection can take long. An error that it raises ends the request.
        """
        if self._authorities is not None:
            self._authorities.refresh()
        if self._certificate is not None and self._certificate.refresh() and self._session is not None:
            # Idle connections have shown the old certificate. Requests under way end on theirs, at the latest when the
            # next certificate comes: their sessions must not add up.
            former, self._former, self._session = self._former, self._session, None
            if former is not None:
                await former.close()
        if body is not None:
            self._before_write()
        authorization = await self._authorization.current()
        response = await self._exchange(method, target, authorization, headers, body, media_type, timeout)
        if response.status == 401:
            renewed = await self._authorization.renewed(authorization)
            if renewed not in ("", authorization):
                response.release()
                return await self._exchange(method, target, renewed, headers, body, media_type, timeout)
        return response

    async def close(self) -> None:
        """Close every connection, even those in use."""
        for session in (self._former, self._session):
            if session is not None:
                await session.close()

    async def _exchange(
        self,
        method: str,
        target: str,
        authorization: str,
        desired: Mapping[str, str],
        body: bytes | None,
        media_type: str,
        timeout: aiohttp.ClientTimeout | None,
    ) -> aiohttp.ClientResponse:
        headers = {**desired, "Authorization": authorization} if authorization else desired
        data = None if body is None else FencedBody(body, media_type, self._before_write)
        began = time.monotonic()
        try:
            response = await self._opened().request(
                method,
                # Without `encoded` yarl would rewrite the path, such as `%3A` to `:`.
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
        """Return the session. It is created at the first request, and belongs to the event loop of that request."""
        if self._session is None:
            connector = _Connector(
                ssl=True if self._context is None else self._context,
                limit=self._connections,
                force_close=not self._keep,
                socket_factory=_socket,
                # aiohttp would take aiodns wherever that is installed (aiohttp/resolver.py, DefaultResolver); names
                # have to be resolved by the system in any case, with the search domains of a pod.
                resolver=aiohttp.ThreadedResolver(),
                keepalive_timeout=_IDLE_SECONDS if self._keep else None,
            )
            self._session = aiohttp.ClientSession(
                connector=connector, headers=self._headers, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
            )
            # aiohttp would repeat a read whose connection broke (aiohttp/client.py, IDEMPOTENT_METHODS); here the
            # caller decides about every failure.
            self._session._retry_connection = False
        return self._session


class _Connector(aiohttp.TCPConnector):
    """A connector that aborts the connections that it does not keep, instead of closing them.

    To close a TLS connection asyncio waits up to 30 s for the peer's close_notify. aiohttp does not wait for such a
    connection when the session is closed, so its socket stays open when the event loop ends (asyncio.sslproto, aiohttp
    3.14). An abort loses nothing: the answer is complete, or no caller needs the rest.
    """

    def _release(self, key: Any, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        ends = should_close or self.force_close or protocol.should_close
        if ends and protocol.transport is not None:
            protocol.transport.abort()
        super()._release(key, protocol, should_close=should_close)


def _own_name() -> str:
    """Return the User-Agent of a program that names none: this distribution and, where it is known, its version."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        return f"purekube/{version('purekube')}"
    except PackageNotFoundError:
        return "purekube"


def _address(config: SingleConfig) -> str:
    """Return the server's address without a slash at the end. Raises Permanent if no request can be sent to it."""
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
    """Return a socket whose kernel detects a vanished peer: after 30 s idle, three probes 10 s apart.

    Data unacknowledged for 35 s ends the connection as well, so that a long body cannot hang.
    """
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    desired = (
        ("TCP_KEEPIDLE", 30),
        ("TCP_KEEPINTVL", 10),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", _UNACKNOWLEDGED_MILLISECONDS),
    )
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in desired:
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
