"""The CEL types of values that a schema describes.

The type of a field is made only when a CEL rule uses the field, since schemas are large and rules small.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from purekube.cel import types
from purekube.cel.syntax import RESERVED, escape
from purekube.cel.types import DYN, CelType, Field, list_of, map_of
from purekube.schema.node import MISSING, JsonType, Schema

_FORMATS: Final = {
    "date-time": types.TIMESTAMP,
    "date": types.TIMESTAMP,
    "duration": types.DURATION,
    "byte": types.BYTES,
}
_TEXT: Final = Schema(type=JsonType.STRING)
_ROOT: Final[Mapping[str, Schema]] = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "metadata": Schema(
        type=JsonType.OBJECT, properties={"name": _TEXT, "generateName": _TEXT}, required=("name", "generateName")
    ),
}


def type_of_schema(schema: Schema, *, root: bool = False, plain: bool = False) -> CelType:
    """Return the CEL type of a value of `schema`.

    The default is the type in a rule of a CRD: strings of some formats are times, durations and bytes. `root` says that
    the schema is that of a whole object: the type then has the fields apiVersion, kind and metadata too, with only name
    and generateName in metadata. With `plain` it is the type of the value's JSON, and metadata has the type of its
    schema. Numbers and nullable values are then `dyn`, since JSON may have 3 or 3.0, and null.
    """
    if schema.int_or_string or (plain and (schema.nullable or schema.type is JsonType.NUMBER)):
        return DYN
    match schema.type:
        case JsonType.OBJECT:
            return _object(schema, root=(root or schema.embedded) and not plain, plain=plain)
        case JsonType.ARRAY:
            return list_of(type_of_schema(schema.items, plain=plain) if schema.items is not None else DYN)
        case JsonType.STRING:
            return types.STRING if plain else _FORMATS.get(schema.format, types.STRING)
        case JsonType.INTEGER:
            return types.INT
        case JsonType.NUMBER:
            return types.DOUBLE
        case JsonType.BOOLEAN:
            return types.BOOL
        case JsonType.ANY:
            return DYN


def _object(schema: Schema, *, root: bool, plain: bool) -> CelType:
    if schema.additional is not None:
        return map_of(type_of_schema(schema.additional, plain=plain))
    if schema.preserve_unknown and not schema.properties:
        return DYN
    of = _OpenFields if plain and schema.preserve_unknown else _Fields
    return CelType("object", fields=of(schema, root=root, plain=plain))


class _Fields(Mapping[str, Field]):
    """The types of an object's fields, under the (escaped) names that expressions use for the fields."""

    def __init__(self, schema: Schema, *, root: bool, plain: bool) -> None:
        declared = {**schema.properties, **_ROOT} if root else schema.properties
        named = ((escape(name), name) for name in declared)
        self._names = {text: name for text, name in named if text is not None}
        if plain:  # CEL allows a reserved word as a field; rules of CRDs know `__namespace__` only
            self._names.update((name, name) for name in declared if name in RESERVED)
        self._declared = declared
        self._required = frozenset((*schema.required, *(_ROOT if root else ())))
        self._plain = plain
        self._made: dict[str, Field] = {}

    def __getitem__(self, name: str) -> Field:
        field = self._made.get(name)
        if field is None:
            plain = self._names[name]
            child = self._declared[plain]
            optional = plain not in self._required and child.default is MISSING
            field = self._made[name] = Field(type_of_schema(child, plain=self._plain), optional)
        return field

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class _OpenFields(_Fields):
    """The types of the fields of an object that keeps undeclared fields, which have a dynamic type."""

    def __getitem__(self, name: str) -> Field:
        try:
            return super().__getitem__(name)
        except KeyError:
            return Field(DYN, optional=True)
