"""The engine `velero`: backups and restores by Velero's kinds Backup and Restore, in Velero's namespace (OPS-7).

Backups and restores cover the application's own namespace. Any other namespace that a backup includes, or to which a
restore's parameter `namespaceMapping` refers, must be managed (have the operator's label) and must consent: its
annotation `ops.vworkspace.io/velero-peers` names the application's namespace. A restore accepts backups of an
application with the same name and namespace, even if that application had another uid or was in another cluster.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from purekube.apimachinery.durations import go_duration, seconds_with_days
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.problems import Problem, index, join, listed
from purekube.apimachinery.resources import NAMESPACE, VELERO_BACKUP, VELERO_RESTORE, VOLUME_SNAPSHOT_CLASS
from vworkspace_core.api.application_instance import ApplicationInstance, Mode
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import APPLICATION_INSTANCE as APPLICATION_INSTANCE_LABEL
from vworkspace_core.api.labels import (
    APPLICATION_NAMESPACE,
    INSTANCE_UID,
    MANAGED_BY,
    MANAGED_BY_VALUE,
    VELERO_PEERS,
    namespace_is_managed,
    velero_peers,
)
from vworkspace_core.api.operation import LogsRef, Operation, OperationType, Phase
from vworkspace_core.api.reasons import OperationReason as Reason
from vworkspace_core.operations.contract import (
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
from vworkspace_core.operations.identity import engine_manifest, own_object, parameters_of
from vworkspace_core.operations.parameter_schemas import (
    DURATION,
    LABEL,
    NAME,
    RESOURCE,
    list_schema,
    mapped,
    record,
    with_description,
)
from vworkspace_core.operations.settings import OperationSettings

_RUNNING, _SUCCEEDED, _FAILED = Progress.RUNNING, Progress.SUCCEEDED, Progress.FAILED
_STORAGE_AWAY: Final = {"failureReason": "the object storage is away"}
_REFUSED: Final = {"validationErrors": ["the storage location default is unavailable"]}


def _counts(done: str, number: int, **more: int) -> Mapping[str, Any]:
    return {"progress": {done: number, "totalItems": 7}, **more}


def _rows(kind: str, done: str, partly: Row, *more: Row) -> tuple[Row, ...]:
    """Return the rows of the engine's table for Velero's phases, most of which Backups and Restores share.

    `kind` is part of the reasons, `done` is the status field with the number of finished items, `partly` is the row for
    PartiallyFailed, and `more` are rows that only this kind has.
    """
    pending, busy, last = (f"Velero{kind}{word}" for word in ("Pending", "InProgress", "Finalizing"))
    return (
        phase_row("", _RUNNING, pending, "not yet seen by Velero"),
        phase_row("New", _RUNNING, pending, "seen, not yet begun"),
        *more,
        phase_row("InProgress", _RUNNING, busy),
        phase_row("WaitingForPluginOperations", _RUNNING, busy, "asynchronous uploads go on"),
        phase_row("WaitingForPluginOperationsPartiallyFailed", _RUNNING, busy, "will be partial"),
        phase_row("Finalizing", _RUNNING, last),
        phase_row("FinalizingPartiallyFailed", _RUNNING, last, "will be partial"),
        phase_row("Completed", _SUCCEEDED, f"Velero{kind}Completed", "", _counts(done, 7)),
        partly,
        phase_row("Failed", _FAILED, f"Velero{kind}Failed", "", _STORAGE_AWAY),
        phase_row("FailedValidation", _FAILED, f"Velero{kind}FailedValidation", "Velero refused the request", _REFUSED),
    )


BACKUP: Final = _rows(
    "Backup",
    "itemsBackedUp",
    phase_row(
        "PartiallyFailed",
        _SUCCEEDED,
        "VeleroBackupPartiallyFailed",
        "usable in part: Degraded=True/PartialFailure",
        _counts("itemsBackedUp", 5, errors=2, warnings=1),
    ),
    phase_row("Queued", _RUNNING, "VeleroBackupQueued"),
    phase_row("ReadyToStart", _RUNNING, "VeleroBackupQueued"),
    phase_row("Deleting", _RUNNING, "VeleroBackupDeleting", "somebody is deleting it"),
)
NOTHING_RESTORED: Final = Row(
    "Completed, without an item",
    _SUCCEEDED,
    "VeleroRestoreCompleted",
    "nothing in the backup was restored: Degraded=True/PartialFailure",
    {"status": {"phase": "Completed", "progress": {}}},
)
"""The row of the engine's table for a restore that restored nothing, which Velero itself reports as a success."""

