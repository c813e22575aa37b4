"""The result of a conversion: boxes, notes about their lines, and everything that had no counterpart."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from purekube.apimachinery.problems import Problem

MOST: Final = 500
"""The most problems of one file that are reported."""

BoxPath: TypeAlias = tuple[str | int, ...]
"""Keys and indices that lead to a part of a document."""


@attrs.frozen
class ConvertedBox:
    """One box. `crd` is a definition to be written to a file next to it, whose name the box has.

    `notes` are remarks for the reader, each about the part of the box at its path.
    """

    name: str
    box: Mapping[str, Any]
    crd: Mapping[str, Any] | None = None
    notes: Mapping[BoxPath, str] = attrs.field(factory=dict)


@attrs.frozen
class ConversionResult:
    """The boxes of a file, and what could not be converted, by its path in that file."""

    boxes: tuple[ConvertedBox, ...]
    problems: tuple[Problem, ...]


@attrs.define
class Problems:
    """A collection of what could not be converted."""

    _found: dict[Problem, None] = attrs.field(factory=dict)

    def add(self, path: str, message: str) -> None:
        """Add one thing that has no counterpart."""
        if len(self._found) < MOST:
            self._found[Problem(path, message)] = None

    def all(self) -> tuple[Problem, ...]:
        """Return each problem once, in the order in which the file was read."""
        return tuple(self._found)


def shown(names: Iterable[str]) -> str:
    """Return a list in words: `a, b and c`."""
    listed = list(names)
    return " and ".join([", ".join(listed[:-1]), listed[-1]]) if len(listed) > 1 else "".join(listed)
