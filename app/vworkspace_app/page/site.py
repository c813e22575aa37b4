"""The web page over HTTP: documents, their assets, and a stream of events for browsers that follow the page (SEE-3).

Only GET and HEAD are served. The response to a refused request says how to get access. Every response forbids the
browser to load from or send to any other host.

A browser that has the page open is sent the parts that changed. Without followers, nothing is subscribed, rendered or
kept. Followers of the same URL share one rendering.
"""

import asyncio
import math
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Set
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, urlsplit

import anyio
import attrs
import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from purekube_run.process.connection_limit import address_of
from vworkspace_app.page.rendering import ASSETS, RenderedScreen, Renderer, asset
from vworkspace_app.page.screens import EVENTS, PageContent, ScreenSource, Unanswered

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
MOST_FOLLOWERS: Final = 32
GATHER_SECONDS: Final = 0.5
"""The seconds for which changes are gathered before they are sent together, since users read no faster."""
BEAT_SECONDS: Final = 15.0
"""The seconds of silence after which a follower is sent a heartbeat, which shows that no change was missed."""


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
        given = {one.lower() for one in further}  # browsers send names in lower case
        return bool(name) and ("." not in name or name.endswith(_OF_A_CLUSTER) or name.removesuffix(".") in given)
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


@attrs.define(eq=False)
class _Follower:
    """A browser that has the page open.

    `scope` has the namespaces whose changes affect its screen, or is None for all.
    """

    address: str
    has_to_leave: bool = False
    scope: frozenset[str] | None = None
    woken: anyio.Event = attrs.field(factory=anyio.Event)


@attrs.define(eq=False)
class _View:
    """The last rendering of one URL's screen, which all its followers share.

    `revision` is the number of changes that the rendering includes. At the time `fresh_until` it has to be rendered
    again, because values may have changed that nothing reports.
    """

    turn: anyio.Lock = attrs.field(factory=anyio.Lock)
    followers: int = 0
    revision: int = -1
    drawn: tuple[PageContent, RenderedScreen] | None = None
    fresh_until: float = math.inf


