"""The result of a conversion: boxes, notes about parts of a box, and everything that has no counterpart in a box."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

import attrs

from purekube.apimachinery.problems import Problem
from purekube.boxes.schemas import CrdProblem, CrdVersions
from purekube.cel.types import DYN, CelType

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


def joined_parts(parts: Sequence[str]) -> str:
    """Join `parts` to one text. Each part is plain text, or an expression with its `${` and `}`.

    Dollars that end a plain text before an expression are written as an expression too, since a box reads `$${` as an
    escaped `${`.
    """
    out = list(parts)
    for at, (part, following) in enumerate(pairwise(parts)):
        plain = part.rstrip("$")
        if plain != part and following.startswith("${"):
            out[at] = f"{plain}${{'{part[len(plain) :]}'}}"
    return "".join(out)


def type_of_definition(crd: Mapping[str, Any] | None) -> CelType:
    """Return the CEL type of a CRD's stored objects.

    Return the dynamic type if the CRD is missing or unusable. The command `box check` reports an unusable CRD.
    """
    try:
        return CrdVersions.of(crd).stored.type
    except CrdProblem:
        return DYN
