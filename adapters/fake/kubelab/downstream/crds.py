"""CRDs of Argo, VolSync, Velero and CSI snapshots, for a cluster without the real ones. The schemas are our own.

They declare the fields that the operator writes, those that users set by hand, and those that the simulated controllers
write into statuses. Names, types, enums, defaults, patterns and rules are those of the projects; unused fields are left
out, so that a server with these CRDs may prune or refuse what the real ones accept, and never the other way round.
"""

from collections.abc import Iterable
from typing import Any, Final

from kubelab.downstream.crd_workflow import workflow_spec, workflow_status
from kubelab.downstream.kinds import WORKFLOW_TEMPLATE
from kubelab.downstream.velero.crd_velero import velero_crds
from kubelab.simulation.schema import (
    BOOLEAN,
    CONDITIONS,
    COUNT,
    DATE_TIME,
    QUANTITY,
    QUANTITY_PATTERN,
    STRING,
    STRINGS,
    TEXT_MAP,
    JsonSchema,
    definition,
    enum,
    object_schema,
    record,
    string,
)
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import (
    REPLICATION_DESTINATION,
    REPLICATION_SOURCE,
    VOLUME_SNAPSHOT,
    VOLUME_SNAPSHOT_CLASS,
    VOLUME_SNAPSHOT_CONTENT,
    WORKFLOW,
)

_STATUS: Final[JsonSchema] = {"status": {}}
_INT32: Final[JsonSchema] = {"type": "integer", "format": "int32"}
_AGE: Final = ("Age", "date", ".metadata.creationTimestamp")


def argo_crds() -> tuple[dict[str, Any], ...]:
    """Return the CRDs of Workflow and WorkflowTemplate, neither with a status subresource."""
    columns = (
        ("Status", "string", ".status.phase"),
        ("Age", "date", ".status.startedAt"),
        ("Message", "string", ".status.message"),
    )
    required = ("metadata", "spec")
    schema = object_schema(required, spec=workflow_spec(), status=workflow_status())
    return (
        definition(WORKFLOW, schema, subresources={}, columns=columns, short_names=("wf",)),
        definition(WORKFLOW_TEMPLATE, object_schema(required, spec=workflow_spec()), short_names=("wftmpl",)),
    )


# --- VolSync -----------------------------------------------------------------------------------------------------

_SCHEDULE: Final = string(
    pattern=r"^(@(annually|yearly|monthly|weekly|daily|hourly))"
    r"|((((\d+,)*\d+|(\d+(\/|-)\d+)|\*(\/\d+)?)\s?){5})$"
)


def volsync_crds() -> tuple[dict[str, Any], ...]:
    """Return the CRDs of ReplicationSource and ReplicationDestination, with the restic mover."""
    source = {"sourcePVC": STRING, "restic": _restic_source()}
    image = record(
        {"apiGroup": STRING, "kind": STRING, "name": STRING}, ("kind", "name"), **{"x-kubernetes-map-type": "atomic"}
    )
    pruned = record({"lastPruned": DATE_TIME, "lastUnlocked": STRING})
    column = ("Source", "string", ".spec.sourcePVC")
    return (
        _replication(REPLICATION_SOURCE, source, {"restic": pruned}, column),
        _replication(REPLICATION_DESTINATION, {"restic": _restic_destination()}, {"latestImage": image}),
    )


def _replication(
    kind: Kind, spec: dict[str, JsonSchema], status: dict[str, JsonSchema], *columns: tuple[str, str, str]
) -> dict[str, Any]:
    trigger = record({"manual": STRING, "schedule": _SCHEDULE})
    state = record(
        {
            "conditions": CONDITIONS,
            "lastManualSync": STRING,
            "lastSyncDuration": STRING,
            "lastSyncStartTime": DATE_TIME,
            "lastSyncTime": DATE_TIME,
            "latestMoverStatus": record({"logs": STRING, "result": STRING}),
            "nextSyncTime": DATE_TIME,
            **status,
        }
    )
    common = (
        ("Last sync", "string", ".status.lastSyncTime"),
        ("Duration", "string", ".status.lastSyncDuration"),
        ("Next sync", "string", ".status.nextSyncTime"),
    )
    schema = object_schema(spec=record({"paused": BOOLEAN, "trigger": trigger, **spec}), status=state)
    return definition(kind, schema, subresources=_STATUS, columns=(*columns, *common))


def _restic() -> dict[str, JsonSchema]:
    return {
        "accessModes": {**STRINGS, "minItems": 1},
        "cacheAccessModes": STRINGS,
        "cacheCapacity": QUANTITY,
        "cacheStorageClassName": STRING,
        "capacity": QUANTITY,
        "copyMethod": enum("Direct", "None", "Clone", "Snapshot"),
        "customCA": record({"configMapName": STRING, "key": STRING, "secretName": STRING}),
        "moverPodLabels": TEXT_MAP,
        "moverServiceAccount": STRING,
        "repository": STRING,
        "storageClassName": STRING,
        "volumeSnapshotClassName": STRING,
    }


def _restic_source() -> JsonSchema:
    counts = dict.fromkeys(("daily", "hourly", "monthly", "weekly", "yearly"), _INT32)
    retain = record({**counts, "last": STRING, "within": STRING})
    return record({**_restic(), "pruneIntervalDays": _INT32, "retain": retain, "unlock": STRING})


def _restic_destination() -> JsonSchema:
    flags = dict.fromkeys(("cleanupCachePVC", "cleanupTempPVC", "enableFileDeletion"), BOOLEAN)
    more = {"destinationPVC": STRING, "previous": _INT32, "restoreAsOf": DATE_TIME}
    return record({**_restic(), **flags, **more})


