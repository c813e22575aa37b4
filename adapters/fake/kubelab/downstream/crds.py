"""CRDs of Argo, VolSync, Velero and CSI snapshots, for a cluster without the real ones. The schemas are our own.

They declare the fields that the operator writes, those that users set by hand, and those that the simulated controllers
write into statuses. Names, types, enums, defaults, patterns and rules are those of the projects; unused fields are left
out, so that a server with these CRDs may prune or refuse what the real ones accept, and never the other way round.
"""

from collections.abc import Iterable
from typing import Any, Final

from kubelab.downstream.kinds import WORKFLOW_TEMPLATE
from kubelab.downstream.velero.crd_velero import velero_crds
from kubelab.simulation.schema import (
    CONDITIONS,
    COUNT,
    INT_OR_STRING,
    INTEGER,
    QUANTITY,
    QUANTITY_PATTERN,
    atomic,
    definition,
    object_schema,
    ruled,
    string,
)
from purekube.apimachinery.definitions import AGE, Column
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import (
    REPLICATION_DESTINATION,
    REPLICATION_SOURCE,
    VOLUME_SNAPSHOT,
    VOLUME_SNAPSHOT_CLASS,
    VOLUME_SNAPSHOT_CONTENT,
    WORKFLOW,
)
from purekube.schema.builtin.schema_parts import (
    BOOL,
    INT64,
    OBJECT_REFERENCE,
    STRING,
    STRING_MAP,
    STRINGS,
    TIME,
    TYPED_REFERENCE,
    OpenApi,
    choice,
    each,
    items,
    keyed,
    obj,
    table,
)

_STATUS: Final[OpenApi] = {"status": {}}

# --- Argo --------------------------------------------------------------------------------------------------------

_PARAMETER: Final = obj(
    "name! default globalName value", enum={**STRINGS, "minItems": 1}, name=string(pattern="^[-a-zA-Z0-9_]+$")
)
_ARGUMENTS: Final = obj(parameters=items(_PARAMETER))
_INPUTS: Final = obj(parameters={**items(_PARAMETER), "maxItems": 500})
_LEAVES: Final = ("container", "script", "steps", "suspend")
"""The supported types of an Argo template, each the name of a field in it."""
_IDENTIFIER: Final = string(pattern="^[a-zA-Z0-9][-a-zA-Z0-9]*$", maxLength=128)
_ONE_TYPE: Final = " + ".join(f"(has(t.{leaf}) ? 1 : 0)" for leaf in _LEAVES)
_TIMED: Final = '!(has(t.timeout) && t.timeout != "" && has(t.steps))'
_LIMITED: Final = "!(has(t.activeDeadlineSeconds) && has(t.steps))"
_TEMPLATE_RULES: Final = (
    ("template must have at most one template type", f"self.all(t, {_ONE_TYPE} <= 1)"),
    ("timeout cannot be applied to steps or dag templates", f"self.all(t, {_TIMED})"),
    ("activeDeadlineSeconds is only valid for leaf templates", f"self.all(t, {_LIMITED})"),
)


def argo_crds() -> tuple[dict[str, Any], ...]:
    """Return the CRDs of Workflow and WorkflowTemplate, neither with a status subresource."""
    columns = (
        Column("Status", ".status.phase"),
        Column("Age", ".status.startedAt", "date"),
        Column("Message", ".status.message"),
    )
    required = ("metadata", "spec")
    schema = object_schema(*required, spec=_workflow_spec(), status=_workflow_status())
    return (
        definition(WORKFLOW, schema, subresources={}, columns=columns, short_names=("wf",)),
        definition(WORKFLOW_TEMPLATE, object_schema(*required, spec=_workflow_spec()), short_names=("wftmpl",)),
    )


