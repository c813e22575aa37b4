"""Defaulting: declared defaults replace absent fields, and nulls where null is not allowed (S-62)."""

from copy import deepcopy
from typing import Any

from purekube.schema.node import MISSING, Schema


def apply_defaults(schema: Schema, value: Any) -> Any:
    """Return `value` with every default of `schema` filled in; `value` itself if nothing is to be filled in.

    Defaults are filled in top-down, so a default object gets the defaults of its own fields. The result shares no
    structure with the schema.
    """
    if not schema.has_defaults:
        return value
    if isinstance(value, dict):
        return _default_object(schema, value)
    if isinstance(value, list) and schema.items is not None:
        items = [_filled(schema.items, item) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def _default_object(schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
    out = value
    for key, child in schema.properties.items():
        if child.default is not MISSING and (key not in value or (value[key] is None and not child.nullable)):
            out = dict(value) if out is value else out
            out[key] = deepcopy(child.default)
    for key, item in list(out.items()):
        inner = schema.child(key)
        if inner is None:
            continue
        new = apply_defaults(inner, item) if key in schema.properties else _filled(inner, item)
        if new is not item:
            out = dict(value) if out is value else out
            out[key] = new
    return out


def _filled(schema: Schema, item: Any) -> Any:
    """Return an item or additional property with defaults; a null that is not allowed becomes the default, if any."""
    if item is None and not schema.nullable and schema.default is not MISSING:
        item = deepcopy(schema.default)
    return apply_defaults(schema, item)
