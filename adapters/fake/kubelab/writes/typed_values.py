"""The values of built-in kinds as Go's types write them: canonical quantities, no nulls in maps, no `1.0` for 1."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from kubelab.model.go_fields import members
from purekube.apimachinery.formats import canonical_quantity
from purekube.schema.node import MISSING, JsonType, Schema
from purekube.schema.structure import parts_of

_QUANTITY: Final = "quantity"
# apiextensions: v1/types.go: its JSON tag has no omitempty, and definitions are stored as JSON.
_KEPT: Final = frozenset({"storedVersions"})
# kubernetes: apis/core/v1/defaults.go, SetDefaults_ResourceList rounds up to a thousandth.
_FINEST_OF_LIST: Final = -3


def typed(schema: Schema, value: Any, refuse: Callable[[str], Exception], old: Any = MISSING) -> Any:
    """Return `value` as the Go type that `schema` describes writes it; `value` itself if nothing changes.

    Quantities become canonical, such as `1` for `1000m`, and those in a map are rounded up to a thousandth. A null for
    a string or quantity in a map, and for a string in a list, becomes the empty string or `0`. Empty lists and maps are
    left out of fields that are not required, and so are empty strings, 0 and false where the Go type omits them. For
    text that is not a quantity, the exception is raised that `refuse` returns. `old`, if given, is a former result;
    parts that `value` shares with it (the same Python objects) are skipped.
    """
    if value is old or not _concerned(schema):
        return value
    if isinstance(value, dict):
        return _members(schema, value, refuse, old)
    if isinstance(value, list) and schema.items is not None:
        done = parts_of(old)
        items = [item if id(item) in done else _element(schema.items, item, refuse) for item in value]
        return value if all(new is item for new, item in zip(items, value, strict=True)) else items
    return _quantity(value, refuse) if schema.format == _QUANTITY and value is not None else value


def _members(schema: Schema, value: dict[str, Any], refuse: Callable[[str], Exception], old: Any) -> dict[str, Any]:
    out = value
    before = old if isinstance(old, dict) else {}
    for key, item in value.items():
        if item is before.get(key, MISSING):
            continue
        if (child := schema.properties.get(key)) is not None:
            new = typed(child, item, refuse, before.get(key, MISSING))
        elif schema.additional is not None:
            new = _element(schema.additional, item, refuse, before.get(key, MISSING))
        else:
            continue
        is_kept = child is None or key in schema.required or key in _KEPT
        is_left_out = not new and child is not None and not is_kept and _omits(schema, child, key, new)
        if new is not item or is_left_out:
            out = dict(value) if out is value else out
            if is_left_out:
                del out[key]
            else:
                out[key] = new
    return out


def declare(schema: Schema, message: str) -> None:
    """Record that `schema` is that of the Go type `message`, whose empty fields are then left out as in Go."""
    if schema in _OMITTED or not (fields := members(message)):
        return
    _OMITTED[schema] = frozenset(name for name, field in fields.items() if field.left_out)
    for key, child in schema.properties.items():
        value = child.items if child.items is not None else child.additional if child.additional is not None else child
        if key in fields:
            declare(value, fields[key].type)


_OMITTED: Final[dict[Schema, frozenset[str]]] = {}
"""The fields of the Go types of schemas that are left out if they are empty."""


def _omits(schema: Schema, child: Schema, key: str, value: Any) -> bool:
    """Report whether Go's tag omitempty leaves out the field `key` of `schema` with this empty value, 0 or false."""
    if value is None:
        return False
    return value == _empty(child) if isinstance(value, (list, dict)) else key in _OMITTED.get(schema, ())


def _empty(schema: Schema) -> Any:
    """Return the empty list or map that Go's tag omitempty leaves out of a field with `schema`; None if there is none.

    An empty struct that is a pointer in Go, such as `emptyDir: {}`, has a meaning and stays.
    """
    if schema.type is JsonType.ARRAY:
        return []
    is_map = schema.type is JsonType.OBJECT and schema.additional is not None and not schema.properties
    return {} if is_map else None


def _element(schema: Schema, item: Any, refuse: Callable[[str], Exception], old: Any = MISSING) -> Any:
    """Return `item`, a member of a map or an item of a list, as Go writes it: there, a null leaves the zero value."""
    if schema.format == _QUANTITY:
        return "0" if item is None else _quantity(item, refuse, _FINEST_OF_LIST)
    if item is None and _is_text(schema):
        return ""
    return typed(schema, item, refuse, old)


def _quantity(value: Any, refuse: Callable[[str], Exception], finest: int = -9) -> str:
    # Quantity.UnmarshalJSON takes the JSON text of any value, and strips the quotes of strings and then blanks.
    text = value.strip() if isinstance(value, str) else str(value)
    canonical = None if isinstance(value, bool) else canonical_quantity(text, finest=finest)
    if canonical is None:
        raise refuse("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    return value if canonical == value else canonical


def _is_text(schema: Schema) -> bool:
    return schema.type is JsonType.STRING and not schema.format and not schema.nullable


@cache
def _concerned(schema: Schema) -> bool:
    """Report whether `schema` has quantities, lists or maps at any depth, in which `typed` may change something."""
    if schema.format == _QUANTITY:
        return True
    elements = [child for child in (schema.additional, schema.items) if child is not None]
    fields = schema.properties.values()
    return (
        any(map(_is_text, elements))
        or any(_empty(field) is not None for field in fields)
        or bool(_OMITTED.get(schema, frozenset()) & schema.properties.keys())
        or any(map(_concerned, [*elements, *fields]))
    )


def whole_number(schema: Schema, value: Any, path: str = "") -> str | None:
    """Return the path of the first number with a fraction or exponent, such as `1.0`, where `schema` wants an integer.

    Return None if there is none. Go reads no such number into an integer, even if it is whole.
    """
    if isinstance(value, float):
        return path if schema.type is JsonType.INTEGER and value.is_integer() else None
    members: Mapping[Any, Any] = {}
    if isinstance(value, dict):
        members = {f"{path}.{key}" if path else key: (schema.child(key), item) for key, item in value.items()}
    elif isinstance(value, list):
        members = {f"{path}[{index}]": (schema.items, item) for index, item in enumerate(value)}
    found = (whole_number(child, item, where) for where, (child, item) in members.items() if child is not None)
    return next((where for where in found if where is not None), None)


def has_fraction(value: Any) -> bool:
    """Report whether `value` contains a number that JSON wrote with a fraction or an exponent."""
    left = [value]
    while left:  # a status may be nested deeper than Python's stack
        item = left.pop()
        if isinstance(item, float):
            return True
        if isinstance(item, (dict, list)):
            left.extend(item.values() if isinstance(item, dict) else item)
    return False


def without_fractions(value: Any) -> Any:
    """Return `value` with whole numbers such as `1.0` as integers, as a conversion of YAML to JSON writes them.

    The result is `value` itself if it has no number with a fraction.
    """
    return _whole(value) if has_fraction(value) else value


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**63 else value
