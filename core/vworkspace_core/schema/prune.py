"""Reading an object by its schema: unknown fields go, whole floats become integers, stray nulls go.

This is what decoding a request body does to it. Nothing is mutated: what needs no change is returned as it
is, so an unchanged subtree keeps its identity and later comparisons are cheap.
"""

from typing import Any

from vworkspace_core.schema.node import MISSING, Schema

_TYPE_META = frozenset(("apiVersion", "kind", "metadata"))


def prune(schema: Schema, value: Any) -> tuple[Any, tuple[str, ...]]:
    """`value` without the fields that `schema` does not know, and their paths, sorted.

    `apiVersion`, `kind` and `metadata` of an embedded resource are kept whatever the schema says.
    """
    unknown: list[str] = []
    pruned = _prune(schema, value, "", unknown)
    return pruned, tuple(sorted(unknown))


def _prune(schema: Schema | None, value: Any, path: str, unknown: list[str]) -> Any:
    if isinstance(value, dict):
        return _prune_object(schema, value, path, unknown)
    if isinstance(value, list):
        items = None if schema is None else schema.items
        if items is None and schema is not None and schema.preserve_unknown:
            return value
        pruned = [_prune(items, item, f"{path}[{index}]", unknown) for index, item in enumerate(value)]
        return value if all(new is old for new, old in zip(pruned, value, strict=True)) else pruned
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _prune_object(schema: Schema | None, value: dict[str, Any], path: str, unknown: list[str]) -> Any:
    out: dict[str, Any] = {}
    changed = False
    for key, item in value.items():
        where = f"{path}.{key}" if path else key
        child = None if schema is None else schema.child(key)
        if schema is not None and schema.embedded and key in _TYPE_META:
            out[key] = item
        elif child is not None:
            out[key] = new = _prune(child, item, where, unknown)
            changed |= new is not item
        elif schema is not None and schema.preserve_unknown:
            out[key] = item
        else:
            unknown.append(where)
            changed = True
    return out if changed else value


def drop_nulls(schema: Schema, value: Any) -> Any:
    """`value` without nulls where the schema allows none. A null that a default will replace stays."""
    if isinstance(value, dict):
        return _drop_members(schema, value)
    if isinstance(value, list) and schema.items is not None:
        items = [drop_nulls(schema.items, item) if isinstance(item, (dict, list)) else item for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def _drop_members(schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
    out = value
    for key, item in value.items():
        if item is not None and not isinstance(item, (dict, list)):
            continue
        child = schema.child(key)
        if child is None:
            continue
        if item is None:
            if not child.nullable and child.default is MISSING:
                out = dict(value) if out is value else out
                del out[key]
        elif (new := drop_nulls(child, item)) is not item:
            out = dict(value) if out is value else out
            out[key] = new
    return out
