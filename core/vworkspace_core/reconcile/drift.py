"""Whether a desired manifest needs to be applied at all (REC-6, PH-2).

An object is applied when its content hash differs from the one we left on it, or when a field of ours is
missing or different on the live object. Fields of others are not looked at.
"""

from typing import Any

from vworkspace_core.kinds.labels import APPLIED_HASH
from vworkspace_core.manifest import Manifest, canonical_json, content_hash

__all__ = ["needs_apply", "stamp"]


def stamp(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest with the hash of its own content as an annotation. Changes and returns its argument."""
    digest = content_hash(manifest)
    manifest["metadata"].setdefault("annotations", {})[APPLIED_HASH] = digest
    return manifest


def needs_apply(desired: Manifest, live: Manifest | None) -> bool:
    """Whether applying `desired` over `live` would say anything new."""
    if live is None:
        return True
    return not all(_covers_field(live, key, value) for key, value in desired.items())  # type: ignore[arg-type]


def _covers(live: Any, desired: Any) -> bool:
    """Whether every field of `desired` stands in `live` with an equal value."""
    if isinstance(desired, dict):
        return isinstance(live, dict) and all(_covers_field(live, key, value) for key, value in desired.items())
    if isinstance(desired, list):
        return isinstance(live, list) and len(live) == len(desired) and all(map(_covers, live, desired))
    return _equal(live, desired)


def _covers_field(live: dict[str, Any], key: str, desired: Any) -> bool:
    if key == "ownerReferences":
        return _covers_owners(live.get(key), desired)
    if key not in live:
        return False
    there = live[key]
    if isinstance(desired, dict | list) and canonical_json(there) == canonical_json(desired):
        return True  # byte for byte the same: by far the most common case, and by far the fastest to see
    return _covers(there, desired)


def _covers_owners(live: Any, desired: list[Any]) -> bool:
    """Owner references are a map by uid: others may have added theirs."""
    if not isinstance(live, list):
        return False
    return all(any(_covers(there, wanted) for there in live) for wanted in desired)


def _equal(live: Any, desired: Any) -> bool:
    """Scalars as the API server compares them: 1 is 1.0, but True is not 1."""
    return bool(live == desired) and isinstance(live, bool) == isinstance(desired, bool)
