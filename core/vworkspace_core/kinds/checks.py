"""What the classes' own schemas and rules say about a value: the CRD's judgement without an API server (RES-6).

The constraints (`maxLength`, `pattern`, …) and the CEL rules that `schema_field` recorded are applied to
attrs values, so that the webhook, the agent and the reconciler refuse what the API server would refuse.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from typing import Any, Final, get_args

import attrs

from vworkspace_core.kinds.border import structure
from vworkspace_core.kinds.fields import CelRule, camel
from vworkspace_core.kinds.problems import Problem, ValidationProblems, index, join

__all__ = ["check", "check_parts", "violations"]


def check(value: Any, old: Any = None, path: str = "") -> Iterator[Problem]:
    """Problems of an attrs `value` by its class; `old` is the value it replaces, for the transition rules."""
    yield from _rules(getattr(type(value), "CEL_RULES", ()), value, old, path)
    for field in attrs.fields(type(value)):
        item = getattr(value, field.name)
        if item is None or (not field.metadata and not attrs.has(type(item))):
            continue
        before = getattr(old, field.name, None)
        yield from _item(item, before, field.metadata, join(path, camel(field.name)))


def check_parts(cls: type[Any], body: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Problems of every part of `body` (JSON) that can be read, where the whole cannot be read as `cls`.

    So that a wrong type in one field does not hide what is wrong with the others.
    """
    for field in attrs.fields(cls):
        name = camel(field.name)
        if (raw := body.get(name)) is None:
            continue
        try:
            item: Any = structure(field.type or object, raw)
        except ValidationProblems:
            if isinstance(raw, Mapping) and (inner := _class_in(field.type)) is not None:
                yield from check_parts(inner, raw, join(path, name))
        else:
            yield from _item(item, None, field.metadata, join(path, name))


def _class_in(annotation: Any) -> type[Any] | None:
    candidates = get_args(annotation) or (annotation,)
    return next((candidate for candidate in candidates if attrs.has(candidate)), None)


def _item(item: Any, before: Any, meta: Mapping[Any, Any], path: str) -> Iterator[Problem]:
    yield from (Problem(path, message) for message in violations(item, meta.get("schema", {})))
    yield from _rules(meta.get("rules", ()), item, before, path)
    if attrs.has(type(item)):
        yield from check(item, before, path)
    elif isinstance(item, tuple):
        for position, member in enumerate(item):
            where = index(path, position)
            yield from (Problem(where, message) for message in violations(member, _items_schema(meta)))
            if attrs.has(type(member)):
                yield from check(member, None, where)


def _items_schema(meta: Mapping[Any, Any]) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = meta.get("schema", {}).get("items", {})
    return schema


def _rules(rules: Sequence[CelRule], value: Any, old: Any, path: str) -> Iterator[Problem]:
    for rule in rules:
        if (old is not None or not rule.is_transition) and not rule.holds(value, old):
            yield Problem((path + rule.field_path).lstrip("."), rule.message)


def violations(value: Any, schema: Mapping[str, Any]) -> Iterator[str]:
    """What `value` breaks of the validating keywords of `schema`; other keywords say nothing."""
    for keyword, bound in schema.items():
        if (message := _violation(keyword, bound, value)) is not None:
            yield message


def _violation(keyword: str, bound: Any, value: Any) -> str | None:
    match keyword:
        case "minLength" if len(value) < bound:
            return "must not be empty" if bound == 1 else f"must have at least {bound} characters"
        case "maxLength" if len(value) > bound:
            return f"must have at most {bound} characters, not {len(value)}"
        case "pattern" if not _compiled(bound).search(value):
            return f"must match {bound}"
        case "enum" if value not in bound:
            return f"must be one of {', '.join(bound)}"
        case "minimum" if value < bound:
            return f"must be at least {bound}"
        case "maximum" if value > bound:
            return f"must be at most {bound}"
        case "maxItems" if len(value) > bound:
            return f"must have at most {bound} items, not {len(value)}"
        case "format" if bound == "date-time" and not _is_date_time(value):
            return "must be an RFC 3339 time such as 2030-01-31T12:00:00Z"
        case "x-kubernetes-list-type" if bound == "set" and len(set(value)) < len(value):
            return "must not hold duplicates"
        case _:
            return None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # RE2's $ is the very end of the text and its \d is ASCII; Python's are not.
    return re.compile(re.sub(r"\$\Z", r"\\Z", pattern), re.ASCII)


_TIME: Final = re.compile(r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(z|[+-]\d{2}:\d{2})", re.IGNORECASE | re.ASCII)


def _is_date_time(text: str) -> bool:
    day, _, time_of_day = text.lower().partition("t")
    try:
        date.fromisoformat(day)
    except ValueError:
        return False
    return len(day) == len("2030-01-31") and _TIME.fullmatch(time_of_day) is not None
