"""CRDs of Velero's kinds. As in Velero itself, no kind has a status subresource."""

from typing import Any, Final

from kubelab.downstream.kinds import BACKUP_STORAGE_LOCATION, DELETE_BACKUP_REQUEST
from kubelab.downstream.velero.velero_run import FINAL_PHASES, UNDER_WAY
from kubelab.simulation.schema import INTEGER, LABEL_SELECTOR, definition, nullable, object_schema
from purekube.apimachinery.definitions import AGE, Column
from purekube.apimachinery.resources import VELERO_BACKUP, VELERO_RESTORE
from purekube.schema.builtin.schema_parts import (
    BOOL,
    STRING,
    STRING_MAP,
    STRINGS,
    TIME,
    TYPED_REFERENCE,
    OpenApi,
    choice,
    each,
    items,
    obj,
)

_LIST: Final = nullable(STRINGS)
_FLAG: Final = nullable(BOOL)
_TIME: Final = nullable(TIME)
_AFTER_START: Final = (*UNDER_WAY, *FINAL_PHASES[1:])


def velero_crds() -> tuple[dict[str, Any], ...]:
    """Return the CRDs of Backup, Restore, DeleteBackupRequest and BackupStorageLocation."""
    return (
        definition(VELERO_BACKUP, object_schema(spec=_backup_spec(), status=_backup_status())),
        definition(VELERO_RESTORE, object_schema(spec=_restore_spec(), status=_restore_status())),
        _delete_request(),
        _location(),
    )


def _selection() -> dict[str, OpenApi]:
    """Return the schemas of the fields by which backups and restores select objects."""
    return {
        **each(_LIST, "excludedNamespaces excludedResources includedNamespaces includedResources"),
        "hooks": {**obj(), "properties": {}},
        "includeClusterResources": _FLAG,
        "itemOperationTimeout": STRING,
        "labelSelector": nullable(LABEL_SELECTOR),
        "orLabelSelectors": nullable(items(LABEL_SELECTOR)),
    }


def _backup_spec() -> OpenApi:
    scoped = [f"{way}{scope}ScopedResources" for way in ("included", "excluded") for scope in ("Cluster", "Namespace")]
    return obj(
        "csiSnapshotTimeout datamover storageLocation ttl volumeSnapshotLocations:strings",
        **_selection(),
        **dict.fromkeys(scoped, _LIST),
        **each(_FLAG, "defaultVolumesToFsBackup snapshotMoveData snapshotVolumes"),
        metadata=obj("labels:string-map"),
        orderedResources=nullable(STRING_MAP),
        resourcePolicy=TYPED_REFERENCE,
    )


def _common_status(operations: str, done: str) -> dict[str, OpenApi]:
    states = (f"{operations}{state}" for state in ("Attempted", "Completed", "Failed"))
    return {
        **dict.fromkeys((*states, "errors", "warnings"), INTEGER),
        **each(_TIME, "completionTimestamp startTimestamp"),
        "failureReason": STRING,
        "hookStatus": nullable(obj(**each(INTEGER, "hooksAttempted hooksFailed"))),
        "progress": nullable(obj(**each(INTEGER, f"{done} totalItems"))),
        "validationErrors": _LIST,
    }


def _backup_status() -> OpenApi:
    snapshots = ("csiVolumeSnapshots", "volumeSnapshots")
    return obj(
        "formatVersion",
        **_common_status("backupItemOperations", "itemsBackedUp"),
        **{f"{name}{state}": INTEGER for name in snapshots for state in ("Attempted", "Completed")},
        **each(INTEGER, "queuePosition version"),
        expiration=_TIME,
        phase=choice("New", "Queued", "ReadyToStart", "FailedValidation", *_AFTER_START, "Deleting"),
    )


def _restore_spec() -> OpenApi:
    return obj(
        "backupName scheduleName namespaceMapping:string-map",
        **_selection(),
        **each(_FLAG, "preserveNodePorts restorePVs"),
        existingResourcePolicy=nullable(STRING),
        resourceModifier=nullable(TYPED_REFERENCE),
        restoreStatus=nullable(obj(**each(_LIST, "excludedResources includedResources"))),
    )


def _restore_status() -> OpenApi:
    phases = choice("New", "FailedValidation", *_AFTER_START)
    return obj(**_common_status("restoreItemOperations", "itemsRestored"), phase=phases)


def _delete_request() -> dict[str, Any]:
    status = obj(errors=_LIST, phase=choice("New", "InProgress", "Processed"))
    schema = object_schema(spec=obj("backupName!"), status=status)
    columns = (Column("BackupName", ".spec.backupName"), Column("Status", ".status.phase"))
    return definition(DELETE_BACKUP_REQUEST, schema, subresources={}, columns=columns)


def _location() -> dict[str, Any]:
    modes = choice("ReadOnly", "ReadWrite")
    spec = obj(
        "objectStorage! provider! config:string-map default:bool",
        accessMode=modes,
        **each(nullable(STRING), "backupSyncPeriod validationFrequency"),
        objectStorage=obj("bucket! prefix"),
    )
    status = obj(
        "lastSyncedRevision message",
        accessMode=modes,
        **each(_TIME, "lastSyncedTime lastValidationTime"),
        phase=choice("Available", "Unavailable"),
    )
    columns = (
        Column("Phase", ".status.phase"),
        Column("Last Validated", ".status.lastValidationTime", "date"),
        AGE,
        Column("Default", ".spec.default", "boolean"),
    )
    schema = object_schema(spec=spec, status=status)
    return definition(BACKUP_STORAGE_LOCATION, schema, subresources={}, columns=columns, short_names=("bsl",))
