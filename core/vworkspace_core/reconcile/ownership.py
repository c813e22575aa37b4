"""Whose a live downstream object is (REC-4, REC-10). Looked at before any apply or delete."""

from collections.abc import Mapping
from typing import Any

from vworkspace_core.kinds.application_instance import ApplicationInstance
from vworkspace_core.kinds.labels import INSTANCE_UID, MANAGED_BY, MANAGED_BY_VALUE, bounded_name
from vworkspace_core.manifest import Manifest, ObjectRef, dig, metadata

__all__ = ["controller_of", "is_controlled_by", "is_ours", "stranger"]


def controller_of(manifest: Manifest) -> Mapping[str, Any] | None:
    """The owner reference with `controller: true`, if there is one."""
    owners = metadata(manifest).get("ownerReferences")
    if not isinstance(owners, list):
        return None
    return next((owner for owner in owners if isinstance(owner, Mapping) and owner.get("controller") is True), None)


def is_controlled_by(manifest: Manifest, uid: str) -> bool:
    """Whether that very incarnation of a source object controls it."""
    return bool(dig(controller_of(manifest), "uid") == uid)


def is_ours(manifest: Manifest, instance: ApplicationInstance) -> bool:
    """Whether we may apply over it: we control it, or nobody does and it carries our labels.

    The owner reference of this incarnation is enough: labels that somebody took away are ours to put back.
    """
    uid = instance.metadata.uid
    controller = controller_of(manifest)
    if controller is not None:
        return bool(controller.get("uid") == uid)
    labels = metadata(manifest).get("labels")
    if not isinstance(labels, Mapping):
        return False
    return bool(labels.get(MANAGED_BY) == MANAGED_BY_VALUE and labels.get(INSTANCE_UID) == bounded_name(uid))


def stranger(ref: ObjectRef, manifest: Manifest) -> str:
    """Sentence that names an object which is not ours, and who controls it."""
    controller = controller_of(manifest)
    if controller is None:
        return f"{ref} exists and was not made for this instance"
    return f"{ref} is controlled by {controller.get('kind')} {controller.get('name')} (uid {controller.get('uid')})"
