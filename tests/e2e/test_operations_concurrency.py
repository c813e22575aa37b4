"""Operations under several workers whose calls take their time, get lost, or end with the process (OPS-1, OPS-5).

The hazard of the first: what blocks one Operation goes while another one, which did not have to wait for it, is being
started.
"""

import random

import pytest

from purekube.apimachinery.manifest import ObjectRef
from tests.support.e2e_world import INSTANCE, World
from tests.support.effort import of_both
from tests.support.operation_requests import APPROVAL_SECRET, ENGINES_QUICK, FLUX, Operating
from tests.support.operation_worlds import template
from tests.support.servers import IN_PROCESS
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.operations.conflicts import conflicting

SEEDS = of_both(sample=(2, 5), whole=tuple(range(50)))
"""Without the serial queue most of them, and these two, end with two at once that exclude each other."""

KINDS = ("backup.velero", "migration.workflow", "upgrade.helm", "restore.velero")
MARKS = {"backup": "velero", "restore": "velero", "upgrade": "helm", "migration": "workflow"}


async def story(ops: Operating, chance: random.Random) -> None:
    """A dozen of them, some of which wait for an approval that can be checked at some moments and not at others."""
    world = ops.world
    await ops.prepare()
    kept = ops.submit("backup.velero", "kept")
    await ops.reaches(kept, "Succeeded")
    world.edit(INSTANCE, {"metadata": {"annotations": {f"ops.vworkspace.io/{k}": v for k, v in MARKS.items()}}})
    ops.approve_with(None)
    world.lever.delay = lambda: chance.choice((0.0, 0.02, 0.3))
    kinds = [chance.choice(KINDS) for _ in range(12)]
    refs = []
    for number, of in enumerate(kinds):
        refs.append(_submit(ops, of, f"op-{number}", ops.engine_ref(kept).name, gated=chance.random() < 0.5))
        await world.clock.sleep(chance.choice((0.0, 0.2, 1.1)))
    for _ in range(200):  # it comes and goes, at every moment of somebody else's start
        ops.approve_with(chance.choice((APPROVAL_SECRET, None)))
        await world.clock.sleep(chance.choice((0.05, 0.2, 0.7)))
    ops.approve_with(APPROVAL_SECRET)

    for ref in refs:
        await ops.reaches(ref, "Succeeded", seconds=600)

    types = {f"op-{number}": template(of).type for number, of in enumerate(kinds)} | {"kept": template(KINDS[0]).type}
    together = {tuple(sorted(pair)) for pair in ops.running_together()}
    assert [pair for pair in together if conflicting(types[pair[0]], types[pair[1]])] == []
    assert all(len(ops.made(ref)) == (of != "upgrade.helm") for ref, of in zip(refs, kinds, strict=True))


def _submit(ops: Operating, of: str, name: str, backup: str, *, gated: bool) -> ObjectRef:
    parameters = {"backupName": backup} if of == "restore.velero" else {}
    approvals = {"required": True, "claim": ops.claim(name, parameters, of)}
    more = {"approvals": approvals} if gated or of == "restore.velero" else {}
    ops.world.create_object(ops.manifest(of, name, parameters, **more), OPERATION)
    return ObjectRef(OPERATION, INSTANCE.namespace, name)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.slow
def test_whatever_calls_take_no_two_that_exclude_each_other_run_and_all_of_them_end_OPS_5(seed: int) -> None:
    async def told(world: World) -> None:
        await story(Operating(world), random.Random(seed))

    IN_PROCESS.run(told, behaviour=FLUX, engines=ENGINES_QUICK)


async def broken_story(ops: Operating, chance: random.Random) -> None:
    """Calls and answers are lost and the operator dies, at any moment of some runs; then all is well again."""
    world = ops.world
    await ops.prepare()
    marks = {"backup": "velero", "runcommand": "job", "runbook": "workflow"}
    world.edit(INSTANCE, {"metadata": {"annotations": {f"ops.vworkspace.io/{k}": v for k, v in marks.items()}}})
    world.lever.delay = lambda: chance.choice((0.0, 0.02, 0.2))
    world.lever.breaks = lambda: chance.random() < 0.05
    kinds = [chance.choice(("backup.velero", "runCommand.job", "runbook.workflow")) for _ in range(6)]
    refs = [_submit(ops, of, f"op-{number}", "", gated=False) for number, of in enumerate(kinds)]
    for _ in range(6):
        await world.clock.sleep(chance.uniform(0.1, 3.0))
        world.lever.breaks = None
        await world.lever.restart()
        world.lever.breaks = lambda: chance.random() < 0.05
    world.lever.breaks = None

    for ref in refs:
        await ops.reaches(ref, "Succeeded", seconds=900)

    assert [len(ops.made(ref)) for ref in refs] == [1] * len(refs)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_breaks_each_run_is_made_once_and_comes_to_its_end_OPS_1(seed: int) -> None:
    async def told(world: World) -> None:
        await broken_story(Operating(world), random.Random(seed))

    IN_PROCESS.run(told, behaviour=FLUX, engines=ENGINES_QUICK)
