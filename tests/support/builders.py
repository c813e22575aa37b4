"""Manifests of our own kinds as people and the control plane write them, and conditions: spelled in one place.

Each is valid as it comes; what a test is about, it says by an argument.
"""

from collections.abc import Mapping
from typing import Any

from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION

NAMESPACE = "org-myteam"
NAME = "nextcloud-myteam"


def chart(version: str = "6.6.0", url: str = "oci://r.example.test/charts", source_type: str = "oci") -> dict[str, Any]:
    """Nextcloud's, from an OCI registry."""
    return {"sourceType": source_type, "url": url, "name": "nextcloud", "version": version}


def instance_manifest(
    name: str = NAME, namespace: str = NAMESPACE, *, metadata: Mapping[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    """An ApplicationInstance with a release of its own name; `spec` adds or replaces fields, None removes them."""
    fields = {
        "appRef": {"catalogId": "nextcloud"},
        "chart": chart(),
        "release": {"name": name, "namespace": namespace},
        **spec,
    }
    meta = {"name": name, "namespace": namespace, **(metadata or {})}
    return {**_head(APPLICATION_INSTANCE), "metadata": meta, "spec": _given(fields)}


def operation_manifest(
    name: str = "backup-1", namespace: str = NAMESPACE, *, target: str = NAME, **spec: Any
) -> dict[str, Any]:
    """A backup with Velero; `spec` adds or replaces fields, None removes them."""
    fields = {
        "targetRef": {**_head(APPLICATION_INSTANCE), "name": target},
        "type": "Backup",
        "engine": "velero",
        **spec,
    }
    return {**_head(OPERATION), "metadata": {"name": name, "namespace": namespace}, "spec": _given(fields)}


def cluster_manifest(name: str = "cluster", **spec: Any) -> dict[str, Any]:
    """A Cluster with this spec; None removes a field."""
    return {**_head(CLUSTER), "metadata": {"name": name}, "spec": _given(spec)}


def condition(
    kind: str,
    status: str,
    reason: str,
    generation: int | None = 1,
    message: str = "",
    *,
    since: str = "2026-01-01T00:00:00Z",
) -> dict[str, Any]:
    """A condition as it stands in a status; without `generation` as controllers write it that do not say."""
    told = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}
    return told if generation is None else {**told, "observedGeneration": generation}


def _head(kind: Any) -> dict[str, str]:
    return {"apiVersion": kind.api_version, "kind": kind.kind}


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
