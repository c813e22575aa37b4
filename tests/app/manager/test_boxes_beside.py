"""`run --box`: one process reconciles its own kinds and those of boxes (PH-6)."""

from typing import Any

import anyio
import pytest

from kubelab.clock import VirtualClock
from kubelab.flux.crds import flux_crds
from kubelab.inprocess import InProcessKube
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.definitions import OPERATOR_BOX
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, HELM_RELEASE, NAMESPACE, RBAC_KINDS
from purekube.boxes.box import Box
from purekube.boxes.decision.decide import composite_of
from purekube.boxes.rollouts.applied_definition import applied_box_definition
from purekube.boxes.rollouts.revisions import CONTROLLER_REVISION
from purekube.controller.shard import WHOLE, Shard
from tests.app.manager.test_standby import CLUSTER, instance
from tests.support.box_site import applied_example, example
from tests.support.furnished import furnish
from tests.support.run_by import run_by
from tests.support.virtual_time import run
from vworkspace_app.commands.extensions import OPERATORS
from vworkspace_app.install.everything import installation
from vworkspace_app.install.extension_manifests import box_rbac
from vworkspace_app.install.names import NAME
from vworkspace_app.install.options import InstallOptions
from vworkspace_app.install.roles import RoleOptions
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_app.observability import LatestStats, Metrics, MetricsTelemetry, ProcessStats
from vworkspace_app.page.surroundings import list_informers
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.instances.context import Settings
from vworkspace_core.overview.object_list import row_of
from vworkspace_core.overview.summary import OverviewState


async def cluster(clock: VirtualClock, box: Box) -> tuple[ApiServer, InProcessKube, InProcessKube]:
    """A server with the kinds of the operator and of a box, and one namespace; who acts, and what the operator uses."""
    server = ApiServer(now=clock.now)
    admin = InProcessKube(server)
    furnish(admin, (*crd_manifests(), *flux_crds(), box.crd), "n", gated=True)
    return server, admin, InProcessKube(server, caller=Caller("operator", agent="operator/1"))


def web(box: Box, namespace: str) -> Manifest:
    return {**box.kind.manifest("web", namespace), "spec": {"image": "registry.example.com/shop:1", "replicas": 2}}


@pytest.mark.slow
@run_by(run)
async def test_a_box_and_an_instance_are_reconciled_by_one_manager_PH_6() -> None:
    webapp = example("webapp")
    clock = VirtualClock()
    _, admin, api = await cluster(clock, webapp)
    settings = OperatorSettings(Settings(cluster_id=CLUSTER))
    latest = LatestStats(ProcessStats(clock.monotonic()))
    telemetry = MetricsTelemetry(clock, latest, Metrics(latest, clock.monotonic), names=1)
    boxes = [composite_of(webapp)]
    manager = Manager(api, clock, settings, random=lambda: 0.5, composites=boxes, telemetry=telemetry)

    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        await manager.wait_ready()
        await admin.create(instance("shop"), kind=APPLICATION_INSTANCE, field_manager="odoo")
        await admin.create(web(webapp, "n"), kind=webapp.kind, field_manager="kubectl")
        await anyio.sleep(5)
        assert await admin.get(ObjectRef(HELM_RELEASE, "n", "shop"))
        made = await admin.get(ObjectRef(DEPLOYMENT, "n", "web"))
        assert get_path(made, "spec", "replicas") == 2
        assert {"applicationinstance", "operation"} < set(manager.worker_pools)

        await anyio.sleep(600)
        telemetry.refresh()
        ((kind, samples),) = latest.current.parents
        waiting = [sample for sample in samples if sample.labels[:2] == ("Ready", "False") and sample.count]
        assert kind == webapp.kind
        assert [(sample.labels[2], sample.count) for sample in waiting] == [("ResourceNotReady", 1)], (
            "nothing runs its pods"
        )
        assert waiting[0].oldest is not None
        assert 600 <= waiting[0].oldest <= 606
        assert {(one.ref.name, one.ref.kind.kind) for one in latest.current.unready} == {
            ("shop", "ApplicationInstance"),
            ("web", "WebApp"),
        }
        group.cancel_scope.cancel()


