"""Ownership of live downstream objects, such as the HelmRelease, by an ApplicationInstance (REC-4, REC-10)."""

from typing import Any

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.resources import HELM_RELEASE
from purekube.controller import ownership
from purekube.controller.decision import MergePatch
from purekube.controller.managed_fields import kubectl_name
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.kinds import APPLICATION_INSTANCE as KIND
from vworkspace_core.api.labels import (
    APPLICATION_INSTANCE,
    CLUSTER_ID,
    INSTANCE_UID,
    KEPT_FROM,
    MANAGED_BY,
    MANAGED_BY_VALUE,
    marks_of,
)


def is_ours(manifest: Manifest, instance: ApplicationInstance) -> bool:
    """Report whether this instance may apply over the object.

    It may if it is the object's controller, or if the object has no controller and has labels that name this instance.
    """
    return ownership.belongs_to(manifest, instance.metadata.uid, lambda: marks_of(instance.metadata))


def adoption(ref: ObjectRef, manifest: Manifest, instance: ApplicationInstance) -> MergePatch:
    """Return the patch by which this instance becomes the controller of an object that has no controller."""
    labels = {INSTANCE_UID: bounded_name(instance.metadata.uid)}
    return ownership.adoption(ref, manifest, owner_reference(instance), labels)


def orphaning_patch(ref: ObjectRef, live: Manifest, instance: ObjectMeta) -> MergePatch | None:
    """Return the patch after which an object outlives its instance, or None if no change is needed.

    The patch removes the owner reference, and marks the object by an annotation. An object that the instance was about
    to adopt is marked too, so that the pending apply fails as stale. A HelmRelease that is being deleted is also
    suspended, so that Flux does not uninstall the release.
    """
    meta, owners = metadata(live), ownership.owners_without(live, instance.uid)
    is_owned = len(owners) < len(meta.get("ownerReferences") or ())
    is_marked = get_path(live, "metadata", "annotations", KEPT_FROM) == instance.uid
    if not is_owned and (is_marked or not ownership.belongs_to(live, instance.uid, lambda: marks_of(instance))):
        return None
    change = {
        "resourceVersion": meta["resourceVersion"],
        "annotations": {KEPT_FROM: instance.uid},
        "ownerReferences": owners,
    }
    is_going = is_owned and ref.kind == HELM_RELEASE and meta.get("deletionTimestamp")
    return MergePatch(ref, {"metadata": change, **({"spec": {"suspend": True}} if is_going else {})})


def owner_reference(instance: ApplicationInstance) -> dict[str, Any]:
    """Return the controller reference to the instance, for the objects created for it, such as its HelmRelease."""
    return ownership.owner_reference(KIND, instance.metadata)


def name_taken(ref: ObjectRef, manifest: Manifest, instance: ApplicationInstance) -> str:
    """Return a message that another owner's object has a desired name, with possible remedies."""
    place = kubectl_name(ref)
    controller = ownership.controller_of(manifest)
    if controller is None:
        foreign = f"{ref} exists and was not made for this instance. If nobody needs it, delete it"
        return f"{foreign}. To let this instance take it over: kubectl label {place} {own_labels(instance, manifest)}"
    foreign = f"{ref} is controlled by {controller.get('kind')} {controller.get('name')} (uid {controller.get('uid')})"
    another = "create this instance again with another spec.release.name"
    if controller.get("kind") == KIND.kind:
        return f"{foreign}: a release belongs to one instance. Delete one of the two, or {another}"
    return f"{foreign}: let {controller.get('kind')} {controller.get('name')} give it up, or {another}"


def own_labels(instance: ApplicationInstance, *live: Manifest) -> str:
    """Return the labels by which this instance adopts an object without a controller, as `kubectl label` arguments.

    `live` are the objects. kubectl refuses to change a label that has another value without `--overwrite`.
    """
    meta = instance.metadata
    desired = {
        MANAGED_BY: MANAGED_BY_VALUE,
        CLUSTER_ID: meta.labels.get(CLUSTER_ID, ""),
        APPLICATION_INSTANCE: bounded_name(meta.name),
    }
    present = [(metadata(each).get("labels") or {}).items() for each in live]
    is_other = any(desired.get(name, value) != value for labels in present for name, value in labels)
    return " ".join([*(f"{name}={value}" for name, value in desired.items()), *(["--overwrite"] if is_other else [])])
