"""A status that the schema defaults: shown from the start, stored by the first write after the creation.

Measured on a real server with HelmRelease and OCIRepository, whose CRDs default `status.observedGeneration` to -1.
"""

from typing import Any

import pytest

from kubelab.flux.crds import flux_crds
from kubelab.model.calls import RequestTarget, WriteOptions
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, HELM_RELEASE, OCI_REPOSITORY
from purekube.ports import PatchType, WatchEventType
from tests.support.apiserver_world import GIZMO, at, crd, gizmo, new_server

APPLY = WriteOptions("one")
FRESH = {"observedGeneration": -1}


@pytest.fixture
def server() -> ApiServer:
    made = new_server()
    for definition in flux_crds():
        made.create(at(made, CUSTOM_RESOURCE_DEFINITION), definition)
    return made


def source() -> dict[str, Any]:
    return {**OCI_REPOSITORY.manifest("a", "default"), "spec": {"interval": "5m", "url": "oci://r.example.test/a"}}


def release() -> dict[str, Any]:
    reference = {"kind": "OCIRepository", "name": "a"}
    return {**HELM_RELEASE.manifest("a", "default"), "spec": {"interval": "5m", "chartRef": reference}}


def applied(server: ApiServer, where: RequestTarget, body: Any) -> dict[str, Any]:
    return server.apply(where, body, APPLY).object()


def version(manifest: dict[str, Any]) -> int:
    return int(manifest["metadata"]["resourceVersion"])


@pytest.mark.parametrize(("kind", "body"), [(OCI_REPOSITORY, source()), (HELM_RELEASE, release())])
def test_a_new_object_shows_the_default_in_its_answer_in_reads_lists_and_watches(
    server: ApiServer, kind: Kind, body: dict[str, Any]
) -> None:
    where, everything = at(server, kind, "a"), at(server, kind)
    watch = server.watch(everything)
    made = applied(server, where, body)
    assert made["status"] == FRESH
    assert server.get(where).object() == made
    assert server.list(everything).objects() == [made]
    assert [(event.type, event.object) for event in watch.drain()] == [(WatchEventType.ADDED, made)]
    assert "f:status" not in str(made["metadata"]["managedFields"])


def test_the_first_identical_apply_moves_the_resource_version_once_and_nothing_else(server: ApiServer) -> None:
    where = at(server, OCI_REPOSITORY, "a")
    made = applied(server, where, source())
    again = applied(server, where, source())
    assert version(again) > version(made)
    assert {**again["metadata"], "resourceVersion": ""} == {**made["metadata"], "resourceVersion": ""}
    assert (again["spec"], again["status"]) == (made["spec"], made["status"])
    assert applied(server, where, source()) == again


def test_an_update_and_a_patch_that_change_nothing_store_it_too(server: ApiServer) -> None:
    for name, write in (("a", "update"), ("b", "patch")):
        where = at(server, OCI_REPOSITORY, name)
        made = server.create(at(server, OCI_REPOSITORY), {**source(), "metadata": {"name": name}}).object()
        if write == "update":
            after = server.update(where, made).object()
        else:
            after = server.patch(where, {}, PatchType.MERGE).object()
        assert version(after) > version(made)
        assert server.patch(where, {}, PatchType.MERGE).object() == after


def test_a_written_status_stays_and_one_that_a_client_sends_at_creation_does_not(server: ApiServer) -> None:
    where = at(server, OCI_REPOSITORY, "a")
    made = server.create(at(server, OCI_REPOSITORY), {**source(), "status": {"observedGeneration": 7}}).object()
    assert made["status"] == FRESH
    status = at(server, OCI_REPOSITORY, "a", subresource="status")
    server.patch(status, {"status": {"observedGeneration": 1}}, PatchType.MERGE)
    server.apply(where, {**source(), "spec": {**source()["spec"], "interval": "9m"}}, WriteOptions("one", force=True))
    assert server.get(where).object()["status"] == {"observedGeneration": 1}


def test_a_dry_run_shows_it_and_moves_nothing(server: ApiServer) -> None:
    where = at(server, OCI_REPOSITORY, "a")
    dry = WriteOptions("one", dry_run=True)
    assert server.apply(where, source(), dry).object()["status"] == FRESH
    made = applied(server, where, source())
    server.apply(where, source(), dry)
    assert server.get(where).object() == made


def test_kinds_without_such_a_default_have_no_status_and_no_extra_write(server: ApiServer) -> None:
    assert "default" not in str(crd(GIZMO)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"])
    where = at(server, GIZMO, "a")
    made = applied(server, where, gizmo("a"))
    assert "status" not in made
    assert applied(server, where, gizmo("a")) == made