@run_by(run)
async def test_a_box_beside_the_operator_sees_the_namespaces_that_it_is_given_and_no_other_L25() -> None:
    webapp = example("webapp")
    clock = VirtualClock()
    server, admin, api = await cluster(clock, webapp)
    await admin.create(NAMESPACE.manifest("other"), kind=NAMESPACE, field_manager="admin")
    settings = OperatorSettings(Settings(cluster_id=CLUSTER), box_namespaces=("n",))
    manager = Manager(api, clock, settings, random=lambda: 0.5, composites=[composite_of(webapp)])
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        await manager.wait_ready()
        for namespace in ("n", "other"):
            await admin.create(web(webapp, namespace), kind=webapp.kind, field_manager="kubectl")
        await anyio.sleep(120)
        assert await admin.get(ObjectRef(DEPLOYMENT, "n", "web"))
        assert get_path(await admin.get(ObjectRef(webapp.kind, "other", "web")), "status") is None
        group.cancel_scope.cancel()
    kinds = [f"/{kind.plural}" for kind in (webapp.kind, *webapp.child_kinds)]
    asked = [one.path for one in server.audit if one.user == "operator"]
    of_box = [path for path in asked if any(kind in path for kind in kinds)]
    assert of_box
    assert [path for path in of_box if "/namespaces/n/" not in path] == []


SYSTEM = "vworkspace-system"
OPERATOR = Caller(f"system:serviceaccount:{SYSTEM}:{NAME}", ("system:authenticated",), "operator/1")
ROLES = {kind.kind: kind for kind in RBAC_KINDS}


def applied(box: Box) -> dict[str, Any]:
    return {**OPERATOR_BOX.manifest(box.name), "spec": box_spec(box)}


def box_spec(box: Box) -> dict[str, Any]:
    """The spec of the example's file, with its CRD in it."""
    spec: dict[str, Any] = applied_example(box.name)["spec"]
    return spec


