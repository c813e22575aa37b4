"""What `kubectl get clusters` and `describe` tell, in process and over HTTP, also in an outage (RES-3, PULL-5)."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from kubelab.clock import VirtualClock
from kubelab.http.tables.render import table
from kubelab.inprocess import InProcessKube
from kubelab.model.calls import Caller
from purekube.apimachinery import resources as known
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.resources import NAMESPACE
from purekube.ports import PatchType
from tests.support.e2e_world import AGENT_TOKEN, CLUSTER, NS, OPERATOR, UNGATED_NS, World, install
from tests.support.e2e_world import QUICK as QUICK_FLUX
from tests.support.memory_job_store import MemoryJobStore
from tests.support.run_by import run_by
from tests.support.servers import FACES, IN_PROCESS, Face
from tests.support.virtual_time import run
from vworkspace_app.credentials.live_credential import Live
from vworkspace_app.manager.agent import AgentOptions
from vworkspace_app.manager.manager import Manager
from vworkspace_app.manager.settings import OperatorSettings
from vworkspace_core.api import kinds as own_kinds
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.clusters.decision import cluster_manifest
from vworkspace_core.credentials.secret import Credentials
from vworkspace_core.instances.context import Settings
from vworkspace_fake.controlplane import InProcessControlPlane, ScriptedFault

OURS = ObjectRef(own_kinds.CLUSTER, None, CLUSTER)
QUICK = OperatorSettings(
    Settings(cluster_id=CLUSTER), identity="e2e", version="1.2.3", unreachable_seconds=1.0, disconnected_seconds=3.0
)
on_each = pytest.mark.parametrize("face", FACES, ids=lambda face: face.name)


def said(world: World) -> dict[str, str]:
    """Status and reason by condition type."""
    conditions = get_path(world.find(OURS) or {}, "status", "conditions") or ()
    return {condition["type"]: f"{condition['status']}/{condition['reason']}" for condition in conditions}


def told(world: World, kind: str) -> str:
    conditions = get_path(world.get(OURS), "status", "conditions")
    return next(str(condition["message"]) for condition in conditions if condition["type"] == kind)


OPEN = ("Warning", "OpenSettings")


def notes(world: World) -> list[tuple[str, str]]:
    """Type and reason of every Kubernetes Event about the connection as it was written; a repeat grows a series.

    What stands open by the settings of these tests is told once, at a time of its own.
    """
    found = (event.object for event in world.history.events(known.EVENT))
    told = [(event["type"], event["reason"]) for event in found if event["regarding"]["kind"] == "Cluster"]
    assert told.count(OPEN) <= 1
    return [note for note in told if note != OPEN]


async def reports(world: World) -> None:
    """Somebody applies the Cluster object, and the operator reports on it."""
    world.create_object(cluster_manifest(CLUSTER, "https://odoo.example.com"), own_kinds.CLUSTER)
    await world.until(lambda: said(world).get("Connected") == "True/RoundTripOK", "Connected")


def row(world: World) -> dict[str, Any]:
    """The columns of `kubectl get clusters`."""
    found = table(world.cluster.resource(own_kinds.CLUSTER), [world.get(OURS)], {}, "", world.clock.now())
    names = [column["name"] for column in found["columnDefinitions"]]
    return dict(zip(names, found["rows"][0]["cells"], strict=True))


@pytest.mark.slow
@on_each
def test_through_an_outage(face: Face) -> None:
    async def story(world: World) -> None:
        await reports(world)
        status = world.get(OURS)["status"]
        assert said(world) == {
            "Connected": "True/RoundTripOK",
            "Disconnected": "False/RoundTripOK",
            "Authenticated": "True/CredentialAccepted",
            "ControllersHealthy": "True/AllControllersReady",
            "BufferOverflow": "False/BufferDrained",
            "Hardened": "False/OpenSettings",
        }
        assert (NS in status["managedNamespaces"], status["operatorVersion"]) == (True, "1.2.3")
        assert {"helm", "helmHookJob", "job"} <= set(status["installedEngines"])
        assert status["credentialsSecretRef"] == {"name": "vworkspace-agent-credentials"}

        world.control.faults.outage(ScriptedFault(status=502))
        world.control.enqueue(CLUSTER, kind="apply", payload={}, idempotency_key="wakes the poll")
        await world.until(lambda: said(world)["Connected"] == "False/ControlPlaneUnreachable", "unconnected")
        assert told(world, "Connected").startswith("since 20")
        assert "502" in told(world, "Connected")
        await world.until(lambda: said(world)["Disconnected"] == "True/NoRecentRoundTrip", "Disconnected")
        assert said(world)["Authenticated"] == "True/CredentialAccepted"

        world.control.faults.outage(None)
        await world.until(lambda: said(world)["Connected"] == "True/RoundTripOK", "Connected again", seconds=90)
        await world.until(lambda: said(world)["Disconnected"] == "False/RoundTripOK", "no longer Disconnected")
        await world.until(lambda: len(notes(world)) >= 5, "an Event for each change")
        assert notes(world) == [
            ("Normal", "RoundTripOK"),
            ("Warning", "ControlPlaneUnreachable"),
            ("Warning", "NoRecentRoundTrip"),
            ("Normal", "RoundTripOK"),
            ("Normal", "RoundTripOK"),
        ], "once per change, not once per retry"

    face.run(story, decisions=QUICK)


@run_by(IN_PROCESS.run, decisions=QUICK)
async def test_a_rejected_credential_is_told_with_its_cure_PULL_7(world: World) -> None:
    await reports(world)
    world.control.tokens.revoke(AGENT_TOKEN)
    await world.until(lambda: said(world)["Authenticated"] == "False/CredentialRejected", "the rejection")
    assert "Secret vworkspace-agent-credentials" in told(world, "Authenticated")
    assert AGENT_TOKEN not in str(world.get(OURS))
    assert said(world)["Connected"] == "True/RoundTripOK"


@pytest.mark.slow
@run_by(IN_PROCESS.run)
async def test_an_hour_of_calm_costs_a_write_a_minute_and_no_reconcile_of_instances_REC_6(world: World) -> None:
    await reports(world)
    await world.ready()
    await world.clock.sleep(120)
    world.forget_writes()

    await world.clock.sleep(3600)

    paths = {entry.path for entry in world.writes()}
    assert [path.partition("?")[0] for path in paths] == [f"/apis/ops.vworkspace.io/v1alpha1/clusters/{CLUSTER}/status"]
    assert 55 <= len(world.writes()) <= 61
    assert len(notes(world)) == 1


@run_by(IN_PROCESS.run)
async def test_namespaces_and_kinds_that_come_and_go_are_told_at_once(world: World) -> None:
    await reports(world)

    world.edit(ObjectRef(NAMESPACE, None, UNGATED_NS), {"metadata": {"labels": {"managed-by": "vworkspace"}}})
    await world.until(
        lambda: world.get(OURS)["status"]["managedNamespaces"] == [UNGATED_NS, NS], "both namespaces", seconds=5
    )
    world.delete_object(ObjectRef(known.CUSTOM_RESOURCE_DEFINITION, None, known.HELM_RELEASE.crd_name))
    await world.until(lambda: said(world)["ControllersHealthy"] == "False/ControllerMissing", "missing", seconds=5)
    assert "helm" not in world.get(OURS)["status"]["installedEngines"]
    assert "helm-controller" in told(world, "ControllersHealthy")


@run_by(IN_PROCESS.run)
async def test_the_Cluster_of_another_id_and_a_damaged_one_are_left_alone(world: World) -> None:
    other = cluster_manifest("cluster-other", "https://odoo.example.com")
    world.create_object(other, own_kinds.CLUSTER)
    await reports(world)

    assert "status" not in world.get(ObjectRef(own_kinds.CLUSTER, None, "cluster-other"))


@pytest.mark.slow
@run_by(IN_PROCESS.run)
async def test_kubectl_get_tells_at_a_glance(world: World) -> None:
    await reports(world)
    await world.clock.sleep(300)
    shown = row(world)

    assert list(shown)[:7] == ["Name", "Cluster", "Connected", "Authenticated", "Healthy", "Heartbeat", "Age"]
    assert (shown["Connected"], shown["Authenticated"]) == ("RoundTripOK", "CredentialAccepted")
    assert (shown["Healthy"], shown["Buffer"]) == ("AllControllersReady", "BufferDrained")
    assert shown["Since"] in ("5m", "5m0s")
    assert shown["Heartbeat"].endswith("s")


@pytest.mark.slow
def test_log_lines_tell_each_change_of_connectivity_once() -> None:
    with capture_logs() as lines:

        async def story(world: World) -> None:
            await reports(world)
            world.control.faults.outage(ScriptedFault(status=502))
            await world.clock.sleep(900)
            world.control.faults.outage(None)
            await world.clock.sleep(120)

        IN_PROCESS.run(story)
    about = [line for line in lines if "control plane" in line["event"] and "deliveries" not in line["event"]]
    assert [line["event"] for line in about] == [
        "connected to the control plane",
        "the control plane is unreachable; trying again with backoff",
        "connected to the control plane",
    ]
    assert 800 <= about[-1]["away_seconds"] <= 961


def operate(story: Callable[[World, Callable[[], Manager]], Awaitable[None]], crds: Any = None) -> None:
    """A story that starts operators itself, with a control plane whose URL they know."""

    async def main() -> None:
        world = World.create(VirtualClock(), QUICK_FLUX, crds=crds)

        def operator() -> Manager:
            return Manager(
                InProcessKube(world.cluster, caller=Caller(OPERATOR)),
                world.clock,
                QUICK,
                agent=AgentOptions(InProcessControlPlane(world.control, AGENT_TOKEN), MemoryJobStore()),
                credentials=Live(Credentials(url="https://odoo.example.com", cluster_id=CLUSTER)),
                random=lambda: 0.5,
            )

        await story(world, operator)

    run(main)


@pytest.mark.slow
@run_by(operate)
async def test_where_there_is_no_Cluster_object_the_operator_makes_it_once(
    world: World, operator: Callable[[], Manager]
) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(operator().run)
        await world.until(lambda: said(world).get("Connected") == "True/RoundTripOK", "Connected")
        spec = {"clusterId": CLUSTER, "controlPlaneEndpoint": "https://odoo.example.com"}
        assert world.get(OURS)["spec"] == spec
        world.delete_object(OURS)
        await world.clock.sleep(600)
        assert world.find(OURS) is None, "whoever took it away meant it"
        group.cancel_scope.cancel()


@pytest.mark.slow
@run_by(operate)
async def test_a_Cluster_object_that_an_earlier_process_made_is_not_made_again_RES_3(
    world: World, operator: Callable[[], Manager]
) -> None:
    world.create_object(cluster_manifest(CLUSTER, "https://odoo.example.com"), own_kinds.CLUSTER)
    async with anyio.create_task_group() as group:
        group.start_soon(operator().run)
        await world.until(lambda: said(world).get("Connected") == "True/RoundTripOK", "Connected")
        world.delete_object(OURS)
        await world.clock.sleep(600)
        assert world.find(OURS) is None, "a user has deleted it"
        group.cancel_scope.cancel()


@run_by(operate)
async def test_a_Cluster_object_under_another_name_is_taken_and_none_is_made(
    world: World, operator: Callable[[], Manager]
) -> None:
    mine = {**cluster_manifest(CLUSTER, "https://other.example.com"), "metadata": {"name": "mine"}}
    world.create_object(mine, own_kinds.CLUSTER)
    async with anyio.create_task_group() as group:
        group.start_soon(operator().run)
        ref = ObjectRef(own_kinds.CLUSTER, None, "mine")
        await world.until(lambda: get_path(world.get(ref), "status", "lastHeartbeat"), "its status")
        assert world.find(OURS) is None
        assert world.get(ref)["spec"]["controlPlaneEndpoint"] == "https://other.example.com"
        group.cancel_scope.cancel()


@run_by(operate, crds=())
async def test_a_definition_that_is_installed_later_is_noticed(world: World, operator: Callable[[], Manager]) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(operator().run)
        await world.clock.sleep(60)
        install(world.hands, crd_manifests())
        await world.until(lambda: said(world).get("Connected") == "True/RoundTripOK", "Connected")
        assert said(world)["ControllersHealthy"] == "False/ControllerMissing"
        group.cancel_scope.cancel()


@pytest.mark.slow
@pytest.mark.parametrize("away", [False, True])
@run_by(operate)
async def test_a_restart_moves_no_condition(world: World, operator: Callable[[], Manager], *, away: bool) -> None:
    async with anyio.create_task_group() as first:
        first.start_soon(operator().run)
        await world.until(lambda: said(world).get("Connected") == "True/RoundTripOK", "Connected")
        if away:
            world.control.faults.outage(ScriptedFault(status=502))
            await world.until(lambda: "True" in said(world)["Disconnected"], "Disconnected", seconds=120)
        first.cancel_scope.cancel()
    before, since, events = said(world), world.get(OURS)["status"]["conditions"], len(notes(world))
    async with anyio.create_task_group() as second:
        second.start_soon(operator().run)
        await world.clock.sleep(90)
        second.cancel_scope.cancel()
    assert (said(world), len(notes(world))) == (before, events)
    times = [condition["lastTransitionTime"] for condition in world.get(OURS)["status"]["conditions"]]
    assert times == [one["lastTransitionTime"] for one in since]


@pytest.mark.slow
@run_by(operate)
async def test_a_status_that_another_manager_holds_is_reported_on_the_cluster_object_once_RES_4(
    world: World, operator: Callable[[], Manager]
) -> None:
    """The operator forces no ownership, so that only an Event can say why the report stays old."""
    async with anyio.create_task_group() as group:
        group.start_soon(operator().run)
        await world.until(lambda: said(world).get("Connected") == "True/RoundTripOK", "Connected")
        edited, merge = {"status": {"lastHeartbeat": "2020-01-01T00:00:00Z"}}, PatchType.MERGE
        admin = InProcessKube(world.cluster)
        await admin.patch(OURS, edited, patch_type=merge, field_manager="kubectl-edit", subresource="status")
        await world.clock.sleep(900)
        group.cancel_scope.cancel()
    events = (event.object for event in world.history.events(known.EVENT))
    held = [event["note"] for event in events if event["reason"] == "StatusHeld"]
    assert len(held) == 1
    assert held[0].startswith("kubectl-edit holds .status.lastHeartbeat, so the operator cannot write the status")
    assert "kubectl patch clusters.ops.vworkspace.io" in held[0]
