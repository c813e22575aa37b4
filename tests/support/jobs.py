"""Jobs for the tests of the agent: one good one of each kind, and ways to make them differ."""

from collections.abc import Mapping
from typing import Any

from tests.support.builders import NAME, NAMESPACE, chart, instance_manifest, operation_manifest

CLUSTER_ID = "cluster-prod-1"


def instance(name: str = NAME, namespace: str = NAMESPACE, **metadata: Any) -> dict[str, Any]:
    """The ApplicationInstance of PULL-2, as the control plane sends it."""
    return instance_manifest(
        name, namespace, metadata=metadata, chart=chart(url="oci://registry.example/nextcloud/charts")
    )


def operation(name: str = "backup-1", namespace: str = NAMESPACE, target: str = NAME) -> dict[str, Any]:
    """A backup with Velero."""
    return operation_manifest(name, namespace, target=target)


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


def with_status(manifest: Mapping[str, Any], *conditions: Mapping[str, Any], **status: Any) -> dict[str, Any]:
    """A live object with these conditions."""
    return {**manifest, "status": {"observedGeneration": 1, "conditions": list(conditions), **status}}