def _workflow_spec() -> OpenApi:
    strategies = ("", "OnPodCompletion", "OnPodSuccess", "OnWorkflowCompletion", "OnWorkflowSuccess")
    return obj(
        "entrypoint onExit serviceAccountName shutdown activeDeadlineSeconds:int64 priority:int32 suspend:bool",
        arguments=_ARGUMENTS,
        parallelism={**INT64, "minimum": 1},
        podGC=obj(strategy=choice(*strategies)),
        templates=ruled({**items(_template()), "maxItems": 200}, *_TEMPLATE_RULES),
        ttlStrategy=obj("secondsAfterCompletion:int32 secondsAfterFailure:int32 secondsAfterSuccess:int32"),
        workflowTemplateRef=obj("clusterScope:bool name"),
    )


def _template() -> OpenApi:
    env = keyed(obj("name! value"), "name")
    container = {**each(atomic(STRINGS), "args command"), "env": env, **each(STRING, "image name")}
    step = obj("template when", arguments=_ARGUMENTS, name=_IDENTIFIER)
    return obj(
        "serviceAccountName timeout",
        activeDeadlineSeconds=INT_OR_STRING,
        container=obj(**container),
        inputs=_INPUTS,
        name=_IDENTIFIER,
        script=obj("source", **container),
        steps={**items(items(step)), "minItems": 1},
        suspend=obj("duration"),
    )


def _workflow_status() -> OpenApi:
    # Phases are strings without an enum, as in Argo's own schema.
    outputs = obj("exitCode result", parameters=items(_PARAMETER))
    common = {**each(TIME, "finishedAt startedAt"), "outputs": outputs, "resourcesDuration": table(INT64)}
    node = obj(
        "id! name! type! boundaryID displayName message phase podIP progress templateName templateScope "
        "children:strings outboundNodes:strings",
        inputs=_INPUTS,
        **common,
    )
    return obj(
        "compressedNodes message offloadNodeStatusVersion phase progress",
        conditions=items(obj("message status type")),
        estimatedDuration=INTEGER,
        nodes=table(node),
        **common,
    )


# --- VolSync -----------------------------------------------------------------------------------------------------

_SCHEDULE: Final = string(
    pattern=r"^(@(annually|yearly|monthly|weekly|daily|hourly))"
    r"|((((\d+,)*\d+|(\d+(\/|-)\d+)|\*(\/\d+)?)\s?){5})$"
)


def volsync_crds() -> tuple[dict[str, Any], ...]:
    """Return the CRDs of ReplicationSource and ReplicationDestination, with the restic mover."""
    source = {"sourcePVC": STRING, "restic": _restic_source()}
    pruned = obj("lastPruned:time lastUnlocked")
    return (
        _replication(REPLICATION_SOURCE, source, {"restic": pruned}, Column("Source", ".spec.sourcePVC")),
        _replication(REPLICATION_DESTINATION, {"restic": _restic_destination()}, {"latestImage": TYPED_REFERENCE}),
    )


def _replication(kind: Kind, spec: dict[str, OpenApi], status: dict[str, OpenApi], *columns: Column) -> dict[str, Any]:
    trigger = obj("manual", schedule=_SCHEDULE)
    state = obj(
        "lastManualSync lastSyncDuration lastSyncStartTime:time lastSyncTime:time nextSyncTime:time",
        conditions=CONDITIONS,
        latestMoverStatus=obj("logs result"),
        **status,
    )
    common = (
        Column("Last sync", ".status.lastSyncTime"),
        Column("Duration", ".status.lastSyncDuration"),
        Column("Next sync", ".status.nextSyncTime"),
    )
    schema = object_schema(spec=obj("paused:bool", trigger=trigger, **spec), status=state)
    return definition(kind, schema, subresources=_STATUS, columns=(*columns, *common))


def _restic() -> dict[str, OpenApi]:
    return {
        **each(STRING, "cacheStorageClassName moverServiceAccount repository storageClassName volumeSnapshotClassName"),
        **each(QUANTITY, "cacheCapacity capacity"),
        "accessModes": {**STRINGS, "minItems": 1},
        "cacheAccessModes": STRINGS,
        "copyMethod": choice("Direct", "None", "Clone", "Snapshot"),
        "customCA": obj("configMapName key secretName"),
        "moverPodLabels": STRING_MAP,
    }


def _restic_source() -> OpenApi:
    retain = obj("daily:int32 hourly:int32 monthly:int32 weekly:int32 yearly:int32 last within")
    return obj("pruneIntervalDays:int32 unlock", **_restic(), retain=retain)


