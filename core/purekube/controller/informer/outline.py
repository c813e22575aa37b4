"""Outlines of large objects: enough to find and report one in the store, with a hash of the rest (RUN-11).

They bound the memory of a process by the number of objects, not by their size: 500 instances whose values are half a
megabyte each are legal. Decisions need such an object whole, and read it live before they act on it.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from purekube.apimachinery.manifest import Manifest, metadata
from purekube.apimachinery.nesting import UNREADABLE, too_deep

OUTLINE: Final = "vworkspace.io/outline"
"""A field next to `metadata` that no API server sends: the SHA-256 of the whole object."""

HELD_WHOLE: Final = 32 * 1024
"""The longest JSON, in bytes, of an object that is held whole."""
_LARGEST_METADATA: Final = 8 * 1024
_LARGEST_MEMBER: Final = 1024
_LARGEST_STATUS: Final = 16 * 1024
_MOST_MEMBERS: Final = 16

_encode = msgspec.json.Encoder().encode


def outline_of(manifest: Manifest, raw: bytes) -> dict[str, Any]:
    """Return the outline of an object with this JSON: the small parts of its metadata, spec and status."""
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
    """Return an object, or its outline if it is large; one that nests too deeply to be encoded stays as it is."""
    try:
        raw = _encode(manifest)
    except RecursionError:
        return manifest
    return manifest if len(raw) <= HELD_WHOLE else outline_of(manifest, raw)


def is_outline(manifest: Manifest) -> bool:
    """Report whether parts of the object are missing."""
    return OUTLINE in manifest


def _small(members: Any, largest: int) -> dict[str, Any]:
    """Return the members whose JSON is at most `largest` long, and only the first ones if there are many."""
    if not isinstance(members, Mapping):
        return {}
    small = {name: value for name, value in members.items() if len(name) + len(_encode(value)) <= largest}
    return dict(list(small.items())[:_MOST_MEMBERS])
