"""An Operation whose label moves to another cluster while it runs: the run goes on here, to its end (RES-5, OPS-8)."""

from collections.abc import Mapping

import pytest

from kubelab.downstream import DownstreamOutcome
from kubelab.flux import FluxBehaviour
from purekube.apimachinery.manifest import ObjectRef
from tests.support.e2e_world import FIRST, LATER
from tests.support.operation_requests import AT_WORK, Operating, operations_story, rules
from vworkspace_core.api.labels import CLUSTER_ID

ANOTHER = {"metadata": {"labels": {CLUSTER_ID: "another"}}}
COMMAND = {"image": "registry.example/tool:1", "command": ["true"]}


async def _running(ops: Operating, of: str, name: str, parameters: Mapping[str, object] | None = None) -> ObjectRef:
    ref = ops.submit(of, name, parameters or {})
    await ops.reaches(ref, "Running")
    return ref


@pytest.mark.slow
@operations_story(rules(DownstreamOutcome(seconds=10.0)))
async def test_a_run_ends_in_the_cluster_in_which_it_began_RES_5(ops: Operating) -> None:
    await ops.prepare()
    run = await _running(ops, "runCommand.job", "tidy", COMMAND)

    ops.world.edit(run, ANOTHER)

    await ops.reaches(run, "Succeeded")


@pytest.mark.slow
@operations_story(rules(AT_WORK))
async def test_a_run_is_cancelled_in_the_cluster_in_which_it_began_RES_5_OPS_11(ops: Operating) -> None:
    await ops.prepare()
    run = await _running(ops, "runCommand.job", "tidy", COMMAND)

    ops.world.edit(run, ANOTHER)
    ops.cancel(run)

    await ops.reaches(run, "Cancelled")


@pytest.mark.slow
@operations_story(rules(AT_WORK))
async def test_no_second_run_begins_beside_one_whose_label_has_moved_RES_5_OPS_8(ops: Operating) -> None:
    await ops.prepare()
    run = await _running(ops, "migration.workflow", "first")
    ops.world.edit(run, ANOTHER)

    second = ops.submit("migration.workflow", "again", {})

    await ops.says(second, "Blocked", "True/ConflictingOperation")
    await ops.world.clock.sleep(600)
    assert ops.phase(second) == "Pending"
    assert ops.made(second) == []


@pytest.mark.slow
@operations_story(behaviour=FluxBehaviour(upgrade_seconds=10.0, source_fetch_seconds=0.1, install_seconds=0.3))
async def test_an_upgrade_is_not_taken_back_when_its_label_moves_RES_5_REC_9(ops: Operating) -> None:
    await ops.prepare()
    upgrade = await _running(ops, "upgrade.helm", "up", {"targetVersion": LATER})

    ops.world.edit(upgrade, ANOTHER)

    await ops.reaches(upgrade, "Succeeded")
    assert ops.world.running() == [LATER] != [FIRST]


@pytest.mark.slow
@operations_story(rules(AT_WORK))
async def test_a_run_that_has_not_begun_waits_for_the_cluster_of_its_label_RES_5(ops: Operating) -> None:
    await ops.prepare()
    run = await _running(ops, "migration.workflow", "first")
    waiting = ops.submit("migration.workflow", "again", {})
    await ops.says(waiting, "Blocked", "True/ConflictingOperation")

    ops.world.edit(waiting, ANOTHER)
    ops.cancel(run)

    await ops.reaches(run, "Cancelled")
    await ops.world.clock.sleep(60)
    assert ops.phase(waiting) == "Pending"
