"""Comparison of a desired manifest with the live object, to apply it only if necessary (REC-6, PH-2).

An object is applied when its content hash differs from the one that we left on it, or when a field of ours is missing
or different on the live object. Fields that only others set are ignored.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from purekube.apimachinery.manifest import Manifest, canonical_json, content_hash
from purekube.apimachinery.scalars import equal_scalars

if TYPE_CHECKING:
    from purekube.schema.node import Schema


def stamp(manifest: dict[str, Any], annotation: str) -> dict[str, Any]:
    """Add the hash of the manifest's own content as `annotation`; change and return the argument."""
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

    `schema`, of the whole object, says which lists are keyed, so that items of others in them are ignored, and which
    texts are quantities. `drops_empty`: the server leaves out empty fields (false, 0, empty), as it does for built-in
    kinds; their absence is then no difference. `encoded` holds fields of `desired` as canonical JSON, as far as the
    caller has them.
    """
    if live is None:
        return True
    if not _covers_metadata(live.get("metadata") or {}, desired.get("metadata") or {}):
        return True
    if schema is None and not drops_empty:
        return _differs(desired, live, encoded)
    from purekube.controller.drift_by_schema import DriftBySchema  # schemas are slow to import

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
    """Report whether `live` has the desired names, labels and annotations; others may have added more."""
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
    """Report whether the desired owner references, a map by uid, are all in `live`; others may have added more."""
    if not isinstance(live, list):
        return False
    return all(wanted in live or any(wanted.items() <= there.items() for there in live) for wanted in desired)


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
