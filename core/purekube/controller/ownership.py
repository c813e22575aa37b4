"""The ownership of objects that a controller makes for another object, the owner: how it is checked, gained and given
up (REC-4, REC-10).

Ownership is checked before any apply or delete. An owner is identified by its uid, not by its name.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.meta import ObjectMeta
from purekube.controller.decision import MergePatch

UNRECORDED: Final = "vworkspace.io/unrecorded"
"""The finalizer that an object has from its creation until its uid is recorded in the status of its owner."""

_ORPHAN: Final = "orphan"


def is_orphaning(meta: ObjectMeta) -> bool:
    """Report whether an object with this metadata is being deleted with `--cascade=orphan`.

    The API server adds a finalizer for that, which the garbage collector removes, often within milliseconds.
    """
    return _ORPHAN in meta.finalizers


def controller_of(manifest: Manifest) -> Mapping[str, Any] | None:
    """Return the object's owner reference with `controller: true`; None if it has none."""
    owners = metadata(manifest).get("ownerReferences")
    if not isinstance(owners, list):
        return None
    for owner in owners:
        if (type(owner) is dict or isinstance(owner, Mapping)) and owner.get("controller") is True:
            return owner
    return None


def is_controlled_by(manifest: Manifest, uid: str) -> bool:
    """Report whether the manifest's controller reference has exactly this uid."""
    return bool(get_path(controller_of(manifest), "uid") == uid)


def belongs_to(manifest: Manifest, uid: str, marks: Callable[[], Iterable[Mapping[str, str | None]]]) -> bool:
    """Report whether the owner with `uid` may apply over the object `manifest`.

    The owner may if it is the object's controller. It may too if the object has no controller and carries one of the
    marks that `marks` returns. A mark maps label names to values; None means that the label must be absent. Thus an
    object of a deleted owner of the same name, which `--cascade=orphan` kept, is adopted.
    """
    controller = controller_of(manifest)
    if controller is not None:
        return bool(controller.get("uid") == uid)
    labels = metadata(manifest).get("labels")
    if not isinstance(labels, Mapping):
        return False
    return any(all(labels.get(name) == value for name, value in mark.items()) for mark in marks())


def foreign_owner(live: Manifest, wanted: Manifest, manager: str) -> str:
    """Return a message that `live` is not the child that the manifest `wanted` describes; "" if it may be applied.

    It may if both have an owner in common, if `manager` has written `live` before, or if `wanted` names no owner. An
    object that several owners share has no controller reference, neither in `live` nor in `wanted`.
    """
    desired, actual = (_owner_uids(manifest) for manifest in (wanted, live))
    controller = controller_of(live)
    if not desired or desired & actual or manager in _managers(live):
        return ""
    if controller is not None:
        return controlled_by_another(controller)
    if actual and controller_of(wanted) is None:
        return ""
    return (
        "an object of this name exists and has another owner or none: delete it if nobody needs it, choose another "
        "name, or add the same reference to its ownerReferences to let it be taken over"
    )


def controlled_by_another(controller: Mapping[str, Any]) -> str:
    """Return the message that the object's name is taken: the object is controlled by the owner in the reference
    `controller`.
    """
    who = f"{controller.get('kind')} {controller.get('name')} (uid {controller.get('uid')})"
    return f"an object of this name is controlled by {who}; let it give it up, or choose another name"


def _owner_uids(manifest: Manifest) -> frozenset[str]:
    owners = metadata(manifest).get("ownerReferences")
    return frozenset(str(get_path(owner, "uid")) for owner in owners) if isinstance(owners, list) else frozenset()


def _managers(live: Manifest) -> frozenset[str]:
    entries = metadata(live).get("managedFields") or ()
    return frozenset(str(get_path(entry, "manager")) for entry in entries)


