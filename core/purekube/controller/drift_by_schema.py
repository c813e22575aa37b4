"""The comparison of a desired object with the live one by the schema of its kind (REC-6, PH-2)."""

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from purekube.apimachinery.manifest import Manifest, canonical_json
from purekube.apimachinery.scalars import equal_scalars
from purekube.cel.quantities import parse_quantity
from purekube.schema.node import MISSING, ListType, Schema


@attrs.frozen
class DriftBySchema:
    """A comparison that knows how the server stores an object: its schema and the empty fields that it drops."""

    drops_empty: bool

    def covers_field(self, live: Manifest, key: str, desired: Any, schema: Schema | None) -> bool:
        """Report whether a field of `desired` is in `live`, as the server would store it."""
        if key not in live:
            # A null requests nothing. An empty value requests nothing if the server drops empty fields.
            return desired is None or (self.drops_empty and not desired)
        there = live[key]
        if type(desired) is str and desired == there:
            return True
        # Byte for byte the same. Equality is checked first: a value to which the server added defaults is never equal.
        if isinstance(desired, dict | list) and there == desired and canonical_json(there) == canonical_json(desired):
            return True
        return self.covers(there, desired, schema)

    def covers(self, live: Any, desired: Any, schema: Schema | None) -> bool:
        """Report whether a value of `desired` is in `live`, as the server would store it."""
        if isinstance(desired, dict):
            return isinstance(live, dict) and self._covers_fields(live, desired, schema)
        if isinstance(desired, list):
            return isinstance(live, list) and self._covers_list(live, desired, schema)
        return equal_scalars(live, desired) or (
            schema is not None and schema.int_or_string and _same_quantity(live, desired)
        )

    def _covers_fields(self, live: Manifest, desired: Manifest, schema: Schema | None) -> bool:
        return all(self.covers_field(live, key, value, schema and schema.child(key)) for key, value in desired.items())

    def _covers_list(self, live: list[Any], desired: list[Any], schema: Schema | None) -> bool:
        items = schema.items if schema is not None else None
        match schema.list_type if schema is not None else ListType.ATOMIC:
            case ListType.MAP if schema is not None:
                key_of = _key_of(schema)
                there = {key_of(item): item for item in live}
                return all((key := key_of(item)) in there and self.covers(there[key], item, items) for item in desired)
            case ListType.SET:
                return all(any(equal_scalars(there, item) for there in live) for item in desired)
            case _:
                same_length = len(live) == len(desired)
                return same_length and all(map(self.covers, live, desired, [items] * len(desired)))


def _key_of(schema: Schema) -> Callable[[Any], tuple[str, ...]]:
    """Return the function that gives the identity of an item in a keyed list; a key that is absent has its default."""
    defaults = {}
    for name in schema.list_keys:
        child = schema.items.child(name) if schema.items is not None else None
        defaults[name] = None if child is None or child.default is MISSING else child.default

    def key(item: Any) -> tuple[str, ...]:
        fields = item if isinstance(item, Mapping) else {}
        return tuple(repr(fields.get(name, default)) for name, default in defaults.items())

    return key


def _same_quantity(live: Any, desired: Any) -> bool:
    """Report whether two texts are one quantity: the server rewrites what it reads (1000m as 1, 1024Mi as 1Gi)."""
    if isinstance(live, bool) or isinstance(desired, bool):
        return False
    first, second = parse_quantity(str(live)), parse_quantity(str(desired))
    return first is not None and first == second
