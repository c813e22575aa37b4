"""Whose a live downstream object is, and how it becomes or ceases to be somebody's (REC-4, REC-10).

Looked at before any apply or delete. An owner is told by its uid: another object of the same name is another owner.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata
from vworkspace_core.apimachinery.meta import ObjectMeta
from vworkspace_core.controller.decision import MergePatch


def controller_of(manifest: Manifest) -> Mapping[str, Any] | None:
    """The owner reference with `controller: true`, if there is one."""
    owners = metadata(manifest).get("ownerReferences")
    if not isinstance(owners, list):
        return None
    for owner in owners:
        if (type(owner) is dict or isinstance(owner, Mapping)) and owner.get("controller") is True:
            return owner
    return None


def is_controlled_by(manifest: Manifest, uid: str) -> bool:
    """Whether that very incarnation of a source object controls it."""
    return bool(get_path(controller_of(manifest), "uid") == uid)


def belongs_to(manifest: Manifest, uid: str, marks: Callable[[], Iterable[Mapping[str, str | None]]]) -> bool:
    """Whether the owner with `uid` may apply over it: it controls it, or nobody does and it has one of the `marks`.

    A mark is labels that it has; None for one that it lacks. The owner reference of this incarnation is enough: labels
    that somebody took away are the owner's to put back. What an earlier incarnation has left (`--cascade=orphan`)
    nobody controls: it is taken up again.
    """
    controller = controller_of(manifest)
    if controller is not None:
        return bool(controller.get("uid") == uid)
    labels = metadata(manifest).get("labels")
    if not isinstance(labels, Mapping):
        return False
    return any(all(labels.get(name) == value for name, value in mark.items()) for mark in marks())


def owner_reference(kind: Kind, meta: ObjectMeta) -> dict[str, Any]:
    """By which an object controls what is downstream of it."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def adoption(ref: ObjectRef, manifest: Manifest, owner: Mapping[str, Any], labels: Mapping[str, str]) -> MergePatch:
    """What nobody controls gets an owner reference and `labels`, to be taken down or pruned with its owner."""
    owners = metadata(manifest).get("ownerReferences") or ()
    meta = {
        "resourceVersion": metadata(manifest)["resourceVersion"],
        "labels": dict(labels),
        "ownerReferences": [*owners, owner],
    }
    return MergePatch(ref, {"metadata": meta})


def owners_without(manifest: Manifest, uid: str) -> list[Any]:
    """Its owner references, but for that owner's: the garbage collector leaves it then."""
    return [owner for owner in metadata(manifest).get("ownerReferences") or () if get_path(owner, "uid") != uid]


def controlled(
    objects: Mapping[ObjectRef, Manifest], uid: str, kinds: Sequence[Kind]
) -> Iterator[tuple[ObjectRef, Manifest]]:
    """What the owner with `uid` controls, in the order of `kinds`."""
    refs: dict[Kind, list[ObjectRef]] = {}
    for ref in objects:
        refs.setdefault(ref.kind, []).append(ref)
    for kind in kinds:
        for ref in sorted(refs.get(kind, ())):
            if is_controlled_by(objects[ref], uid):
                yield ref, objects[ref]
