"""The types of a website's content: screens, their parts, which can be replaced one by one, and sources of screens.

All paths are below the root of the site.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import urlencode

import attrs

from vworkspace_core.overview.object_list import ListQuery
from vworkspace_core.overview.severity import Severity

EVENTS: Final = "/events"
STREAMS: Final = frozenset((EVENTS,))
"""The paths whose responses are streams, which stay open while a browser follows the page."""


def list_query(query: Mapping[str, str]) -> ListQuery:
    """Return the filters of the object list in a URL's query. An invalid page number becomes 1."""
    page = query.get("page", "")
    number = int(page) if page.isascii() and page.isdigit() and len(page) < 7 else 1
    kind, state, namespace, text = (query.get(name, "") for name in ("kind", "state", "namespace", "q"))
    return ListQuery(kind, state, namespace, text, number, "needs" in query, "dense" in query)


def list_path(query: ListQuery, **changes: str | int) -> str:
    """Return the URL path of the object list with some filters changed. The page number is reset to 1 unless given."""
    said = {
        "kind": query.kind, "state": query.state, "namespace": query.namespace, "q": query.text, "page": "",
        "needs": "you" if query.needs else "", "dense": "1" if query.dense else "",
        **{name: str(value) for name, value in changes.items()},
    }  # fmt: skip
    said = {name: value for name, value in said.items() if value and (name, value) != ("page", "1")}
    return "/" + (f"?{urlencode(said)}" if said else "")


def root_of(path: str) -> str:
    """Return the relative URL of the site's root for links in the page at `path`, such as `../../`."""
    return "../" * (path.count("/") - 1) or "./"


@attrs.frozen
class ScreenPart:
    """A part of a screen, which can be replaced alone: its id, a template, and the values for the template.

    With `items` the part is a list. Each item has an id, is rendered by `item_template`, and can be replaced alone
    while the other items and their order stay.
    """

    id: str
    template: str
    context: Mapping[str, Any] = attrs.field(factory=dict)
    item_template: str = ""
    items: tuple[tuple[str, Mapping[str, Any]], ...] = ()


@attrs.frozen
class PageContent:
    """The content of one page, before it is rendered as HTML.

    `scope` has the namespaces whose changes can affect the page; None for all. `every` is the interval in seconds at
    which an open page is rendered again, for values whose changes are not reported; None for never. `tab_title` and
    `severity` are shown in the browser tab. `has_heading` is True if a part contains the heading.
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
    """An entry of the navigation, with its title and the URL path to which it links."""

    id: str
    title: str
    path: str


@attrs.frozen
class Extent:
    """The heading of a site, which names what it shows, such as a shard of the cluster or a recorded run.

    `mark` is its short form, which is shown next to the site's name.
    """

    phrase: str
    mark: str = ""


Heard: TypeAlias = Callable[[str | None], None]
"""A callback that gets the namespace of a change, or None for a cluster-wide one.

It is called in any thread, and must not block.
"""


class ScreenSource(Protocol):
    """The interface to the content of a website: for each URL path it returns a screen, the content of one page."""

    @property
    def tabs(self) -> Sequence[Tab]:
        """The tabs of the navigation."""
        ...

    @property
    def extent(self) -> Extent:
        """The heading of the site, which names what it shows."""
        ...

    async def screen(self, path: str, query: Mapping[str, str]) -> PageContent | None:
        """Return the screen at a URL path. Return None if the path has no screen.

        Raises Unanswered if the event loop that owns the data does not answer.
        """
        ...

    def subscribe(self, heard: Heard) -> Callable[[], None]:
        """Call `heard` after each change of the content, with the changed namespace, until the returned function is
        called.

        By default no change is reported: `heard` is never called.
        """
        return lambda: None


class Unanswered(Exception):
    """The error raised when the event loop that owns the data does not answer in time."""


class CombinedSource:
    """The content of several sources as one. Each path is served by the first source that has a screen for it."""

    def __init__(self, *sources: ScreenSource) -> None:
        self._sources = sources

    @property
    def tabs(self) -> Sequence[Tab]:
        """The tabs of all sources."""
        return [tab for source in self._sources for tab in source.tabs]

    @property
    def extent(self) -> Extent:
        """The words that name the contents of all sources, joined."""
        extents = [source.extent for source in self._sources]
        return Extent(" and ".join(extent.phrase for extent in extents), "".join(extent.mark for extent in extents))

    async def screen(self, path: str, query: Mapping[str, str]) -> PageContent | None:
        """Return the screen of the first source that has a screen at this path; None if no source has."""
        for source in self._sources:
            if (screen := await source.screen(path, query)) is not None:
                return screen
        return None

    def subscribe(self, heard: Heard) -> Callable[[], None]:
        """Call `heard` with the changed namespace after each change of any source.

        That ends when the returned function is called.
        """
        ends = [source.subscribe(heard) for source in self._sources]

        def end() -> None:
            for one in ends:
                one()

        return end
