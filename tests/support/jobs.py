"""Jobs for the tests of the agent: one good one of each kind, and ways to make them differ."""

from collections.abc import Mapping
from typing import Any

CLUSTER_ID = "cluster-prod-1"
NAMESPACE = "org-myteam"
NAME = "nextcloud-myteam"


def instance(name: str = NAME, namespace: str = NAMESPACE, **metadata: Any) -> dict[str, Any]:
    """The ApplicationInstance of PULL-2, as the control plane sends it."""
    return {
        "apiVersion": "apps.vworkspace.io/v1alpha1",
        "kind": "ApplicationInstance",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {
            "appRef": {"catalogId": "nextcloud"},
            "chart": {
                "sourceType": "oci",
                "url": "oci://registry.example/nextcloud/charts",
                "name": "nextcloud",
                "version": "6.6.0",
            },
            "release": {"name": name, "namespace": namespace},
        },
    }


def operation(name: str = "backup-1", namespace: str = NAMESPACE, target: str = NAME) -> dict[str, Any]:
    """A backup with Velero."""
    return {
        "apiVersion": "ops.vworkspace.io/v1alpha1",
        "kind": "Operation",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "targetRef": {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": target},
            "type": "Backup",
            "engine": "velero",
        },
    }


def job(
    job_id: Any = "job-1",
    kind: str = "apply",
    payload: Any = None,
    key: str = f"ApplicationInstance/{NAMESPACE}/{NAME}@1",
    expires: str = "2026-01-01T01:00:00Z",
    **fields: Any,
) -> dict[str, Any]:
    """A job on the wire; `instance()` is to be applied unless told otherwise."""
    return {
        "id": job_id,
        "kind": kind,
        "payload": instance() if payload is None else payload,
        "idempotencyKey": key,
        "createdAt": "2026-01-01T00:00:00Z",
        "expiresAt": expires,
        **fields,
    }


def delete_payload(name: str = NAME, namespace: str = NAMESPACE) -> dict[str, Any]:
    """Payload of a `delete` job."""
    return {
        "apiVersion": "apps.vworkspace.io/v1alpha1",
        "kind": "ApplicationInstance",
        "namespace": namespace,
        "name": name,
    }


def condition(type_: str, status: str, reason: str, generation: int | None = 1, message: str = "") -> dict[str, Any]:
    """A condition on the wire."""
    found = {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return found if generation is None else {**found, "observedGeneration": generation}


def with_status(manifest: Mapping[str, Any], *conditions: Mapping[str, Any], **status: Any) -> dict[str, Any]:
    """A live object with these conditions."""
    return {**manifest, "status": {"observedGeneration": 1, "conditions": list(conditions), **status}}
