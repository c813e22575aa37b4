"""CustomResourceDefinitions of our own kinds, generated from their classes (RES-6)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.cluster import Cluster
from vworkspace_core.api.codec import CLASSES
from vworkspace_core.api.operation import Operation
from vworkspace_core.apimachinery.definitions import AGE, Column, Definition, condition_path
from vworkspace_core.apimachinery.openapi import object_schema, validations

CATEGORY: Final = "vworkspace"
"""`kubectl get vworkspace` lists every kind of the project."""


_SHORT_NAMES: Final[Mapping[type[Any], Sequence[str]]] = {
    ApplicationInstance: ("appinst",),
    Operation: ("op",),
    Cluster: ("vwc",),
}

_COLUMNS: Final[Mapping[type[Any], Sequence[Column]]] = {
    ApplicationInstance: (
        Column("Ready", condition_path("Ready", "status")),
        Column("Chart", ".spec.chart.name"),
        Column("Version", ".spec.chart.version"),
        Column("Reason", condition_path("Ready", "reason")),
        Column("Blocked", condition_path("Blocked", "reason")),
        AGE,
        Column("Message", condition_path("Ready", "message"), priority=1),
        Column("Obstacle", condition_path("Blocked", "message"), priority=1),
    ),
    Operation: (
        Column("Phase", ".status.phase"),
        Column("Type", ".spec.type"),
        Column("Engine", ".spec.engine"),
        Column("Target", ".spec.targetRef.name"),
        Column("Reason", ".status.reason"),
        Column("Started", ".status.startedAt", "date"),
        AGE,
        Column("Finished", ".status.finishedAt", "date", priority=1),
        Column("Message", ".status.message", priority=1),
    ),
    Cluster: (
        Column("Cluster", ".spec.clusterId"),
        Column("Connected", condition_path("Connected", "status")),
        Column("Since", condition_path("Connected", "lastTransitionTime"), "date"),
        Column("Authenticated", condition_path("Authenticated", "status")),
        Column("Healthy", condition_path("ControllersHealthy", "status")),
        Column("Dropping", condition_path("BufferOverflow", "status")),
        Column("Heartbeat", ".status.lastHeartbeat", "date"),
        Column("Version", ".status.operatorVersion", priority=1),
        Column("Message", condition_path("Connected", "message"), priority=1),
        AGE,
    ),
}


def crd_manifests() -> list[dict[str, Any]]:
    """Every CRD of the project, in the order of its registry."""
    return [crd_manifest(cls) for cls in CLASSES]


def crd_manifest(cls: type[Any]) -> dict[str, Any]:
    """The CRD of one of our classes."""
    fields = attrs.fields_dict(cls)
    return Definition(
        CLASSES[cls],
        (cls.__doc__ or "").strip(),
        object_schema(fields["spec"].type or object),
        object_schema(fields["status"].type or object),
        _COLUMNS[cls],
        _SHORT_NAMES[cls],
        (CATEGORY,),
        validations(getattr(cls, "CEL_RULES", ())),
    ).manifest()
