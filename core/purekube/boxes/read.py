"""The reading of JSON into the classes of a box, with everything that is wrong in its form, and where (PH-6)."""

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, Final

import attrs
from cattrs import Converter

from purekube.apimachinery.converters import strict_converter, type_name
from purekube.apimachinery.fields import camel
from purekube.apimachinery.problems import Problem, ValidationProblems
from purekube.apimachinery.structuring import structure_patiently
from purekube.apimachinery.validation import check
from purekube.boxes import model
from purekube.boxes.model import API_VERSION, KIND, SEVERAL_FORMS, OperatorBox

_TYPE: Final = (("apiVersion", API_VERSION), ("kind", KIND))
_UNKNOWN: Final = "unknown field"


def read_box(raw: Any) -> OperatorBox:
    """Return the box in a document. Raises ValidationProblems with all that is wrong in its form."""
    if not isinstance(raw, Mapping):
        raise ValidationProblems([Problem("", f"must be an object of kind {KIND}, not {type_name(raw)}")])
    problems = list(_type_problems(raw))
    body = {name: value for name, value in raw.items() if name not in ("apiVersion", "kind")}
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
    """Return every field name of the model's classes."""
    classes = [cls for cls in vars(model).values() if isinstance(cls, type) and attrs.has(cls)]
    return tuple(sorted({camel(field.name) for cls in classes for field in attrs.fields(cls)}))


def _with_hint(problem: Problem) -> Problem:
    if problem.message != _UNKNOWN:
        return problem
    name = problem.path.rpartition(".")[2]
    near = [word for word in get_close_matches(name, _vocabulary(), 2) if word != name]
    return attrs.evolve(problem, message=f"{_UNKNOWN}; did you mean {near[0]}?") if near else problem
