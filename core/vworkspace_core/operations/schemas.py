"""Judging JSON against a JSON Schema of draft 2020-12: every violation as a `Problem` with its path (OPS-2, OPS-3).

Messages name the rule that is broken and never the value that breaks it: parameters may hold what nobody should read.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from jsonschema import Draft202012Validator, SchemaError, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from vworkspace_core.kinds.problems import Problem, index, join

__all__ = ["schema_problems", "violations_of"]

_LONGEST_KEY: Final = 64
_SHOWN_KEYS: Final = 8


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """As ECMA has it: `$` is the end of the text and nothing before it, and a digit is one of ASCII's."""
    if not isinstance(instance, str):
        return
    if pattern.endswith("$") and not pattern.endswith("\\$"):
        pattern = pattern[:-1] + r"\Z"
    if re.search(pattern, instance, re.ASCII) is None:
        yield ValidationError("does not match")


_Validator: Final = extend(Draft202012Validator, {"pattern": _pattern})  # type: ignore[no-untyped-call]


def schema_problems(schema: Any, path: str) -> tuple[Problem, ...]:
    """Why `schema` is no schema of draft 2020-12 that stands by itself, empty when it is one."""
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return (Problem(_path(path, error), f"is no JSON Schema of draft 2020-12: {error.validator}"),)
    return tuple(_reference_problems(schema, schema, path))


def _reference_problems(schema: Any, part: Any, path: str) -> Iterator[Problem]:
    """References that lead nowhere inside the schema: found now, they cannot stop a decision later."""
    if isinstance(part, list):
        for position, item in enumerate(part):
            yield from _reference_problems(schema, item, index(path, position))
    if not isinstance(part, Mapping):
        return
    for keyword, value in part.items():
        if keyword in ("$ref", "$dynamicRef") and isinstance(value, str):
            if not _leads_somewhere(schema, value):
                yield Problem(join(path, keyword), "leads to nothing inside this schema")
        elif keyword == "$id" and isinstance(value, str):
            yield Problem(join(path, keyword), "has no place in a template: references are to this schema alone")
        elif keyword not in ("const", "enum", "default", "examples"):
            yield from _reference_problems(schema, value, join(path, str(keyword)))


def _leads_somewhere(schema: Any, reference: str) -> bool:
    root = DRAFT202012.create_resource(schema)
    try:
        Registry().with_resource("", root).resolver().lookup(reference)
    except (Unresolvable, ValueError):
        return False
    return True


def violations_of(schema: Mapping[str, Any], value: Any, path: str) -> tuple[Problem, ...]:
    """Every rule of `schema` that `value` breaks, sorted by path. References are looked up in the schema alone."""
    validator = _Validator(schema, registry=Registry())
    try:
        found = {problem for error in validator.iter_errors(value) for problem in _problems(error, path)}
    except RecursionError:
        return (Problem(path, "is nested too deeply, or the template's schema refers to itself without end"),)
    return tuple(sorted(found))


def _problems(error: ValidationError, path: str) -> Iterator[Problem]:
    where = _path(path, error)
    rule: Any = error.validator_value
    instance: Any = error.instance
    match error.validator:
        case "required":
            missing = [name for name in rule if name not in instance]
            yield from (Problem(join(where, name), "is required") for name in missing)
        case "additionalProperties" if rule is False:
            known = (error.schema.get("properties") or {}) if isinstance(error.schema, Mapping) else {}
            unknown = sorted(str(name)[:_LONGEST_KEY] for name in instance if name not in known)
            yield from (Problem(join(where, name), "unknown key") for name in unknown[:_SHOWN_KEYS])
        case _:
            yield Problem(where, _message(str(error.validator), rule))


def _message(keyword: str, rule: Any) -> str:
    match keyword:
        case "type":
            return f"must be of type {' or '.join(rule) if isinstance(rule, list) else rule}"
        case "enum":
            return f"must be one of {', '.join(map(str, rule))}"
        case "const":
            return f"must be {rule}"
        case "pattern":
            return f"must match {rule}"
        case "minLength" | "minItems" | "minProperties" | "minimum":
            return f"must not be less than {rule} ({keyword})"
        case "maxLength" | "maxItems" | "maxProperties" | "maximum":
            return f"must not be more than {rule} ({keyword})"
        case _:
            return f"breaks the rule {keyword!r} of the template's schema"


def _path(path: str, error: ValidationError | SchemaError) -> str:
    for step in error.absolute_path:
        path = index(path, step) if isinstance(step, int) else join(path, str(step)[:_LONGEST_KEY])
    return path
