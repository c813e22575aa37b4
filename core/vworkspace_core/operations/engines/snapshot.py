"""The engine `snapshot`: a Backup creates a CSI VolumeSnapshot, a Restore a volume claim from one (OPS-10).

Both objects hold data, so they have no owner reference and outlive the Operation. A VolumeSnapshot has no phase and no
conditions. Its `error` is never final, because it is cleared once a later attempt succeeds: only the deadline ends a
failed run. A snapshot counts as ready only if the VolumeSnapshotContent that it names refers back to it.
"""

from collections.abc import Mapping
from typing import Any, Final

from purekube.apimachinery.formats import parse_quantity
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.problems import Problem
from purekube.apimachinery.resources import (
    PERSISTENT_VOLUME_CLAIM,
    VOLUME_SNAPSHOT,
    VOLUME_SNAPSHOT_CLASS,
    VOLUME_SNAPSHOT_CONTENT,
    Access,
)
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.operation import Operation, OperationType
from vworkspace_core.api.reasons import OperationReason as Reason
from vworkspace_core.api.remedies import not_installed
from vworkspace_core.operations.contract import (
    OBJECT_UID,
    DemoOperation,
    Engine,
    EngineContext,
    EngineController,
    EngineObject,
    EngineRefusal,
    EngineStatus,
    EngineTemplate,
    Listing,
    Objects,
    Progress,
    Row,
    by_type,
    is_backup,
    phase_row,
    row_of,
)
from vworkspace_core.operations.engines.job_pods import EVENTS_ACCESS, events_of, listings, time_of_event
from vworkspace_core.operations.identity import engine_manifest, own_object, parameters_of
from vworkspace_core.operations.parameter_schemas import ACCESS_MODES, NAME, QUANTITY, record, with_description
from vworkspace_core.operations.settings import OperationSettings

_RUNNING, _SUCCEEDED, _FAILED = Progress.RUNNING, Progress.SUCCEEDED, Progress.FAILED

_CONTENT: Final = "snapcontent-1"
_BOUND: Final = {"readyToUse": True, "boundVolumeSnapshotContentName": _CONTENT, "restoreSize": "10Gi"}


def _content(uid: str) -> EngineObject:
    """Return a sample VolumeSnapshotContent that refers to the VolumeSnapshot with `uid`."""
    manifest = VOLUME_SNAPSHOT_CONTENT.manifest(_CONTENT)
    return EngineObject(VOLUME_SNAPSHOT_CONTENT, {**manifest, "spec": {"volumeSnapshotRef": {"uid": uid}}})


SNAPSHOT: Final = (
    Row(
        "readyToUse, bound both ways",
        _SUCCEEDED,
        "VolumeSnapshotReady",
        "",
        {"status": _BOUND},
        (_content(OBJECT_UID),),
    ),
    Row(
        "readyToUse, bound one way",
        _RUNNING,
        "VolumeSnapshotNotBound",
        "the content that it names does not point back at it",
        {"status": _BOUND},
        (_content("another snapshot"),),
    ),
    Row(
        "error",
        _RUNNING,
        "VolumeSnapshotError",
        "the snapshotter tries again until the deadline",
        {"status": {"readyToUse": False, "error": {"message": "the driver is away"}}},
    ),
    Row(
        "bound, not ready",
        _RUNNING,
        "VolumeSnapshotInProgress",
        "",
        {"status": {"readyToUse": False, "boundVolumeSnapshotContentName": _CONTENT}},
    ),
    Row("", _RUNNING, "VolumeSnapshotPending", "not yet bound to a content"),
)
_READY, _ONE_WAY, _ERROR, _IN_PROGRESS, _PENDING = SNAPSHOT
CLAIM: Final = (
    phase_row("Bound", _SUCCEEDED, "ClaimBound"),
    phase_row("Lost", _FAILED, "ClaimLost", "the volume behind the claim is gone"),
    Row(
        "",
        _RUNNING,
        "ClaimPending",
        "no volume yet; with WaitForFirstConsumer it takes a pod that uses the claim",
        {"status": {"phase": "Pending"}},
    ),
)

_OBSTACLES: Final = frozenset({"ProvisioningFailed", "FailedBinding", "WaitForFirstConsumer"})
"""The reasons of Events that say why a claim has no volume, by its CSI driver and by kube-controller-manager."""
_LOOK_AGAIN_SECONDS: Final = 30.0
"""The seconds until the next pass while a claim has no volume, since no watch reports its Events."""

_CONTROLLER: Final = EngineController(
    "snapshot-controller",
    (VOLUME_SNAPSHOT,),
    "the CSI snapshot controller (https://github.com/kubernetes-csi/external-snapshotter)",
    read_later=(VOLUME_SNAPSHOT_CLASS, VOLUME_SNAPSHOT_CONTENT),
)
_KINDS: Final = by_type(backup=VOLUME_SNAPSHOT, restore=PERSISTENT_VOLUME_CLAIM)


