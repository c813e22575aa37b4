"""`version`: what runs here and there (SEE-5)."""

import json
from pathlib import Path

import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import DEPLOYMENT, NAMESPACE
from purekube_http import KubeApiClient
from tests.e2e.test_least_privilege import kubeconfig_of
from tests.support.commands import run
from tests.support.e2e_world import World
from tests.support.rights import printed
from tests.support.run_by import run_by
from tests.support.servers import ENVIRONMENT
from vworkspace_app import VERSION
from vworkspace_app.commands.versions import operator_in, versions_in_cluster
from vworkspace_core.api.kinds import OPERATION, OWN_KINDS

pytestmark = pytest.mark.slow


@run_by(ENVIRONMENT.run)
async def test_command_server_and_definitions_are_told_SEE_5(world: World, *, tmp_path: Path) -> None:
    assert world.reached is not None
    ended = run("version", "-o", "json", "--kubeconfig", kubeconfig_of(world.reached.operator, tmp_path))
    assert ended.status == 0, ended.err
    told = json.loads(ended.out)
    assert told["client"]["version"] == VERSION
    assert told["server"]["version"].startswith("v1.")
    assert set(told["definitions"]) == {kind.crd_name for kind in OWN_KINDS}
    assert told["definitions"][OPERATION.crd_name] == [OPERATION.version]
    assert told["operator"] == {}


def test_without_a_cluster_its_own_version_is_told_and_the_status_is_1_SEE_5(tmp_path: Path) -> None:
    absent = run("version", "--kubeconfig", tmp_path / "absent")
    assert (absent.status, VERSION in absent.out) == (1, True)
    assert absent.problems
    assert run("version", "--client").status == 0


def test_the_installed_operator_is_told_by_its_deployment_SEE_5() -> None:
    pod = {"spec": {"containers": [{"name": "operator", "image": "r.example/operator@sha256:1"}]}}
    labels = {"app.kubernetes.io/version": "0.1.0"}
    deployment = {"metadata": {"labels": labels}, "spec": {"template": pod}}
    assert operator_in(deployment) == {"version": "0.1.0", "image": "r.example/operator@sha256:1"}


@run_by(ENVIRONMENT.run)
async def test_an_operator_of_several_shards_is_told_too_SEE_5(world: World) -> None:
    manifest = next(one for one in printed("--shards", "2") if one["kind"] == "Deployment")
    place, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
    assert world.reached is not None
    if world.find(ObjectRef(NAMESPACE, None, place)) is None:
        pytest.skip("this cluster has no namespace of the operator")
    world.hands.do(lambda api: api.apply(manifest, kind=DEPLOYMENT, field_manager="kubectl", force=True))
    try:
        async with KubeApiClient(world.reached.admin) as api:
            assert (await versions_in_cluster(place, api))["operator"]["version"] == VERSION
    finally:
        world.delete_object(ObjectRef(DEPLOYMENT, place, name))
