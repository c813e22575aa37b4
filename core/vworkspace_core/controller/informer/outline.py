"""What a store holds of a large object: enough to find it and to tell of it, and a hash of the rest (RUN-11).

So the memory of a process is bounded by the number of objects that there are, not by their size: 500 instances whose
values are half a megabyte each are legal. Decisions need such an object whole, and read it when they act on it.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vworkspace_core.apimachinery.manifest import Manifest, metadata
from vworkspace_core.apimachinery.nesting import UNREADABLE, too_deep

OUTLINE: Final = "vworkspace.io/outline"
"""A field beside `metadata` that no API server sends: the SHA-256 of the object that this is the outline of."""

HELD_WHOLE: Final = 32 * 1024
"""Bytes of JSON up to which an object is held whole."""
_LARGEST_METADATA: Final = 8 * 1024
_LARGEST_MEMBER: Final = 1024
_LARGEST_STATUS: Final = 16 * 1024
_MOST_MEMBERS: Final = 16

_encode = msgspec.json.Encoder().encode


def outline_of(manifest: Manifest, raw: bytes) -> dict[str, Any]:
    """Return what is held of an object with this JSON: what is small of its metadata, spec and status."""
    status = manifest.get("status")
    parts = {
        "apiVersion": manifest.get("apiVersion"),
        "kind": manifest.get("kind"),
        "metadata": _small(metadata(manifest), _LARGEST_METADATA),
        "spec": _small(manifest.get("spec"), _LARGEST_MEMBER),
        "status": status if len(_encode(status)) <= _LARGEST_STATUS else None,
    }
    mark: dict[str, Any] = {OUTLINE: hashlib.sha256(raw).hexdigest()}
    if cut := too_deep(manifest):
        mark[UNREADABLE] = cut
    return {name: value for name, value in parts.items() if value} | mark


def bounded(manifest: Manifest) -> Manifest:
    """Return an object, or its outline where it is large; one that nests too deeply to be encoded as it is."""
    try:
        raw = _encode(manifest)
    except RecursionError:
        return manifest
    return manifest if len(raw) <= HELD_WHOLE else outline_of(manifest, raw)


def is_outline(manifest: Manifest) -> bool:
    """Return whether something of the object is not held."""
    return OUTLINE in manifest


def _small(members: Any, largest: int) -> dict[str, Any]:
    """The members whose JSON is no longer than that; the first ones, where there are many."""
    if not isinstance(members, Mapping):
        return {}
    small = {name: value for name, value in members.items() if len(name) + len(_encode(value)) <= largest}
    return dict(list(small.items())[:_MOST_MEMBERS])
