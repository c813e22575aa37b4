"""Outlines (the small parts of large objects), and readers of a few fields of an object's JSON (RUN-11)."""

import hashlib
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, metadata
from purekube.apimachinery.nesting import UNREADABLE, too_deep

OUTLINE: Final = "vworkspace.io/outline"
"""The top-level field that marks an outline, and holds the full object's SHA-256; no API server sends it."""

HELD_WHOLE: Final = 32 * 1024
"""The longest JSON, in bytes, of an object that is kept in full; a longer one is reduced to its outline."""
PAGE_SIZE: Final = 150
"""The number of objects per page of a list.

It is small because a decoded page takes many times its size in memory, and several kinds are listed at once at startup.
"""
_LARGEST_METADATA: Final = 8 * 1024
_LARGEST_MEMBER: Final = 1024
_LARGEST_STATUS: Final = 16 * 1024
_MOST_MEMBERS: Final = 16

_encode = msgspec.json.Encoder().encode


def outline_of(manifest: Manifest, raw: bytes) -> dict[str, Any]:
    """Return the outline of a large object: the small fields of its metadata and spec, and its status unless that is
    large.

    `raw` is the object's JSON. The outline has the hash of this JSON in the field `OUTLINE`. Annotations that are large
    in sum are replaced by one with their hash, so that their change can be noticed.
    """
    status, meta = manifest.get("status"), metadata(manifest)
    small = _small(meta, _LARGEST_METADATA)
    if "annotations" in meta and "annotations" not in small:
        small["annotations"] = {OUTLINE: hashlib.sha256(_encode(meta["annotations"])).hexdigest()}
    parts = {
        "apiVersion": manifest.get("apiVersion"),
        "kind": manifest.get("kind"),
        "metadata": small,
        "spec": _small(manifest.get("spec"), _LARGEST_MEMBER),
        "status": status if len(_encode(status)) <= _LARGEST_STATUS else None,
    }
    mark: dict[str, Any] = {OUTLINE: hashlib.sha256(raw).hexdigest()}
    if cut := too_deep(manifest):
        mark[UNREADABLE] = cut
    return {name: value for name, value in parts.items() if value} | mark


def bounded(manifest: Manifest) -> Manifest:
    """Return the object, or its outline (only its small parts) if its JSON is longer than `HELD_WHOLE` bytes.

    An object nested too deeply to be encoded is returned unchanged.
    """
    try:
        raw = _encode(manifest)
    except RecursionError:
        return manifest
    return manifest if len(raw) <= HELD_WHOLE else outline_of(manifest, raw)


def is_outline(manifest: Manifest) -> bool:
    """Report whether the object is an outline, from which large parts were left out."""
    return OUTLINE in manifest


def _small(members: Any, largest: int) -> dict[str, Any]:
    """Return the small members of a JSON object, at most 16. A member is small if its name and its JSON together are at
    most `largest` long. The result is empty if `members` is not an object.
    """
    items = members.items() if isinstance(members, Mapping) else ()
    small = ((name, value) for name, value in items if len(name) + len(_encode(value)) <= largest)
    return dict(islice(small, _MOST_MEMBERS))


class _Owner(msgspec.Struct):
    apiVersion: str = ""
    kind: str = ""
    name: str = ""


class _Meta(msgspec.Struct):
    namespace: str | None = None
    generation: int = 0
    deletionTimestamp: str | None = None
    ownerReferences: list[_Owner] | None = None


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct):
    observedGeneration: int = 0
    conditions: list[_Condition] | None = None


class _WithOwners(msgspec.Struct):
    metadata: _Meta


class _WithStatus(msgspec.Struct):
    metadata: _Meta
    status: _Status | None = None


_decode_owners = msgspec.json.Decoder(_WithOwners).decode
_decode_status = msgspec.json.Decoder(_WithStatus).decode


def owners(raw: bytes, kind: Kind) -> Iterator[ObjectRef]:
    """Yield the owners of an object (given as JSON) that are of `kind`; nothing if the metadata is malformed."""
    try:
        meta = _decode_owners(raw).metadata
    except msgspec.ValidationError:
        return
    namespace = meta.namespace if kind.namespaced else None
    for owner in meta.ownerReferences or ():
        if owner.kind == kind.kind and owner.apiVersion.rpartition("/")[0] == kind.group:
            yield ObjectRef(kind, namespace, owner.name)


def is_in_progress(raw: bytes) -> bool:
    """Report whether the object's controller is still working on its present generation, as its status says.

    `raw` is the object's JSON. The result is True if Ready is missing or Unknown, if the status belongs to an older
    generation, or if Reconciling is True. An object that is being deleted, or whose status is malformed, is not in
    progress.
    """
    try:
        partial = _decode_status(raw)
    except msgspec.ValidationError:
        return False
    if partial.metadata.deletionTimestamp is not None:
        return False
    status = partial.status or _Status()
    conditions = {condition.type: condition.status for condition in status.conditions or ()}
    if conditions.get("Reconciling") == "True" or conditions.get("Ready") not in ("True", "False"):
        return True
    return status.observedGeneration != partial.metadata.generation