def _looks_up(
    operation: Operation, _target: ApplicationInstance, _settings: OperationSettings
) -> tuple[ObjectRef, ...]:
    return () if is_backup(operation) else (_snapshot(operation),)


def _snapshot(operation: Operation) -> ObjectRef:
    return ObjectRef(VOLUME_SNAPSHOT, operation.metadata.namespace, parameters_of(operation)["snapshotName"])


def _check(operation: Operation, _target: ApplicationInstance, context: EngineContext) -> EngineRefusal | None:
    if is_backup(operation):
        return None
    if (snapshot := context.objects.get(_snapshot(operation))) is not None:
        return _too_small(operation, snapshot)
    if VOLUME_SNAPSHOT in context.missing_kinds:
        return EngineRefusal(
            Reason.DEPENDENCY_MISSING, not_installed([VOLUME_SNAPSHOT.crd_name], _CONTROLLER.install), blocks=True
        )
    problem = Problem("spec.parameters.snapshotName", "there is no VolumeSnapshot of that name in this namespace")
    return EngineRefusal(Reason.VALIDATION_FAILED, str(problem))


def _too_small(operation: Operation, snapshot: Manifest) -> EngineRefusal | None:
    """Refuse a claim that is smaller than its snapshot: CSI drivers never make a volume for it."""
    size, least = parameters_of(operation)["size"], get_path(snapshot, "status", "restoreSize")
    bytes_of, needed = parse_quantity(size), parse_quantity(least) if isinstance(least, str) else None
    if bytes_of is None or needed is None or bytes_of >= needed:
        return None
    name = metadata(snapshot).get("name")
    problem = Problem(
        "spec.parameters.size", f"must be at least {least}, the size of VolumeSnapshot {name}, not {size}"
    )
    return EngineRefusal(Reason.VALIDATION_FAILED, str(problem))


def _desired(operation: Operation, target: ApplicationInstance, context: EngineContext) -> tuple[EngineObject, ...]:
    (kind,) = _KINDS(operation)
    manifest = engine_manifest(kind, operation, target, context)
    parameters = parameters_of(operation)
    manifest["spec"] = _snapshot_spec(parameters) if is_backup(operation) else _claim_spec(parameters)
    return (EngineObject(kind, manifest),)


