"""`KubeTransport` over HTTP: the sending of requests and watches, each on its own pool of connections."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import anyio
import attrs
from lightkube.config.kubeconfig import SingleConfig

from purekube.apimachinery.manifest import Manifest
from purekube.ports import KubeRequest, KubeVerb, WatchEvent
from purekube_http.authorization import MAX_AGE
from purekube_http.dispatch import TooLarge, accepted, at_most, dispatch
from purekube_http.errors import transport_error
from purekube_http.lines import LineSplitter
from purekube_http.responses import answer_of
from purekube_http.transport import BeforeWrite, ConnectionPool, Observe
from purekube_http.watch import read_events

WATCH_GRACE = 15.0
"""The seconds that we wait longer for a watch than the server's timeout: our own timeout ends only dead connections."""

_CLOSE_LIMIT = 5.0
_PAGE_BYTES = 2 * 1024 * 1024
"""The most bytes of a page of a list.

A decoded page takes six times as much memory, and the operator lists several kinds at once when it starts.
"""


class HttpTransport:
    """The transport to the API server in `config` over HTTP.

    It has one pool of connections for requests (at most `connections`) and one for watches. All times are in seconds.
    `request_timeout` limits connecting, sending, and each silence while reading; `connect_timeout` limits the opening
    of a connection. A watch may be silent for its own timeout plus `watch_grace`. Token and CA files are read again
    after `credential_max_age`. `observe` is called for every request, with its method, the status code or `<error>`,
    and the time until the answer began. `before_write` is called before every write, and may stop it by raising an
    error. `user_agent` names the program in audit logs; without it the name is purekube's.
    """

    def __init__(
        self,
        config: SingleConfig,
        *,
        request_timeout: float = 35.0,
        connect_timeout: float = 10.0,
        watch_grace: float = WATCH_GRACE,
        connections: int = 64,
        credential_max_age: float = MAX_AGE,
        observe: Observe = lambda method, code, seconds: None,
        before_write: BeforeWrite = lambda: None,
        user_agent: str = "",
    ) -> None:
        timeout = aiohttp.ClientTimeout(
            connect=request_timeout, sock_connect=connect_timeout, sock_read=request_timeout
        )
        hooks: dict[str, Any] = {
            "timeout": timeout,
            "credential_max_age": credential_max_age,
            "observe": observe,
            "before_write": before_write,
            "user_agent": user_agent,
        }
        self._timeout = timeout
        self._watch_grace = watch_grace
        self._requests = ConnectionPool(config, connections=connections, keep=True, **hooks)
        # One connection per watch, as many as there are informers. None is kept, so that a watch never starts on a
        # connection that the peer has already closed.
        self._watches = ConnectionPool(config, connections=0, keep=False, **hooks)

    async def close(self) -> None:
        """Close every connection, including those of watches."""
        with anyio.move_on_after(_CLOSE_LIMIT, shield=True):  # even while being cancelled
            await self._requests.close()
            await self._watches.close()

    async def send(self, request: KubeRequest) -> Manifest:
        """Send one request and return its decoded answer.

        If the page of a list has too many bytes, the page is requested again with a smaller `limit` of objects.
        """
        limit = request.params.get("limit") if request.verb is KubeVerb.LIST else None
        if isinstance(limit, int):
            return await self._page(request, limit)
        return answer_of(request, await self.body_of(request))

    async def body_of(self, request: KubeRequest, url: str = "") -> bytes:
        """Send one request and return the undecoded body. A `url` that is not empty replaces the resource's path.

        Raises an OperatorError if the request fails.
        """
        return await accepted(request, await dispatch(self._requests, request, url=url))

    async def watch(self, request: KubeRequest) -> AsyncIterator[WatchEvent]:
        """Yield the events of one watch stream, bookmarks included, until the server ends it.

        Raises Expired if the server no longer has the requested resourceVersion (410), Unavailable if the connection
        breaks or a line is not a valid event, and another OperatorError if the server refuses the watch.
        """
        seconds = float(request.params["timeoutSeconds"] or 0)
        response = await self._opened(request, seconds + self._watch_grace)
        try:
            async for event in read_events(request, response):
                yield event
        except (aiohttp.ClientError, TimeoutError) as error:
            raise transport_error(request, error) from None
        finally:
            response.close()

    async def lines(self, request: KubeRequest, *, follow: bool) -> AsyncIterator[str]:
        """Send `request`, and yield the lines of the answer, which is plain text.

        With `follow` there is no time limit between two lines. Raises an OperatorError if the request fails.
        """
        response = await self._opened(request, None if follow else self._timeout.sock_read)
        try:
            splitter = LineSplitter()
            async for chunk in response.content.iter_any():
                for line in splitter.feed(chunk):
                    yield line.decode(errors="replace")
            if splitter.rest:
                yield splitter.rest.decode(errors="replace")
        except (aiohttp.ClientError, TimeoutError) as error:
            raise transport_error(request, error) from None
        finally:
            response.close()

    async def _page(self, request: KubeRequest, limit: int) -> Manifest:
        # The same `continue` works with another limit: it has a key and a revision only (apiserver:
        # storage/continue.go, continueToken).
        while limit > 1:
            page = attrs.evolve(request, params={**request.params, "limit": limit})
            response = await dispatch(self._requests, page)
            try:
                return answer_of(page, await at_most(page, response, _PAGE_BYTES))
            except TooLarge:
                limit //= 4
        single = attrs.evolve(request, params={**request.params, "limit": 1})
        return answer_of(single, await self.body_of(single))

    async def _opened(self, request: KubeRequest, read_seconds: float | None) -> aiohttp.ClientResponse:
        """Send a request and return its response without reading the body. Raises the error of an unsuccessful status.

        While the body is read, the server may be silent for `read_seconds`; None means without limit.
        """
        timeout = attrs.evolve(self._timeout, sock_read=read_seconds)
        response = await dispatch(self._watches, request, timeout=timeout)
        if response.status >= 300:
            try:
                await accepted(request, response)
            finally:
                response.close()
        return response
