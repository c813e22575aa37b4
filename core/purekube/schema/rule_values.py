"""The conversion of JSON values for rules: times, durations, doubles and bytes by their schema, sets unordered."""

from typing import Any

from purekube.cel.moments import parse_duration, parse_timestamp
from purekube.cel.values import KeyedList, SetList
from purekube.schema.node import JsonType, ListType, Schema


def needs_conversion(schema: Schema) -> bool:
    """Report whether anything under `schema` has another form in a rule than in JSON."""
    if schema.type is JsonType.STRING:
        return schema.format in ("date-time", "date", "duration", "byte")
    if schema.type is JsonType.NUMBER or schema.list_type is not ListType.ATOMIC:
        return True
    below = (*schema.properties.values(), schema.additional, schema.items)
    return any(needs_conversion(child) for child in below if child is not None)


def convert(schema: Schema | None, value: Any) -> Any:
    """Return `value` in the types that CEL gives to `schema`."""
    if schema is None or value is None:
        return value
    if isinstance(value, dict):
        return {key: convert(schema.child(key), item) for key, item in value.items()}
    if isinstance(value, list):
        return _list(schema, [convert(schema.items, item) for item in value])
    if schema.type is JsonType.NUMBER and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return _scalar(schema.format, value) if schema.type is JsonType.STRING and isinstance(value, str) else value


def _list(schema: Schema, items: list[Any]) -> list[Any]:
    match schema.list_type:
        case ListType.SET:
            return SetList(items)
        case ListType.MAP:
            return KeyedList(items)
        case ListType.ATOMIC:
            return items


def _scalar(form: str, value: str) -> Any:
    """Return the converted text, or the text itself if it is malformed: the format check has refused it elsewhere."""
    match form:
        case "date-time" | "date":
            return parse_timestamp(value) or value
        case "duration":
            return parse_duration(value) or value
        case "byte":
            return value.encode()
        case _:
            return value
