"""The verbs of the command line do what they say in a cluster, and say what they did (REC-14, RES-4, OPS-4, OPS-11)."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import anyio
import pytest

from purekube.apimachinery.manifest import Kind, Manifest, get_path
from purekube.apimachinery.resources import POD, SECRET
from purekube_http import KubeApiClient
from purekube_run.process.command_line import CommandError
from tests.support.e2e_world import BROKEN, INSTANCE, NAME, NS, OWN_NS, World
from tests.support.embedded_server import config_of
from tests.support.jobs import CLUSTER_ID
from tests.support.operation_requests import APPROVAL_SECRET, ENGINES_QUICK, Operating
from tests.support.run_by import run_by
from tests.support.scripted_server import reply, status, stream, wire
from tests.support.servers import ENVIRONMENT, IN_PROCESS, Face
from vworkspace_app.verbs import ApprovalRequest, LogRequest, approve_operation, execute_verb, write_logs
from vworkspace_core.api.labels import CLI_MANAGER
from vworkspace_core.overview import actions

in_both_worlds = pytest.mark.parametrize("face", [IN_PROCESS, ENVIRONMENT], ids=lambda face: face.name)


def do(
    world: World, name: str, decide: Callable[[Kind, Manifest], actions.PlannedAction | actions.ActionOutcome]
) -> str:
    """What the command does, by an administrator's hands."""
    return world.hands.do(lambda api: execute_verb(api, name, NS, decide))


@in_both_worlds
def test_an_application_is_suspended_and_resumed_and_nobody_holds_the_field_after_RES_4(face: Face) -> None:
    async def story(world: World) -> None:
        await world.ready()
        assert "is paused" in do(world, NAME, actions.suspend)
        await world.until(lambda: world.conditions().get("Suspended") == "True/ManuallySuspended", "suspended")
        assert "is suspended already" in do(world, NAME, actions.suspend)
        assert "is resumed" in do(world, f"appinst/{NAME}", actions.resume)
        await world.until(lambda: world.conditions().get("Suspended") != "True/ManuallySuspended", "resumed")
        live = world.get(INSTANCE)
        assert "suspend" not in live["spec"] or live["spec"]["suspend"] is False
        entries = [each for each in live["metadata"]["managedFields"] if each["manager"] == CLI_MANAGER]
        assert not any(get_path(each, "fieldsV1", "f:spec", "f:suspend") is not None for each in entries)

    face.run(story)


@run_by(IN_PROCESS.run, engines=ENGINES_QUICK)
async def test_the_cluster_is_never_what_a_name_means_to_a_command_that_acts_RES_4(world: World) -> None:
    ops = Operating(world)
    await ops.prepare()
    ops.submit("runCommand.job", CLUSTER_ID)
    assert "is asked to stop" in do(world, CLUSTER_ID, actions.cancel)
    with pytest.raises(CommandError, match=r"^there is no ApplicationInstance or Operation nobody in namespace"):
        do(world, "nobody", actions.cancel)


@pytest.mark.slow
@run_by(IN_PROCESS.run)
async def test_a_release_that_flux_gave_up_is_tried_again_REC_14(world: World) -> None:
    await world.ready()
    world.ask(BROKEN, 8)
    await world.until(lambda: world.conditions().get("Stalled", "").startswith("True"), "stalled")
    tries = len(world.flux_writes())
    told = do(world, NAME, partial(actions.retry, now=datetime.now(UTC)))
    assert "retry requested" in told
    await world.until(lambda: len(world.flux_writes()) > tries, "Flux tries again")


@pytest.mark.slow
@run_by(IN_PROCESS.run, engines=ENGINES_QUICK)
async def test_an_operation_is_approved_for_one_run_with_what_it_says_now_OPS_4(world: World) -> None:
    ops = Operating(world)
    await ops.prepare()
    backup = await ops.reaches(ops.submit("backup.velero", "kept"), "Succeeded")
    named = {"backupName": get_path(backup, "status", "outputs", "backupName")}
    ref = ops.submit("restore.velero", "restore", named, approvals={"required": True})
    await ops.says(ref, "Blocked", "True/AwaitingApproval")
    request = ApprovalRequest("op/restore", NS, "alice", timedelta(hours=1), OWN_NS)
    with pytest.raises(CommandError, match="nobody can approve here"):
        world.hands.do(lambda api: approve_operation(api, request, world.clock.now()))
    data = {"approval-secret": base64.b64encode(APPROVAL_SECRET).decode()}
    world.create_object({**SECRET.manifest("vworkspace-agent-credentials", OWN_NS), "data": data}, SECRET)
    told = world.hands.do(lambda api: approve_operation(api, request, world.clock.now()))
    assert told == f"Operation {NS}/restore is approved for one run, which has to begin within 60 minutes"
    await ops.reaches(ref, "Succeeded")


@pytest.mark.slow
@run_by(IN_PROCESS.run, engines=ENGINES_QUICK)
async def test_an_operation_is_cancelled_once_OPS_11(world: World) -> None:
    ops = Operating(world)
    await ops.prepare()
    ref = ops.submit("restore.velero", "restore", {"backupName": "x"}, approvals={"required": True})
    assert "is asked to stop" in do(world, "restore", actions.cancel)
    await ops.reaches(ref, "Cancelled")
    assert "has ended: Cancelled" in do(world, "restore", actions.cancel)


# --- logs: an API server without kubelets has none, so it is played ---------------------------------------------------


def pods(*items: Manifest) -> dict[str, Any]:
    """A page of them."""
    return {"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": list(items)}


def test_logs_are_told_line_by_line_with_what_has_not_started() -> None:
    spec = {"initContainers": [{"name": "prepare"}], "containers": [{"name": "main"}]}
    pod = {**POD.manifest("operator-1", OWN_NS), "spec": spec}
    pod["metadata"] |= {"uid": "u-1", "resourceVersion": "1"}
    lines: list[str] = []

    async def main() -> None:
        async with wire() as server:
            server.scripts.extend(
                [
                    reply(pods(pod)),
                    stream(b"one\ntw", b"o\nthree"),
                    status(400, "BadRequest", 'container "main" in pod "operator-1" is waiting to start'),
                ]
            )
            async with KubeApiClient(config_of(server.url)) as api:
                await write_logs(api, LogRequest("", None, False, 20, OWN_NS), lines.append)
            asked = server.requests[1]
            assert asked.path == f"/api/v1/namespaces/{OWN_NS}/pods/operator-1/log"
            assert asked.query == {"container": "prepare", "tailLines": "20"}

    anyio.run(main)
    assert lines[:3] == [f"[operator-1/prepare] {line}" for line in ("one", "two", "three")]
    assert lines[3].startswith("[operator-1/main] (")
    assert "waiting to start" in lines[3]


def test_without_a_pod_it_is_said_where_was_looked() -> None:
    async def main() -> None:
        async with wire() as server:
            server.scripts.append(reply(pods()))
            async with KubeApiClient(config_of(server.url)) as api:
                await write_logs(api, LogRequest("", None, False, None, "elsewhere"), print)

    with pytest.raises(CommandError, match="no pod of the operator is there in elsewhere: give --system-namespace"):
        anyio.run(main)
