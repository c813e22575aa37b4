"""The validation of parameters by a JSON Schema of draft 2020-12 (OPS-2).

Each violation becomes a `Problem` with a path and a sentence for people. The sentence never shows a regular expression.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from heapq import nsmallest
from itertools import islice
from typing import Any, Final

from jsonschema import Draft202012Validator, SchemaError, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from purekube.apimachinery.formats import FORMS, quoted
from purekube.apimachinery.problems import MOST_PROBLEMS, Problem, first_of, index, join, type_name
from purekube.apimachinery.secret_material import is_secret_key
from vworkspace_core.operations.parameter_schemas import PARAMETER_FORMS

_SHOWN_KEYS: Final = 8
_FORMS: Final = {**FORMS, **PARAMETER_FORMS}
_TYPES: Final[Mapping[str, str]] = {
    "array": "a list",
    "object": "an object",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


def problem_messages(error: ValidationError, where: str) -> Iterator[Problem]:
    """Yield the problems in `error`, a validation error of jsonschema. `where` is the path of the invalid value."""
    rule: Any = error.validator_value
    instance: Any = error.instance
    if "propertyNames" in error.absolute_schema_path and isinstance(instance, str):
        yield Problem(
            where, f"the key {quoted(instance)} {_error_message(error)}".removesuffix(f", not {quoted(instance)}")
        )
        return
    match error.validator:
        case "required":
            yield from (Problem(join(where, name), "is required") for name in rule if name not in instance)
        case "additionalProperties" if rule is False:
            known = _properties(error)
            unknown = nsmallest(_SHOWN_KEYS, (str(name) for name in instance if name not in known))
            message = f"unknown key: known are {', '.join(sorted(known)) or 'none'}"
            yield from (Problem(join(where, name), message) for name in unknown)
        case _:
            yield Problem(where, _error_message(error))


def _properties(error: ValidationError) -> Mapping[str, Any]:
    return (error.schema.get("properties") or {}) if isinstance(error.schema, Mapping) else {}


def _error_message(error: ValidationError) -> str:
    rule: Any = error.validator_value
    instance: Any = error.instance
    match str(error.validator):
        case "type":
            kinds = [rule] if isinstance(rule, str) else rule
            return f"must be {' or '.join(_TYPES.get(kind, kind) for kind in kinds)}, not {type_name(instance)}"
        case "enum":
            return f"must be one of {', '.join(map(str, rule))}{_value_text(error)}"
        case "const":
            return f"must be {rule}{_value_text(error)}"
        case "pattern":
            return _form(error)
        case "minimum":
            return f"must be at least {rule}, not {instance}"
        case "maximum":
            return f"must be at most {rule}, not {instance}"
        case "minLength" | "minItems" | "minProperties" as keyword:
            return _too_few(error, keyword)
        case "maxLength":
            return f"must have at most {rule} characters, not {len(instance)}"
        case "maxItems":
            return f"must have at most {rule} items, not {len(instance)}"
        case "maxProperties":
            return f"must have at most {rule} entries, not {len(instance)}"
        case "uniqueItems":
            return "must not hold the same item twice"
        case _:
            return f"is not what the template allows{_described(error)}"


def _too_few(error: ValidationError, keyword: str) -> str:
    least, count = int(error.validator_value), len(error.instance)  # type: ignore[arg-type]
    if keyword == "minProperties" and (known := _properties(error)):
        quantity = "one of" if least == 1 else f"{least} of"
        return f"must give at least {quantity} {', '.join(sorted(known))}"
    if least == 1:
        return "must not be empty"
    what = {"minLength": "characters", "minItems": "items"}.get(keyword, "entries")
    return f"must have at least {least} {what}, not {count}"


def _form(error: ValidationError) -> str:
    form = _FORMS.get(str(error.validator_value))
    if form is None:
        return f"does not have the form that the template asks for{_described(error)}"
    return form.refusal(str(error.instance)) if _is_public(error) else form.message


def _described(error: ValidationError) -> str:
    """Return the end of the message about `error`: an example value and the description from the parameter's schema."""
    schema = error.schema if isinstance(error.schema, Mapping) else {}
    examples, text = schema.get("examples"), schema.get("description")
    such = f", such as {quoted(str(examples[0]))}" if isinstance(examples, list) and examples else ""
    return such + (f": {text}" if isinstance(text, str) and text else "")


def _value_text(error: ValidationError) -> str:
    value = error.instance
    if isinstance(value, str):
        return f", not {quoted(value)}" if _is_public(error) else ""
    return f", not {type_name(value)}"


def _is_public(error: ValidationError) -> bool:
    return not any(is_secret_key(str(step)) for step in error.absolute_path)


_MOST_MEMBERS: Final = 1024
"""The most members of a list or an object that are examined if the schema gives no limit."""


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Yield an error unless the text `instance` matches `pattern` as in ECMAScript.

    There `$` matches only at the end of the text, and digits are only ASCII digits.
    """
    if not isinstance(instance, str):
        return
    if pattern.endswith("$") and not pattern.endswith("\\$"):
        pattern = pattern[:-1] + r"\Z"
    if re.search(pattern, instance, re.ASCII) is None:
        yield ValidationError("does not match")


def _sized(keyword: str, bound: str) -> Callable[..., Iterator[ValidationError]]:
    """Return a validator of the schema keyword `keyword` that skips a list or object with too many members.

    `bound` is the keyword, such as `maxItems`, that limits the number of members. A value with more members is reported
    only as too large.
    """
    judge: Any = Draft202012Validator.VALIDATORS[keyword]

    def judged(validator: Any, rule: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        most = schema.get(bound, _MOST_MEMBERS)
        if not isinstance(instance, list | dict) or len(instance) <= most:
            yield from judge(validator, rule, instance, schema) or ()
        elif bound not in schema:
            yield ValidationError("too many", validator=bound, validator_value=most)

    return judged


def _unknown_keys(validator: Any, rule: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Validate the schema keyword `additionalProperties` with the value `rule`.

    If the keyword is false, a single error is yielded for all unknown keys of `instance`.
    """
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
    """Return the reasons why `schema` is not a self-contained JSON Schema of draft 2020-12; empty if it is one.

    `path` is the path of the schema in messages.
    """
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return (Problem(_path(path, error), f"is no JSON Schema of draft 2020-12: {error.validator}"),)
    return tuple(_reference_problems(schema, schema, path))


def _reference_problems(schema: Any, part: Any, path: str) -> Iterator[Problem]:
    """Yield a problem for each reference in `part`, a part of `schema`, that does not resolve within `schema`.

    `path` is the path of `part`.
    """
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
    """Return the violations of `schema` by `value`, sorted by path, at most `MOST_PROBLEMS`; empty if it is valid.

    References in `schema` may only point into the schema itself.
    """
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
