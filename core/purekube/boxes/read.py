"""The reading of JSON into the classes of a box, and its problems, each with its place in the file (PH-6)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, Final

import attrs
from cattrs import Converter

from purekube.apimachinery.converters import strict_converter
from purekube.apimachinery.fields import camel
from purekube.apimachinery.problems import Place, Places, Problem, ValidationProblems, type_name
from purekube.apimachinery.structuring import structure_patiently
from purekube.apimachinery.validation import check
from purekube.boxes import model
from purekube.boxes.model import API_VERSION, KIND, SEVERAL_FORMS, BoxMetadata, OperatorBox
from purekube.cel import CelSyntaxError
from purekube.schema.objectmeta import OBJECT_META_OPENAPI

MOST: Final = 200
"""The largest number of problems to keep, since authors fix some of them before they see the rest."""


@attrs.frozen(order=True)
class BoxProblem:
    """One problem or warning of a box, with its place in the file and what to write instead."""

    place: Place
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if str(self.place) else self.message


class Findings:
    """A collection of a box's problems and warnings. A message is kept once for each place in the file."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._problems: dict[BoxProblem, None] = {}
        self._warnings: dict[BoxProblem, None] = {}

    def problem(self, path: str, message: str, offset: int | None = None) -> None:
        """Add a problem that keeps the box from running, at the place in the file that `path` and `offset` name."""
        _add(self._problems, BoxProblem(self._places.at(path, offset), message))

    def warning(self, path: str, message: str, offset: int | None = None) -> None:
        """Add a warning about a construct that is rarely intended, at the place that `path` and `offset` name."""
        _add(self._warnings, BoxProblem(self._places.at(path, offset), message))

    def place(self, path: str, offset: int | None = None) -> Place:
        """Return the place in the file of the field at `path`, or of the character at `offset` in the field's text.

        For a field that the file does not have, return the place of the nearest field around it.
        """
        return self._places.at(path, offset)

    def syntax(self, path: str, error: CelSyntaxError, source: str, begin: int | None) -> None:
        """Add the syntax error of a CEL expression in the field at `path` as a problem.

        `source` is the expression. `begin` is its position in the field's text; None if it is not part of that text.
        """
        offset = None if begin is None else begin + offset_of(error, source)
        self.problem(path, error.problem, offset)

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
    """Return the position of an error as a number of characters from the beginning of the source."""
    if error.line == 0:
        return 0
    lines = source.split("\n")
    return sum(len(line) + 1 for line in lines[: error.line - 1]) + error.column - 1


def joined_names(names: Iterable[str]) -> str:
    """Return the names in order, joined with commas, for a message; "there is none" without names."""
    return ", ".join(sorted(names)) or "there is none"


def no_such(name: str, names: Iterable[str]) -> str:
    """Return the message for an id that does not exist, with a similar name or all existing `names`."""
    near = get_close_matches(name, sorted(names), 1)
    hint = f"did you mean {near[0]}?" if near else joined_names(names)
    return f"there is no resource, external or phase {name}: {hint}"


_TYPE: Final = (("apiVersion", API_VERSION), ("kind", KIND))
_UNKNOWN: Final = "unknown field"
_SERVED: Final = frozenset(OBJECT_META_OPENAPI["properties"]) - attrs.fields_dict(BoxMetadata).keys()
"""The metadata that only an OperatorBox in a cluster has: `kubectl get -o yaml` prints a box with it."""


def read_box(raw: Any) -> OperatorBox:
    """Return the box in the document `raw`, which is a file's or an object in a cluster.

    Raises ValidationProblems with every problem of structure and types.
    """
    if not isinstance(raw, Mapping):
        raise ValidationProblems([Problem("", f"must be an object of kind {KIND}, not {type_name(raw)}")])
    problems = list(_type_problems(raw))
    body = {name: value for name, value in raw.items() if name not in ("apiVersion", "kind")}
    meta = body.get("metadata")
    if isinstance(meta, Mapping) and "uid" in meta:  # in a file, a status is a field in the wrong place
        body = {**body, "metadata": {name: value for name, value in meta.items() if name not in _SERVED}}
        body.pop("status", None)
    try:
        box = structure_patiently(_converter(), OperatorBox, body)
    except ValidationProblems as error:
        raise ValidationProblems((*problems, *map(_with_hint, error.problems))) from None
    problems += check(box)
    if problems:
        raise ValidationProblems(problems)
    return box


def _type_problems(raw: Mapping[str, Any]) -> Iterator[Problem]:
    for name, desired in _TYPE:
        if (given := raw.get(name)) != desired:
            yield Problem(name, f"is required: {desired}" if given is None else f"must be {desired}")


@cache
def _converter() -> Converter:
    converter = strict_converter()
    for cls, read in SEVERAL_FORMS.items():
        converter.register_structure_hook(cls, _hook(read))
    converter.register_structure_hook_func(lambda cls: cls is Any, lambda value, _: value)
    return converter


def _hook(read: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda value, _: read(value)


@cache
def _vocabulary() -> tuple[str, ...]:
    """Return every field name that a box's file can have."""
    classes = [cls for cls in vars(model).values() if isinstance(cls, type) and attrs.has(cls)]
    return tuple(sorted({camel(field.name) for cls in classes for field in attrs.fields(cls)}))


def _with_hint(problem: Problem) -> Problem:
    if problem.message != _UNKNOWN:
        return problem
    name = problem.path.rpartition(".")[2]
    near = [word for word in get_close_matches(name, _vocabulary(), 2) if word != name]
    return attrs.evolve(problem, message=f"{_UNKNOWN}; did you mean {near[0]}?") if near else problem
