"""`status` tells the truth of a cluster, with an operator at work and without one (SEE-1)."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from kubelab.inprocess import InProcessKube
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import JOB, POD
from purekube_run.process.command_line import CommandError
from purekube_run.process.yaml_documents import Format
from tests.e2e.test_least_privilege import kubeconfig_of
from tests.support.commands import run
from tests.support.e2e_world import INSTANCE, NAME, NS, OWN_NS, RELEASE, SOURCE, UNGATED_NS, World, instance
from tests.support.operation_requests import ENGINES_QUICK, LABELS, Operating
from tests.support.run_by import run_by
from tests.support.servers import ENVIRONMENT, IN_PROCESS, Face
from vworkspace_app.commands.status import list_text, object_text
from vworkspace_app.overview.fleet_watch import FollowedObjects
from vworkspace_app.overview.reading import ObjectContext, OwnObjects, read_object_context, read_own_objects
from vworkspace_app.verbs import find_named_object
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.overview.summary import OverviewState, summary_of
from vworkspace_core.overview.tree import tree_of

NOW = datetime.now(UTC)
in_both_worlds = pytest.mark.parametrize("face", [IN_PROCESS, ENVIRONMENT], ids=lambda face: face.name)


def fleet_of(world: World, namespace: str | None = None) -> OwnObjects:
    """What `status` reads."""
    return world.hands.do(lambda api: read_own_objects(api, namespace=namespace, system_namespace="vworkspace-system"))


def around(world: World, name: str) -> ObjectContext:
    """What `status NAME` reads."""

    async def read(api: Any) -> ObjectContext:
        return await read_object_context(api, *await find_named_object(api, name, NS), now=world.clock.now())

    return world.hands.do(read)


@in_both_worlds
def test_the_tree_leads_from_the_job_to_what_runs_SEE_1(face: Face) -> None:
    async def story(world: World) -> None:
        await world.ready()
        report = around(world, NAME)
        branch = tree_of(report.kind, report.manifest, report.objects)
        assert branch.summary.state is OverviewState.READY
        assert [child.summary.ref for child in branch.children] == [SOURCE, RELEASE]
        assert {child.summary.state for child in branch.children} == {OverviewState.READY}
        text = object_text(report, None, NOW)
        assert text.startswith(f"Source: control plane (job ApplicationInstance/{NS}/{NAME}@7)\n")
        told = json.loads(object_text(report, Format.JSON, NOW))
        assert (told["state"], len(told["children"])) == ("Ready", 2)

    face.run(story)


@pytest.mark.slow
@run_by(IN_PROCESS.run, engines=ENGINES_QUICK)
async def test_below_an_operation_stand_its_job_and_its_pods_SEE_1(world: World) -> None:
    ops = Operating(world)
    await ops.prepare()
    ref = ops.submit("runCommand.job", "tell")
    await ops.reaches(ref, "Succeeded")
    report = around(world, "op/tell")
    (job,) = tree_of(report.kind, report.manifest, report.objects).children
    assert job.summary.ref.kind == JOB
    assert {child.summary.ref.kind for child in job.children} <= {POD}
    whole = around(world, NAME)
    branch = tree_of(whole.kind, whole.manifest, whole.objects)
    assert "tell" in {child.summary.ref.name for child in branch.children}


@pytest.mark.slow
@in_both_worlds
def test_what_is_in_the_way_is_told_with_the_command_that_takes_it_away_SEE_1(face: Face) -> None:
    async def story(world: World) -> None:
        elsewhere = instance(metadata={"name": NAME, "namespace": UNGATED_NS, "labels": LABELS})
        elsewhere["spec"]["release"]["namespace"] = UNGATED_NS
        world.create_object(elsewhere, APPLICATION_INSTANCE)

        def waits() -> bool:
            states = [summary_of(*each).state for each in fleet_of(world, UNGATED_NS).objects]
            return OverviewState.WAITING in states

        await world.until(waits, "the instance waits for its namespace")
        text = list_text(fleet_of(world, UNGATED_NS), None, NOW)
        assert f"kubectl label namespace {UNGATED_NS} managed-by=vworkspace" in text
        told = json.loads(list_text(fleet_of(world, UNGATED_NS), Format.JSON, NOW))
        assert told["counts"]["Waiting"] == 1

    face.run(story)


@run_by(IN_PROCESS.run, engines=ENGINES_QUICK)
async def test_what_is_not_there_or_may_be_several_is_told_SEE_1(world: World) -> None:
    with pytest.raises(CommandError, match="there is no ApplicationInstance or Operation or Cluster nobody"):
        around(world, "nobody")
    with pytest.raises(CommandError, match=r"sheep is no kind of the operator's.* namespace sheep: dolly -n sheep$"):
        around(world, "sheep/dolly")
    await world.ready()
    ops = Operating(world)
    ops.submit("runCommand.job", NAME)
    with pytest.raises(CommandError, match=rf"{NAME} may mean ApplicationInstance .*; Operation .*: give KIND/NAME"):
        around(world, NAME)


@pytest.mark.slow
@run_by(IN_PROCESS.run)
async def test_what_changes_is_shown_as_it_comes_and_what_may_not_be_seen_is_named_SEE_1(world: World) -> None:
    shown: list[OwnObjects] = []

    def states() -> dict[str, str]:
        return {summary_of(*each).ref.name: summary_of(*each).state.value for each in shown[-1].objects}

    api = InProcessKube(world.cluster)
    absent = Kind("shops.example.com", "v1", "Shop", "shops")
    async with anyio.create_task_group() as group:
        group.start_soon(FollowedObjects(api, None, OWN_NS, [absent]).run, shown.append)
        await world.until(lambda: bool(shown), "a first picture")
        await world.ready()
        await world.until(lambda: states().get(NAME) == "Ready", "Ready is shown")
        world.delete_object(INSTANCE)
        await world.until(lambda: NAME not in states(), "it is gone from the picture")
        group.cancel_scope.cancel()
    assert len(shown) > 3, "each change, gathered"
    assert any("shops" in each for each in shown[-1].unreadable)


@pytest.mark.slow
@run_by(ENVIRONMENT.run)
async def test_the_command_prints_it_folded_to_the_screen_and_whole_into_a_pipe_SEE_1(
    world: World, *, tmp_path: Path
) -> None:
    await world.ready()
    assert world.reached is not None
    kubeconfig = kubeconfig_of(world.reached.operator, tmp_path)
    own_objects = run("status", "--kubeconfig", kubeconfig)
    assert own_objects.status == 0, own_objects.err
    assert any(line.split()[:3] == [NS, f"appinst/{NAME}", "Ready"] for line in own_objects.out.splitlines())
    narrow = run("status", NAME, "-n", NS, "--kubeconfig", kubeconfig, COLUMNS="60")
    assert narrow.status == 0, narrow.err
    assert max(map(len, narrow.out.splitlines())) <= 60
