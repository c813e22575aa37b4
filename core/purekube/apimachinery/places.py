"""Places in a file, so that a message can point to them."""

from typing import Protocol

import attrs


@attrs.frozen(order=True)
class Place:
    """A line and column, counted from 1, of a file, and the path of the field; 0 and empty if unknown."""

    path: str = ""
    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        spot = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        return ": ".join(part for part in (spot, self.path) if part)


class Places(Protocol):
    """The places of a document's fields."""

    def at(self, path: str, offset: int | None = None) -> Place:
        """Return the place of the field at `path`, or of a character of its text."""
        ...


class NoPlaces:
    """Places for a document that was in no file."""

    def at(self, path: str, offset: int | None = None) -> Place:
        """Return a place with the path alone."""
        return Place(path)
