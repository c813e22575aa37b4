"""The messages about parameters that break a JSON Schema: what is allowed and what was given, never a pattern.

Parameters may be secret: repeated values are cut and redacted; a value under a secret's key, or of a form that we do
not know, is not repeated.
"""

from collections.abc import Iterator, Mapping
from heapq import nsmallest
from typing import Any, Final

from jsonschema import ValidationError

from purekube.apimachinery.converters import type_name
from purekube.apimachinery.formats import FORMS, quoted
from purekube.apimachinery.problems import Problem, join
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
    """Yield the problems in a validation error, at the path `where`."""
    rule: Any = error.validator_value
    instance: Any = error.instance
    if _concerns_key(error):
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


def _concerns_key(error: ValidationError) -> bool:
    return "propertyNames" in error.absolute_schema_path and isinstance(error.instance, str)


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
    """Return the description of the parameter by the template's author."""
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
