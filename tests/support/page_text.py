"""What a page says, read from its HTML: rows, parts, addresses, scripts."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Final

import attrs

_VOID: Final = frozenset(("meta", "link", "img", "input", "br", "hr", "path", "rect", "circle"))


@attrs.define
class Element:
    """One element with its attributes and the text below it."""

    tag: str
    attributes: dict[str, str]
    depth: int
    pieces: list[str] = attrs.field(factory=list)

    @property
    def text(self) -> str:
        """All text, with single spaces."""
        return re.sub(r"\s+", " ", "".join(self.pieces)).strip()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[Element] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs}, len(self._open))
        self.elements.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        assert self._open, f"</{tag}> closes nothing"
        assert self._open[-1].tag == tag, f"</{tag}> closes <{self._open[-1].tag}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.pieces.append(data)


def elements(html: str) -> list[Element]:
    """Every element, in order. Fails where tags do not match."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.elements


def rows(html: str) -> dict[str, str]:
    """The rows of the fleet: what each says, by its id without `row:`."""
    return {
        element.attributes["id"].removeprefix("row:"): element.text
        for element in elements(html)
        if element.tag == "tr" and element.attributes.get("id", "").startswith("row:")
    }


def addresses(html: str) -> Iterator[str]:
    """Everything that a browser may load, send to or go to."""
    for element in elements(html):
        for name in ("href", "src", "action", "srcset", "data", "formaction", "poster", "xlink:href"):
            if name in element.attributes:
                yield element.attributes[name]


def main_of(html: str) -> Element:
    """The element `main`."""
    (found,) = [element for element in elements(html) if element.tag == "main"]
    return found