RESTORE: Final = _rows(
    "Restore",
    "itemsRestored",
    phase_row(
        "PartiallyFailed",
        _FAILED,
        str(Reason.PARTIAL_FAILURE),
        "a restore in part is a failure",
        _counts("itemsRestored", 5, errors=2, warnings=1),
    ),
    NOTHING_RESTORED,
)

_OURS: Final = (APPLICATION_INSTANCE.crd_name, OPERATION.crd_name)
_PATH: Final = "spec.parameters"
LONGEST_RETENTION_DAYS: Final = 3650

_KINDS: Final = by_type(backup=VELERO_BACKUP, restore=VELERO_RESTORE)


def _looks_up(operation: Operation, target: ApplicationInstance, settings: OperationSettings) -> tuple[ObjectRef, ...]:
    parameters = parameters_of(operation)
    own = target.metadata.namespace
    names = {name for _, name in _named_namespaces(parameters)} - {own}
    names |= {own} if _updates(operation, own) else set()
    namespaces = tuple(ObjectRef(NAMESPACE, None, name) for name in sorted(names))
    if is_backup(operation):
        return (*namespaces, *_snapshot_class(parameters))
    return (*namespaces, ObjectRef(VELERO_BACKUP, settings.velero_namespace, parameters["backupName"]))


def _updates(operation: Operation, namespace: str) -> bool:
    """Report whether the Operation is a restore that changes objects which exist in `namespace`, that of its target."""
    given = parameters_of(operation)
    if is_backup(operation) or given.get("existingResourcePolicy") != "update":
        return False
    into = given.get("namespaceMapping", {namespace: namespace})
    # What is listed before the check may be asked of parameters that their schema has not judged.
    return isinstance(into, Mapping) and namespace in into.values()


def _neighbours(operation: Operation, _objects: Objects) -> tuple[Listing, ...]:
    """Return the request to list the applications in the target's namespace, if the restore would change theirs."""
    namespace = operation.metadata.namespace
    is_open = operation.status.phase in (None, Phase.PENDING)
    return (Listing(APPLICATION_INSTANCE, namespace),) if is_open and _updates(operation, namespace) else ()


