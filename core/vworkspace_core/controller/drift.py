"""Whether a desired manifest needs to be applied at all (REC-6, PH-2).

An object is applied when its content hash differs from the one we left on it, or when a field of ours is
missing or different on the live object. Fields of others are not looked at.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from vworkspace_core.apimachinery.manifest import Manifest, canonical_json, content_hash
from vworkspace_core.cel.quantities import parse_quantity
from vworkspace_core.schema.node import MISSING, ListType, Schema


def stamp(manifest: dict[str, Any], annotation: str) -> dict[str, Any]:
    """The manifest with the hash of its own content as `annotation`. Changes and returns its argument."""
    digest = content_hash(manifest)
    manifest["metadata"].setdefault("annotations", {})[annotation] = digest
    return manifest


_UNKNOWN: Final[Mapping[str, bytes]] = {}


def needs_apply(
    desired: Manifest,
    live: Manifest | None,
    schema: Schema | None = None,
    *,
    drops_empty: bool = False,
    encoded: Mapping[str, bytes] = _UNKNOWN,
) -> bool:
    """Whether applying `desired` over `live` would say anything new.

    `schema`, of the whole object, tells which lists are keyed, so that items of others in them are left alone, and
    which texts are quantities. `drops_empty`: the server leaves out fields that say nothing (false, 0, empty), as it
    does for built-in kinds; missing ones of these are then no difference. `encoded` holds fields of `desired` as
    canonical JSON, as far as somebody has them.
    """
    if live is None:
        return True
    if not _covers_metadata(live.get("metadata") or {}, desired.get("metadata") or {}):
        return True
    if schema is None and not drops_empty:
        return _differs(desired, live, encoded)
    by_schema = _BySchema(drops_empty)
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
    """Names, labels, annotations: texts and maps of text, to which others may have added theirs."""
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
    """Owner references are a map by uid: others may have added theirs."""
    if not isinstance(live, list):
        return False
    return all(wanted in live or any(wanted.items() <= there.items() for there in live) for wanted in desired)


def _covers(live: Any, desired: Any) -> bool:
    """Whether every field of `desired` stands in `live` with an equal value."""
    if isinstance(desired, dict):
        return isinstance(live, dict) and all(_covers_field(live, key, value) for key, value in desired.items())
    if isinstance(desired, list):
        return isinstance(live, list) and len(live) == len(desired) and all(map(_covers, live, desired))
    return _equal(live, desired)


def _covers_field(live: Manifest, key: str, desired: Any, encoded: bytes | None = None) -> bool:
    if key not in live:
        return False
    there = live[key]
    if isinstance(desired, dict | list) and canonical_json(there) == (encoded or canonical_json(desired)):
        return True  # byte for byte the same: by far the most common case, and by far the fastest to see
    return _covers(there, desired)


def _equal(live: Any, desired: Any) -> bool:
    """Scalars as the API server compares them: 1 is 1.0, but True is not 1."""
    return bool(live == desired) and isinstance(live, bool) == isinstance(desired, bool)


@attrs.frozen
class _BySchema:
    """The same comparison where more is known of how the server keeps an object."""

    drops_empty: bool

    def covers_field(self, live: Manifest, key: str, desired: Any, schema: Schema | None) -> bool:
        if key not in live:
            # A null asks for nothing. What is as good as empty says nothing where the server keeps no such fields.
            return desired is None or (self.drops_empty and not desired)
        there = live[key]
        if type(desired) is str and desired == there:
            return True
        # Byte for byte the same, asked only where that may be: what the server has given defaults is longer.
        if isinstance(desired, dict | list) and there == desired and canonical_json(there) == canonical_json(desired):
            return True
        return self.covers(there, desired, schema)

    def covers(self, live: Any, desired: Any, schema: Schema | None) -> bool:
        if isinstance(desired, dict):
            return isinstance(live, dict) and self._covers_fields(live, desired, schema)
        if isinstance(desired, list):
            return isinstance(live, list) and self._covers_list(live, desired, schema)
        return _equal(live, desired) or (schema is not None and schema.int_or_string and _same_quantity(live, desired))

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
                return all(any(_equal(there, item) for there in live) for item in desired)
            case _:
                same_length = len(live) == len(desired)
                return same_length and all(map(self.covers, live, desired, [items] * len(desired)))


def _key_of(schema: Schema) -> Callable[[Any], tuple[str, ...]]:
    """The identity of an item of a keyed list; a key that is not said has its default."""
    defaults = {}
    for name in schema.list_keys:
        child = schema.items.child(name) if schema.items is not None else None
        defaults[name] = None if child is None or child.default is MISSING else child.default

    def key(item: Any) -> tuple[str, ...]:
        fields = item if isinstance(item, Mapping) else {}
        return tuple(repr(fields.get(name, default)) for name, default in defaults.items())

    return key


def _same_quantity(live: Any, desired: Any) -> bool:
    """1000m is 1, and 1Gi is 1024Mi: the server writes what it has read in its own way."""
    if isinstance(live, bool) or isinstance(desired, bool):
        return False
    first, second = parse_quantity(str(live)), parse_quantity(str(desired))
    return first is not None and first == second
