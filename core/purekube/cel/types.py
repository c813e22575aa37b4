"""Static types of CEL, and how types of arguments match those of parameters."""

from collections.abc import Mapping
from typing import Final

import attrs


@attrs.frozen
class Field:
    """A field of an object. `optional` says that it may be absent: neither required nor given a default."""

    type: "CelType"
    optional: bool = False


@attrs.frozen
class CelType:
    """A type of the expression language. `dyn` is known only at run time and matches every type.

    `parameters` are the types within a list, map, optional or type. `fields` are the fields of an object; None for
    another type. A name that begins with `$` is a type parameter of a signature.
    """

    name: str
    parameters: tuple["CelType", ...] = ()
    fields: Mapping[str, Field] | None = attrs.field(default=None, eq=False, repr=False)

    @property
    def item(self) -> "CelType":
        """The type of list items, of map values, or of an optional's content. It is `dyn` for a type without
        parameters.
        """
        return self.parameters[-1] if self.parameters else DYN

    @property
    def key(self) -> "CelType":
        """The type of a map's keys. It is `string` for an object with fields, and `dyn` for any other type."""
        return self.parameters[0] if self.name == "map" and self.parameters else STRING if self.fields else DYN

    def fits(self, other: "CelType") -> bool:
        """Report whether a value of this type may be passed where `other` is expected."""
        return unify(other, self, {})

    def __str__(self) -> str:
        inner = ", ".join(str(parameter) for parameter in self.parameters)
        return f"{self.name.removeprefix('$')}({inner})" if inner else self.name.removeprefix("$")


DYN: Final = CelType("dyn")
BOOL: Final = CelType("bool")
INT: Final = CelType("int")
UINT: Final = CelType("uint")
DOUBLE: Final = CelType("double")
STRING: Final = CelType("string")
BYTES: Final = CelType("bytes")
NULL: Final = CelType("null_type")
TYPE: Final = CelType("type")
TIMESTAMP: Final = CelType("timestamp")
DURATION: Final = CelType("duration")


def list_of(item: CelType) -> CelType:
    """Return the type of lists of `item`."""
    return CelType("list", (item,))


def map_of(value: CelType, key: CelType = STRING) -> CelType:
    """Return the type of maps from `key` to `value`."""
    return CelType("map", (key, value))


def optional_of(item: CelType) -> CelType:
    """Return the type of an optional `item`."""
    return CelType("optional", (item,))


def unify(cel_type: CelType, actual: CelType, bound: dict[str, CelType]) -> bool:
    """Report whether `actual` fits `cel_type`. Type parameters such as `$A` are added to `bound` with their types."""
    if cel_type.name.startswith("$"):
        known = bound.get(cel_type.name)
        if known is None or (known.name == "dyn" and actual.name != "dyn"):
            bound[cel_type.name] = actual
            return True
        return unify(known, actual, bound) or unify(actual, known, bound)
    if "dyn" in (cel_type.name, actual.name):
        return True
    if cel_type.name == "map" and actual.fields is not None:
        return True  # an object reads like a map
    if actual.name == "map" and cel_type.fields is not None:
        return True
    if cel_type.name != actual.name:
        return False
    return all(
        unify(expected, given, bound) for expected, given in zip(cel_type.parameters, actual.parameters, strict=False)
    )


def substituted(cel_type: CelType, bound: Mapping[str, CelType]) -> CelType:
    """Return `cel_type` with its type parameters replaced by the types in `bound`; other parameters become `dyn`."""
    if cel_type.name.startswith("$"):
        return bound.get(cel_type.name, DYN)
    if not cel_type.parameters:
        return cel_type
    return attrs.evolve(cel_type, parameters=tuple(substituted(parameter, bound) for parameter in cel_type.parameters))


def joined(types: list[CelType]) -> CelType:
    """Return the common type of `types`. Where they differ, the common type has `dyn`: `list(int)` and `list(string)`
    give `list(dyn)`.
    """
    if not types:
        return DYN
    first = types[0]
    for other in types[1:]:
        if first.fields is not other.fields:
            return DYN
        if first.name != other.name or len(first.parameters) != len(other.parameters):
            return DYN
        # Also of equal types: they may contain objects, which are equal whatever fields they have.
        pairs = zip(first.parameters, other.parameters, strict=True)
        first = attrs.evolve(first, parameters=tuple(joined([left, right]) for left, right in pairs))
    return first
