"""The followers of the page, which are browsers that have it open: each is sent the parts that changed (SEE-3).

Without followers, nothing is subscribed, rendered or kept. Followers of the same URL share one rendering.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Final

import anyio
import attrs
import msgspec

from vworkspace_app.page.rendering import RenderedScreen, Renderer
from vworkspace_app.page.screens import PageContent, ScreenSource, Unanswered

MOST_FOLLOWERS: Final = 32
GATHER_SECONDS: Final = 0.5
"""The seconds for which changes are gathered before they are sent together, since users read no faster."""
BEAT_SECONDS: Final = 15.0
"""The seconds of silence after which a follower is sent a heartbeat, which shows that no change was missed."""


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

    `revision` is the number of changes that the rendering includes.
    """

    turn: anyio.Lock = attrs.field(factory=anyio.Lock)
    followers: int = 0
    revision: int = -1
    drawn: tuple[PageContent, RenderedScreen] | None = None


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
            revision = self._revision
            if shared.drawn is None or shared.revision < revision or shared.drawn[0].every is not None:
                screen = await self._source.screen(path, query)
                if screen is None:
                    raise LookupError(path)
                shared.drawn, shared.revision = (screen, self._renderer.screen(screen, path)), revision
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
        """Wake the event loop that calls this when changes are reported from now on."""
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
