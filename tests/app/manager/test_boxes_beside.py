"""`run --box`: one process reconciles its own kinds and those of boxes (PH-6)."""

import anyio

from kubelab.clock import VirtualClock
from kubelab.downstream.kinds import DEPLOYMENT
from kubelab.flux.crds import flux_crds
from kubelab.inprocess import InProcessKube
from kubelab.model.calls import Caller
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, HELM_RELEASE, NAMESPACE
from purekube.boxes.box import Box
from purekube.boxes.decide import composite_of
from purekube.boxes.labels import child_kinds
from tests.app.manager.test_standby import CLUSTER, instance
from tests.support.box_site import example
from tests.support.virtual_time import run
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_app.observability import LatestStats, Metrics, MetricsTelemetry, ProcessStats
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.instances.context import Settings


async def cluster(clock: VirtualClock, box: Box) -> tuple[ApiServer, InProcessKube, InProcessKube]:
    """A server with the kinds of the operator and of a box, and one namespace; who acts, and what the operator uses."""
    server = ApiServer(now=clock.now)
    admin = InProcessKube(server)
    for crd in (*crd_manifests(), *flux_crds(), box.crd):
        await admin.create(crd, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="admin")
    gated = {**NAMESPACE.manifest("n"), "metadata": {"name": "n", "labels": {"managed-by": "vworkspace"}}}
    await admin.create(gated, kind=NAMESPACE, field_manager="admin")
    return server, admin, InProcessKube(server, caller=Caller("operator", agent="operator/1"))


def web(box: Box, namespace: str) -> Manifest:
    return {**box.kind.manifest("web", namespace), "spec": {"image": "registry.example.com/shop:1", "replicas": 2}}


def test_a_box_and_an_instance_are_reconciled_by_one_manager_PH_6() -> None:
    webapp = example("webapp")

    async def main() -> None:
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

    run(main)


def test_a_box_beside_the_operator_sees_the_namespaces_that_it_is_given_and_no_other_L25() -> None:
    webapp = example("webapp")

    async def main() -> None:
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
        kinds = [f"/{kind.plural}" for kind in (webapp.kind, *child_kinds(webapp))]
        asked = [one.path for one in server.audit if one.user == "operator"]
        of_box = [path for path in asked if any(kind in path for kind in kinds)]
        assert of_box
        assert [path for path in of_box if "/namespaces/n/" not in path] == []

    run(main)
