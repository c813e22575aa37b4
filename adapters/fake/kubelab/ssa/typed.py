"""Values interpreted by a schema: their shapes, the path elements of list items, and the fields of a value.

Server-side apply knows three shapes: scalars, lists and maps. A scalar, or an atomic list or map, is owned only as a
whole. Under a schema node without a type a value has the shape of its own type.
"""

from collections.abc import Iterator
from typing import Any, Final

from kubelab.ssa.field_paths import field, keyed, valued
from kubelab.ssa.fieldset import FieldSet
from purekube.schema.node import ANYTHING, MISSING, JsonType, ListType, Schema

SCALAR: Final = "scalar"
LIST: Final = "list"
MAP: Final = "map"

_BY_TYPE: Final = {
    JsonType.OBJECT: MAP,
    JsonType.ARRAY: LIST,
    JsonType.STRING: SCALAR,
    JsonType.INTEGER: SCALAR,
    JsonType.NUMBER: SCALAR,
    JsonType.BOOLEAN: SCALAR,
}


class ItemError(ValueError):
    """The error of a list item that cannot be distinguished from others.

    The item of a map list lacks a key field, or the item of a set is not a scalar.
    """


def shape(schema: Schema, value: Any) -> str:
    """Return the shape of a value: `scalar`, `list` or `map`.

    The type in `schema` decides. If `schema` has no type, the type of `value` itself decides.
    """
    return _BY_TYPE.get(schema.type) or shape_of(value)


def shape_of(value: Any) -> str:
    """Return the shape of a value by its Python type: `scalar`, `list` or `map`. A null counts as a map."""
    # SMD: typed/helpers.go, handleAtom tries the map first if the value's own type decides nothing, as for null.
    if value is None or isinstance(value, dict):
        return MAP
    return LIST if isinstance(value, list) else SCALAR


def items_schema(schema: Schema) -> Schema:
    """Return the schema of a list's items. If `schema` declares none, the result accepts any value."""
    return schema.items if schema.items is not None else ANYTHING


def element_of(schema: Schema, item: Any) -> str:
    """Return the path element of an item in a list with the schema `schema`, which is a set or a map list.

    A path element names the item in managedFields, such as `v:"a"` in a set and `k:{"name":"a"}` in a map list. Raises
    ItemError if the item cannot be distinguished from others.
    """
    if schema.list_type is ListType.MAP:
        return _keyed_element(schema, item)
    if item is None:
        raise ItemError("associative list without keys has an element that's an explicit null")
    if isinstance(item, dict):
        raise ItemError("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise ItemError("not supported: associative list with lists as elements")
    return valued(item)


def _keyed_element(schema: Schema, item: Any) -> str:
    if item is None:
        raise ItemError("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise ItemError("associative list with keys may not have non-map elements")
    keys = {}
    for name in schema.list_keys:
        if name in item:
            keys[name] = item[name]
        # A missing key counts with its default, although the applier does not own the default (S-23).
        else:
            child = items_schema(schema).properties.get(name)
            if child is not None and child.default is not MISSING:
                keys[name] = child.default
    # SMD: typed/helpers.go, keyedAssociativeListItemToPathElement: an item may omit some of its keys, then its name has
    # only the others; without any key it has no name.
    if not keys:
        names = " ".join(f'"{name}"' for name in schema.list_keys)
        raise ItemError(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return keyed(keys)


def named_items(schema: Schema, items: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield (path element, item) for every item of a set or map list. Raises ItemError as `element_of` does."""
    for item in items:
        yield element_of(schema, item), item


def field_set(schema: Schema, value: Any) -> FieldSet:
    """Return the fields that a manager owns after it applied `value`, which has the schema `schema` (S-20, S-21)."""
    return _fields(schema, value)[0]


def _fields(schema: Schema, value: Any) -> tuple[dict[str, Any], bool]:
    """Return two values: the paths below a value, and whether the value itself is a leaf that an applier owns."""
    match shape(schema, value):
        case "scalar":
            return {}, True
        case "list":
            if schema.list_type is ListType.ATOMIC:
                return {}, True
            # SMD: typed/tofieldset.go, doList: a granular list is owned through its items only, so an applied [] of a
            # declared field owns nothing.
            return (_item_fields(schema, value) if isinstance(value, list) else {}), False
        case _:
            if schema.atomic_map:
                return {}, True
            return (_member_fields(schema, value) if isinstance(value, dict) else {}), False


def _item_fields(schema: Schema, items: list[Any]) -> dict[str, Any]:
    """Return the fields of the items of a set or map list. An item that occurs twice is one field as a whole (S-61)."""
    out: dict[str, Any] = {}
    seen: set[str] = set()
    inner = items_schema(schema)
    for element, item in named_items(schema, items):
        if element in seen:
            out[element] = {}
            continue
        seen.add(element)
        below, _ = _fields(inner, item)
        out[element] = {".": {}, **below} if below else {}
    return out


def _member_fields(schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, item in value.items():
        child = schema.applied(key) or ANYTHING
        if shape(child, item) == SCALAR:
            out[field(key)] = {}
            continue
        below, own = _fields(child, item)
        # Null and {} are leaves (S-27, S-45), and a key that no schema declares is a member of its own (S-21).
        own = own or item is None or item == {} or key not in schema.properties
        if below:
            out[field(key)] = {".": {}, **below} if own else below
        elif own:
            out[field(key)] = {}
    return out
