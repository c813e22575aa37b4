"""Problems and warnings about a box, each with its place in the file."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

import attrs

from purekube.apimachinery.places import Place, Places
from purekube.cel import CelSyntaxError

MOST: Final = 200
"""The most problems that are kept: an author fixes some of them first."""


@attrs.frozen(order=True)
class BoxProblem:
    """One problem or warning, and what to write instead."""

    place: Place
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if str(self.place) else self.message


class BoxProblems(ValueError):
    """A box that cannot be run. `problems` are all of them, in the order of the file."""

    def __init__(self, problems: Sequence[BoxProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


class Findings:
    """A collection of problems and warnings; each message is kept once for each place."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._problems: dict[BoxProblem, None] = {}
        self._warnings: dict[BoxProblem, None] = {}

    def problem(self, path: str, message: str, offset: int | None = None) -> None:
        """Add a problem that keeps the box from running."""
        _add(self._problems, BoxProblem(self._places.at(path, offset), message))

    def warning(self, path: str, message: str, offset: int | None = None) -> None:
        """Add a warning of something that is rarely intended."""
        _add(self._warnings, BoxProblem(self._places.at(path, offset), message))

    def place(self, path: str, offset: int | None = None) -> Place:
        """Return the place of a field."""
        return self._places.at(path, offset)

    def syntax(self, path: str, error: CelSyntaxError, source: str, begin: int | None) -> None:
        """Add a syntax error. `begin` is where the text begins in the field's text, None if it is not in it."""
        offset = None if begin is None else begin + offset_of(error, source)
        self.problem(path, error.problem, offset)

    @property
    def count(self) -> int:
        """The number of problems so far."""
        return len(self._problems)

    @property
    def problems(self) -> tuple[BoxProblem, ...]:
        """The problems in the order of the file."""
        return tuple(sorted(self._problems, key=_by_line))

    @property
    def warnings(self) -> tuple[BoxProblem, ...]:
        """The warnings in the order of the file."""
        return tuple(sorted(self._warnings, key=_by_line))


def _add(found: dict[BoxProblem, None], problem: BoxProblem) -> None:
    if len(found) < MOST:
        found[problem] = None


def _by_line(problem: BoxProblem) -> tuple[str, int, int, str, str]:
    place = problem.place
    return (place.file, place.line, place.column, place.path, problem.message)


def offset_of(error: CelSyntaxError, source: str) -> int:
    """Return the place of an error as a number of characters from the beginning of its text."""
    if error.line == 0:
        return 0
    lines = source.split("\n")
    return sum(len(line) + 1 for line in lines[: error.line - 1]) + error.column - 1


def joined_names(names: Iterable[str]) -> str:
    """Return names for a message."""
    return ", ".join(sorted(names)) or "there is none"


def no_such(name: str, names: Iterable[str]) -> str:
    """Return the message for an id that does not exist."""
    near = get_close_matches(name, sorted(names), 1)
    hint = f"did you mean {near[0]}?" if near else joined_names(names)
    return f"there is no resource, external or phase {name}: {hint}"