@pytest.mark.slow
@pytest.mark.parametrize("shard", [WHOLE, Shard(0, 2)], ids=str)
@run_by(run)
async def test_the_operator_runs_applied_boxes_with_the_roles_that_are_printed_for_it_PH_10(*, shard: Shard) -> None:
    webapp = example("webapp")
    box = ObjectRef(OPERATOR_BOX, None, webapp.name)
    clock = VirtualClock()
    server = ApiServer(now=clock.now, rbac=True, collects=True)
    admin, api = InProcessKube(server), InProcessKube(server, caller=OPERATOR)
    furnish(admin, (*crd_manifests(), *flux_crds(), applied_box_definition()), "n", "m", SYSTEM)

    async def grant(manifests: Any) -> None:
        for manifest in manifests:
            if manifest["kind"] in ROLES:
                await admin.create(manifest, kind=ROLES[manifest["kind"]], field_manager="admin")

    async def condition(type: str) -> Any:
        return condition_of(await admin.get(box), type)

    await grant(installation(InstallOptions(applied_boxes=True)))
    settings = OperatorSettings(Settings(cluster_id=CLUSTER), applied_boxes=True, shard=shard)
    latest = LatestStats(ProcessStats(clock.monotonic()))
    telemetry = MetricsTelemetry(clock, latest, Metrics(latest, clock.monotonic))
    manager = Manager(api, clock, settings, random=lambda: 0.5, writers=OPERATORS, telemetry=telemetry)

    def scraped(metric: str, *labels: str) -> float:
        """Return the sum of the samples of a metric that have these labels."""
        telemetry.refresh()
        lines = telemetry.metrics.exposition("")[0].decode().splitlines()
        found = (line for line in lines if line.startswith((f"{metric}{{", f"{metric} ")))
        return sum(float(line.rsplit(" ", 1)[1]) for line in found if all(label in line for label in labels))

    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        await manager.wait_ready()
        await admin.create(applied(webapp), kind=OPERATOR_BOX, field_manager="kubectl")
        await anyio.sleep(10)
        assert scraped("vworkspace_operator_boxes", 'condition="Permitted"', 'reason="Forbidden"') == 1
        assert 5 < scraped("vworkspace_operator_boxes_oldest_seconds", 'condition="Permitted"') < 15
        lacking = (await condition("Permitted"))["message"]
        assert f"box rbac webapp.yaml --service-account {NAME} --no-leader-elect" in lacking
        await grant(box_rbac(webapp, RoleOptions(account=NAME, elects=False)))
        await anyio.sleep(120)
        assert (await condition("Serving"))["status"] == "True"
        for namespace in ("n", "m"):  # one of them is another shard's
            await admin.create(web(webapp, namespace), kind=webapp.kind, field_manager="kubectl")
        await anyio.sleep(60)
        for namespace in ("n", "m"):
            assert await admin.get(ObjectRef(DEPLOYMENT, namespace, "web"))
        assert len((await admin.list(CONTROLLER_REVISION, namespace=SYSTEM)).items) == 1
        assert {"operatorbox", "box-webapp", "applicationinstance"} <= set(manager.worker_pools)
        assert scraped("vworkspace_operator_boxes", 'condition="Serving"', 'status="True"') == 1
        assert scraped("vworkspace_operator_box_objects", 'box="webapp"', 'state="moved"') == 2
        assert scraped("vworkspace_operator_parents", 'kind="WebApp"', 'condition="Ready"') == 2
        assert scraped("vworkspace_operator_writes_total", 'controller="box-webapp"') > 4
        assert scraped("vworkspace_operator_informer_objects", 'kind="WebApp"') == 2
        probed = {informer.name for informer in latest.current.vitals.informers}
        assert OPERATOR_BOX.kind in probed
        assert webapp.kind.kind not in probed, "one box must not make the process unready"
        listed = {runner.kind: runner for runner in list_informers(manager.components)}
        raw = listed[OPERATOR_BOX].store.get(None, webapp.name)
        assert raw is not None
        assert row_of(OPERATOR_BOX, raw).state is OverviewState.PROGRESSING, "nothing runs the pods of its objects"
        assert len(listed[webapp.kind].store.names()) == 2

        for namespace in ("n", "m"):
            await admin.delete(ObjectRef(webapp.kind, namespace, "web"))
        await admin.delete(box)
        await anyio.sleep(600)
        assert not (await admin.list(OPERATOR_BOX)).items
        assert scraped("vworkspace_operator_parents", 'kind="WebApp"') == 0
        assert scraped("vworkspace_operator_box_objects") == 0
        assert scraped("vworkspace_operator_boxes") == 0
        assert webapp.kind not in {runner.kind for runner in list_informers(manager.components)}
        group.cancel_scope.cancel()


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"applied_boxes": True, "shard": Shard(1, 2)}], ids=["default", "shard 2/2"])
@run_by(run)
async def test_applied_boxes_run_only_where_the_settings_ask_for_it_and_in_the_first_shard_PH_10(
    *, settings: Any
) -> None:
    webapp = example("webapp")
    clock = VirtualClock()
    _, admin, api = await cluster(clock, webapp)
    await admin.create(applied_box_definition(), kind=CUSTOM_RESOURCE_DEFINITION, field_manager="admin")
    manager = Manager(api, clock, OperatorSettings(Settings(cluster_id=CLUSTER), **settings), random=lambda: 0.5)
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        await manager.wait_ready()
        await admin.create(applied(webapp), kind=OPERATOR_BOX, field_manager="kubectl")
        await anyio.sleep(600)
        assert "status" not in await admin.get(ObjectRef(OPERATOR_BOX, None, webapp.name))
        group.cancel_scope.cancel()


@pytest.mark.slow
@run_by(run)
async def test_an_applied_box_of_a_kind_that_runs_beside_the_operator_is_not_served_PH_10() -> None:
    webapp = example("webapp")
    clock = VirtualClock()
    _, admin, api = await cluster(clock, webapp)
    await admin.create(applied_box_definition(), kind=CUSTOM_RESOURCE_DEFINITION, field_manager="admin")
    await admin.create(NAMESPACE.manifest(SYSTEM), kind=NAMESPACE, field_manager="admin")
    settings = OperatorSettings(Settings(cluster_id=CLUSTER), applied_boxes=True)
    manager = Manager(api, clock, settings, random=lambda: 0.5, composites=[composite_of(webapp)])
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        await manager.wait_ready()
        spec = {**box_spec(webapp), "crd": {"name": webapp.kind.crd_name}}
        await admin.create({**OPERATOR_BOX.manifest("others"), "spec": spec}, kind=OPERATOR_BOX, field_manager="me")
        await anyio.sleep(60)
        serving = condition_of(await admin.get(ObjectRef(OPERATOR_BOX, None, "others")), "Serving")
        assert "would both write the status" in serving["message"]
        group.cancel_scope.cancel()
