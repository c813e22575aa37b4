"""U9: `kubectl get` alone says why not: the API server's own tables of what the decisions write."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from kubelab.http.tables.render import table
from kubelab.model.calls import RequestTarget
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from tests.support.instance_worlds import NAMESPACE, NOW, decide, instance_manifest, written
from tests.support.operation_worlds import CONTEXT as OPERATIONS
from tests.support.operation_worlds import observed, operation_manifest
from vworkspace_core.api.codec import read_operation
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.instances.context import InstanceObserved
from vworkspace_core.operations.reconcile import reconcile_operation


@pytest.fixture(scope="module")
def server() -> ApiServer:
    api_server = ApiServer(now=lambda: NOW)
    for crd in crd_manifests():
        api_server.create(
            RequestTarget(api_server.resource(CUSTOM_RESOURCE_DEFINITION), None, crd["metadata"]["name"]), crd
        )
    return api_server


def row(server: ApiServer, kind: Kind, manifest: Mapping[str, Any], *, wide: bool = False) -> dict[str, Any]:
    """The columns of `kubectl get`, those of `-o wide` too where asked for."""
    found = table(server.resource(kind), [manifest], {}, "", NOW)
    columns = [(column["name"], column["priority"]) for column in found["columnDefinitions"]]
    cells = zip(columns, found["rows"][0]["cells"], strict=True)
    return {name: cell for (name, priority), cell in cells if wide or not priority}


def test_a_blocked_instance_says_what_blocks_it(server: ApiServer) -> None:
    ungated = {**NAMESPACE, "metadata": {"name": "org-myteam"}}
    manifest = instance_manifest()
    blocked = written(manifest, decide(manifest, InstanceObserved(ungated)))

    short, wide = row(server, APPLICATION_INSTANCE, blocked), row(server, APPLICATION_INSTANCE, blocked, wide=True)

    assert (short["Ready"], short["Reason"]) == ("False", "NamespaceNotGated")
    assert "kubectl label namespace org-myteam managed-by=vworkspace" in wide["Message"]
    assert (short["Wanted"], short["Deployed"]) == ("6.6.0", None)


def ended(of: str = "runCommand.job", **more: Any) -> dict[str, Any]:
    manifest = operation_manifest(of, **more)
    decision = reconcile_operation(read_operation(manifest), observed(of), OPERATIONS)
    assert decision.status is not None
    return {**manifest, "status": json.loads(json.dumps(decision.status["status"], default=str))}


def test_an_operation_that_is_refused_looks_unlike_one_that_waits(server: ApiServer) -> None:
    refused = ended(parameters={"image": "registry.example.com/x:1", "commnd": ["x"]})

    short, wide = row(server, OPERATION, refused), row(server, OPERATION, refused, wide=True)

    assert (short["Phase"], short["Reason"]) == ("Pending", "ValidationFailed")
    assert "spec.parameters.commnd: unknown key: known are" in wide["Message"]


def test_an_operation_under_way_says_since_when(server: ApiServer) -> None:
    manifest = operation_manifest("runCommand.job")
    manifest["status"] = {
        "phase": "Running",
        "startedAt": "2026-06-01T11:55:00Z",
        "reason": "JobPodActive",
        "message": "one pod",
    }

    found = row(server, OPERATION, manifest, wide=True)

    assert (found["Phase"], found["Reason"], found["Started"], found["Message"]) == (
        "Running",
        "JobPodActive",
        "5m",
        "one pod",
    )
