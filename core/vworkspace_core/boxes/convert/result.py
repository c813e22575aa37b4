"""What a conversion gives: boxes, notes that go beside their lines, and everything that had no counterpart."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from vworkspace_core.apimachinery.problems import Problem

MOST: Final = 500
"""Problems of one file that are told."""

BoxPath: TypeAlias = tuple[str | int, ...]
"""Keys and indices that lead to a part of a document."""


@attrs.frozen
class ConvertedBox:
    """One box. `crd` is a definition to be written beside it, under the name that the box gives it.

    `notes` are remarks for the reader, each about the part of the box at its place.
    """

    name: str
    box: Mapping[str, Any]
    crd: Mapping[str, Any] | None = None
    notes: Mapping[BoxPath, str] = attrs.field(factory=dict)


@attrs.frozen
class Conversion:
    """The boxes of a file, and what could not be converted, by its path in that file."""

    boxes: tuple[ConvertedBox, ...]
    problems: tuple[Problem, ...]


@attrs.define
class Problems:
    """Collects what could not be converted."""

    _found: dict[Problem, None] = attrs.field(factory=dict)

    def add(self, path: str, message: str) -> None:
        """One thing that has no counterpart."""
        if len(self._found) < MOST:
            self._found[Problem(path, message)] = None

    def all(self) -> tuple[Problem, ...]:
        """Each once, in the order of the file as far as it was read."""
        return tuple(self._found)


def shown(names: Iterable[str]) -> str:
    """`a, b and c`."""
    listed = list(names)
    return " and ".join([", ".join(listed[:-1]), listed[-1]]) if len(listed) > 1 else "".join(listed)
