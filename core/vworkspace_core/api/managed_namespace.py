"""The check whether this operator is responsible for an object, by the object's cluster and namespace (RES-5)."""

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.names import bounded_name
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.installation import PRINTED, Installation
from vworkspace_core.api.labels import (
    CLUSTER_ID,
    MANAGED_BY,
    MANAGED_BY_VALUE,
    NAMESPACE_GATE,
    NAMESPACE_GATE_VALUE,
    cluster_id_of,
    namespace_is_managed,
    namespace_is_terminating,
)
from vworkspace_core.api.operation import Operation
from vworkspace_core.api.reasons import InstanceConditionType as Type
from vworkspace_core.api.reasons import InstanceReason as Reason
from vworkspace_core.api.remedies import cluster_command, open_namespace_remedy


def wrong_cluster(kind: Kind, meta: ObjectMeta, cluster_id: str) -> str:
    """Return a message that the object belongs to another cluster, with the command that assigns it to this cluster.

    An object without a cluster label gets a message too. Return an empty string if the object belongs to this cluster.
    `kind` and `meta` are the object's kind and metadata, and `cluster_id` is the id of this cluster.
    """
    meant = cluster_id_of(meta)
    if meant == bounded_name(cluster_id):
        return ""
    command = cluster_command(ObjectRef(kind, meta.namespace, meta.name), cluster_id)
    if meant is None:
        return f'the label {CLUSTER_ID} is missing; this cluster is "{cluster_id}". To fix: {command}'
    return (
        f'the object is meant for cluster "{meant}"; this cluster is "{cluster_id}". To fix, if it belongs here: '
        f"{command}. If not, delete it here"
    )


def is_labelled_for(manifest: Manifest, cluster_id: str) -> bool:
    """Report whether the object's labels assign it to the operator of `cluster_id`.

    An object without a cluster label counts as assigned. Malformed metadata is tolerated.
    """
    labels = get_path(manifest, "metadata", "labels")
    if get_path(labels, MANAGED_BY) != MANAGED_BY_VALUE:
        return False
    return get_path(labels, CLUSTER_ID) in (None, "", bounded_name(cluster_id))


def meant_for_another_cluster(meta: ObjectMeta, cluster_id: str) -> bool:
    """Report whether the object's label names a cluster other than this operator's, whose id is `cluster_id`.

    The answer is False if the object has no such label.
    """
    return cluster_id_of(meta) not in (None, bounded_name(cluster_id))


def claimed_by_another_operator(source: ApplicationInstance | Operation, cluster_id: str) -> bool:
    """Report whether another cluster's operator may own the object `source`, so that this operator must not write its
    status (RES-5).

    It may if the object's label names another cluster and the status has conditions. The answer is False, however, if
    this operator itself wrote one of them: the condition Blocked with the reason WrongCluster.
    """
    if not meant_for_another_cluster(source.metadata, cluster_id):
        return False
    conditions = {condition.type: condition for condition in source.status.conditions}
    mark = conditions.get(Type.BLOCKED)
    own_mark = mark is not None and mark.reason == Reason.WRONG_CLUSTER and f'"{cluster_id}"' in mark.message
    return bool(conditions) and not own_mark


def closed_namespace(name: str, namespace: Manifest | None, installation: Installation = PRINTED) -> str:
    """Return a message why no object may be created in the namespace, or an empty string if objects may be created.

    Creation is not allowed if the namespace is being deleted, or lacks the label of managed namespaces. `namespace` is
    its manifest. The message says how to add the label, which depends on `installation`.
    """
    if namespace_is_terminating(namespace):
        return f"namespace {name} is being terminated: nothing new can be created in it"
    if namespace_is_managed(namespace):
        return ""
    value = get_path(namespace, "metadata", "labels", NAMESPACE_GATE)
    label = f"{NAMESPACE_GATE}={NAMESPACE_GATE_VALUE}" + (
        f', but {NAMESPACE_GATE}="{value}"' if value is not None else ""
    )
    fix = open_namespace_remedy(name, namespace, installation)
    return f"namespace {name} does not carry the label {label}. To fix: {fix}"
