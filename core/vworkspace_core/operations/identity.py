"""The identity of an Operation's engine object, such as a Job, and of its target (OPS-1, OPS-3, OPS-6, RES-5).

For engine objects: name, labels, and whether the Operation created an object. For targets: reference and readiness.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.apimachinery.names import bounded_name, engine_object_name
from purekube.apimachinery.problems import ValidationProblems
from purekube.apimachinery.resources import JOB, REPLICATION_DESTINATION, REPLICATION_SOURCE, WORKFLOW
from purekube.controller.ownership import is_locked, owner_reference
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import (
    APPLICATION_NAMESPACE,
    FIELD_MANAGER,
    MANAGED_BY,
    MANAGED_BY_VALUE,
    OPERATION_UID,
    operation_labels,
)
from vworkspace_core.api.operation import LONGEST_TIMEOUT, Operation
from vworkspace_core.api.reasons import InstanceConditionType as Type
from vworkspace_core.operations.contract import EngineContext, Objects

_REPEATING: Final = frozenset({JOB, WORKFLOW, REPLICATION_SOURCE, REPLICATION_DESTINATION})
"""The kinds whose objects do their work again wherever they are created."""
_NOT_BACKED_UP: Final = {"velero.io/exclude-from-backup": "true"}
"""The label of objects that Velero leaves out of every backup (OPS-7). A restore brings objects back without their
status (Velero 1.18: pkg/restore/restore.go), so that a Job, Workflow or sync of an earlier Operation would run again.
"""


def name_of(operation: Operation) -> str:
    """Return the name of the object, such as a Job, that carries out this Operation.

    An Operation that is deleted and created again gets another name.
    """
    return engine_object_name(operation.metadata.name, operation.metadata.uid)


def name_taken(ref: ObjectRef) -> str:
    """Return the message that `ref`, not created by the Operation, has the name of the Operation's engine object.

    An engine object is, for example, the Job that carries out the Operation.
    """
    return (
        f"{ref} exists and was not made for this Operation. To fix: delete it if nobody needs it, or create the "
        "Operation again under another name"
    )


def labels_of(operation: Operation, target: ApplicationInstance, cluster_id: str) -> dict[str, str]:
    """Return the labels for an object that is created for the Operation.

    They mark the object as managed by the operator, and name the Operation, its target and the cluster (`cluster_id`).
    """
    return operation_labels(operation.metadata, target.metadata.name, cluster_id, target_uid=target.metadata.uid)


def engine_manifest(
    kind: Kind,
    operation: Operation,
    target: ApplicationInstance,
    context: EngineContext,
    *,
    namespace: str | None = None,
) -> dict[str, Any]:
    """Return a manifest with apiVersion, kind and metadata for an engine object (such as a Job), without a spec.

    Its labels name the Operation, the `target`, and the cluster in the settings of `context`. Its namespace is
    `namespace`, or by default the Operation's. The Operation is its owner where `goes_with` says so. A label excludes
    objects that would run again after a restore from Velero's backups.
    """
    meta = operation.metadata
    ref = ObjectRef(kind, namespace or meta.namespace, name_of(operation))
    manifest = kind.manifest(ref.name, ref.namespace)
    manifest["metadata"]["labels"] = labels_of(operation, target, context.settings.cluster_id)
    if kind in _REPEATING:
        manifest["metadata"]["labels"] |= _NOT_BACKED_UP
    if ref.namespace != meta.namespace:
        manifest["metadata"]["labels"][APPLICATION_NAMESPACE] = bounded_name(meta.namespace)
    if goes_with(ref, operation, context.holds_data):
        manifest["metadata"]["ownerReferences"] = [owner_reference(OPERATION, meta)]
    return manifest


def goes_with(ref: ObjectRef, operation: Operation, holds_data: Collection[Kind]) -> bool:
    """Report whether the Operation is made the owner of its engine object `ref`.

    It is not if the object is in another namespace, where an owner reference is invalid, or of one of the kinds
    `holds_data`, whose objects must outlive the Operation.
    """
    return ref.kind not in holds_data and ref.namespace == operation.metadata.namespace


def is_ours(manifest: Manifest, operation: Operation) -> bool:
    """Report whether this Operation created the object `manifest`.

    The object must have the labels for this Operation. Once the Operation's status records the uid of the created
    object, the object must have that uid too.
    """
    labels = metadata(manifest).get("labels")
    if not isinstance(labels, Mapping):
        return False
    if labels.get(MANAGED_BY) != MANAGED_BY_VALUE or labels.get(OPERATION_UID) != bounded_name(operation.metadata.uid):
        return False
    known = operation.status.engine_ref
    return known is None or not known.uid or known.uid == metadata(manifest).get("uid")


def was_created_by_operation(manifest: Manifest, operation: Operation) -> bool:
    """Report whether the operator created the object `manifest` for this Operation.

    This is asked while the Operation's status does not record the object's uid yet. Labels alone could be forged. The
    object must also have the operator's field manager and finalizer, and must not be older than the Operation.
    """
    meta = metadata(manifest)
    managed = meta.get("managedFields")
    created = any(
        get_path(entry, "manager") == FIELD_MANAGER
        and get_path(entry, "operation") == "Update"
        and not get_path(entry, "subresource")
        for entry in (managed if isinstance(managed, list) else ())
    )
    return (
        created
        and is_locked(manifest)
        and str(meta.get("creationTimestamp") or "") >= operation.metadata.creation_timestamp
    )


def own_object(operation: Operation, objects: Objects) -> tuple[ObjectRef, Manifest] | None:
    """Return the engine object (such as a Job) to which the Operation's status refers, with its reference.

    `objects` are the observed objects. Return None if the object is not among them or belongs to another Operation.
    """
    known = operation.status.engine_ref
    if known is None:
        return None
    for ref, manifest in objects.items():
        same = (ref.kind.api_version, ref.kind.kind, ref.namespace or "", ref.name)
        if same == (known.api_version, known.kind, known.namespace, known.name):
            return (ref, manifest) if is_ours(manifest, operation) else None
    return None


def seconds_beyond_deadline(operation: Operation, objects: Objects) -> int:
    """Return the deadline of the Operation's engine object plus a minute, so that its own controller ends it first.

    The result is in seconds, at most the longest `timeoutSeconds`: a chart may name any number. Return 0 if there is no
    such object, or it has no `activeDeadlineSeconds`.
    """
    found = own_object(operation, objects)
    seconds = get_path(found[1], "spec", "activeDeadlineSeconds") if found is not None else None
    return min(seconds + 60, LONGEST_TIMEOUT) if type(seconds) is int else 0


def parameters_of(operation: Operation) -> Mapping[str, Any]:
    """Return the Operation's parameters, or an empty mapping if it has none."""
    return operation.spec.parameters or {}


