"""Problems of an object: all at once, each with its path (RES-1, RES-6); places in a file that messages name."""

from collections.abc import Iterable
from heapq import nsmallest
from typing import Final, Protocol

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
        """Return the place of the field at `path`, or of the character at `offset` in its text."""
        ...


class NoPlaces:
    """Places for a document that was in no file."""

    def at(self, path: str, offset: int | None = None) -> Place:
        """Return a place with the path alone."""
        return Place(path)


MOST_PROBLEMS: Final = 32
"""The most problems that are reported; readers correct some of them before they see the next (RUN-11)."""

_LONGEST_STEP: Final = 64
"""The most letters of a field's name in a path: a name may be any text."""


@attrs.frozen(order=True)
class Problem:
    """One problem. `path` is in the field's own notation: `spec.endpoints[0].url`."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ValidationProblems(ValueError):
    """An object that cannot be read as its kind. `problems` are sorted by path."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = first_of(problems)
        super().__init__("; ".join(map(str, self.problems)))

    def __reduce__(self) -> tuple[type["ValidationProblems"], tuple[tuple[Problem, ...]]]:
        return (type(self), (self.problems,))


def first_of(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the first `MOST_PROBLEMS` problems in the order of their paths, each once."""
    return tuple(nsmallest(MOST_PROBLEMS, set(problems)))


def join(path: str, name: str) -> str:
    """Return the path of the field `name` under `path`; cut a long name, put one with dots or quotes into brackets."""
    if len(name) > _LONGEST_STEP:
        name = name[: _LONGEST_STEP - 1] + "…"
    if not name or any(character in name for character in ".[]\"' \n"):
        return f"{path}[{name!r}]"
    return f"{path}.{name}" if path else name


def index(path: str, position: int) -> str:
    """Return the path of one item of a list."""
    return f"{path}[{position}]"
