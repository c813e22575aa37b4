"""What is wrong with an object: every problem at once, each with its path (RES-1, RES-6)."""

from collections.abc import Iterable
from heapq import nsmallest
from typing import Final

import attrs

MOST_PROBLEMS: Final = 32
"""Problems that are counted, and no further: who reads them mends some of them first (RUN-11)."""

_LONGEST_STEP: Final = 64
"""Letters of a field's name that a path repeats: names are whatever somebody wrote."""


@attrs.frozen(order=True)
class Problem:
    """One thing that is wrong. `path` is in the field's own notation: `spec.endpoints[0].url`."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ValidationProblems(ValueError):
    """An object that cannot be read as its kind. `problems` names what is wrong, sorted by path."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = first_of(problems)
        super().__init__("; ".join(map(str, self.problems)))

    def __reduce__(self) -> tuple[type["ValidationProblems"], tuple[tuple[Problem, ...]]]:
        return (type(self), (self.problems,))


def first_of(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The first of them by path, each once, and no more than anybody reads."""
    return tuple(nsmallest(MOST_PROBLEMS, set(problems)))


def join(path: str, name: str) -> str:
    """Path of the field `name` under `path`; long names are cut, and those that dots would blur are bracketed."""
    if len(name) > _LONGEST_STEP:
        name = name[: _LONGEST_STEP - 1] + "…"
    if not name or any(character in name for character in ".[]\"' \n"):
        return f"{path}[{name!r}]"
    return f"{path}.{name}" if path else name


def index(path: str, position: int) -> str:
    """Path of one item of a list."""
    return f"{path}[{position}]"