def _snapshot_spec(given: Mapping[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = {"source": {"persistentVolumeClaimName": given["pvc"]}}
    if "snapshotClassName" in given:
        spec["volumeSnapshotClassName"] = given["snapshotClassName"]
    return spec


def _claim_spec(given: Mapping[str, Any]) -> dict[str, Any]:
    source = {"apiGroup": VOLUME_SNAPSHOT.group, "kind": VOLUME_SNAPSHOT.kind, "name": given["snapshotName"]}
    spec: dict[str, Any] = {
        "accessModes": list(given.get("accessModes", ["ReadWriteOnce"])),
        "resources": {"requests": {"storage": given["size"]}},
        # The API server copies it to dataSourceRef (registry/core/persistentvolumeclaim, NormalizeDataSources).
        "dataSource": source,
    }
    if "storageClassName" in given:
        spec["storageClassName"] = given["storageClassName"]
    return spec


def _extra_reads(operation: Operation, objects: Objects) -> tuple[ObjectRef, ...]:
    """Return the reference of the VolumeSnapshotContent that a ready VolumeSnapshot names.

    The result is empty if the VolumeSnapshot is not ready.
    """
    engine_object = own_object(operation, objects)
    if engine_object is None or get_path(engine_object[1], "status", "readyToUse") is not True:
        return ()
    name = get_path(engine_object[1], "status", "boundVolumeSnapshotContentName")
    return (ObjectRef(VOLUME_SNAPSHOT_CONTENT, None, name),) if isinstance(name, str) and name else ()


def _observe(operation: Operation, objects: Objects) -> EngineStatus:
    engine_object = own_object(operation, objects)
    if engine_object is None:
        return EngineStatus(_RUNNING, "SnapshotObjectMissing")
    ref, live = engine_object
    if ref.kind != VOLUME_SNAPSHOT:
        return _claim_status(ref, live, objects)
    content = next((objects.get(content_ref) for content_ref in _extra_reads(operation, objects)), None)
    return _snapshot_status(ref, live, content)


def _snapshot_status(ref: ObjectRef, live: Manifest, content: Manifest | None) -> EngineStatus:
    status = live.get("status") or {}
    row = _snapshot_row(live, status, content)
    outputs: dict[str, Any] = {"volumeSnapshotName": ref.name}
    if row is _READY:
        more = {
            "volumeSnapshotContentName": status.get("boundVolumeSnapshotContentName"),
            "restoreSize": status.get("restoreSize"),
        }
        outputs |= {name: value for name, value in more.items() if value is not None}
    message = get_path(status, "error", "message") if row is _ERROR else ""
    return EngineStatus(row.progress, row.reason, str(message or row.meaning), outputs)


def _snapshot_row(live: Manifest, status: Mapping[str, Any], content: Manifest | None) -> Row:
    named = bool(status.get("boundVolumeSnapshotContentName"))
    # A VolumeSnapshot may name a content that was provisioned by hand for another one: only a content that points back
    # is its own (external-snapshotter: pkg/utils/util.go, IsVolumeSnapshotRefSet).
    if status.get("readyToUse") is True and named:
        points_at = get_path(content, "spec", "volumeSnapshotRef", "uid")
        return _READY if points_at and points_at == metadata(live).get("uid") else _ONE_WAY
    # The snapshotter tries again and clears the error on success: only the Operation's deadline ends it.
    if status.get("error"):
        return _ERROR
    return _IN_PROGRESS if named else _PENDING


def _claim_status(ref: ObjectRef, live: Manifest, objects: Objects) -> EngineStatus:
    row = row_of(CLAIM, get_path(live, "status", "phase"), unknown="")
    waits = row is CLAIM[-1]
    message = (_obstacle(str(metadata(live).get("uid", "")), objects) if waits else "") or row.meaning
    again = _LOOK_AGAIN_SECONDS if waits else None
    return EngineStatus(row.progress, row.reason, message, {"pvcName": ref.name}, requeue_after=again)


def _obstacle(uid: str, objects: Objects) -> str:
    """Return why the claim with `uid` has no volume, as the last Event about it says. The claim's status has no reason.

    The text is empty if no Event says why.
    """
    events = [event for event in events_of(uid, objects) if event.get("reason") in _OBSTACLES]
    if not events:
        return ""
    last = max(events, key=time_of_event)
    return f"no volume yet: {last.get('reason')}: {last.get('message') or ''}"


def _diagnostics(operation: Operation, objects: Objects) -> tuple[Listing, ...]:
    """Return the request to list the Events of a claim that has no volume yet; empty for anything else."""
    engine_object = own_object(operation, objects)
    if engine_object is None or engine_object[0].kind != PERSISTENT_VOLUME_CLAIM:
        return ()
    ref, live = engine_object
    uid = metadata(live).get("uid")
    waits = row_of(CLAIM, get_path(live, "status", "phase"), unknown="") is CLAIM[-1]
    return listings(ref.namespace or "", str(uid), pods=False) if waits and uid else ()


ENGINE: Final = Engine(
    name="snapshot",
    kinds=_KINDS,
    holds_data=(VOLUME_SNAPSHOT, PERSISTENT_VOLUME_CLAIM),
    desired=_desired,
    observe=_observe,
    tables={"VolumeSnapshot": SNAPSHOT, "PersistentVolumeClaim": CLAIM},
    timeout_seconds=1800,
    check=_check,
    looks_up=_looks_up,
    extra_reads=_extra_reads,
    diagnostics=_diagnostics,
    tenant_access=(EVENTS_ACCESS,),
    templates=(
        EngineTemplate(
            OperationType.BACKUP,
            record(
                ("pvc",),
                pvc=with_description("The PersistentVolumeClaim to snapshot.", NAME),
                snapshotClassName=with_description(
                    "The VolumeSnapshotClass; the cluster's default unless given.", NAME
                ),
            ),
            example={"pvc": "nextcloud-data", "snapshotClassName": "csi"},
            refused=({"pvc": "../etc"},),
        ),
        EngineTemplate(
            OperationType.RESTORE,
            record(
                ("snapshotName", "size"),
                snapshotName=with_description("The VolumeSnapshot to restore, in the same namespace.", NAME),
                size=with_description("Size of the new claim, at least the snapshot's.", QUANTITY),
                storageClassName=with_description("Its storage class; the cluster's default unless given.", NAME),
                accessModes=with_description("Its access modes; `ReadWriteOnce` unless given.", ACCESS_MODES),
            ),
            example={"snapshotName": "before-upgrade", "size": "10Gi"},
            refused=({"snapshotName": "gone"}, {"size": "-1Gi"}),
        ),
    ),
    controller=_CONTROLLER,
    awaited=(VOLUME_SNAPSHOT,),
    # Cluster-scoped, and bound to a VolumeSnapshot: the proof that a snapshot really exists.
    access=(Access(VOLUME_SNAPSHOT_CONTENT, ("get",)),),
    demo=DemoOperation("before", OperationType.BACKUP, {"pvc": "nextcloud-data", "snapshotClassName": "csi-snapshots"}),
)
