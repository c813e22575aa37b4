"""CRDs of Velero's kinds. As in Velero itself, no kind has a status subresource."""

from typing import Any, Final

from kubelab.downstream.kinds import BACKUP_STORAGE_LOCATION, DELETE_BACKUP_REQUEST
from kubelab.simulation.schema import (
    BOOLEAN,
    DATE_TIME,
    INTEGER,
    LABEL_SELECTOR,
    STRING,
    STRINGS,
    TEXT_MAP,
    JsonSchema,
    definition,
    enum,
    items,
    nullable,
    object_schema,
    record,
)
from purekube.apimachinery.resources import VELERO_BACKUP, VELERO_RESTORE

_LIST: Final = nullable(STRINGS)
_FLAG: Final = nullable(BOOLEAN)
_TIME: Final = nullable(DATE_TIME)
_REFERENCE: Final = record(
    {"apiGroup": STRING, "kind": STRING, "name": STRING}, ("kind", "name"), **{"x-kubernetes-map-type": "atomic"}
)
_AFTER_START: Final = (
    "InProgress",
    "WaitingForPluginOperations",
    "WaitingForPluginOperationsPartiallyFailed",
    "Finalizing",
    "FinalizingPartiallyFailed",
    "Completed",
    "PartiallyFailed",
    "Failed",
)
_NO_SUBRESOURCES: Final[JsonSchema] = {}
_HOOK_STATUS: Final = nullable(record({"hooksAttempted": INTEGER, "hooksFailed": INTEGER}))


def velero_crds() -> tuple[dict[str, Any], ...]:
    """Return the CRDs of Backup, Restore, DeleteBackupRequest and BackupStorageLocation."""
    return (
        definition(VELERO_BACKUP, object_schema(spec=_backup_spec(), status=_backup_status())),
        definition(VELERO_RESTORE, object_schema(spec=_restore_spec(), status=_restore_status())),
        _delete_request(),
        _location(),
    )


def _selection(**hooks: JsonSchema) -> dict[str, JsonSchema]:
    """Return the schemas of the fields by which backups and restores select objects.

    `hooks` are the schemas of the fields of `spec.hooks`.
    """
    return {
        "excludedNamespaces": _LIST,
        "excludedResources": _LIST,
        "hooks": record(hooks),
        "includeClusterResources": _FLAG,
        "includedNamespaces": _LIST,
        "includedResources": _LIST,
        "itemOperationTimeout": STRING,
        "labelSelector": nullable(LABEL_SELECTOR),
        "orLabelSelectors": nullable(items(LABEL_SELECTOR)),
    }


def _backup_spec() -> JsonSchema:
    scoped = [f"{way}{scope}ScopedResources" for way in ("included", "excluded") for scope in ("Cluster", "Namespace")]
    return record(
        {
            **_selection(),
            **dict.fromkeys(scoped, _LIST),
            "csiSnapshotTimeout": STRING,
            "datamover": STRING,
            "defaultVolumesToFsBackup": _FLAG,
            "metadata": record({"labels": TEXT_MAP}),
            "orderedResources": nullable(TEXT_MAP),
            "resourcePolicy": _REFERENCE,
            "snapshotMoveData": _FLAG,
            "snapshotVolumes": _FLAG,
            "storageLocation": STRING,
            "ttl": STRING,
            "volumeSnapshotLocations": STRINGS,
        }
    )


def _counts(*names: str) -> dict[str, JsonSchema]:
    return dict.fromkeys(names, INTEGER)


def _common_status(operations: str, done: str) -> dict[str, JsonSchema]:
    return {
        **_counts(*(f"{operations}{state}" for state in ("Attempted", "Completed", "Failed")), "errors", "warnings"),
        "completionTimestamp": _TIME,
        "failureReason": STRING,
        "hookStatus": _HOOK_STATUS,
        "progress": nullable(record({done: INTEGER, "totalItems": INTEGER})),
        "startTimestamp": _TIME,
        "validationErrors": _LIST,
    }


def _backup_status() -> JsonSchema:
    snapshots = ("csiVolumeSnapshots", "volumeSnapshots")
    return record(
        {
            **_common_status("backupItemOperations", "itemsBackedUp"),
            **_counts(*(f"{name}{state}" for name in snapshots for state in ("Attempted", "Completed"))),
            **_counts("queuePosition", "version"),
            "expiration": _TIME,
            "formatVersion": STRING,
            "phase": enum("New", "Queued", "ReadyToStart", "FailedValidation", *_AFTER_START, "Deleting"),
        }
    )


def _restore_spec() -> JsonSchema:
    status = record({"excludedResources": _LIST, "includedResources": _LIST})
    return record(
        {
            **_selection(),
            "backupName": STRING,
            "existingResourcePolicy": nullable(STRING),
            "namespaceMapping": TEXT_MAP,
            "preserveNodePorts": _FLAG,
            "resourceModifier": nullable(_REFERENCE),
            "restorePVs": _FLAG,
            "restoreStatus": nullable(status),
            "scheduleName": STRING,
        }
    )


def _restore_status() -> JsonSchema:
    phases = enum("New", "FailedValidation", *_AFTER_START)
    return record({**_common_status("restoreItemOperations", "itemsRestored"), "phase": phases})


def _delete_request() -> dict[str, Any]:
    status = record({"errors": _LIST, "phase": enum("New", "InProgress", "Processed")})
    spec = record({"backupName": STRING}, ("backupName",))
    columns = (
        ("BackupName", "string", ".spec.backupName"),
        ("Status", "string", ".status.phase"),
    )
    return definition(
        DELETE_BACKUP_REQUEST, object_schema(spec=spec, status=status), subresources=_NO_SUBRESOURCES, columns=columns
    )


def _location() -> dict[str, Any]:
    modes = enum("ReadOnly", "ReadWrite")
    spec = record(
        {
            "accessMode": modes,
            "backupSyncPeriod": nullable(STRING),
            "config": TEXT_MAP,
            "default": BOOLEAN,
            "objectStorage": record({"bucket": STRING, "prefix": STRING}, ("bucket",)),
            "provider": STRING,
            "validationFrequency": nullable(STRING),
        },
        ("objectStorage", "provider"),
    )
    status = record(
        {
            "accessMode": modes,
            "lastSyncedRevision": STRING,
            "lastSyncedTime": _TIME,
            "lastValidationTime": _TIME,
            "message": STRING,
            "phase": enum("Available", "Unavailable"),
        }
    )
    columns = (
        ("Phase", "string", ".status.phase"),
        ("Last Validated", "date", ".status.lastValidationTime"),
        ("Age", "date", ".metadata.creationTimestamp"),
        ("Default", "boolean", ".spec.default"),
    )
    schema = object_schema(spec=spec, status=status)
    return definition(
        BACKUP_STORAGE_LOCATION, schema, subresources=_NO_SUBRESOURCES, columns=columns, short_names=("bsl",)
    )
