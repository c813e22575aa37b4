"""Validation of values by the schemas and rules of their classes, with the API server's results (RES-6).

The constraints (`maxLength`, `pattern`, …) and the CEL rules that `schema_field` recorded are applied to attrs values,
so that the webhook, the agent and the reconciler refuse what the API server would refuse.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Any, Final, TypeAlias, get_args

import attrs

from purekube.apimachinery.fields import CelRule, camel
from purekube.apimachinery.formats import matches, mismatch_message
from purekube.apimachinery.problems import MOST_PROBLEMS, Problem, ValidationProblems, index, join
from purekube.apimachinery.structuring import structure

Test: TypeAlias = Callable[[Any], str | None]
"""A check of one schema keyword: it returns the message for a value that breaks it, else None."""


@attrs.frozen
class _Field:
    """The prepared checks of one field of an attrs class.

    They are prepared once and then used for every instance, because each reconcile validates instances.
    """

    name: str
    json_name: str
    tests: tuple[Test, ...]
    member_tests: tuple[Test, ...]
    rules: tuple[CelRule, ...]
    is_set: bool


def check(value: Any, old: Any = None, path: str = "") -> Iterator[Problem]:
    """Return the problems that an attrs `value` has under the schema of its class, with paths that begin with `path`.

    Transition rules compare the value with `old`, the previous value; without `old` they are skipped.
    """
    problems: list[Problem] = []
    _check(value, old, path, problems)
    return iter(problems)


def _check(value: Any, old: Any, path: str, problems: list[Problem]) -> None:
    plan = _PLANS[type(value)]
    if plan.rules:
        problems += _broken(plan.rules, value, old, path)
    for field in plan.fields:
        item = getattr(value, field.name)
        if item is not None:
            _check_item(item, None if old is None else getattr(old, field.name, None), field, path, problems)


def check_parts(cls: type[Any], body: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Yield the problems of each readable part of `body` (JSON), for a `body` that cannot be read as `cls` as a whole.

    A wrong type in one field thus does not hide the problems of other fields. `path` is the path of `body`, with which
    the paths of the problems begin.
    """
    types = {camel(field.name): field.type for field in attrs.fields(cls)}
    for field in _PLANS[cls].fields:
        if (raw := body.get(field.json_name)) is None:
            continue
        annotation = types[field.json_name]
        try:
            item: Any = structure(annotation or object, raw)
        except ValidationProblems:
            if isinstance(raw, Mapping) and (inner := _class_in(annotation)) is not None:
                yield from check_parts(inner, raw, join(path, field.json_name))
        else:
            problems: list[Problem] = []
            _check_item(item, None, field, path, problems)
            yield from problems


def _class_in(annotation: Any) -> type[Any] | None:
    candidates = get_args(annotation) or (annotation,)
    return next((candidate for candidate in candidates if attrs.has(candidate)), None)


def _check_item(item: Any, before: Any, field: _Field, path: str, problems: list[Problem]) -> None:
    broken = [message for test in field.tests if (message := test(item)) is not None]
    problems += [Problem(join(path, field.json_name), message) for message in broken]
    if field.rules:
        problems += _broken(field.rules, item, before, join(path, field.json_name))
    if _PLANS[type(item)].is_class:
        _check(item, before, join(path, field.json_name), problems)
    elif isinstance(item, tuple) and not broken:
        _check_members(item, field, join(path, field.json_name), problems)


def _check_members(members: tuple[Any, ...], field: _Field, path: str, problems: list[Problem]) -> None:
    """Append the problems of `members`, the items of a list field, to `problems`; stop at `MOST_PROBLEMS` problems."""
    seen: set[Any] = set()
    for position, member in enumerate(members):
        if len(problems) >= MOST_PROBLEMS:
            return
        where = index(path, position)
        if field.is_set:
            if member in seen:
                problems.append(Problem(where, "is there twice"))
            seen.add(member)
        _check_member(member, field, where, problems)


def _check_member(member: Any, field: _Field, where: str, problems: list[Problem]) -> None:
    for test in field.member_tests:
        if (message := test(member)) is not None:
            problems.append(Problem(where, message))
    if _PLANS[type(member)].is_class:
        _check(member, None, where, problems)


def _broken(rules: Sequence[CelRule], value: Any, old: Any, path: str) -> Iterator[Problem]:
    for rule in rules:
        if (old is not None or not rule.is_transition) and not rule.holds(value, old):
            yield Problem((path + rule.field_path).lstrip("."), rule.refusal(value))


@attrs.frozen
class _Plan:
    """The prepared checks of an attrs class: its own rules, and the checks of its fields.

    For a type that is not an attrs class, both are empty.
    """

    is_class: bool
    rules: tuple[CelRule, ...] = ()
    fields: tuple[_Field, ...] = ()


class _Plans(dict[type[Any], _Plan]):
    """A mapping from an attrs class to its checks, which are prepared when the class is first looked up."""

    def __missing__(self, cls: type[Any]) -> _Plan:
        plan = _Plan(False)
        if attrs.has(cls):
            fields = tuple(_field(field) for field in attrs.fields(cls))
            plan = _Plan(True, tuple(getattr(cls, "CEL_RULES", ())), fields)
        self[cls] = plan
        return plan


_PLANS: Final = _Plans()


def _field(field: "attrs.Attribute[Any]") -> _Field:
    schema: Mapping[str, Any] = field.metadata.get("schema", {})
    return _Field(
        name=field.name,
        json_name=camel(field.name),
        tests=_tests(schema),
        member_tests=_tests(schema.get("items", {})),
        rules=tuple(field.metadata.get("rules", ())),
        is_set=schema.get("x-kubernetes-list-type") == "set",
    )


def violations(value: Any, schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message for each validating keyword of `schema` that `value` breaks. Other keywords are ignored."""
    for test in _tests(schema):
        if (message := test(value)) is not None:
            yield message


def _tests(schema: Mapping[str, Any]) -> tuple[Test, ...]:
    return tuple(partial(_TESTS[keyword], bound) for keyword, bound in schema.items() if keyword in _TESTS)


def _min_length(bound: int, value: Any) -> str | None:
    if len(value) >= bound:
        return None
    return "must not be empty" if bound == 1 else f"must have at least {bound} characters"


def _format(bound: str, value: Any) -> str | None:
    if bound != "date-time" or _is_date_time(value):
        return None
    return "must be an RFC 3339 time such as 2030-01-31T12:00:00Z"


def _too_many(bound: int, value: Any, of: str) -> str | None:
    return f"must have at most {bound} {of}, not {len(value)}" if len(value) > bound else None


_TESTS: Final[Mapping[str, Callable[[Any, Any], str | None]]] = {
    "minLength": _min_length,
    "maxLength": partial(_too_many, of="characters"),
    "pattern": lambda bound, value: None if matches(bound, value) else mismatch_message(bound, value),
    "enum": lambda bound, value: None if value in bound else f"must be one of {', '.join(bound)}",
    "minimum": lambda bound, value: f"must be at least {bound}" if value < bound else None,
    "maximum": lambda bound, value: f"must be at most {bound}" if value > bound else None,
    "maxItems": partial(_too_many, of="items"),
    "format": _format,
}

_TIME: Final = re.compile(r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(z|[+-]\d{2}:\d{2})", re.IGNORECASE | re.ASCII)


def _is_date_time(text: str) -> bool:
    day, _, time_of_day = text.lower().partition("t")
    try:
        date.fromisoformat(day)
    except ValueError:
        return False
    return len(day) == len("2030-01-31") and _TIME.fullmatch(time_of_day) is not None
