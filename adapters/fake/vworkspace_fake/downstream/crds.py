"""CRDs of Velero, Argo, VolSync and the CSI snapshotter for a cluster that has none: small schemas of our own.

They hold the fields the operator writes and leave statuses open, for controllers that write them as the real ones do.
What matters is kept: which kinds have a status subresource (no kind of Velero's and no Workflow has one, so that
their generation moves with their status), what is required, and which values are closed sets.
"""

from collections.abc import Sequence
from typing import Any, Final

from vworkspace_core.known import (
    REPLICATION_DESTINATION,
    REPLICATION_SOURCE,
    VELERO_BACKUP,
    VELERO_RESTORE,
    VOLUME_SNAPSHOT,
    VOLUME_SNAPSHOT_CLASS,
    WORKFLOW,
)
from vworkspace_core.manifest import Kind
from vworkspace_fake.flux.schema import BOOLEAN, COUNT, STRING, STRINGS, TEXT_MAP, Schema, enum, items, record, string

__all__ = ["downstream_crds"]

_OPEN: Final[Schema] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_NAME_VALUE: Final = record({"name": STRING, "value": STRING}, ("name",))
_TRIGGER: Final = record({"manual": STRING, "schedule": STRING})
_RETAIN: Final = record(
    {
        **dict.fromkeys(("hourly", "daily", "weekly", "monthly", "yearly"), COUNT),
        "within": STRING,
        "last": STRING,
    }
)

Column = tuple[str, str]


def downstream_crds() -> tuple[dict[str, Any], ...]:
    """Fresh CustomResourceDefinitions of every kind the engines create, but for those a server has anyway."""
    return (
        _crd(VELERO_BACKUP, _backup(), [("Status", ".status.phase")], subresource=False),
        _crd(VELERO_RESTORE, _restore(), [("Status", ".status.phase")], subresource=False),
        _crd(WORKFLOW, _workflow(), [("Status", ".status.phase"), ("Message", ".status.message")], subresource=False),
        _crd(REPLICATION_SOURCE, _source(), [("Last sync", ".status.lastSyncTime")]),
        _crd(REPLICATION_DESTINATION, _destination(), [("Last sync", ".status.lastSyncTime")]),
        _crd(VOLUME_SNAPSHOT, _snapshot(), [("ReadyToUse", ".status.readyToUse")]),
        _snapshot_class(),
    )


def _backup() -> Schema:
    return record(
        {
            "excludedResources": STRINGS,
            "includedNamespaces": STRINGS,
            "includedResources": STRINGS,
            "snapshotVolumes": BOOLEAN,
            "storageLocation": STRING,
            "ttl": STRING,
        }
    )


def _restore() -> Schema:
    return record(
        {
            "backupName": STRING,
            "excludedResources": STRINGS,
            "existingResourcePolicy": STRING,
            "includedNamespaces": STRINGS,
            "namespaceMapping": TEXT_MAP,
            "restorePVs": BOOLEAN,
        }
    )


def _workflow() -> Schema:
    return record(
        {
            "activeDeadlineSeconds": COUNT,
            "arguments": record({"parameters": items(_NAME_VALUE)}),
            "serviceAccountName": STRING,
            "shutdown": STRING,
            "suspend": BOOLEAN,
            "workflowTemplateRef": record({"name": STRING}),
        }
    )


def _source() -> Schema:
    restic = record(
        {"repository": STRING, "copyMethod": enum("Direct", "None", "Clone", "Snapshot"), "retain": _RETAIN}
    )
    return record({"sourcePVC": STRING, "paused": BOOLEAN, "trigger": _TRIGGER, "restic": restic})


def _destination() -> Schema:
    method = enum("Direct", "None", "Clone", "Snapshot")
    restic = record({"repository": STRING, "copyMethod": method, "destinationPVC": STRING})
    return record({"paused": BOOLEAN, "trigger": _TRIGGER, "restic": restic})


def _snapshot() -> Schema:
    source = record({"persistentVolumeClaimName": STRING, "volumeSnapshotContentName": STRING})
    return record({"source": source, "volumeSnapshotClassName": string()}, ("source",))


def _crd(kind: Kind, spec: Schema, columns: Sequence[Column], *, subresource: bool = True) -> dict[str, Any]:
    return _definition(kind, {"spec": spec, "status": _OPEN}, ("spec",), columns, subresource)


def _snapshot_class() -> dict[str, Any]:
    fields: dict[str, Schema] = {
        "driver": STRING,
        "deletionPolicy": enum("Delete", "Retain"),
        "parameters": TEXT_MAP,
    }
    return _definition(VOLUME_SNAPSHOT_CLASS, fields, ("driver", "deletionPolicy"), [("Driver", ".driver")], False)


def _definition(
    kind: Kind, fields: dict[str, Schema], required: tuple[str, ...], columns: Sequence[Column], subresource: bool
) -> dict[str, Any]:
    schema = record({"apiVersion": STRING, "kind": STRING, "metadata": {"type": "object"}, **fields}, required)
    printed = [{"name": name, "type": "string", "jsonPath": path} for name, path in columns]
    version: dict[str, Any] = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": printed,
        "schema": {"openAPIV3Schema": schema},
    }
    if subresource:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name},
        "spec": {
            "group": kind.group,
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
            },
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [version],
        },
    }
