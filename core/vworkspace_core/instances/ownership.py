"""Whose a live downstream object is (REC-4, REC-10). Looked at before any apply or delete."""

from collections.abc import Mapping
from typing import Any

from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.labels import APPLICATION_INSTANCE, CLUSTER_ID, INSTANCE_UID, MANAGED_BY, MANAGED_BY_VALUE
from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, dig, metadata
from vworkspace_core.apimachinery.names import bounded_name
from vworkspace_core.apimachinery.resources import APPLICATION_INSTANCE as KIND
from vworkspace_core.controller.decision import MergePatch


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
    """Whether we may apply over it: we control it, or nobody does and its labels name this instance.

    The owner reference of this incarnation is enough: labels that somebody took away are ours to put back. What an
    earlier incarnation has left (`--cascade=orphan`, or abandoned) nobody controls: it is taken up again.
    """
    meta = instance.metadata
    controller = controller_of(manifest)
    if controller is not None:
        return bool(controller.get("uid") == meta.uid)
    labels = metadata(manifest).get("labels")
    if not isinstance(labels, Mapping) or labels.get(MANAGED_BY) != MANAGED_BY_VALUE:
        return False
    if labels.get(INSTANCE_UID) == bounded_name(meta.uid):
        return True
    named = labels.get(APPLICATION_INSTANCE) == bounded_name(meta.name)
    return named and labels.get(CLUSTER_ID) == meta.labels.get(CLUSTER_ID)


def adoption(ref: ObjectRef, manifest: Manifest, instance: ApplicationInstance) -> MergePatch:
    """What nobody controls becomes this instance's by an owner reference, to be taken down or pruned with it."""
    owners = metadata(manifest).get("ownerReferences") or ()
    meta = {
        "resourceVersion": metadata(manifest)["resourceVersion"],
        "labels": {INSTANCE_UID: bounded_name(instance.metadata.uid)},
        "ownerReferences": [*owners, owner_reference(instance)],
    }
    return MergePatch(ref, {"metadata": meta})


def owner_reference(instance: ApplicationInstance) -> dict[str, Any]:
    """By which an instance controls what is downstream of it."""
    return {
        "apiVersion": KIND.api_version,
        "kind": KIND.kind,
        "name": instance.metadata.name,
        "uid": instance.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def stranger(ref: ObjectRef, manifest: Manifest, instance: ApplicationInstance) -> str:
    """Names an object which is not ours and who controls it, and says how this instance gets on."""
    kind = ref.kind.crd_name if ref.kind.group else ref.kind.plural
    place = f"{kind} {ref.name} -n {ref.namespace}"
    controller = controller_of(manifest)
    if controller is None:
        told = f"{ref} exists and was not made for this instance. If nobody needs it: kubectl delete {place}"
        return f"{told}. To let this instance take it over: kubectl label {place} {own_labels(instance)}"
    told = f"{ref} is controlled by {controller.get('kind')} {controller.get('name')} (uid {controller.get('uid')})"
    another = "make this instance anew under another spec.release.name"
    if controller.get("kind") == KIND.kind:
        return f"{told}: a release belongs to one instance. Delete one of the two, or {another}"
    return f"{told}: let {controller.get('kind')} {controller.get('name')} give it up, or {another}"


def own_labels(instance: ApplicationInstance) -> str:
    """By which an object that nobody controls becomes this instance's, as kubectl takes them."""
    meta = instance.metadata
    wanted = {
        MANAGED_BY: MANAGED_BY_VALUE,
        CLUSTER_ID: meta.labels.get(CLUSTER_ID, ""),
        APPLICATION_INSTANCE: bounded_name(meta.name),
    }
    return " ".join(f"{name}={value}" for name, value in wanted.items())
