"""The decoding of an object by its schema: unknown fields dropped, whole floats made integers, defaults set (S-62)."""

from copy import deepcopy
from typing import Any

from purekube.schema.node import MISSING, Schema
from purekube.schema.structure import parts_of


def apply_defaults(schema: Schema, value: Any, old: Any = MISSING) -> Any:
    """Return `value` with every default of `schema` filled in; `value` itself if no default is missing.

    Defaults are filled in top-down, so a default object gets the defaults of its own fields. The result shares no
    structure with the schema. `old`, if given, must have all its defaults filled in already; parts that `value` shares
    with it (the same Python objects) are skipped.
    """
    if not schema.has_defaults or value is old:
        return value
    if isinstance(value, dict):
        return _default_object(schema, value, old)
    if isinstance(value, list) and schema.items is not None:
        done = parts_of(old)
        items = [item if id(item) in done else _filled(schema.items, item) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def _default_object(schema: Schema, value: dict[str, Any], old: Any) -> dict[str, Any]:
    out = value
    before = old if isinstance(old, dict) else {}
    # apiextensions-apiserver: pkg/apiserver/schema/defaulting/algorithm.go, Default. A null counts as absent only if
    # the field is not nullable.
    for key, child in schema.defaulted:
        if key not in value or (value[key] is None and not child.nullable):
            out = dict(value) if out is value else out
            out[key] = deepcopy(child.default)
    for key, item in list(out.items()):
        inner = schema.child(key)
        if inner is None or not inner.has_defaults:
            continue
        previous = before.get(key, MISSING)
        new = apply_defaults(inner, item, previous) if key in schema.properties else _filled(inner, item, previous)
        if new is not item:
            out = dict(value) if out is value else out
            out[key] = new
    return out


def _filled(schema: Schema, item: Any, old: Any = MISSING) -> Any:
    """Return `item`, a list item or an additional property, with defaults filled in.

    A null that `schema` forbids becomes the default, if there is one. `old` is the former value of the item.
    """
    if item is None and not schema.nullable and schema.default is not MISSING:
        item = deepcopy(schema.default)
    return apply_defaults(schema, item, old)


_TYPE_META = frozenset(("apiVersion", "kind", "metadata"))
_SETTLED = frozenset((str, int, bool, type(None)))
"""The types of values that pruning leaves unchanged in declared fields."""
_PLAIN = frozenset((str, int, bool, float))
"""The types of values that are not null and cannot contain a null."""


def prune(schema: Schema, value: Any, old: Any = MISSING) -> tuple[Any, tuple[str, ...]]:
    """Return `value` without fields that `schema` does not declare, and the paths of the removed fields, sorted.

    `apiVersion`, `kind` and `metadata` of an embedded resource are always kept. `old`, if given, must already be pruned
    by this schema; parts that `value` shares with it (the same Python objects) are skipped.
    """
    unknown: list[str] = []
    pruned = _prune(schema, value, "", unknown, old)
    return pruned, tuple(sorted(unknown))


def _prune(schema: Schema | None, value: Any, path: str, unknown: list[str], old: Any = MISSING) -> Any:
    if isinstance(value, dict):
        return value if value is old else _prune_object(schema, value, path, unknown, old)
    if isinstance(value, list):
        if value is old:
            return value
        items = None if schema is None else schema.items
        if items is None and schema is not None and schema.preserve_unknown:
            return value
        done = parts_of(old)
        pruned = [
            item if id(item) in done else _prune(items, item, f"{path}[{index}]", unknown)
            for index, item in enumerate(value)
        ]
        return value if all(new is old for new, old in zip(pruned, value, strict=True)) else pruned
    # JSON has one kind of number: Go decodes `1.0` as float64, but writes it as `1`, and reads that as int64 from then
    # on.
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _prune_object(schema: Schema | None, value: dict[str, Any], path: str, unknown: list[str], old: Any) -> Any:
    out = value
    before = old if isinstance(old, dict) else {}
    embedded = schema is not None and schema.embedded
    for key, item in value.items():
        # apiextensions-apiserver: pkg/apiserver/schema/pruning/algorithm.go: these are pruned by the type ObjectMeta
        # instead.
        if embedded and key in _TYPE_META:
            continue
        child = None if schema is None else schema.properties.get(key, schema.additional)
        if child is not None:
            new = (
                item
                if type(item) in _SETTLED
                else _prune(child, item, f"{path}.{key}" if path else key, unknown, before.get(key, MISSING))
            )
            if new is not item:
                out = dict(value) if out is value else out
                out[key] = new
        elif schema is None or not schema.preserve_unknown:
            unknown.append(f"{path}.{key}" if path else key)
            out = dict(value) if out is value else out
            del out[key]
    return out


def drop_nulls(schema: Schema, value: Any, old: Any = MISSING) -> Any:
    """Return `value` without nulls that the schema forbids. A null that a default will replace stays (S-62).

    `old`, if given, must have no such nulls; parts that `value` shares with it (the same Python objects) are skipped.
    """
    if value is old:
        return value
    if isinstance(value, dict):
        return _drop_members(schema, value, old)
    if isinstance(value, list) and schema.items is not None:
        done = parts_of(old)
        items = [
            drop_nulls(schema.items, item) if isinstance(item, (dict, list)) and id(item) not in done else item
            for item in value
        ]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def _drop_members(schema: Schema, value: dict[str, Any], old: Any) -> dict[str, Any]:
    out = value
    before = old if isinstance(old, dict) else {}
    for key, item in value.items():
        if type(item) in _PLAIN or (item is not None and item is before.get(key)):
            continue
        child = schema.child(key)
        if child is None:
            continue
        if item is None:
            if not child.nullable and child.default is MISSING:
                out = dict(value) if out is value else out
                del out[key]
        elif (new := drop_nulls(child, item, before.get(key, MISSING))) is not item:
            out = dict(value) if out is value else out
            out[key] = new
    return out
