"""Problems of an object, reported together and each with its path (RES-1, RES-6), and positions in a file."""

from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Any, Final, Protocol

import attrs


@attrs.frozen(order=True)
class Place:
    """A position in a file, and the path of the field that is written there. `line` and `column` count from 1; 0 means
    unknown.
    """

    path: str = ""
    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        spot = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        return ": ".join(part for part in (spot, self.path) if part)


def listed(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first `most` of the texts in one line, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return separator.join(texts[:most]) + more


class Places(Protocol):
    """A lookup from a document's fields to the lines and columns of the file where they are written."""

    def at(self, path: str, offset: int | None = None) -> Place:
        """Return the position of the field at `path`. With `offset`, return the position of the character at that index
        in the field's text.
        """
        ...


class NoPlaces:
    """The lookup for a document that was not read from a file, so that no line is known."""

    def at(self, path: str, offset: int | None = None) -> Place:
        """Return a position that has only the path."""
        return Place(path)


MOST_PROBLEMS: Final = 32
"""The largest number of problems in one report; users correct these before they see the next (RUN-11)."""

_LONGEST_STEP: Final = 64
"""The longest field name that a path shows in full, in characters, since a name may be any text."""


@attrs.frozen(order=True)
class Problem:
    """One problem of an object. `path` is written as the API server writes it: `spec.endpoints[0].url`."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ValidationProblems(ValueError):
    """The error for an object that cannot be read as its kind. `problems` are sorted by path."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = first_of(problems)
        super().__init__("; ".join(map(str, self.problems)))

    def __reduce__(self) -> tuple[type["ValidationProblems"], tuple[tuple[Problem, ...]]]:
        return (type(self), (self.problems,))


def first_of(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the first `MOST_PROBLEMS` of the distinct `problems`, sorted by path."""
    return tuple(nsmallest(MOST_PROBLEMS, set(problems)))


def type_name(value: Any) -> str:
    """Return the JSON type of `value` for messages, such as `a string` or `null`."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case Mapping():
            return "an object"
        case list() | tuple():
            return "a list"
        case _:
            return f"a {type(value).__name__}"


def join(path: str, name: str) -> str:
    """Return the path of the field `name` under `path`.

    A long name is cut, and a name with dots or quotes is written in brackets.
    """
    if len(name) > _LONGEST_STEP:
        name = name[: _LONGEST_STEP - 1] + "…"
    if not name or any(character in name for character in ".[]\"' \n"):
        return f"{path}[{name!r}]"
    return f"{path}.{name}" if path else name


def index(path: str, position: int) -> str:
    """Return the path of the item at index `position` in the list at `path`."""
    return f"{path}[{position}]"


def path_of(steps: Iterable[str | int], path: str = "") -> str:
    """Return the path through the fields and list indexes in `steps`, such as `spec.endpoints[0]`, below `path`."""
    for step in steps:
        path = index(path, step) if isinstance(step, int) else join(path, step)
    return path


def amount(number: int, what: str) -> str:
    """Return the count `number` with its noun `what`, in the plural if needed: `1 problem`, `2 problems`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
