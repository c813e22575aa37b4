"""Every label, annotation and finalizer that the operator reads or writes, and the rule for long names (RES-5)."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from purekube.apimachinery.manifest import Manifest, get_path
from purekube.apimachinery.meta import ObjectMeta, names_in
from purekube.apimachinery.names import _HASH_DIGITS, LONGEST_LABEL, _digest, bounded_name
from vworkspace_core.api.application_instance import ApplicationInstance

FIELD_MANAGER: Final = "vworkspace-operator"
"""The field manager of every write by the operator (REC-6)."""
CLI_MANAGER: Final = "vworkspace-operator-cli"
"""The field manager of writes by the command line. The operator and the control plane have other field managers."""

MANAGED_BY: Final = "app.vworkspace.io/managed-by"
MANAGED_BY_VALUE: Final = "control-plane"
CLUSTER_ID: Final = "app.vworkspace.io/cluster-id"
APPLICATION_INSTANCE: Final = "app.vworkspace.io/application-instance"
INSTANCE_UID: Final = "app.vworkspace.io/instance-uid"
APPLICATION_NAMESPACE: Final = "app.vworkspace.io/application-namespace"
"""A label with the application's namespace, on Velero's objects (OPS-7).

They are in Velero's namespace, and may outlive the application's namespace.
"""
OPERATION: Final = "app.vworkspace.io/operation"
OPERATION_UID: Final = "app.vworkspace.io/operation-uid"

NAMESPACE_GATE: Final = "managed-by"
NAMESPACE_GATE_VALUE: Final = "vworkspace"
ALLOWED_TYPES: Final = "ops.vworkspace.io/allowed-types"
VELERO_PEERS: Final = "ops.vworkspace.io/velero-peers"
"""An annotation of a namespace that lists other namespaces (OPS-7).

Applications in the listed namespaces may include the annotated namespace in their backups and restores.
"""

CAPABILITY_PREFIX: Final = "ops.vworkspace.io/"
CAPABILITIES: Final = ("backup", "restore", "upgrade", "migration", "runcommand", "runbook", "quiesce")
CANCEL: Final = "ops.vworkspace.io/cancel"
POSTPONED: Final = "ops.vworkspace.io/postponed"
"""An annotation of an engine object whose schedule the operator replaced for the time of a conflicting Operation.

Its value is the schedule that counts afterwards.
"""

LAST_APPLIED_GENERATION: Final = "vworkspace.io/last-applied-generation"
IDEMPOTENCY_KEY: Final = "vworkspace.io/idempotency-key"
TRACEPARENT: Final = "vworkspace.io/traceparent"
"""An annotation with the span of the job or pipeline that applied the object, in W3C Trace Context format (SEE-7)."""
JOB_ANNOTATIONS: Final = (IDEMPOTENCY_KEY, LAST_APPLIED_GENERATION)
"""The annotations that only the agent writes, when it applies the object of a job of the control plane."""
JOB_STORE: Final = "vworkspace.io/job-store"
"""A label of the Secrets in which the operator stores the control plane's jobs (PULL-4).

Its value is the Secret's role: `record`, `part` (of a record), or `tombstones` (records of closed jobs).
"""
JOB_ID: Final = "vworkspace.io/job-id"
KEPT_FROM: Final = "vworkspace.io/kept-from"
"""An annotation of an object that was orphaned. Its value is the uid of the instance that owned the object."""
RETRY: Final = "vworkspace.io/retry"
UNINSTALL: Final = "vworkspace.io/uninstall"
RETRY_SENT: Final = "vworkspace.io/retry-sent"
"""An annotation of a HelmRelease. Its value is the time at which the operator last requested a retry from Flux."""

FINALIZER: Final = "vworkspace.io/operator"
"""The finalizer that keeps an ApplicationInstance or Operation until the objects created for it have been deleted."""

_MARK_DIGITS: Final = 16
_RETRY_TOKEN: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.:+]*")
RETRY_RULE: Final = f"at most {LONGEST_LABEL} letters, digits, -, _, ., : and +, the first a letter or digit"
"""The allowed form of a retry token, as text for messages."""


def cluster_name(cluster_id: str) -> str:
    """Return the name of the Cluster object that the operator creates to describe its own cluster.

    The name is `cluster_id` in lower case, with dashes in place of dots and underscores, and shortened if too long.
    """
    return bounded_name(cluster_id.lower().replace("_", "-").replace(".", "-"))


def downstream_labels(instance: ApplicationInstance, cluster_id: str) -> dict[str, str]:
    """Return the labels of all objects created for `instance`: the instance's name and uid, and its cluster's id."""
    return _target_labels(instance.metadata.name, instance.metadata.uid, cluster_id)


def operation_labels(
    operation: ObjectMeta, target_name: str, cluster_id: str, *, target_uid: str = ""
) -> dict[str, str]:
    """Return the labels of all objects created for an Operation.

    They name the application on which it acts (`target_name`, and `target_uid` unless empty), its cluster, and the
    Operation itself.
    """
    return {
        **_target_labels(target_name, target_uid, cluster_id),
        OPERATION: bounded_name(operation.name),
        OPERATION_UID: bounded_name(operation.uid),
    }


def _target_labels(name: str, uid: str, cluster_id: str) -> dict[str, str]:
    labels = {
        MANAGED_BY: MANAGED_BY_VALUE,
        CLUSTER_ID: bounded_name(cluster_id),
        APPLICATION_INSTANCE: bounded_name(name),
    }
    return {**labels, INSTANCE_UID: bounded_name(uid)} if uid else labels


def marks_of(instance: ObjectMeta) -> tuple[Mapping[str, str | None], ...]:
    """Return two sets of labels, one with the instance's uid, the other with its name and cluster.

    Both also have the label managed-by. An object without a controller reference belongs to the instance if its labels
    match either set. The value None means that the label must be absent.
    """
    named = {APPLICATION_INSTANCE: bounded_name(instance.name), CLUSTER_ID: instance.labels.get(CLUSTER_ID)}
    return (
        {MANAGED_BY: MANAGED_BY_VALUE, INSTANCE_UID: bounded_name(instance.uid)},
        {MANAGED_BY: MANAGED_BY_VALUE, **named},
    )


def is_managed(meta: ObjectMeta) -> bool:
    """Report whether the object has the label that marks it as managed by the control plane.

    The operator ignores objects without this label.
    """
    return meta.labels.get(MANAGED_BY) == MANAGED_BY_VALUE


def cluster_id_of(meta: ObjectMeta) -> str | None:
    """Return the cluster id in the object's label, or None if the label is absent or empty."""
    return meta.labels.get(CLUSTER_ID) or None


