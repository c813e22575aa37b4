"""Where something stands in a file: so that a message can say where to look."""

from typing import Protocol

import attrs


@attrs.frozen(order=True)
class Place:
    """A line and column, counted from 1, of a file, and the path of the field; 0 and empty where nothing is known."""

    path: str = ""
    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        spot = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        return ": ".join(part for part in (spot, self.path) if part)


class Places(Protocol):
    """Knows where the fields of a document stand."""

    def at(self, path: str, offset: int | None = None) -> Place:
        """The place of the field at `path`, or of a character of its text."""
        ...


class NoPlaces:
    """For a document that was in no file."""

    def at(self, path: str, offset: int | None = None) -> Place:
        """The path alone."""
        return Place(path)