def owner_reference(kind: Kind, meta: ObjectMeta) -> dict[str, Any]:
    """Return the owner reference, with `controller: true`, that the children of an object have in `ownerReferences`.

    `kind` and `meta` are the kind and the metadata of that object, the owner.
    """
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        # A foreground deletion of the owner waits for this object (pkg/controller/garbagecollector).
        "blockOwnerDeletion": True,
    }


def adoption(ref: ObjectRef, manifest: Manifest, owner: Mapping[str, Any], labels: Mapping[str, str]) -> MergePatch:
    """Return the patch that adds the owner reference `owner` and `labels` to the object `ref`, which has no controller.

    From then on the object is deleted together with its owner. `manifest` is the object as last read: the API server
    refuses the patch if the object has changed since then.
    """
    owners = metadata(manifest).get("ownerReferences") or ()
    meta = {
        # A merge patch replaces the whole list of owners (RFC 7386), also with one that was added meanwhile.
        "resourceVersion": metadata(manifest)["resourceVersion"],
        "labels": dict(labels),
        "ownerReferences": [*owners, owner],
    }
    return MergePatch(ref, {"metadata": meta})


def owner_uids(manifest: Manifest) -> Iterable[str]:
    """Return the uids of all owners of the object, whether or not they are its controller."""
    owners = metadata(manifest).get("ownerReferences") or ()
    return (str(uid) for owner in owners if (uid := get_path(owner, "uid")))


def owners_without(manifest: Manifest, uid: str) -> list[Any]:
    """Return the object's owner references except those to `uid`, so that garbage collection spares the object."""
    return [owner for owner in metadata(manifest).get("ownerReferences") or () if get_path(owner, "uid") != uid]


def controlled(
    objects: Mapping[ObjectRef, Manifest], uid: str, kinds: Sequence[Kind]
) -> Iterator[tuple[ObjectRef, Manifest]]:
    """Yield those of `objects` that the owner with `uid` controls and that are of one of `kinds`, in the order of
    `kinds`.

    Each comes with its reference.
    """
    refs: dict[Kind, list[ObjectRef]] = {}
    for ref in objects:
        refs.setdefault(ref.kind, []).append(ref)
    for kind in kinds:
        for ref in sorted(refs.get(kind, ())):
            if is_controlled_by(objects[ref], uid):
                yield ref, objects[ref]


def locked(manifest: Manifest) -> dict[str, Any]:
    """Return the manifest with the finalizer `UNRECORDED` (`vworkspace.io/unrecorded`) added.

    An object with this finalizer is called locked. It is created so, and a deletion of it has to wait until the status
    of its owner records the object's uid and the finalizer is removed.
    """
    meta = metadata(manifest)
    return {**manifest, "metadata": {**meta, "finalizers": [*(meta.get("finalizers") or ()), UNRECORDED]}}


def is_locked(live: Manifest) -> bool:
    """Report whether the object has the finalizer `UNRECORDED` (`vworkspace.io/unrecorded`).

    The finalizer delays the object's deletion until the status of its owner records the object's uid.
    """
    finalizers = metadata(live).get("finalizers")
    return isinstance(finalizers, list) and UNRECORDED in finalizers


def unlocked_finalizers(live: Manifest) -> list[str]:
    """Return the names of the object's finalizers except `UNRECORDED` (`vworkspace.io/unrecorded`).

    An object has that finalizer from its creation until the status of its owner records its uid. Until then a deletion
    of the object has to wait: it is locked. A patch that sets its finalizers to the result unlocks it.
    """
    return [name for name in metadata(live).get("finalizers") or () if name != UNRECORDED]


def unlocking(ref: ObjectRef, live: Manifest) -> MergePatch:
    """Return the patch that removes the finalizer `UNRECORDED` (`vworkspace.io/unrecorded`) from the object `ref`.

    The finalizer delayed the object's deletion until the status of its owner recorded the object's uid. The API server
    refuses the patch if the object has changed since `live` was read.
    """
    meta = {"resourceVersion": metadata(live)["resourceVersion"], "finalizers": unlocked_finalizers(live)}
    return MergePatch(ref, {"metadata": meta})
