"""Ownership after a change of the schema: the owner of parts of a value that became atomic owns the whole (S-60)."""

from typing import Any

from kubelab.ssa.fieldset import MEMBER, FieldSet
from kubelab.ssa.typed import items_schema
from purekube.schema.node import JsonType, ListType, Schema


def reconcile_fields(schema: Schema, fields: FieldSet) -> FieldSet:
    """Return `fields` as they apply under `schema`; the same object if nothing changes.

    When a value became atomic, an owner of its children becomes an owner of the whole. When a value became granular,
    nothing is done: the owner keeps the parent only.
    """
    changed: dict[str, Any] = {}
    for element, node in fields.items():
        if not node or element == MEMBER:
            continue
        child = _below(schema, element)
        if child is None:
            continue
        new = {} if _is_atomic(child) else reconcile_fields(child, node)
        if new is not node:
            changed[element] = new
    return {**fields, **changed} if changed else fields


def _below(schema: Schema, element: str) -> Schema | None:
    if element.startswith("f:"):
        return schema.properties.get(element[2:], schema.additional)
    return items_schema(schema)


def _is_atomic(schema: Schema) -> bool:
    if schema.type is JsonType.ARRAY:
        return schema.list_type is ListType.ATOMIC
    return schema.type is JsonType.OBJECT and schema.atomic_map
