"""Whether a desired manifest needs to be applied at all (REC-6, PH-2).

An object is applied when its content hash differs from the one we left on it, or when a field of ours is
missing or different on the live object. Fields of others are not looked at.
"""

from collections.abc import Mapping
from typing import Any

from vworkspace_core.apimachinery.manifest import Manifest, canonical_json, content_hash


def stamp(manifest: dict[str, Any], annotation: str) -> dict[str, Any]:
    """The manifest with the hash of its own content as `annotation`. Changes and returns its argument."""
    digest = content_hash(manifest)
    manifest["metadata"].setdefault("annotations", {})[annotation] = digest
    return manifest


def needs_apply(desired: Manifest, live: Manifest | None) -> bool:
    """Whether applying `desired` over `live` would say anything new."""
    if live is None:
        return True
    if not _covers_metadata(live.get("metadata") or {}, desired.get("metadata") or {}):
        return True
    return not all(_covers_field(live, key, value) for key, value in desired.items() if key != "metadata")


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
    return all(any(wanted.items() <= there.items() for there in live) for wanted in desired)


def _covers(live: Any, desired: Any) -> bool:
    """Whether every field of `desired` stands in `live` with an equal value."""
    if isinstance(desired, dict):
        return isinstance(live, dict) and all(_covers_field(live, key, value) for key, value in desired.items())
    if isinstance(desired, list):
        return isinstance(live, list) and len(live) == len(desired) and all(map(_covers, live, desired))
    return _equal(live, desired)


def _covers_field(live: Manifest, key: str, desired: Any) -> bool:
    if key not in live:
        return False
    there = live[key]
    if isinstance(desired, dict | list) and canonical_json(there) == canonical_json(desired):
        return True  # byte for byte the same: by far the most common case, and by far the fastest to see
    return _covers(there, desired)


def _equal(live: Any, desired: Any) -> bool:
    """Scalars as the API server compares them: 1 is 1.0, but True is not 1."""
    return bool(live == desired) and isinstance(live, bool) == isinstance(desired, bool)