def _restic_destination() -> OpenApi:
    flags = each(BOOL, "cleanupCachePVC cleanupTempPVC enableFileDeletion")
    return obj("destinationPVC previous:int32 restoreAsOf:time", **_restic(), **flags)


# --- the CSI snapshotter -----------------------------------------------------------------------------------------

_ERROR: Final = obj("message time:time")


def snapshot_crds() -> tuple[dict[str, Any], ...]:
    """Return the CRDs of VolumeSnapshot, VolumeSnapshotContent and VolumeSnapshotClass."""
    return (_snapshot(), _content(), _class())


def _once(name: str) -> OpenApi:
    return ruled(STRING, (f"{name} is immutable", "self == oldSelf"))


def _snapshot() -> dict[str, Any]:
    claim, content = "persistentVolumeClaimName", "volumeSnapshotContentName"
    kept = [(f"{name} is required once set", f"!has(oldSelf.{name}) || has(self.{name})") for name in (claim, content)]
    exactly_one = (
        f"exactly one of {content} and {claim} must be set",
        f"(has(self.{content}) && !has(self.{claim})) || (!has(self.{content}) && has(self.{claim}))",
    )
    source = ruled(obj(**{name: _once(name) for name in (claim, content)}), *kept, exactly_one)
    class_ = ruled(STRING, ("volumeSnapshotClassName must not be the empty string when set", "size(self) > 0"))
    status = obj(
        "boundVolumeSnapshotContentName volumeGroupSnapshotName creationTime:time readyToUse:bool",
        error=_ERROR,
        restoreSize={"type": "string", "pattern": QUANTITY_PATTERN, "x-kubernetes-int-or-string": True},
    )
    columns = (
        Column("ReadyToUse", ".status.readyToUse", "boolean"),
        Column("SourcePVC", f".spec.source.{claim}"),
        Column("SourceSnapshotContent", f".spec.source.{content}"),
        Column("RestoreSize", ".status.restoreSize"),
        Column("SnapshotClass", ".spec.volumeSnapshotClassName"),
        Column("SnapshotContent", ".status.boundVolumeSnapshotContentName"),
        Column("CreationTime", ".status.creationTime", "date"),
        AGE,
    )
    spec = obj("source!", source=source, volumeSnapshotClassName=class_)
    schema = object_schema("spec", spec=spec, status=status)
    return definition(VOLUME_SNAPSHOT, schema, subresources=_STATUS, columns=columns, short_names=("vs",))


def _content() -> dict[str, Any]:
    spec = obj(
        "deletionPolicy! driver! source! volumeSnapshotRef! sourceVolumeMode volumeSnapshotClassName",
        deletionPolicy=choice("Delete", "Retain"),
        source=obj("snapshotHandle volumeHandle"),
        volumeSnapshotRef=OBJECT_REFERENCE,
    )
    status = obj("creationTime:int64 readyToUse:bool snapshotHandle", error=_ERROR, restoreSize=COUNT)
    columns = (
        Column("ReadyToUse", ".status.readyToUse", "boolean"),
        Column("RestoreSize", ".status.restoreSize", "integer"),
        Column("DeletionPolicy", ".spec.deletionPolicy"),
        Column("Driver", ".spec.driver"),
        Column("VolumeSnapshotClass", ".spec.volumeSnapshotClassName"),
        Column("VolumeSnapshot", ".spec.volumeSnapshotRef.name"),
        AGE,
    )
    schema = object_schema("spec", spec=spec, status=status)
    names = ("vsc", "vscs")
    return definition(VOLUME_SNAPSHOT_CONTENT, schema, subresources=_STATUS, columns=columns, short_names=names)


def _class() -> dict[str, Any]:
    policy = choice("Delete", "Retain")
    schema = object_schema("deletionPolicy", "driver", deletionPolicy=policy, driver=STRING, parameters=STRING_MAP)
    columns = (Column("Driver", ".driver"), Column("DeletionPolicy", ".deletionPolicy"), AGE)
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