def capabilities(meta: ObjectMeta) -> Mapping[str, str]:
    """Return a mapping from each capability of an application, such as `backup`, to the engine (such as Velero) that
    provides it.

    It is read from the annotations in `meta`. Unknown capabilities and empty values are left out.
    """
    named = ((capability, meta.annotations.get(CAPABILITY_PREFIX + capability, "")) for capability in CAPABILITIES)
    return MappingProxyType({capability: engine.strip() for capability, engine in named if engine.strip()})


def namespace_is_managed(namespace: Manifest | None) -> bool:
    """Report whether `namespace`, the manifest of a Namespace, has the label that permits the operator to act in it.

    The answer is False if the manifest is None.
    """
    return bool(get_path(namespace, "metadata", "labels", NAMESPACE_GATE) == NAMESPACE_GATE_VALUE)


def namespace_is_terminating(namespace: Manifest | None) -> bool:
    """Report whether `namespace`, the manifest of a Namespace, is being deleted. The answer is False for None.

    Nothing can be created in such a namespace, and its Roles may vanish at any time.
    """
    return bool(get_path(namespace, "metadata", "deletionTimestamp"))


def allowed_types(namespace: Manifest | None) -> frozenset[str] | None:
    """Return the Operation types that `namespace` admits, or None if it admits all.

    They are listed in an annotation of `namespace`. Without the annotation all types are admitted; an empty annotation
    admits none.
    """
    text = get_path(namespace, "metadata", "annotations", ALLOWED_TYPES)
    if not isinstance(text, str):
        return None
    return frozenset(part.strip() for part in text.split(",") if part.strip())


def type_is_allowed(namespace: Manifest | None, operation_type: str) -> bool:
    """Report whether an Operation of `operation_type` may run in `namespace`.

    Upper and lower case are not distinguished.
    """
    allowed = allowed_types(namespace)
    return allowed is None or operation_type.lower() in {name.lower() for name in allowed}


def velero_peers(namespace: Manifest | None) -> frozenset[str]:
    """Return the namespaces whose applications may include `namespace` in their backups and restores.

    They are listed in an annotation of `namespace`. Without the annotation the result is empty, even if `namespace` is
    managed.
    """
    return names_in(namespace, VELERO_PEERS)


def cancellation_requested(meta: ObjectMeta) -> bool:
    """Report whether an annotation requests the cancellation of the Operation (OPS-11)."""
    return meta.annotations.get(CANCEL) == "true"


def uninstall_is_confirmed(meta: ObjectMeta) -> bool:
    """Report whether an annotation confirms that the application may be uninstalled. This is required while the CRD of
    ApplicationInstance is being deleted.
    """
    return meta.annotations.get(UNINSTALL) == "true"


def retry_token(meta: ObjectMeta) -> str | None:
    """Return the token that requests Flux to retry a stalled release (REC-14), or None if there is no token.

    A token that admission would refuse is replaced by its hash, so that it cannot make the HelmRelease invalid.
    """
    token = meta.annotations.get(RETRY) or None
    return token if token is None or is_retry_token(token) else _digest(token, _HASH_DIGITS)


def is_retry_token(token: str) -> bool:
    """Report whether a retry token is short and simple enough to be written into the HelmRelease."""
    return len(token) <= LONGEST_LABEL and _RETRY_TOKEN.fullmatch(token) is not None


def request_mark(annotations: Mapping[str, Any]) -> str | None:
    """Return a hash that identifies the last request on the object, or None if there is no request.

    The hash is made from the key of the control plane's job that wrote the object, and the retry token.
    `status.observedRequest` repeats it, so that a status from before the request is not mistaken for the request's
    result (PULL-3). The generation cannot serve for this, since a request need not change the spec.
    """
    asked = [str(annotations.get(name) or "") for name in (IDEMPOTENCY_KEY, RETRY)]
    return _digest("\n".join(asked), _MARK_DIGITS) if any(asked) else None
