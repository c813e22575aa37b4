"""Screens, as a source returns them: parts that are replaced one by one, and addresses below the page's root."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import urlencode

import attrs

from vworkspace_core.overview.object_list import ListQuery
from vworkspace_core.overview.severity import Severity

EVENTS: Final = "/events"
STREAMS: Final = frozenset((EVENTS,))
"""Paths whose answers are streams, open for as long as the browser follows."""


def list_query(query: Mapping[str, str]) -> ListQuery:
    """Return the filters in a URL's query. An invalid page number becomes 1."""
    page = query.get("page", "")
    number = int(page) if page.isascii() and page.isdigit() and len(page) < 7 else 1
    kind, state, namespace, text = (query.get(name, "") for name in ("kind", "state", "namespace", "q"))
    return ListQuery(kind, state, namespace, text, number, "needs" in query, "dense" in query)


def list_path(query: ListQuery, **changes: str | int) -> str:
    """Return the URL of the object list with some filters changed. The page number is reset to 1."""
    said = {
        "kind": query.kind, "state": query.state, "namespace": query.namespace, "q": query.text, "page": "",
        "needs": "you" if query.needs else "", "dense": "1" if query.dense else "",
        **{name: str(value) for name, value in changes.items()},
    }  # fmt: skip
    said = {name: value for name, value in said.items() if value and (name, value) != ("page", "1")}
    return "/" + (f"?{urlencode(said)}" if said else "")


def root_of(path: str) -> str:
    """Return the relative URL from the page at `path` to the root of the site, such as `../../`."""
    return "../" * (path.count("/") - 1) or "./"


@attrs.frozen
class ScreenPart:
    """A part of a screen with an id of its own: a template, and the values to fill it.

    With `items` it holds a list. Each item has an id, is rendered by `item_template`, and can be replaced alone while
    the other items and their order stay.
    """

    id: str
    template: str
    context: Mapping[str, Any] = attrs.field(factory=dict)
    item_template: str = ""
    items: tuple[tuple[str, Mapping[str, Any]], ...] = ()


@attrs.frozen
class Screen:
    """The content of one page.

    `scope` holds the namespaces whose changes can affect it, None for all. `every` is an interval in seconds after
    which a followed screen is rendered again, for values whose changes are not reported. `tab_title` and `severity` are
    what the browser's tab shows; `has_heading` says that a part contains the heading.
    """

    title: str
    tab: str
    parts: tuple[ScreenPart, ...]
    scope: frozenset[str] | None = None
    every: float | None = None
    tab_title: str = ""
    severity: Severity = Severity.QUIET
    has_heading: bool = False


@attrs.frozen
class Tab:
    """An entry of the navigation."""

    id: str
    title: str
    path: str


@attrs.frozen
class Extent:
    """The part of the world that a site shows, as a phrase; `mark` is a word for it next to the site's name."""

    phrase: str
    mark: str = ""


Heard: TypeAlias = Callable[[str | None], None]
"""A callback for a change in a namespace (None: cluster-wide), called in any thread. Must not block."""


class ScreenSource(Protocol):
    """A source of screens for a site."""

    @property
    def tabs(self) -> Sequence[Tab]:
        """The tabs of the navigation."""
        ...

    @property
    def extent(self) -> Extent:
        """The part of the world that is shown."""
        ...

    async def screen(self, path: str, query: Mapping[str, str]) -> Screen | None:
        """Return the screen at a path; None if there is none. Raises Unanswered."""
        ...

    def subscribe(self, heard: Heard) -> Callable[[], None]:
        """Call `heard` on changes until the returned function is called."""
        ...


class Unanswered(Exception):
    """The error that the event loop which owns the data did not answer in time."""


class CombinedSource:
    """A `ScreenSource` made of several. The first one that has a screen for a path shows it."""

    def __init__(self, *sources: ScreenSource) -> None:
        self._sources = sources

    @property
    def tabs(self) -> Sequence[Tab]:
        """The tabs of all sources."""
        return [tab for source in self._sources for tab in source.tabs]

    @property
    def extent(self) -> Extent:
        """The extents of all sources."""
        extents = [source.extent for source in self._sources]
        return Extent(" and ".join(extent.phrase for extent in extents), "".join(extent.mark for extent in extents))

    async def screen(self, path: str, query: Mapping[str, str]) -> Screen | None:
        """Return the screen of the first source that has one."""
        for source in self._sources:
            if (screen := await source.screen(path, query)) is not None:
                return screen
        return None

    def subscribe(self, heard: Heard) -> Callable[[], None]:
        """Call `heard` on changes of any source."""
        ends = [source.subscribe(heard) for source in self._sources]

        def end() -> None:
            for one in ends:
                one()

        return end