# --- the CSI snapshotter -----------------------------------------------------------------------------------------


def snapshot_crds() -> tuple[dict[str, Any], ...]:
    """Return the CRDs of VolumeSnapshot, VolumeSnapshotContent and VolumeSnapshotClass."""
    return (_snapshot(), _content(), _class())


def _rule(message: str, rule: str) -> dict[str, Any]:
    return {"message": message, "rule": rule}


def _once(name: str) -> JsonSchema:
    rule = _rule(f"{name} is immutable", "self == oldSelf")
    return string(**{"x-kubernetes-validations": [rule]})


def _either(field: str, other: str, first: str) -> list[dict[str, Any]]:
    """Return CEL rules which require that exactly one of two fields is set, and that it stays set.

    The error message names the field `first` first.
    """
    rules = [
        _rule(f"{name} is required once set", f"!has(oldSelf.{name}) || has(self.{name})") for name in (field, other)
    ]
    a, b = (field, other) if first == field else (other, field)
    rule = f"(has(self.{a}) && !has(self.{b})) || (!has(self.{a}) && has(self.{b}))"
    return [*rules, _rule(f"exactly one of {a} and {b} must be set", rule)]


def _snapshot() -> dict[str, Any]:
    claim, content = "persistentVolumeClaimName", "volumeSnapshotContentName"
    source = record(
        {claim: _once(claim), content: _once(content)},
        (),
        **{"x-kubernetes-validations": _either(claim, content, content)},
    )
    named = [_rule("volumeSnapshotClassName must not be the empty string when set", "size(self) > 0")]
    class_ = string(**{"x-kubernetes-validations": named})
    status = record(
        {
            "boundVolumeSnapshotContentName": STRING,
            "creationTime": DATE_TIME,
            "error": record({"message": STRING, "time": DATE_TIME}),
            "readyToUse": BOOLEAN,
            "restoreSize": {"type": "string", "pattern": QUANTITY_PATTERN, "x-kubernetes-int-or-string": True},
            "volumeGroupSnapshotName": STRING,
        }
    )
    columns = (
        ("ReadyToUse", "boolean", ".status.readyToUse"),
        ("SourcePVC", "string", f".spec.source.{claim}"),
        ("SourceSnapshotContent", "string", f".spec.source.{content}"),
        ("RestoreSize", "string", ".status.restoreSize"),
        ("SnapshotClass", "string", ".spec.volumeSnapshotClassName"),
        ("SnapshotContent", "string", ".status.boundVolumeSnapshotContentName"),
        ("CreationTime", "date", ".status.creationTime"),
        _AGE,
    )
    spec = record({"source": source, "volumeSnapshotClassName": class_}, ("source",))
    schema = object_schema(("spec",), spec=spec, status=status)
    return definition(VOLUME_SNAPSHOT, schema, subresources=_STATUS, columns=columns, short_names=("vs",))


def _content() -> dict[str, Any]:
    names = ("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid")
    spec = record(
        {
            "deletionPolicy": enum("Delete", "Retain"),
            "driver": STRING,
            "source": record({"snapshotHandle": STRING, "volumeHandle": STRING}),
            "sourceVolumeMode": STRING,
            "volumeSnapshotClassName": STRING,
            "volumeSnapshotRef": record(dict.fromkeys(names, STRING), **{"x-kubernetes-map-type": "atomic"}),
        },
        ("deletionPolicy", "driver", "source", "volumeSnapshotRef"),
    )
    status = record(
        {
            "creationTime": COUNT,
            "error": record({"message": STRING, "time": DATE_TIME}),
            "readyToUse": BOOLEAN,
            "restoreSize": {**COUNT, "minimum": 0},
            "snapshotHandle": STRING,
        }
    )
    columns = (
        ("ReadyToUse", "boolean", ".status.readyToUse"),
        ("RestoreSize", "integer", ".status.restoreSize"),
        ("DeletionPolicy", "string", ".spec.deletionPolicy"),
        ("Driver", "string", ".spec.driver"),
        ("VolumeSnapshotClass", "string", ".spec.volumeSnapshotClassName"),
        ("VolumeSnapshot", "string", ".spec.volumeSnapshotRef.name"),
        _AGE,
    )
    schema = object_schema(("spec",), spec=spec, status=status)
    names_ = ("vsc", "vscs")
    return definition(VOLUME_SNAPSHOT_CONTENT, schema, subresources=_STATUS, columns=columns, short_names=names_)


def _class() -> dict[str, Any]:
    schema = object_schema(
        ("deletionPolicy", "driver"),
        deletionPolicy=enum("Delete", "Retain"),
        driver=STRING,
        parameters=TEXT_MAP,
    )
    columns = (("Driver", "string", ".driver"), ("DeletionPolicy", "string", ".deletionPolicy"), _AGE)
    names = ("vsclass", "vsclasses")
    return definition(VOLUME_SNAPSHOT_CLASS, schema, subresources={}, columns=columns, short_names=names)


_BY_NAME: Final = {
    "velero": velero_crds,
    "workflow": argo_crds,
    "job": tuple,
    "volsync": volsync_crds,
    "snapshot": snapshot_crds,
    "workloads": tuple,
}


def downstream_crds(names: Iterable[str] | None = None) -> tuple[dict[str, Any], ...]:
    """Return new CustomResourceDefinitions for the controllers `names` (of `CONTROLLERS`), by default for all."""
    return tuple(definition for name in (_BY_NAME if names is None else names) for definition in _BY_NAME[name]())
