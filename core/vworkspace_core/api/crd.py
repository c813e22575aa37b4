"""CustomResourceDefinitions of the operator's own kinds, generated from their attrs classes (RES-6).

The text that a table shows for an object in a printer column is computed here, too.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery.definitions import AGE, Column, Definition, condition_path, text_at
from purekube.apimachinery.manifest import Kind, Manifest
from purekube.apimachinery.openapi import object_schema, validations
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.classes import CLASSES
from vworkspace_core.api.cluster import Cluster
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION
from vworkspace_core.api.operation import Operation

CATEGORY: Final = "vworkspace"
"""The CRD category of the operator's own kinds: `kubectl get vworkspace` lists their objects."""
_SHORT_NAMES: Final[Mapping[type[Any], Sequence[str]]] = {
    ApplicationInstance: ("appinst",),
    Operation: ("op",),
    Cluster: ("vwc",),
}
SUSPENDED: Final = Column("Suspended", condition_path("Suspended", "status"))
WANTED: Final = Column("Wanted", ".spec.chart.version")
DEPLOYED: Final = Column("Deployed", ".status.deployedChart.version")
REASON: Final = Column("Reason", ".status.reason")
COLUMNS: Final[Mapping[Kind, Sequence[Column]]] = {
    APPLICATION_INSTANCE: (
        Column("Ready", condition_path("Ready", "status")),
        SUSPENDED,
        WANTED,
        DEPLOYED,
        REASON,
        AGE,
        Column("Chart", ".spec.chart.name", priority=1),
        Column("Override", ".status.releaseOverride.version", priority=1),
        Column("Message", ".status.message", priority=1),
    ),
    OPERATION: (
        Column("Phase", ".status.phase"),
        Column("Type", ".spec.type"),
        Column("Engine", ".spec.engine"),
        Column("Target", ".spec.targetRef.name"),
        REASON,
        Column("Started", ".status.startedAt", "date"),
        AGE,
        Column("Finished", ".status.finishedAt", "date", priority=1),
        Column("Message", ".status.message", priority=1),
    ),
    CLUSTER: (
        Column("Cluster", ".spec.clusterId"),
        Column("Connected", condition_path("Connected", "reason")),
        Column("Authenticated", condition_path("Authenticated", "reason")),
        Column("Healthy", condition_path("ControllersHealthy", "reason")),
        Column("Heartbeat", ".status.lastHeartbeat", "date"),
        AGE,
        Column("Since", condition_path("Connected", "lastTransitionTime"), "date", priority=1),
        Column("Buffer", condition_path("BufferOverflow", "reason"), priority=1),
        Column("Version", ".status.operatorVersion", priority=1),
        Column("Message", condition_path("Connected", "message"), priority=1),
    ),
}
"""The printer columns by kind, in order; `kubectl get` shows those with `priority=1` only with `-o wide`."""


def crd_manifests() -> list[dict[str, Any]]:
    """Return the CRDs of the operator's kinds: ApplicationInstance, Operation and Cluster, in this order."""
    return [crd_manifest(cls) for cls in CLASSES]


def crd_manifest(cls: type[Any]) -> dict[str, Any]:
    """Return the CRD of one of the operator's kinds.

    `cls` is the attrs class of the kind: ApplicationInstance, Operation or Cluster.
    """
    fields = attrs.fields_dict(cls)
    return Definition(
        CLASSES[cls],
        (cls.__doc__ or "").strip(),
        object_schema(fields["spec"].type or object),
        object_schema(fields["status"].type or object),
        COLUMNS[CLASSES[cls]],
        _SHORT_NAMES[cls],
        (CATEGORY,),
        validations(getattr(cls, "CEL_RULES", ())),
    ).manifest()


# --- columns of `kubectl get` -----------------------------------------------------------------------------------------


def cell(kind: Kind, column: Column, manifest: Manifest) -> str:
    """Return the text that `kubectl get` shows for an object in a column, or an empty string if the object's kind has
    no such column.
    """
    return text_at(manifest, column.json_path) if column in COLUMNS.get(kind, ()) else ""
