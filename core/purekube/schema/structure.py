"""The check of a value by a schema except its CEL rules: types, required fields, bounds, patterns, `allOf` and so on.

On an update, a violation in an unchanged part is ignored, as real servers do since 1.33 (validation ratcheting): a
schema that became stricter does not lock its old objects.
"""

from collections.abc import Callable
from typing import Any, Final

from purekube.apimachinery.errors import StatusCause
from purekube.schema.causes import (
    NO_FIELD,
    go_value,
    invalid_type,
    invalid_value,
    not_supported,
    required,
    too_long,
    too_many,
)
from purekube.schema.formats import matches_format
from purekube.schema.node import MISSING, JsonType, ListType, Schema, ValueChecks


def equal(left: Any, right: Any) -> bool:
    """Report whether two JSON values are equal. `1` equals `1.0`, but `1` does not equal `true` (S-29)."""
    if left is right:
        return True
    return bool(left == right) and _same_shape(left, right)


def _same_shape(left: Any, right: Any) -> bool:
    """Report whether two values that are equal in Python are equal in JSON too: Python takes True for 1, JSON
    does not.
    """
    if left is right:
        return True
    if isinstance(left, dict):
        return all(_same_shape(item, right[key]) for key, item in left.items())
    if isinstance(left, list):
        return all(_same_shape(a, b) for a, b in zip(left, right, strict=True))
    return isinstance(left, bool) == isinstance(right, bool)


_NONE: Final[frozenset[int]] = frozenset()


def parts_of(items: Any) -> frozenset[int]:
    """Return Python's `id` of each dict and list in the list `items`. The result is empty if `items` is not a list.

    By these ids, walks of a changed list find the items that it shares with the old list, and skip them.
    """
    return frozenset(id(item) for item in items if isinstance(item, (dict, list))) if type(items) is list else _NONE


INT_FORMATS: Final = {"int32": 31, "int64": 63}
"""The integer formats, each with its number of bits without the sign bit."""


