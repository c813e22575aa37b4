"""The result of a conversion: boxes, notes about parts of a box, and everything that has no counterpart in a box.

A box is a YAML file that describes an operator.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from purekube.apimachinery.problems import Problem

MOST: Final = 500
"""The maximum number of problems that are reported for one file."""

BoxPath: TypeAlias = tuple[str | int, ...]
"""The keys and indices that lead to a part of a document."""


@attrs.frozen
class ConvertedBox:
    """One box that a conversion returns: a YAML file that describes an operator.

    `crd` is a CRD to be written to a file next to the box; None if there is none. `notes` are remarks for the reader,
    by the path of the part of the box that each is about.
    """

    name: str
    box: Mapping[str, Any]
    crd: Mapping[str, Any] | None = None
    notes: Mapping[BoxPath, str] = attrs.field(factory=dict)


@attrs.frozen
class ConversionResult:
    """The boxes of a converted file, and the problems: what could not be converted, with its path in the file."""

    boxes: tuple[ConvertedBox, ...]
    problems: tuple[Problem, ...]


@attrs.define
class Problems:
    """A collection of problems: parts of a file that could not be converted."""

    _found: dict[Problem, None] = attrs.field(factory=dict)

    def add(self, path: str, message: str) -> None:
        """Add the problem that the part of the file at `path` could not be converted."""
        if len(self._found) < MOST:
            self._found[Problem(path, message)] = None

    def all(self) -> tuple[Problem, ...]:
        """Return each problem once, in the order in which the problems were added."""
        return tuple(self._found)


def shown(names: Iterable[str]) -> str:
    """Return names as a string: `a, b and c`."""
    listed = list(names)
    return " and ".join([", ".join(listed[:-1]), listed[-1]]) if len(listed) > 1 else "".join(listed)
