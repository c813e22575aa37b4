"""Comparison of a desired manifest with the live object, to apply it only if necessary (REC-6, PH-2).

An object is applied when the hash of its desired content differs from the hash in the live object's annotation, or when
a desired field is missing or different on the live object. Fields that only others set are ignored.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from purekube.apimachinery.formats import parse_quantity
from purekube.apimachinery.manifest import Manifest, canonical_json, content_hash, equal_scalars
from purekube.schema.node import MISSING, ListType, Schema


@attrs.frozen
class DriftBySchema:
    """A comparison of desired with live objects that allows for what the API server changes when it stores an object.

    For example, the server adds defaults and rewrites quantities (1000m as 1). The schema that is passed to each method
    says in which lists a key identifies the items, and which values are quantities; it is None if unknown.
    `drops_empty` says that the server drops empty fields, as it does for built-in kinds.
    """

    drops_empty: bool

    def covers_field(self, live: Manifest, key: str, desired: Any, schema: Schema | None) -> bool:
        """Report whether the field `key` of `live` already contains `desired`, apart from what the server changes when
        it stores a value. `schema` is the schema of the field, None if unknown.
        """
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
        """Report whether the value `live` already contains `desired`, apart from what the server changes when it stores
        a value. `schema` is the schema of the value, None if unknown.
        """
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
    """Return a function from an item of a keyed list, whose schema is `schema`, to the item's key.

    A key field that an item lacks has its default.
    """
    defaults = {}
    for name in schema.list_keys:
        child = schema.items.child(name) if schema.items is not None else None
        defaults[name] = None if child is None or child.default is MISSING else child.default

    def key(item: Any) -> tuple[str, ...]:
        fields = item if isinstance(item, Mapping) else {}
        return tuple(repr(fields.get(name, default)) for name, default in defaults.items())

    return key


def _same_quantity(live: Any, desired: Any) -> bool:
    """Report whether two strings are the same quantity: the server rewrites quantities (1000m as 1, 1024Mi as 1Gi)."""
    first, second = parse_quantity(str(live)), parse_quantity(str(desired))
    return first is not None and first == second


def stamp(manifest: dict[str, Any], annotation: str) -> dict[str, Any]:
    """Set the annotation named `annotation` to the hash of the manifest's content. The manifest is modified in place
    and returned.
    """
    digest = content_hash(manifest)
    manifest["metadata"].setdefault("annotations", {})[annotation] = digest
    return manifest


_UNKNOWN: Final[Mapping[str, bytes]] = {}


def needs_apply(
    desired: Manifest,
    live: Manifest | None,
    schema: "Schema | None" = None,
    *,
    drops_empty: bool = False,
    encoded: Mapping[str, bytes] = _UNKNOWN,
) -> bool:
    """Report whether applying `desired` over `live` would change anything.

    `schema` describes the whole object: which strings are quantities, and in which lists a key identifies the items, so
    that items of other managers are ignored. With `drops_empty` an absent field equals an empty value (false, 0,
    empty), because the server omits such values in built-in kinds. `encoded` may hold top-level fields of `desired` as
    canonical JSON, to save time.
    """
    if live is None:
        return True
    if not _covers_metadata(live.get("metadata") or {}, desired.get("metadata") or {}):
        return True
    if schema is None and not drops_empty:
        return _differs(desired, live, encoded)
    by_schema = DriftBySchema(drops_empty)
    for key, value in desired.items():
        if key != "metadata" and not by_schema.covers_field(live, key, value, schema and schema.child(key)):
            return True
    return False


def _differs(desired: Manifest, live: Manifest, encoded: Mapping[str, bytes]) -> bool:
    for key, value in desired.items():
        if type(value) is str:
            if live.get(key) != value:
                return True
        elif key != "metadata" and not _covers_field(live, key, value, encoded.get(key)):
            return True
    return False


def _covers_metadata(live: Mapping[str, Any], desired: Mapping[str, Any]) -> bool:
    """Report whether the metadata `live` has the desired names, labels and annotations; further ones are ignored."""
    for key, value in desired.items():
        if key == "ownerReferences":
            if not _covers_owners(live.get(key), value):
                return False
        elif isinstance(value, dict):
            if not value.items() <= (live.get(key) or {}).items():
                return False
        elif live.get(key) != value:
            return False
    return True


def _covers_owners(live: Any, desired: list[dict[str, Any]]) -> bool:
    """Report whether all desired owner references are in `live`; further owner references are ignored."""
    return isinstance(live, list) and all(
        wanted in live or any(wanted.items() <= there.items() for there in live) for wanted in desired
    )


def _covers(live: Any, desired: Any) -> bool:
    """Report whether every field of `desired` is in `live` with an equal value."""
    if isinstance(desired, dict):
        return isinstance(live, dict) and all(_covers_field(live, key, value) for key, value in desired.items())
    if isinstance(desired, list):
        return isinstance(live, list) and len(live) == len(desired) and all(map(_covers, live, desired))
    return equal_scalars(live, desired)


def _covers_field(live: Manifest, key: str, desired: Any, encoded: bytes | None = None) -> bool:
    if key not in live:
        return False
    there = live[key]
    if isinstance(desired, dict | list) and canonical_json(there) == (encoded or canonical_json(desired)):
        return True  # byte for byte the same: by far the most common case, and by far the fastest check
    return _covers(there, desired)