def check_scalar(schema: Schema, checks: ValueChecks, value: Any, path: str) -> list[StatusCause]:
    """Return the causes why a scalar is invalid by its own schema node; the result is empty if it is valid.

    `checks` are the validations of the node `schema`. Violations of format, bounds and enumeration are all reported.
    A violation of the pattern is reported only if the length is valid.
    """
    causes: list[StatusCause] = []
    if isinstance(value, str):
        causes += _string(checks, value, path)
        causes += check_format(schema, value, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        causes += _number(checks, value, path)
    return causes + check_enum(checks, value, path)


def check_format(schema: Schema, value: str, path: str) -> list[StatusCause]:
    """Return one cause if a string lacks the format that `schema` names. `path` is the string's place in the object.

    The result is empty if the string has the format, or if the schema names none or one that is not checked.
    """
    if not schema.format or matches_format(schema.format, value):
        return []
    return [invalid_type(path, value, f"{path} in body must be of type {schema.format}: {go_value(value)}")]


def _string(checks: ValueChecks, value: str, path: str) -> list[StatusCause]:
    """Return the cause of the first violation of length or pattern, since a real API server reports only one."""
    if checks.max_length is not None and len(value) > checks.max_length:
        return [too_long(path, checks.max_length)]
    if checks.min_length is not None and len(value) < checks.min_length:
        return [invalid_value(path, value, f"{path} in body should be at least {checks.min_length} chars long")]
    if checks.pattern is not None and not checks.pattern.matches_in(value):
        return [invalid_value(path, value, f"{path} in body should match '{checks.pattern_text}'")]
    return []


def check_range(name: str, value: int, path: str) -> list[StatusCause]:
    """Return one cause if an integer is out of the range of the format `name` (int32 or int64), none otherwise."""
    bound = 1 << INT_FORMATS[name]
    if -bound <= value < bound:
        return []
    return [invalid_type(path, value, f"Checked value {path} with value {value} must be an {name}")]


def _number(checks: ValueChecks, value: float, path: str) -> list[StatusCause]:
    causes: list[StatusCause] = []
    multiple = checks.multiple_of
    if multiple is not None and not _is_multiple(value, multiple):
        causes.append(invalid_value(path, value, f"{path} in body should be a multiple of {go_value(multiple)}"))
    low, high = checks.minimum, checks.maximum
    if high is not None and (value >= high if checks.exclusive_maximum else value > high):
        words = "less than" if checks.exclusive_maximum else "less than or equal to"
        causes.append(invalid_value(path, value, f"{path} in body should be {words} {go_value(high)}"))
    if low is not None and (value <= low if checks.exclusive_minimum else value < low):
        words = "greater than" if checks.exclusive_minimum else "greater than or equal to"
        causes.append(invalid_value(path, value, f"{path} in body should be {words} {go_value(low)}"))
    return causes


def _is_multiple(value: float, factor: float) -> bool:
    if isinstance(value, int) and isinstance(factor, int):
        return value % factor == 0
    try:
        quotient = value / factor
        return abs(quotient - round(quotient)) <= 1e-9
    except OverflowError:  # a server takes an infinite quotient for no whole number, too
        return False


def check_enum(checks: ValueChecks | None, value: Any, path: str) -> list[StatusCause]:
    """Return one cause if a value, even null, is not in the enumeration that `checks` has.

    Return none if there is no enumeration. `path` is the value's place in the object.
    """
    if checks is None or checks.enum is None or any(equal(value, allowed) for allowed in checks.enum):
        return []
    return [not_supported(path, value, checks.enum)]


def check_structure(
    schema: Schema, value: Any, old: Any = MISSING, path: str = "", *, settled: bool = False
) -> list[StatusCause]:
    """Return a cause for each violation of `schema` by `value`. `old` is the replaced value, MISSING for a new value.

    An unchanged value has no violations (ratcheting). `settled` says that `old` is valid under this same schema; items
    that a list shares with the old list (the same Python objects) are then skipped.
    """
    if old is value:
        return []
    causes = _check(schema, value, old, path, settled=settled)
    return [] if causes and equal(value, old) else causes


def _check(schema: Schema, value: Any, old: Any, path: str, *, settled: bool = False) -> list[StatusCause]:
    mismatch = None if type(value) is schema.natural else _type_mismatch(schema, value)
    causes = [] if mismatch is None else [_type_cause(path, mismatch, value)]
    if value is None:
        return causes + (check_enum(schema.checks, value, path) if schema.checks else [])
    if schema.checks is not None:
        causes += _junctors(schema.checks, value, path)
        causes += check_scalar(schema, schema.checks, value, path)
    elif isinstance(value, str):
        causes += check_format(schema, value, path)
    if schema.format in INT_FORMATS and isinstance(value, int):
        causes += check_range(schema.format, value, path)
    if isinstance(value, list):
        causes += _items(schema, value, old, path, settled=settled)
    elif isinstance(value, dict):
        causes += _members(schema, value, old, path, settled=settled)
    return causes


def _type_mismatch(schema: Schema, value: Any) -> str | None:
    """Return the name of the type that `schema` requires if `value` has another type; None if the type is right."""
    if schema.int_or_string:
        if value is None and schema.nullable:
            return None
        return None if isinstance(value, (int, str)) and not isinstance(value, bool) else "integer,string"
    if value is None:
        return None if schema.nullable or schema.type is JsonType.ANY else schema.type.value
    match schema.type:
        case JsonType.ANY:
            return None
        case JsonType.STRING:
            good = isinstance(value, str)
        case JsonType.OBJECT:
            good = isinstance(value, dict)
        case JsonType.ARRAY:
            good = isinstance(value, list)
        case JsonType.BOOLEAN:
            good = isinstance(value, bool)
        case JsonType.INTEGER:
            good = isinstance(value, int) and not isinstance(value, bool)
            good = good or (isinstance(value, float) and value.is_integer())
        case JsonType.NUMBER:
            good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if good:
        return None
    return schema.format if schema.format and not isinstance(value, (str, list)) else schema.type.value


def _type_cause(path: str, expected: str, value: Any) -> StatusCause:
    name = _type_name(value)
    return invalid_type(path or NO_FIELD, name, f"{path} in body must be of type {expected}: {go_value(name)}")


def _type_name(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _items(schema: Schema, value: list[Any], old: Any, path: str, *, settled: bool) -> list[StatusCause]:
    causes: list[StatusCause] = []
    if schema.items is not None:
        before, done = _correlate(schema, old), parts_of(old) if settled else _NONE
        for index, item in enumerate(value):
            if type(item) is not schema.items.plain and id(item) not in done:
                causes += check_structure(schema.items, item, before(index, item), f"{path}[{index}]", settled=settled)
    checks = schema.checks
    if checks is not None and checks.min_items is not None and len(value) < checks.min_items:
        text = f"{path} in body should have at least {checks.min_items} items"
        causes.append(invalid_value(path, len(value), text))
    if checks is not None and checks.max_items is not None and len(value) > checks.max_items:
        causes.append(too_many(path, len(value), checks.max_items))
    return causes


def _correlate(schema: Schema, old: Any) -> Callable[[int, Any], Any]:
    """Return a function from index and item of a list to the item's old value, or to MISSING if it has none.

    Items of map lists are found by their keys, items of lists without a list type by their index.
    """
    if schema.is_indexed and isinstance(old, list):
        return lambda index, item: old[index] if index < len(old) else MISSING
    if schema.list_type is not ListType.MAP or not isinstance(old, list):
        return lambda index, item: MISSING
    by_key = {_keys(schema, item): item for item in old if isinstance(item, dict)}
    return lambda index, item: by_key.get(_keys(schema, item), MISSING) if isinstance(item, dict) else MISSING


def _keys(schema: Schema, item: dict[str, Any]) -> str:
    return go_value([item.get(key) for key in schema.list_keys])


def _members(schema: Schema, value: dict[str, Any], old: Any, path: str, *, settled: bool) -> list[StatusCause]:
    causes = _count(schema.checks, value, path) if schema.checks else []
    before = old if isinstance(old, dict) else {}
    properties, additional = schema.properties, schema.additional
    for key, item in value.items():
        child = properties.get(key, additional)
        if child is None or type(item) is child.plain:
            continue
        previous = before.get(key, MISSING)
        if previous is not item:
            causes += check_structure(child, item, previous, f"{path}.{key}" if path else key, settled=settled)
    for key in schema.required:
        if key not in value:
            causes.append(required(f"{path}.{key}" if path else key))
    return causes


def _count(checks: ValueChecks, value: dict[str, Any], path: str) -> list[StatusCause]:
    causes: list[StatusCause] = []
    if checks.min_properties is not None and len(value) < checks.min_properties:
        text = f"{path} in body should have at least {checks.min_properties} properties"
        causes.append(invalid_value(path, len(value), text))
    if checks.max_properties is not None and len(value) > checks.max_properties:
        causes.append(too_many(path, len(value), checks.max_properties))
    return causes


def _junctors(checks: ValueChecks, value: Any, path: str) -> list[StatusCause]:
    causes: list[StatusCause] = []
    if checks.any_of:
        causes += _any_of(checks.any_of, value, path)
    if checks.one_of:
        causes += _one_of(checks.one_of, value, path)
    if checks.all_of:
        causes += _all_of(checks.all_of, value, path)
    if checks.negated is not None and not _check(checks.negated, value, MISSING, path):
        causes.append(_composite(path, "must not validate the schema (not)"))
    return causes


def _any_of(branches: tuple[Schema, ...], value: Any, path: str) -> list[StatusCause]:
    failures = []
    for branch in branches:
        failure = _check(branch, value, MISSING, path)
        if not failure:
            return []
        failures.append(failure)
    return [_composite(path, "must validate at least one schema (anyOf)"), *failures[0]]


def _one_of(branches: tuple[Schema, ...], value: Any, path: str) -> list[StatusCause]:
    results = [_check(branch, value, MISSING, path) for branch in branches]
    good = sum(not result for result in results)
    if good == 1:
        return []
    if good == 0:
        return [_composite(path, "must validate one and only one schema (oneOf). Found none valid"), *results[0]]
    return [_composite(path, f"must validate one and only one schema (oneOf). Found {good} valid alternatives")]


def _all_of(branches: tuple[Schema, ...], value: Any, path: str) -> list[StatusCause]:
    results = [_check(branch, value, MISSING, path) for branch in branches]
    if not any(results):
        return []
    tail = ". None validated" if all(results) else ""
    return [
        *(cause for result in results for cause in result),
        _composite(path, "must validate all the schemas (allOf)" + tail),
    ]


def _composite(path: str, text: str) -> StatusCause:
    return invalid_value(NO_FIELD, "", f"{go_value(path)} {text}")