def target_ref(operation: Operation) -> ObjectRef:
    """Return the reference of the Operation's target, an ApplicationInstance."""
    return ObjectRef(APPLICATION_INSTANCE, operation.metadata.namespace, operation.spec.target_ref.name)


def target_of(operation: Operation, objects: Objects) -> ApplicationInstance | None:
    """Return the Operation's target among `objects`, the observed objects, or None if it is absent or malformed."""
    # The codec is slow to import, and commands that only need the engines read no object with it.
    from vworkspace_core.api.codec import read_application_instance

    manifest = objects.get(target_ref(operation))
    try:
        return read_application_instance(manifest) if manifest is not None else None
    except ValidationProblems:
        return None


def is_ready(target: ApplicationInstance) -> bool:
    """Report whether a target has Ready=True for its present generation.

    For a suspended target, Ready=True of an older generation counts too, since maintenance Operations need suspended
    targets.
    """
    ready = conditions_of(target).get(Type.READY)
    if ready is None or ready.status is not ConditionStatus.TRUE:
        return False
    return ready.observed_generation == target.metadata.generation or is_suspended(target)


def is_suspended(target: ApplicationInstance) -> bool:
    """Report whether the target's status says, for its present generation, that the release is suspended."""
    condition = conditions_of(target).get(Type.SUSPENDED)
    if condition is None or condition.status is not ConditionStatus.TRUE:
        return False
    return condition.observed_generation == target.metadata.generation


def why_not_ready(target: ApplicationInstance) -> str:
    """Return a message that says why the target is not Ready, from its conditions Blocked and Ready."""
    conditions = conditions_of(target)
    blocked, ready = conditions.get(Type.BLOCKED), conditions.get(Type.READY)
    name = f"the target {target.metadata.name}"
    for condition in (blocked if blocked is not None and blocked.status is ConditionStatus.TRUE else None, ready):
        if condition is not None and (condition is blocked or condition.status is not ConditionStatus.TRUE):
            message = f": {condition.message}" if condition.message else ""
            return f"{name} is not Ready ({condition.type}={condition.status}/{condition.reason}{message})"
    return f"{name} is not Ready yet" if ready is None else f"{name} is not Ready yet in its newest form"


def condition_of(operation: Operation, kind: str) -> Condition | None:
    """Return the Operation's present condition of type `kind`, or None if there is none."""
    return next((condition for condition in operation.status.conditions if condition.type == kind), None)


def conditions_of(target: ApplicationInstance) -> Mapping[str, Condition]:
    """Return the conditions of an Operation's target, by type."""
    return {condition.type: condition for condition in target.status.conditions}
