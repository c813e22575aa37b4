"""From a change in the cluster to the keys it concerns (REC-1)."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from vworkspace_core.manifest import Kind, Manifest, ObjectRef, dig, metadata
from vworkspace_core.runtime.changes import Change
from vworkspace_core.runtime.queue import Priority

__all__ = ["KeysOf", "itself", "owners_of_kind", "priority_of"]

KeysOf: TypeAlias = Callable[[Change], Iterator[ObjectRef]]
"""Which keys to reconcile because of a change."""


def itself(change: Change) -> Iterator[ObjectRef]:
    """The changed object is the key."""
    yield change.ref


def owners_of_kind(kind: Kind) -> KeysOf:
    """The owners of `kind`, before and after the change: one that lost a child is told as well."""

    def keys(change: Change) -> Iterator[ObjectRef]:
        now = _owners(change.object, kind)
        before = _owners(change.old_object or {}, kind)
        yield from dict.fromkeys((*now, *before))

    return keys


def priority_of(change: Change) -> Priority:
    """Objects of the first list can wait; a live change cannot."""
    return Priority.BACKGROUND if change.initial else Priority.LIVE


def _owners(manifest: Manifest, kind: Kind) -> list[ObjectRef]:
    meta = metadata(manifest)
    namespace = meta.get("namespace") if kind.namespaced else None
    return [
        ObjectRef(kind, namespace, str(dig(owner, "name")))
        for owner in meta.get("ownerReferences") or ()
        if dig(owner, "kind") == kind.kind and str(dig(owner, "apiVersion")).rpartition("/")[0] == kind.group
    ]
