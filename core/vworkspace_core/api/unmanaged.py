"""The Event on an object of our own kinds that the operator ignores, with the reason, for its author (RES-5)."""

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.ports import KubernetesEvent
from vworkspace_core.api.labels import MANAGED_BY, MANAGED_BY_VALUE


def unmanaged(ref: ObjectRef, manifest: Manifest) -> KubernetesEvent | None:
    """Return the Event that the operator ignores the object; None if it is responsible, or the object is being
    deleted.
    """
    if get_path(manifest, "metadata", "labels", MANAGED_BY) == MANAGED_BY_VALUE or metadata(manifest).get(
        "deletionTimestamp"
    ):
        return None
    where = f" -n {ref.namespace}" if ref.namespace else ""
    note = (
        f"the operator leaves this object alone: it does not carry the label {MANAGED_BY}={MANAGED_BY_VALUE}. "
        f"To hand it over: kubectl label {ref.kind.crd_name} {ref.name}{where} {MANAGED_BY}={MANAGED_BY_VALUE}"
    )
    return KubernetesEvent(ref, str(metadata(manifest).get("uid", "")), "Warning", "NotManaged", "Reconcile", note)
