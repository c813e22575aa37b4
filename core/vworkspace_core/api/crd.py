"""CustomResourceDefinitions of our own kinds, generated from their classes (RES-6)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.cluster import Cluster
from vworkspace_core.api.codec import CLASSES
from vworkspace_core.api.operation import Operation
from vworkspace_core.apimachinery.manifest import Kind
from vworkspace_core.apimachinery.openapi import object_schema, validations

CATEGORY: Final = "vworkspace"
"""`kubectl get vworkspace` lists every kind of the project."""


@attrs.frozen
class _Column:
    """One column of `kubectl get`."""

    name: str
    json_path: str
    type: str = "string"
    priority: int = 0

    def manifest(self) -> dict[str, Any]:
        column = {"name": self.name, "type": self.type, "jsonPath": self.json_path}
        return {**column, "priority": self.priority} if self.priority else column


def _condition(condition_type: str, field: str) -> str:
    return f'.status.conditions[?(@.type=="{condition_type}")].{field}'


_AGE: Final = _Column("Age", ".metadata.creationTimestamp", "date")

_SHORT_NAMES: Final[Mapping[type[Any], Sequence[str]]] = {
    ApplicationInstance: ("appinst",),
    Operation: ("op",),
    Cluster: ("vwc",),
}

_COLUMNS: Final[Mapping[type[Any], Sequence[_Column]]] = {
    ApplicationInstance: (
        _Column("Ready", _condition("Ready", "status")),
        _Column("Chart", ".spec.chart.name"),
        _Column("Version", ".spec.chart.version"),
        _Column("Reason", _condition("Ready", "reason")),
        _Column("Blocked", _condition("Blocked", "reason")),
        _AGE,
        _Column("Message", _condition("Ready", "message"), priority=1),
        _Column("Obstacle", _condition("Blocked", "message"), priority=1),
    ),
    Operation: (
        _Column("Phase", ".status.phase"),
        _Column("Type", ".spec.type"),
        _Column("Engine", ".spec.engine"),
        _Column("Target", ".spec.targetRef.name"),
        _Column("Reason", ".status.reason"),
        _Column("Started", ".status.startedAt", "date"),
        _AGE,
        _Column("Finished", ".status.finishedAt", "date", priority=1),
        _Column("Message", ".status.message", priority=1),
    ),
    Cluster: (
        _Column("Cluster", ".spec.clusterId"),
        _Column("Connected", _condition("Connected", "status")),
        _Column("Since", _condition("Connected", "lastTransitionTime"), "date"),
        _Column("Authenticated", _condition("Authenticated", "status")),
        _Column("Healthy", _condition("ControllersHealthy", "status")),
        _Column("Dropping", _condition("BufferOverflow", "status")),
        _Column("Heartbeat", ".status.lastHeartbeat", "date"),
        _Column("Version", ".status.operatorVersion", priority=1),
        _Column("Message", _condition("Connected", "message"), priority=1),
        _AGE,
    ),
}


def crd_manifests() -> list[dict[str, Any]]:
    """Every CRD of the project, in the order of its registry."""
    return [crd_manifest(cls) for cls in CLASSES]


def crd_manifest(cls: type[Any]) -> dict[str, Any]:
    """The CRD of one of our classes."""
    kind = CLASSES[cls]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": _names(kind, _SHORT_NAMES[cls]),
            "versions": [_version(kind, cls)],
        },
    }


def _names(kind: Kind, short_names: Sequence[str]) -> dict[str, Any]:
    names = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
        "categories": [CATEGORY],
    }
    return {**names, "shortNames": list(short_names)} if short_names else names


def _version(kind: Kind, cls: type[Any]) -> dict[str, Any]:
    return {
        "name": kind.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [column.manifest() for column in _COLUMNS[cls]],
        "schema": {"openAPIV3Schema": _root_schema(cls)},
    }


def _root_schema(cls: type[Any]) -> dict[str, Any]:
    spec = object_schema(attrs.fields_dict(cls)["spec"].type or object)
    status = object_schema(attrs.fields_dict(cls)["status"].type or object)
    return {
        "type": "object",
        "description": (cls.__doc__ or "").strip(),
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
        **validations(getattr(cls, "CEL_RULES", ())),
    }
