"""The deletion of a CustomResourceDefinition: it waits until its objects are deleted, and admits no new ones.

As in kube-apiserver the deletion adds the finalizer, the generation stays, and a condition reports progress.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from kubelab.model.calls import RequestTarget
from kubelab.model.failure import forbidden
from kubelab.model.records import GroupResource
from kubelab.storage.store import Store
from purekube.apimachinery.timestamps import format_time

DEFINITIONS: Final[GroupResource] = ("apiextensions.k8s.io", "customresourcedefinitions")
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that holds a CRD until its objects are gone."""


def admit(store: Store, target: RequestTarget) -> None:
    """Raise ApiFailure 403 for a create of an object whose CRD is being deleted."""
    resource = target.resource
    record = store.get(DEFINITIONS, ("", f"{resource.plural}.{resource.group}"))
    if record is not None and record.deleting:
        why = "create not allowed while custom resource definition is terminating"
        raise forbidden(resource.group, resource.plural, target.name, why)


def terminating_crd(crd: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return the CRD after its deletion request: with a finalizer, and Terminating as pending."""
    finalizers = [name for name in crd["metadata"].get("finalizers") or () if name != CLEANUP]
    meta = {**crd["metadata"], "deletionTimestamp": format_time(now), "finalizers": [*finalizers, CLEANUP]}
    message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    return _terminating({**crd, "metadata": meta}, now, "InstanceDeletionPending", message)


def in_progress(crd: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return the CRD while its objects are being deleted."""
    return _terminating(crd, now, "InstanceDeletionInProgress", "CustomResource deletion is in progress")


def _terminating(crd: Mapping[str, Any], now: datetime, reason: str, message: str) -> dict[str, Any]:
    status = crd.get("status") or {}
    conditions = status.get("conditions") or ()
    since = next(
        (condition["lastTransitionTime"] for condition in conditions if condition["type"] == "Terminating"),
        format_time(now),
    )
    termination = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    }
    others = [condition for condition in conditions if condition["type"] != "Terminating"]
    return {**crd, "status": {**status, "conditions": [*others, termination]}}