class Followers:
    """The browsers that have the page open, to which changes of the page are sent: at most `most`.

    All methods must be called on the event loop that serves the page. The source may report changes from any thread.
    """

    def __init__(self, source: ScreenSource, renderer: Renderer, most: int = MOST_FOLLOWERS) -> None:
        self._source = source
        self._renderer = renderer
        self._most = most
        self._followers: dict[_Follower, None] = {}
        self._views: dict[tuple[str, str], _View] = {}
        self._unsubscribe: Callable[[], None] | None = None
        self._news = _News(self._wake)
        self._revision = 0

    def __len__(self) -> int:
        return len(self._followers)

    def has_room(self, address: str) -> bool:
        """Report whether another follower from the client address `address` is admitted.

        If the limit of followers is reached, it is admitted only if another address has at least two followers more
        than this address. The address with the most followers then loses its newest one.
        """
        if len(self._followers) < self._most:
            return True
        counts = Counter(follower.address for follower in self._followers)
        return max(counts.values(), default=0) > counts[address] + 1

    async def follow(
        self, path: str, query: dict[str, str], view: str, have: str, address: str = ""
    ) -> AsyncIterator[bytes]:
        """Yield the server-sent events for one follower, until it must make room for another.

        `view` is the URL path of the page with its query. Followers with the same `path` and `view` share one rendering
        of the screen. `have` is the digest of the screen that the browser shows now, and `address` the browser's
        address.
        """
        if not self.has_room(address):
            return
        self._make_room()
        follower, shared = self._join(path, view, address)
        before: RenderedScreen | None = None
        quiet = 0.0
        try:
            while not follower.has_to_leave:
                follower.woken = anyio.Event()
                try:
                    screen, drawn = await self._drawn(shared, path, query)
                except Unanswered as error:
                    yield _event("silent", {"why": str(error)})
                    await anyio.sleep(BEAT_SECONDS)
                    continue
                except LookupError:
                    yield _event("gone", {})
                    return
                if drawn.digest != (have if before is None else before.digest):
                    yield _event("parts", _news_of(drawn, before))
                    quiet = 0.0
                elif before is None:
                    yield _event("beat", {})
                before, follower.scope = drawn, screen.scope
                pause = BEAT_SECONDS if screen.every is None else screen.every
                while not await self._heard(follower, pause):
                    quiet += pause
                    if quiet >= BEAT_SECONDS:
                        yield _event("beat", {})
                        quiet = 0.0
                    if screen.every is not None:
                        break
        finally:
            self._leave(follower, path, view)

    def _make_room(self) -> None:
        """Disconnect one follower if the limit of followers is reached: the newest of the address that has the most."""
        if len(self._followers) >= self._most:
            counts = Counter(follower.address for follower in self._followers)
            leaving = max(reversed(self._followers), key=lambda follower: counts[follower.address])
            del self._followers[leaving]
            leaving.has_to_leave = True
            leaving.woken.set()

    def _join(self, path: str, view: str, address: str) -> tuple[_Follower, _View]:
        follower = _Follower(address)
        self._followers[follower] = None
        shared = self._views.setdefault((path, view), _View())
        shared.followers += 1
        if self._unsubscribe is None:
            self._news.listen()
            self._unsubscribe = self._source.subscribe(self._news.tell)
        return follower, shared

    def _leave(self, follower: _Follower, path: str, view: str) -> None:
        self._followers.pop(follower, None)
        shared = self._views[path, view]
        shared.followers -= 1
        if not shared.followers:
            del self._views[path, view]
        if not self._followers and self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    async def _drawn(self, shared: _View, path: str, query: dict[str, str]) -> tuple[PageContent, RenderedScreen]:
        async with shared.turn:
            revision, now = self._revision, anyio.current_time()
            if shared.drawn is None or shared.revision < revision or now >= shared.fresh_until:
                screen = await self._source.screen(path, query)
                if screen is None:
                    raise LookupError(path)
                shared.drawn, shared.revision = (screen, self._renderer.screen(screen, path)), revision
                shared.fresh_until = math.inf if screen.every is None else now + screen.every / 2
            return shared.drawn

    async def _heard(self, follower: _Follower, pause: float) -> bool:
        """Wait up to `pause` seconds for a change that affects the follower. Return whether there was one.

        After a change, wait a moment for further changes, so that they are sent together.
        """
        with anyio.move_on_after(pause):
            await follower.woken.wait()
            await anyio.sleep(GATHER_SECONDS)
            return True
        return follower.woken.is_set()

    def _wake(self, namespaces: set[str | None]) -> None:
        self._revision += 1
        for follower in self._followers:
            if follower.scope is None or None in namespaces or follower.scope & namespaces:
                follower.woken.set()


class _News:
    """A collector of changes that other threads report.

    It wakes the event loop of the page once for several changes.
    """

    def __init__(self, wake: Callable[[set[str | None]], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._namespaces: set[str | None] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def listen(self) -> None:
        """From now on, wake the event loop that calls this method whenever changes are reported."""
        self._loop = asyncio.get_running_loop()

    def tell(self, namespace: str | None) -> None:
        """Report a change in a namespace, or a change of a cluster-wide object if `namespace` is None.

        Any thread may call this.
        """
        with self._lock:
            is_first = not self._namespaces
            self._namespaces.add(namespace)
        if is_first and self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: it has no followers any more
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        with self._lock:
            namespaces, self._namespaces = self._namespaces, set()
        self._wake(namespaces)


def _news_of(drawn: RenderedScreen, before: RenderedScreen | None) -> dict[str, object]:
    """Return the data with which a browser that shows `before` is updated to show `drawn`."""
    news = {"parts": drawn.changes(before), "have": drawn.digest}
    return {**news, "title": drawn.tab_title, "icon": drawn.icon}


def _event(name: str, data: dict[str, object]) -> bytes:
    """Return a server-sent event as bytes. The data is JSON, which has no line breaks that would end the event."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"
