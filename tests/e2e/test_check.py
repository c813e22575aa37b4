"""`check` of a cluster with the printed roles: what is there is well, what was taken away is named (SEE-1, RUN-7)."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import DEPLOYMENT, NAMESPACE
from purekube_http import KubeApiClient
from tests.e2e.test_least_privilege import kubeconfig_of
from tests.support.cluster_environment import RIGHTS
from tests.support.commands import run
from tests.support.e2e_world import NS, VELERO_NS, World
from tests.support.rights import printed
from tests.support.run_by import run_by
from tests.support.servers import ENVIRONMENT
from vworkspace_app.install.options import InstallOptions
from vworkspace_app.overview.checking import before_installing, installed
from vworkspace_core.overview.checkup import CheckFinding, CheckResult

OPTIONS = InstallOptions(velero_namespace=VELERO_NS)


async def found(world: World) -> dict[str, CheckFinding]:
    """What an administrator is told, by point."""
    assert world.reached is not None
    async with KubeApiClient(world.reached.admin) as api:
        return {finding.point: finding async for finding in installed(api, OPTIONS, datetime.now(UTC))}


@pytest.mark.slow
@run_by(ENVIRONMENT.run)
async def test_every_printed_right_is_asked_for_and_one_that_is_taken_away_is_named_SEE_1_RUN_7(world: World) -> None:
    assert world.reached is not None
    if not world.reached.restricted:
        pytest.skip("this cluster asks for no rights")
    points = await found(world)
    places = ("the whole cluster", NS, VELERO_NS, OPTIONS.namespace)
    for place in places:
        assert points[f"rights in {place}"].verdict is CheckResult.OK, points[f"rights in {place}"]
    assert points["CRD ApplicationInstance"].verdict is CheckResult.OK
    assert points["Flux"].verdict is CheckResult.OK
    assert points["engine velero"].verdict is CheckResult.OPTIONAL, "this world has no engines"
    role = ObjectRef(RIGHTS["RoleBinding"], NS, "vworkspace-operator")
    world.hands.do(lambda api: api.delete(role))
    lacking = (await found(world))[f"rights in {NS}"]
    assert lacking.verdict is CheckResult.FAILED
    command = f"vworkspace-operator manifests --rbac-only --namespace {NS} | kubectl apply --server-side -f -"
    assert lacking.remedy == command


@pytest.mark.slow
@pytest.mark.parametrize("shards", ["1", "2"])
@run_by(ENVIRONMENT.run)
async def test_a_deployment_without_a_control_plane_needs_no_credential_SEE_1_SEE_4(
    world: World, *, shards: str
) -> None:
    name = "vworkspace-operator" if shards == "1" else "vworkspace-operator-shard-0"
    ref = ObjectRef(DEPLOYMENT, OPTIONS.namespace, name)
    if ref.namespace is None or world.find(ObjectRef(NAMESPACE, None, ref.namespace)) is None:
        pytest.skip("this cluster has no namespace of the operator")
    assert "credentials" in await found(world)
    words = ("--no-agent", "--cluster-id", "c", "--shards", shards)
    manifest = next(one for one in printed(*words) if one["kind"] == "Deployment")
    world.hands.do(lambda api: api.apply(manifest, kind=DEPLOYMENT, field_manager="kubectl", force=True))
    try:
        points = await found(world)
        assert "credentials" not in points
        # The remedy for one that is not installed would install it a second time, beside its shards.
        assert "not installed" not in points["operator"].told
    finally:
        world.delete_object(ref)


@run_by(ENVIRONMENT.run)
async def test_before_installing_an_administrator_may_and_the_operator_may_not_SEE_1(world: World) -> None:
    assert world.reached is not None

    async def rights(config: Any) -> CheckResult:
        async with KubeApiClient(config) as api:
            return next(iter([each.verdict async for each in before_installing(api) if each.point == "your rights"]))

    assert await rights(world.reached.admin) is CheckResult.OK
    if world.reached.restricted:
        assert await rights(world.reached.operator) is CheckResult.FAILED


@pytest.mark.slow
@run_by(ENVIRONMENT.run)
async def test_the_command_says_what_to_do_and_ends_with_1_where_a_point_failed_SEE_1(
    world: World, *, tmp_path: Path
) -> None:
    assert world.reached is not None
    kubeconfig = kubeconfig_of(world.reached.operator, tmp_path)
    ended = run("check", "--kubeconfig", kubeconfig)
    assert ended.status == 1, ended.err
    assert "unknown  operator: get Deployment" in ended.out
    assert "run `vworkspace-operator register`" in ended.out
    assert "unknown  rights in the whole cluster: you may not ask for the rights of others" in ended.out
