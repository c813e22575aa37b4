"""velero: Backup and Restore in Velero's own namespace (OPS-7).

No kind of Velero has a status subresource: its generation moves with its status, and nothing here looks at it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from vworkspace_core.kinds.application_instance import ApplicationInstance
from vworkspace_core.kinds.labels import downstream_labels, namespace_is_gated
from vworkspace_core.kinds.operation import LogsRef, Operation
from vworkspace_core.kinds.problems import Problem, index, join
from vworkspace_core.kinds.reasons import OperationReason as Reason
from vworkspace_core.known import (
    APPLICATION_INSTANCE,
    NAMESPACE,
    OPERATION,
    VELERO_BACKUP,
    VELERO_RESTORE,
    VOLUME_SNAPSHOT_CLASS,
)
from vworkspace_core.manifest import Manifest, ObjectRef, dig, metadata
from vworkspace_core.operations.contract import (
    Engine,
    EngineContext,
    EngineObject,
    EngineStatus,
    Objects,
    Progress,
    Refusal,
    Row,
    by_type,
    is_backup,
    row_of,
)
from vworkspace_core.operations.durations import go_duration, seconds_of
from vworkspace_core.operations.engines.velero_phases import BACKUP, RESTORE
from vworkspace_core.operations.identity import engine_manifest, own_object, parameters
from vworkspace_core.operations.settings import OperationSettings

__all__ = ["ENGINE"]

_RUNNING, _SUCCEEDED = Progress.RUNNING, Progress.SUCCEEDED
_OURS: Final = (APPLICATION_INSTANCE.crd_name, OPERATION.crd_name)
_PATH: Final = "spec.parameters"


_KINDS: Final = by_type(backup=VELERO_BACKUP, restore=VELERO_RESTORE)


def _looks_up(operation: Operation, target: ApplicationInstance, settings: OperationSettings) -> tuple[ObjectRef, ...]:
    given = parameters(operation)
    names = {*given.get("includeNamespaces", ()), *given.get("namespaceMapping", {}).values()}
    namespaces = tuple(ObjectRef(NAMESPACE, None, name) for name in sorted(names))
    if is_backup(operation):
        return (*namespaces, *_snapshot_class(given))
    return (*namespaces, ObjectRef(VELERO_BACKUP, settings.velero_namespace, given["backupName"]))


def _snapshot_class(given: Mapping[str, Any]) -> tuple[ObjectRef, ...]:
    name = given.get("snapshotClassName")
    return () if name is None else (ObjectRef(VOLUME_SNAPSHOT_CLASS, None, name),)


def _check(operation: Operation, target: ApplicationInstance, context: EngineContext) -> Refusal | None:
    problems = _backup_problems if is_backup(operation) else _restore_problems
    found = [*_namespace_problems(parameters(operation), context.objects), *problems(operation, target, context)]
    return Refusal(Reason.VALIDATION_FAILED, "; ".join(map(str, found))) if found else None


def _namespace_problems(given: Mapping[str, Any], objects: Objects) -> Iterator[Problem]:
    """Every namespace that is named has to be gated, as a source of a backup and as a goal of a restore."""
    included = given.get("includeNamespaces", ())
    named = [(index(f"{_PATH}.includeNamespaces", i), name) for i, name in enumerate(included)]
    mapping = given.get("namespaceMapping", {})
    named += [(join(f"{_PATH}.namespaceMapping", source), mapping[source]) for source in sorted(mapping)]
    for path, name in named:
        if not namespace_is_gated(objects.get(ObjectRef(NAMESPACE, None, name))):
            yield Problem(path, f"namespace {name} is not one the operator may act in")


def _backup_problems(operation: Operation, _target: ApplicationInstance, context: EngineContext) -> Iterator[Problem]:
    given = parameters(operation)
    try:
        seconds_of(given.get("retention", "1s"))
    except ValueError as error:
        yield Problem(f"{_PATH}.retention", str(error))
    for i, resource in enumerate(given.get("includedResources", ())):
        if resource in _OURS or resource in ("operations", "applicationinstances"):
            yield Problem(index(f"{_PATH}.includedResources", i), "the operator's own kinds are never in a backup")
    for ref in _snapshot_class(given):
        if not dig(context.objects.get(ref), "driver"):
            yield Problem(f"{_PATH}.snapshotClassName", f"there is no VolumeSnapshotClass {ref.name}")


def _restore_problems(operation: Operation, target: ApplicationInstance, context: EngineContext) -> Iterator[Problem]:
    """A backup that does not carry this target's labels is somebody else's."""
    if VELERO_BACKUP in context.missing_kinds:
        return  # said by a later precondition
    name = parameters(operation)["backupName"]
    backup = context.objects.get(ObjectRef(VELERO_BACKUP, context.settings.velero_namespace, name))
    if backup is None:
        yield Problem(f"{_PATH}.backupName", f"there is no Backup {context.settings.velero_namespace}/{name}")
    elif not context.template.allow_foreign_backups and not _carries_labels(backup, target, context):
        yield Problem(f"{_PATH}.backupName", "the Backup does not carry this target's labels")


def _carries_labels(backup: Manifest, target: ApplicationInstance, context: EngineContext) -> bool:
    labels = metadata(backup).get("labels")
    wanted = downstream_labels(target, context.settings.cluster_id)
    return isinstance(labels, Mapping) and all(labels.get(key) == value for key, value in wanted.items())


def _desired(operation: Operation, target: ApplicationInstance, context: EngineContext) -> tuple[EngineObject, ...]:
    (kind,) = _KINDS(operation)
    manifest = engine_manifest(
        kind, operation, target, context, namespace=context.settings.velero_namespace, holds_data=True
    )
    given = parameters(operation)
    if is_backup(operation):
        manifest["spec"] = _backup_spec(given, target)
        for ref in _snapshot_class(given):
            driver = dig(context.objects.get(ref), "driver")
            manifest["metadata"]["annotations"] = {f"velero.io/csi-volumesnapshot-class_{driver}": ref.name}
    else:
        manifest["spec"] = _restore_spec(given, target)
    return (EngineObject(kind, manifest),)


def _backup_spec(given: Mapping[str, Any], target: ApplicationInstance) -> dict[str, Any]:
    """Our own kinds stay out: a restored Operation would run again, a restored instance has another uid."""
    excluded = [*given.get("excludedResources", ()), *_OURS]
    spec: dict[str, Any] = {
        "includedNamespaces": list(given.get("includeNamespaces") or [target.metadata.namespace]),
        "excludedResources": list(dict.fromkeys(excluded)),
    }
    if "retention" in given:
        spec["ttl"] = go_duration(seconds_of(given["retention"]))
    taken = {"storageLocation": "storageLocation", "snapshotVolumes": "snapshotVolumes"}
    spec |= {field: given[name] for name, field in taken.items() if name in given}
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
    found = own_object(operation, objects)
    if found is None:
        return EngineStatus(_RUNNING, "VeleroObjectMissing")
    ref, live = found
    table = BACKUP if is_backup(operation) else RESTORE
    status = live.get("status") or {}
    row = row_of(table, status.get("phase") or "", unknown="InProgress")
    ended = row.progress is not _RUNNING
    partial = row.phase == "PartiallyFailed"
    return EngineStatus(
        row.progress,
        row.reason,
        _message(row, status),
        _outputs(ref, status, ended),
        LogsRef(ref.kind.kind, ref.name, ref.namespace or ""),
        degraded=_message(row, status) if partial and row.progress is _SUCCEEDED else "",
    )


def _message(row: Row, status: Mapping[str, Any]) -> str:
    """Errors are counts; their texts lie in the object storage."""
    told = [str(status[name]) for name in ("failureReason",) if status.get(name)]
    told += [str(problem) for problem in status.get("validationErrors") or ()]
    if row.phase == "PartiallyFailed":
        told.insert(0, f"{status.get('errors', 0)} errors, {status.get('warnings', 0)} warnings")
    return "; ".join(told) or row.meaning


def _outputs(ref: ObjectRef, status: Mapping[str, Any], ended: bool) -> dict[str, Any]:
    backup = ref.kind == VELERO_BACKUP
    outputs: dict[str, Any] = {"backupName" if backup else "restoreName": ref.name}
    if ended:
        done = "itemsBackedUp" if backup else "itemsRestored"
        counts = {
            done: dig(status, "progress", done),
            "totalItems": dig(status, "progress", "totalItems"),
            "errors": status.get("errors", 0),
            "warnings": status.get("warnings", 0),
            "expiration": status.get("expiration"),
        }
        outputs |= {name: value for name, value in counts.items() if value is not None}
    return outputs


ENGINE: Final = Engine(
    name="velero",
    kinds=_KINDS,
    desired=_desired,
    observe=_observe,
    tables={"Backup": BACKUP, "Restore": RESTORE},
    timeout_seconds=4 * 3600,
    check=_check,
    looks_up=_looks_up,
    after_stop="Velero cannot be told to stop: it may finish what it is doing",
)
