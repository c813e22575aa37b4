"""Static types of CEL, as a schema gives them to the variables of its rules."""

from collections.abc import Mapping
from typing import Final

import attrs

from vworkspace_fake.apiserver.cel.names import escape
from vworkspace_fake.apiserver.schema.node import JsonType, Schema

__all__ = [
    "BOOL",
    "BYTES",
    "DOUBLE",
    "DURATION",
    "DYN",
    "INT",
    "NULL",
    "STRING",
    "TIMESTAMP",
    "UINT",
    "CelType",
    "list_of",
]
__all__ += ["map_of", "optional_of", "type_of_schema"]


@attrs.frozen(eq=False)
class CelType:
    """A type. `item` is that of list items and map values, `fields` those of an object.

    `dyn` is a type that is known at run time only; everything fits it.
    """

    name: str
    item: "CelType | None" = None
    fields: Mapping[str, Schema] | None = None

    def fits(self, other: "CelType") -> bool:
        """Whether a value of this type can stand where `other` is wanted."""
        if "dyn" in (self.name, other.name):
            return True
        if self.name != other.name:
            return {self.name, other.name} <= _MAPS
        return self.item is None or other.item is None or self.item.fits(other.item)

    def __str__(self) -> str:
        return f"{self.name}({self.item})" if self.item is not None else self.name


_MAPS: Final = {"map", "object"}

DYN: Final = CelType("dyn")
BOOL: Final = CelType("bool")
INT: Final = CelType("int")
UINT: Final = CelType("uint")
DOUBLE: Final = CelType("double")
STRING: Final = CelType("string")
BYTES: Final = CelType("bytes")
NULL: Final = CelType("null")
TIMESTAMP: Final = CelType("timestamp")
DURATION: Final = CelType("duration")

_FORMATS: Final = {"date-time": TIMESTAMP, "date": TIMESTAMP, "duration": DURATION, "byte": BYTES}
_TEXT: Final = Schema(type=JsonType.STRING)
_ROOT: Final[Mapping[str, Schema]] = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "metadata": Schema(type=JsonType.OBJECT, properties={"name": _TEXT, "generateName": _TEXT}),
}


def list_of(item: CelType) -> CelType:
    """The type of lists of `item`."""
    return CelType("list", item)


def map_of(item: CelType) -> CelType:
    """The type of maps to `item`."""
    return CelType("map", item)


def optional_of(item: CelType) -> CelType:
    """The type of an optional `item`."""
    return CelType("optional", item)


def type_of_schema(schema: Schema, *, root: bool = False) -> CelType:
    """The type of a value of `schema`. Of metadata a rule sees only name and generateName."""
    if schema.int_or_string:
        return DYN
    match schema.type:
        case JsonType.OBJECT:
            return _object(schema, root=root or schema.embedded)
        case JsonType.ARRAY:
            return list_of(type_of_schema(schema.items) if schema.items is not None else DYN)
        case JsonType.STRING:
            return _FORMATS.get(schema.format, STRING)
        case JsonType.INTEGER:
            return INT
        case JsonType.NUMBER:
            return DOUBLE
        case JsonType.BOOLEAN:
            return BOOL
        case JsonType.ANY:
            return DYN


def _object(schema: Schema, *, root: bool) -> CelType:
    if schema.additional is not None:
        return map_of(type_of_schema(schema.additional))
    if schema.preserve_unknown and not schema.properties:
        return DYN
    declared = {**schema.properties, **_ROOT} if root else schema.properties
    named = ((escape(name), child) for name, child in declared.items())
    return CelType("object", fields={name: child for name, child in named if name is not None})
