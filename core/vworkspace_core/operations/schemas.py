"""The validation of JSON by a JSON Schema of draft 2020-12: violations as `Problem`s with their paths (OPS-2, OPS-3).

Any input costs bounded time (RUN-11): at most 32 problems are counted, a value with too many members is not examined,
and one without a bound in the schema may have about a thousand.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from jsonschema import Draft202012Validator, SchemaError, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from purekube.apimachinery.problems import MOST_PROBLEMS, Problem, first_of, index, join
from vworkspace_core.operations.schema_words import problem_messages

_MOST_MEMBERS: Final = 1024
"""The most members of a list or an object that are examined if the schema gives no limit."""


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Match as ECMAScript does: `$` is the end of the text only, and digits are those of ASCII."""
    if not isinstance(instance, str):
        return
    if pattern.endswith("$") and not pattern.endswith("\\$"):
        pattern = pattern[:-1] + r"\Z"
    if re.search(pattern, instance, re.ASCII) is None:
        yield ValidationError("does not match")


def _sized(keyword: str, bound: str) -> Callable[..., Iterator[ValidationError]]:
    """Apply `keyword` only to values within `bound`; one that is too large is reported as that alone."""
    judge: Any = Draft202012Validator.VALIDATORS[keyword]

    def judged(validator: Any, rule: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        most = schema.get(bound, _MOST_MEMBERS)
        if not isinstance(instance, list | dict) or len(instance) <= most:
            yield from judge(validator, rule, instance, schema) or ()
        elif bound not in schema:
            yield ValidationError("too many", validator=bound, validator_value=most)

    return judged


def _unknown_keys(validator: Any, rule: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Apply `additionalProperties`: one error for all unknown keys, however many they are."""
    if rule is not False or "patternProperties" in schema:
        yield from _sized("additionalProperties", "maxProperties")(validator, rule, instance, schema)
    elif isinstance(instance, dict) and not instance.keys() <= schema.get("properties", {}).keys():
        yield ValidationError("unknown keys")


_MEMBERS: Final = {
    "maxItems": ("items", "prefixItems", "contains", "uniqueItems", "unevaluatedItems"),
    "maxProperties": ("propertyNames", "patternProperties", "unevaluatedProperties"),
}
_Validator: Final = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {
        "pattern": _pattern,
        "additionalProperties": _unknown_keys,
        **{keyword: _sized(keyword, bound) for bound, keywords in _MEMBERS.items() for keyword in keywords},
    },
)


def schema_problems(schema: Any, path: str) -> tuple[Problem, ...]:
    """Return why `schema` is no self-contained schema of draft 2020-12; empty if it is one."""
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return (Problem(_path(path, error), f"is no JSON Schema of draft 2020-12: {error.validator}"),)
    return tuple(_reference_problems(schema, schema, path))


def _reference_problems(schema: Any, part: Any, path: str) -> Iterator[Problem]:
    """Yield references that lead nowhere inside the schema: found now, they cannot stop a decision later."""
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
    """Return the rules of `schema` that `value` breaks, by path, at most 32. References are resolved in it alone."""
    validator = _Validator(schema, registry=Registry())
    try:
        errors = islice(validator.iter_errors(value), MOST_PROBLEMS)
        problems = [problem for error in errors for problem in problem_messages(error, _path(path, error))]
    except RecursionError:
        return (Problem(path, "is nested too deeply, or the template's schema refers to itself without end"),)
    return first_of(problems)


def _path(path: str, error: ValidationError | SchemaError) -> str:
    for step in error.absolute_path:
        path = index(path, step) if isinstance(step, int) else join(path, str(step))
    return path
