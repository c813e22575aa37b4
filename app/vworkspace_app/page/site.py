"""The web page over HTTP: documents, their assets, and a stream of events for browsers that follow the page (SEE-3).

Only GET and HEAD are served. The response to a refused request says how to get access. Every response forbids the
browser to load from or send to any other host.
"""

from collections.abc import Awaitable, Callable, Set
from ipaddress import ip_address
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, urlsplit

import anyio
import attrs
import structlog
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from purekube_run.process.connection_limit import address_of
from vworkspace_app.page.live import Followers
from vworkspace_app.page.rendering import ASSETS, Renderer, asset
from vworkspace_app.page.screens import EVENTS, ScreenSource, Unanswered

_log = structlog.get_logger("page")

_LONGEST: Final = 2048
"""The maximum length of a URL's query in characters, longer than any link of the page."""
_A_YEAR: Final = "public, max-age=31536000, immutable"

HEADERS: Final = {
    "content-security-policy": (
        "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class ViewerRule(Protocol):
    """The interface of a rule that decides which requests may read a web page."""

    async def refusal(self, request: Request) -> Response | None:
        """Return the response that refuses a request; None if the request is permitted."""
        ...


@attrs.frozen
class KnownHosts:
    """The rule for a page without tokens: it permits only host names that no attacker can control, and names in
    `further`.

    Without it, any website that a user opens during a port-forward could read the page, by making a name of its own
    resolve to 127.0.0.1 (DNS rebinding).
    """

    further: frozenset[str] = frozenset()

    async def refusal(self, request: Request) -> Response | None:
        """Return a 421 response if the header `Host` has an unknown name. Return None if the name is known."""
        if is_known_host(request.headers.get("host", ""), self.further):
            return None
        return PlainTextResponse(_UNKNOWN_HOST, 421)


_UNKNOWN_HOST: Final = (
    "this page is not served under that name: open it by an IP address or localhost;"
    " the operator's setting page-hosts takes further names\n"
)
_OF_A_CLUSTER: Final = (".localhost", ".svc", ".cluster.local")


def is_known_host(host: str, further: Set[str] = frozenset()) -> bool:
    """Report whether a `Host` header is an IP address, a name without a dot, a name of the cluster, or in `further`."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    try:
        ip_address(name.partition("%")[0])
    except ValueError:
        return bool(name) and ("." not in name or name.endswith(_OF_A_CLUSTER) or name in further)
    return True


class Site:
    """A website with the content of one `source`, which has a screen (the content of one page) for each URL path.

    `name` is the site's name in titles. `access` decides which requests are permitted. `hide` masks secrets in all text
    that the site sends.
    """

    def __init__(
        self,
        source: ScreenSource,
        name: str,
        access: ViewerRule | None = None,
        hide: Callable[[str], str] = lambda text: text,
    ) -> None:
        self._source = source
        self._access = access or KnownHosts()
        self._hide = hide
        self._renderer = Renderer(name, tuple(source.tabs))
        self.followers = Followers(source, self._renderer)

    def routes(self) -> list[BaseRoute]:
        """Return all routes of the site. They must come after all others, because the last route matches every path."""
        return [
            Route("/assets/{name}", self._guarded(self._asset)),
            Route(EVENTS, self._guarded(self._events)),
            Route("/{path:path}", self._guarded(self._document)),
        ]

    def _guarded(self, answer: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def guarded(request: Request) -> Response:
            refusal = await self._access.refusal(request)
            response = refusal if refusal is not None else await self._answered(request, answer)
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            response.headers.setdefault("cache-control", "no-store")
            return response

        return guarded

    async def _answered(self, request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        try:
            return await answer(request)
        except Exception:
            _log.exception("a page could not be drawn", path=request.url.path)
            return self._message(
                _path(request), 500, "It is our fault", "This page could not be drawn; the log says why."
            )

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in ASSETS:
            return PlainTextResponse("not found\n", 404)
        return Response(asset(name), headers={"content-type": ASSETS[name], "cache-control": _A_YEAR})

    async def _document(self, request: Request) -> Response:
        path, query = _path(request), dict(request.query_params)
        if len(request.url.query) > _LONGEST:
            return self._message(path, 414, "Too much is asked", "The address is too long.")
        try:
            screen = await self._source.screen(path, query)
        except Unanswered as error:
            return self._message(path, 503, "No answer", f"{error}. Load this page again in a moment.")
        if screen is None:
            return self._message(path, 404, "Not found", "Nothing of that name is here; it may have been deleted.")
        view = path + (f"?{request.url.query}" if request.url.query else "")
        drawn = self._renderer.screen(screen, path)
        return HTMLResponse(self._hide(self._renderer.page(screen, drawn, path, view, self._source.extent)))

    def _message(self, path: str, status: int, title: str, text: str) -> Response:
        return HTMLResponse(self._renderer.message(path, title, text, self._source.extent), status)

    async def _events(self, request: Request) -> Response:
        view = request.query_params.get("view", "/")
        path, _, text = view.partition("?")
        if len(view) > _LONGEST:
            return PlainTextResponse("the address is too long\n", 414)
        address = address_of(request.client)
        if not self.followers.has_room(address):
            return PlainTextResponse("too many follow the page\n", 503, headers={"retry-after": "30"})
        query = dict(parse_qsl(text, keep_blank_values=True))
        have = request.query_params.get("have", "")
        return _EventStream(self, request, (path, query, view, have, address))

    async def admits(self, request: Request) -> bool:
        """Report whether a request is still permitted, since access may be revoked while its event stream is open."""
        return await self._access.refusal(request) is None

    def shown(self, event: bytes) -> bytes:
        """Return a server-sent event with secrets masked."""
        return self._hide(event.decode()).encode()


def _path(request: Request) -> str:
    """Return the URL path as the browser sent it, still percent-encoded.

    A name in the path may contain an encoded slash.
    """
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    below = request.scope.get("root_path", "")  # where the site is mounted
    return "/" + raw.decode("ascii", "replace").removeprefix(below).lstrip("/")


class _EventStream(Response):
    """A response with server-sent events, which ends when the browser disconnects or access is revoked."""

    def __init__(self, site: Site, request: Request, asked: tuple[str, dict[str, str], str, str, str]) -> None:
        super().__init__(headers={"content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._site = site
        self._request = request
        self._asked = asked

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        async with anyio.create_task_group() as group:

            async def leave_with_follower() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                group.cancel_scope.cancel()

            group.start_soon(leave_with_follower)
            await self._send_all(send)
            group.cancel_scope.cancel()

    async def _send_all(self, send: Any) -> None:
        events = self._site.followers.follow(*self._asked)
        try:
            async for event in events:
                if not await self._site.admits(self._request):
                    break
                await send({"type": "http.response.body", "body": self._site.shown(event), "more_body": True})
        finally:
            await events.aclose()  # type: ignore[attr-defined]
        await send({"type": "http.response.body", "body": b""})
