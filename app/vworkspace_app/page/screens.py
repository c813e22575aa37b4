"""What a source shows: screens, each made of parts that are replaced one by one as they change."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import attrs


@attrs.frozen
class Part:
    """A piece of a screen with an id of its own: a template and what it is filled with.

    With `items` it holds a list: each item has an id, is drawn by `item_template`, and is replaced alone while the
    others, and their order, stay.
    """

    id: str
    template: str
    context: Mapping[str, Any] = attrs.field(factory=dict)
    item_template: str = ""
    items: tuple[tuple[str, Mapping[str, Any]], ...] = ()


@attrs.frozen
class Screen:
    """One page. `scope` holds the namespaces whose changes can change it, None for all; `every` is how often it is
    looked at while somebody watches, in seconds, for what no change tells of.
    """

    title: str
    tab: str
    parts: tuple[Part, ...]
    scope: frozenset[str] | None = None
    every: float | None = None


@attrs.frozen
class Tab:
    """An entry of the navigation."""

    id: str
    title: str
    path: str


Heard: TypeAlias = Callable[[str | None], None]
"""Told of a change in a namespace, or in none, from whatever thread it happens in. Must not block."""


class Source(Protocol):
    """What a site shows."""

    @property
    def tabs(self) -> Sequence[Tab]:
        """The navigation."""
        ...

    async def screen(self, path: str, query: Mapping[str, str]) -> Screen | None:
        """The screen at a path; None where there is none. Raises Unanswered."""
        ...

    def subscribe(self, heard: Heard) -> Callable[[], None]:
        """Tell of changes until what is returned is called."""
        ...


class Unanswered(Exception):
    """What knows does not answer in time."""


class Several:
    """`Source` of several: the first that has a screen shows it."""

    def __init__(self, *sources: Source) -> None:
        self._sources = sources

    @property
    def tabs(self) -> Sequence[Tab]:
        """Those of all."""
        return [tab for source in self._sources for tab in source.tabs]

    async def screen(self, path: str, query: Mapping[str, str]) -> Screen | None:
        """The first that is found."""
        for source in self._sources:
            if (screen := await source.screen(path, query)) is not None:
                return screen
        return None

    def subscribe(self, heard: Heard) -> Callable[[], None]:
        """To all of them."""
        ends = [source.subscribe(heard) for source in self._sources]

        def end() -> None:
            for one in ends:
                one()

        return end
