"""The removal of fields from a value, and the completion of a set of paths by the named fields above them."""

from typing import Any

from kubelab.ssa.fieldset import MEMBER, FieldSet, is_member
from kubelab.ssa.paths import field
from kubelab.ssa.typed import element_of, items_schema, shape
from purekube.schema.node import ANYTHING, ListType, Schema


def remove(schema: Schema, value: Any, fields: FieldSet) -> Any:
    """Return `value` without `fields`. A map or list that loses its last member remains, empty (S-42)."""
    match shape(schema, value):
        case "scalar":
            return value
        case "list":
            return _remove_items(schema, value, fields)
        case _:
            return _remove_members(schema, value, fields)


def _remove_items(schema: Schema, value: Any, fields: FieldSet) -> Any:
    if not isinstance(value, list) or schema.list_type is ListType.ATOMIC:
        return value
    inner = items_schema(schema)
    remainder = []
    for item in value:
        node = fields.get(element_of(schema, item))
        if node is None:
            remainder.append(item)
        elif not is_member(node):
            remainder.append(remove(inner, item, node))
    return remainder


def _remove_members(schema: Schema, value: Any, fields: FieldSet) -> Any:
    if not isinstance(value, dict) or schema.atomic_map:
        return value
    remainder = {}
    for key, item in value.items():
        node = fields.get(field(key))
        if node is None:
            remainder[key] = item
        elif not is_member(node):
            remainder[key] = remove(schema.applied(key) or ANYTHING, item, node)
    return remainder


def with_named_fields(schema: Schema | None, fields: FieldSet) -> FieldSet:
    """Return `fields` with every declared struct field that leads to one of its paths added."""
    out: dict[str, Any] = {}
    for element, node in fields.items():
        if element == MEMBER or not node:
            out[element] = node
            continue
        child, declared = _below(schema, element)
        below = with_named_fields(child, node)
        out[element] = {MEMBER: {}, **below} if declared and MEMBER not in below else below
    return out


def _below(schema: Schema | None, element: str) -> tuple[Schema | None, bool]:
    """Return the schema under a path element, and whether the element is a declared field."""
    if schema is None:
        return None, False
    if element.startswith("f:"):
        key = element[2:]
        return schema.applied(key), key in schema.properties
    return (items_schema(schema) if element.startswith("k:") else None), False