def _named_namespaces(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each namespace that the parameters `given` name, with the path of its field: first the path, then the name.

    These are the namespaces to back up or restore, and those into which to restore.
    """
    for number, name in enumerate(given.get("includeNamespaces", ())):
        yield index(f"{_PATH}.includeNamespaces", number), name
    mapping = given.get("namespaceMapping", {})
    for source in sorted(mapping):
        path = join(f"{_PATH}.namespaceMapping", source)
        yield path, source
        yield path, mapping[source]


def _snapshot_class(given: Mapping[str, Any]) -> tuple[ObjectRef, ...]:
    name = given.get("snapshotClassName")
    return () if name is None else (ObjectRef(VOLUME_SNAPSHOT_CLASS, None, name),)


def _check(operation: Operation, target: ApplicationInstance, context: EngineContext) -> EngineRefusal | None:
    problems = _backup_problems if is_backup(operation) else _restore_problems
    parameters = parameters_of(operation)
    all_problems = [*_namespace_problems(parameters, target, context.objects), *problems(operation, target, context)]
    if all_problems:
        return EngineRefusal(Reason.VALIDATION_FAILED, "; ".join(map(str, dict.fromkeys(all_problems))))
    return None if is_backup(operation) else _under_way(operation, context)


def _namespace_problems(given: Mapping[str, Any], target: ApplicationInstance, objects: Objects) -> Iterator[Problem]:
    """Yield a problem for each namespace in the parameters, except the target's, that is not managed or does not
    consent.

    A namespace consents by an annotation that names the target's namespace.
    """
    ours = target.metadata.namespace
    for path, name in _named_namespaces(given):
        namespace = objects.get(ObjectRef(NAMESPACE, None, name))
        if name == ours:
            continue
        if not namespace_is_managed(namespace):
            yield Problem(path, f"namespace {name} is not one the operator may act in")
        elif ours not in velero_peers(namespace):
            yield Problem(
                path,
                f"namespace {name} does not agree: whoever is in charge of it has to say"
                f" `kubectl annotate namespace {name} {VELERO_PEERS}={ours}` first",
            )


def _backup_problems(operation: Operation, _target: ApplicationInstance, context: EngineContext) -> Iterator[Problem]:
    parameters = parameters_of(operation)
    try:
        too_long = seconds_with_days(parameters.get("retention", "1s")) > LONGEST_RETENTION_DAYS * 86_400
    except ValueError as error:
        yield Problem(f"{_PATH}.retention", str(error))
    else:
        if too_long:
            message = f"must be at most {LONGEST_RETENTION_DAYS}d, which are ten years, not {parameters['retention']}"
            yield Problem(f"{_PATH}.retention", message)
    for i, resource in enumerate(parameters.get("includedResources", ())):
        if resource in _OURS or resource in ("operations", "applicationinstances"):
            yield Problem(index(f"{_PATH}.includedResources", i), "the operator's own kinds are never in a backup")
    for ref in _snapshot_class(parameters):
        if not get_path(context.objects.get(ref), "driver"):
            yield Problem(f"{_PATH}.snapshotClassName", f"there is no VolumeSnapshotClass {ref.name}")


def _restore_problems(operation: Operation, target: ApplicationInstance, context: EngineContext) -> Iterator[Problem]:
    """Yield the problems of the backup that the Operation restores.

    The backup may not exist, may belong to another application, or may lack a namespace that is to be restored.
    """
    if VELERO_BACKUP in context.missing_kinds:
        return  # a later precondition reports it
    name, backup = _backup_to_restore(operation, context)
    if backup is None:
        yield Problem(f"{_PATH}.backupName", f"there is no Backup {context.settings.velero_namespace}/{name}")
    elif not context.template.allow_foreign_backups and not _is_of(backup, target):
        meta = target.metadata
        message = f"the Backup {name} is not one of application {meta.name} in namespace {meta.namespace}"
        yield Problem(f"{_PATH}.backupName", message)
    elif (row := _row_of(backup)).progress is _FAILED or row.phase == "Deleting":
        yield Problem(f"{_PATH}.backupName", f"the Backup {name} cannot be restored: its phase is {row.phase}")
    else:
        yield from _source_problems(parameters_of(operation), backup, target)
        yield from _neighbour_problems(operation, target, context.objects)


def _neighbour_problems(operation: Operation, target: ApplicationInstance, objects: Objects) -> Iterator[Problem]:
    """Yield a problem if the restore would change objects of other applications in the target's namespace.

    A backup holds a whole namespace, and nothing marks every object of an application: a label would leave out the
    claims of its StatefulSets, so that data would be lost. The namespace consents by naming itself as a peer.
    """
    meta = target.metadata
    if not _updates(operation, meta.namespace):
        return
    if meta.namespace in velero_peers(objects.get(ObjectRef(NAMESPACE, None, meta.namespace))):
        return
    names = sorted(
        ref.name
        for ref, live in objects.items()
        if (ref.kind, ref.namespace) == (APPLICATION_INSTANCE, meta.namespace)
        and ref.name != meta.name
        and get_path(live, "spec", "mode") != Mode.PLACEHOLDER
    )
    if names:
        yield Problem(
            f"{_PATH}.existingResourcePolicy",
            f"update would take other applications of namespace {meta.namespace} back too: {listed(names, 8)}; leave it"
            " out, or let whoever is in charge of the namespace say"
            f" `kubectl annotate namespace {meta.namespace} {VELERO_PEERS}={meta.namespace}` first",
        )


def _backup_to_restore(operation: Operation, context: EngineContext) -> tuple[str, Manifest | None]:
    name = parameters_of(operation)["backupName"]
    return name, context.objects.get(ObjectRef(VELERO_BACKUP, context.settings.velero_namespace, name))


def _row_of(backup: Manifest) -> Row:
    """Return the row of the engine's table for the Backup's phase; that of Completed for none and an unknown one."""
    return row_of(BACKUP, get_path(backup, "status", "phase") or "Completed", unknown="Completed")


def _under_way(operation: Operation, context: EngineContext) -> EngineRefusal | None:
    """Return a refusal while the Backup to restore is not complete.

    Velero restores any Backup. What it lacks would fail in the middle, after the approval was used up.
    """
    name, backup = _backup_to_restore(operation, context)
    if backup is None or (row := _row_of(backup)).progress is not _RUNNING:
        return None
    message = f"the Backup {name} is not complete yet: its phase is {row.phase}"
    return EngineRefusal(Reason.CONFLICTING_OPERATION, message, blocks=True)


def _is_of(backup: Manifest, target: ApplicationInstance) -> bool:
    """Report whether the backup was made of an application with the target's name and namespace, whatever its uid.

    An older backup without the namespace's label counts if it has the target's uid, or contains only that namespace.
    """
    labels, meta = metadata(backup).get("labels"), target.metadata
    if not isinstance(labels, Mapping) or labels.get(MANAGED_BY) != MANAGED_BY_VALUE:
        return False
    if labels.get(APPLICATION_INSTANCE_LABEL) != bounded_name(meta.name):
        return False
    namespace = labels.get(APPLICATION_NAMESPACE)
    if namespace is not None:
        return bool(namespace == bounded_name(meta.namespace))
    same = labels.get(INSTANCE_UID) == bounded_name(meta.uid)
    return same or get_path(backup, "spec", "includedNamespaces") == [meta.namespace]


def _source_problems(given: Mapping[str, Any], backup: Manifest, target: ApplicationInstance) -> Iterator[Problem]:
    """Yield a problem for each namespace in the parameters `given` that is to be restored but is not in the backup.

    Velero would restore nothing, and report success.
    """
    mapping = given.get("namespaceMapping", {})
    included = _texts(get_path(backup, "spec", "includedNamespaces")) or ["*"]
    excluded = _texts(get_path(backup, "spec", "excludedNamespaces"))
    # Keys of namespaceMapping select nothing in Velero; they only rename. What is included decides (see _restore_spec).
    for source in sorted(mapping) or [target.metadata.namespace]:
        if ("*" in included or source in included) and source not in excluded:
            continue
        path = join(f"{_PATH}.namespaceMapping", source) if mapping else f"{_PATH}.backupName"
        yield Problem(path, f"namespace {source} is not in the Backup, which holds {', '.join(included[:8])}")


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _desired(operation: Operation, target: ApplicationInstance, context: EngineContext) -> tuple[EngineObject, ...]:
    (kind,) = _KINDS(operation)
    manifest = engine_manifest(kind, operation, target, context, namespace=context.settings.velero_namespace)
    parameters = parameters_of(operation)
    if is_backup(operation):
        manifest["spec"] = _backup_spec(parameters, target)
        for ref in _snapshot_class(parameters):
            driver = str(get_path(context.objects.get(ref), "driver")).lower()
            # Velero has no field for the class: it looks for this annotation, with the driver in lower case (velero:
            # pkg/util/csi/volume_snapshot.go, GetVolumeSnapshotClassFromBackupAnnotationsForDriver).
            manifest["metadata"]["annotations"] = {f"velero.io/csi-volumesnapshot-class_{driver}": ref.name}
    else:
        manifest["spec"] = _restore_spec(parameters, target)
    return (EngineObject(kind, manifest),)


def _backup_spec(given: Mapping[str, Any], target: ApplicationInstance) -> dict[str, Any]:
    """Return the spec of a Backup. It excludes objects of the operator's own kinds, since a restored Operation would
    run again.
    """
    excluded = [*given.get("excludedResources", ()), *_OURS]
    spec: dict[str, Any] = {
        "includedNamespaces": list(given.get("includeNamespaces") or [target.metadata.namespace]),
        "excludedResources": list(dict.fromkeys(excluded)),
    }
    if "retention" in given:
        # A metav1.Duration, which has no days: Velero could not decode `30d`, and would never see the Backup.
        spec["ttl"] = go_duration(seconds_with_days(given["retention"]))
    spec |= {name: given[name] for name in ("storageLocation", "snapshotVolumes") if name in given}
    if "includedResources" in given:
        spec["includedResources"] = list(given["includedResources"])
    return spec


def _restore_spec(given: Mapping[str, Any], target: ApplicationInstance) -> dict[str, Any]:
    mapping = given.get("namespaceMapping", {})
    spec: dict[str, Any] = {
        "backupName": given["backupName"],
        "includedNamespaces": sorted(mapping) or [target.metadata.namespace],
        "excludedResources": list(_OURS),
    }
    if mapping:
        spec["namespaceMapping"] = dict(mapping)
    return spec | {name: given[name] for name in ("restorePVs", "existingResourcePolicy") if name in given}


def _observe(operation: Operation, objects: Objects) -> EngineStatus:
    engine_object = own_object(operation, objects)
    if engine_object is None:
        return EngineStatus(_RUNNING, "VeleroObjectMissing")
    ref, live = engine_object
    # The generation says nothing: without a status subresource, a write of the status changes it too.
    table = BACKUP if is_backup(operation) else RESTORE
    status = live.get("status") or {}
    # Velero adds phases in minor versions (v1.18: Queued and ReadyToStart): an unknown one is progress.
    row = row_of(table, status.get("phase") or "", unknown="InProgress")
    if row.phase == "Completed" and not is_backup(operation) and not get_path(status, "progress", "itemsRestored"):
        row = NOTHING_RESTORED
    ended = row.progress is not _RUNNING
    partial = row.phase == "PartiallyFailed" or row is NOTHING_RESTORED
    message = _message(row, ref, live)
    return EngineStatus(
        row.progress,
        row.reason,
        message,
        _outputs(ref, status, ended),
        LogsRef(ref.kind.kind, ref.name, ref.namespace or ""),
        degraded=message if partial and row.progress is _SUCCEEDED else "",
    )


def _message(row: Row, ref: ObjectRef, live: Manifest) -> str:
    """Return the message for the Backup or Restore `live`, whose reference is `ref` and whose phase has the row `row`.

    Errors and warnings are only counted in it, since Velero keeps their texts in object storage.
    """
    status = live.get("status") or {}
    texts = [str(status["failureReason"])] if status.get("failureReason") else []
    texts += [str(problem) for problem in status.get("validationErrors") or ()]
    if row.phase == "PartiallyFailed":
        texts.insert(0, f"{status.get('errors', 0)} errors, {status.get('warnings', 0)} warnings")
    if row.phase == "Completed":
        texts += _left_out(ref, live, status.get("warnings"))
    return "; ".join(texts) or row.meaning


def _left_out(ref: ObjectRef, live: Manifest, warnings: Any) -> Iterator[str]:
    """Yield what the Backup or Restore `live`, which Velero has completed, may have left out.

    `warnings` is the number of Velero's warnings.
    """
    if ref.kind == VELERO_BACKUP:
        if warnings:
            # Velero warns of a volume that it cannot read, and leaves it out (Velero 1.18: pkg/podvolume/backupper.go).
            where = f"velero -n {ref.namespace} backup logs {ref.name}"
            yield f"{warnings} warnings: a volume or an object may be missing from it, see `{where}`"
        return
    if warnings:
        # Velero warns of each object that it does not touch (Velero 1.18: pkg/restore/restore.go, restoreItem).
        why = "objects that exist and differ may not have been restored; existingResourcePolicy: update changes them"
        yield f"{warnings} warnings: {why}"
    if warnings or get_path(live, "spec", "existingResourcePolicy") == "update":
        yield "volumes of claims that existed before keep their present data: Velero fills only new claims"


def _outputs(ref: ObjectRef, status: Mapping[str, Any], ended: bool) -> dict[str, Any]:
    backup = ref.kind == VELERO_BACKUP
    outputs: dict[str, Any] = {"backupName" if backup else "restoreName": ref.name}
    if ended:
        done = "itemsBackedUp" if backup else "itemsRestored"
        counts = {
            done: get_path(status, "progress", done),
            "totalItems": get_path(status, "progress", "totalItems"),
            "errors": status.get("errors", 0),
            "warnings": status.get("warnings", 0),
            "expiration": status.get("expiration"),
        }
        outputs |= {name: value for name, value in counts.items() if value is not None}
    return outputs


ENGINE: Final = Engine(
    name="velero",
    kinds=_KINDS,
    holds_data=(VELERO_BACKUP, VELERO_RESTORE),
    desired=_desired,
    observe=_observe,
    tables={"Backup": BACKUP, "Restore": RESTORE},
    timeout_seconds=4 * 3600,
    check=_check,
    looks_up=_looks_up,
    diagnostics=_neighbours,
    after_stop="Velero has no way to stop: it may finish what it is doing",
    templates=(
        EngineTemplate(
            OperationType.BACKUP,
            record(
                (),
                retention=with_description(
                    "How long Velero keeps the backup, such as `30d` or `720h`, at most `3650d`; Velero's default"
                    " unless given.",
                    DURATION,
                ),
                storageLocation=with_description("The BackupStorageLocation; Velero's default unless given.", NAME),
                snapshotClassName=with_description("The VolumeSnapshotClass whose driver cuts the snapshots.", NAME),
                includeNamespaces=with_description(
                    "Namespaces to back up instead of the target's; any other must be managed, and consent by its"
                    " annotation `ops.vworkspace.io/velero-peers`.",
                    {**list_schema(LABEL), "minItems": 1},
                ),
                includedResources=with_description(
                    "Only these resources; never the operator's own kinds.", list_schema(RESOURCE)
                ),
                excludedResources=with_description(
                    "Not these resources; the operator's own kinds are left out anyway.", list_schema(RESOURCE)
                ),
                snapshotVolumes=with_description(
                    "Whether volumes are snapshotted; Velero's default unless given.", {"type": "boolean"}
                ),
            ),
            example={"retention": "30d", "storageLocation": "default", "snapshotVolumes": True},
            refused=(
                {"retention": "forever"},
                {"includeNamespaces": ["org-myteam", "org-other"]},
                {"snapshotClassName": "gone"},
                {"includedResources": ["operations.ops.vworkspace.io"]},
            ),
        ),
        EngineTemplate(
            OperationType.RESTORE,
            record(
                ("backupName",),
                backupName=with_description(
                    "The Backup to restore from; it has to be one of this application, by name and namespace.", NAME
                ),
                namespaceMapping=with_description(
                    "From the namespaces in the backup to those to restore into; any other than the target's must be"
                    " managed, and consent by its annotation `ops.vworkspace.io/velero-peers`.",
                    {**mapped(LABEL, LABEL), "minProperties": 1},
                ),
                restorePVs=with_description("Whether volumes are restored from their snapshots.", {"type": "boolean"}),
                existingResourcePolicy=with_description(
                    "Whether objects that exist are updated. If the namespace has other applications, its annotation"
                    " `ops.vworkspace.io/velero-peers` must name the namespace itself.",
                    {"enum": ["none", "update"]},
                ),
            ),
            example={"backupName": "nightly-1c0ffee1", "existingResourcePolicy": "update"},
            refused=({"backupName": "of-another-tenant"}, {"namespaceMapping": {"org-myteam": "org-other"}}),
            needs_approval=True,
        ),
    ),
    controller=EngineController("velero", (VELERO_BACKUP, VELERO_RESTORE), "Velero (https://velero.io/docs)"),
    awaited=(VELERO_BACKUP, VOLUME_SNAPSHOT_CLASS),
    namespace=lambda settings: settings.velero_namespace,
    demo=DemoOperation("nightly", OperationType.BACKUP, {"retention": "30d"}),
)
