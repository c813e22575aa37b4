"""The helm engine end to end: one writer of the release, an override that lapses when it should (REC-9, OPS-9)."""

import pytest

from kubelab.flux import FluxBehaviour
from purekube.apimachinery.manifest import get_path
from tests.support.e2e_world import BROKEN, EDITED, FAILURE, FIRST, INSTANCE, LATER, RELEASE, SOURCE, World
from tests.support.operation_requests import Operating, operations_story
from vworkspace_core.api.labels import FIELD_MANAGER


def override(world: World) -> str | None:
    found: str | None = get_path(world.get(INSTANCE), "status", "releaseOverride", "version")
    return found


def tags(world: World) -> list[str]:
    """Every version that was ever asked of Flux, in order."""
    found: dict[str, None] = {}
    for event in world.history.events(SOURCE.kind):
        found.setdefault(event.object["spec"]["ref"]["tag"], None)
    return list(found)


@pytest.mark.slow
@operations_story()
async def test_an_upgrade_goes_through_the_one_writer_and_survives_its_operation_REC_9(ops: Operating) -> None:
    await ops.prepare()
    world = ops.world

    upgrade = ops.submit("upgrade.helm", "up", {"targetVersion": LATER, "valuesPatch": {"replicaCount": 5}})
    await ops.reaches(upgrade, "Succeeded")

    assert world.running() == [LATER]
    assert world.get(RELEASE)["spec"]["values"]["replicaCount"] == 5
    assert world.get(INSTANCE)["spec"]["chart"]["version"] == FIRST, "the intent is Odoo's"
    held = world.get(RELEASE)["metadata"]["managedFields"]
    assert [entry["manager"] for entry in held if "f:spec" in entry["fieldsV1"]] == [FIELD_MANAGER]
    world.delete_object(upgrade)
    await ops.gone(upgrade)
    await world.clock.sleep(2)
    assert world.running() == [LATER]
    assert override(world) == LATER
    assert tags(world) == [FIRST, LATER], "no flapping"


@operations_story()
async def test_an_upgrade_that_is_deleted_with_cascade_orphan_is_not_taken_back_OPS_11(ops: Operating) -> None:
    await ops.prepare()
    world = ops.world
    upgrade = ops.submit("upgrade.helm", "up", {"targetVersion": LATER})
    await world.until(lambda: override(world) == LATER, "the override is recorded")
    assert ops.phase(upgrade) == "Running"

    world.orphan_object(upgrade)

    await ops.gone(upgrade)
    await world.clock.sleep(5)
    assert world.running() == [LATER]
    assert override(world) == LATER
    assert tags(world) == [FIRST, LATER]


@pytest.mark.slow
@operations_story()
async def test_a_failed_upgrade_lapses_and_the_release_goes_back_REC_9(ops: Operating) -> None:
    await ops.prepare()
    world = ops.world

    upgrade = ops.submit("upgrade.helm", "up", {"targetVersion": BROKEN})
    await ops.reaches(upgrade, "Failed")

    assert ops.condition(upgrade, "Failed") == "True/UpgradeFailed"
    assert FAILURE in await ops.says(upgrade, "Failed", "True/UpgradeFailed")
    await world.until(lambda: override(world) is None, "the override lapsed")
    await world.until(lambda: world.conditions().get("Ready") == "True/HelmReleaseReady", "Ready again")
    assert world.running() == [FIRST]
    assert world.get(RELEASE)["spec"]["chartRef"]["name"] == SOURCE.name


@pytest.mark.slow
@operations_story()
async def test_new_intent_wins_over_an_upgrade_REC_9(ops: Operating) -> None:
    await ops.prepare()
    world = ops.world
    upgrade = ops.submit("upgrade.helm", "up", {"targetVersion": LATER})
    await ops.reaches(upgrade, "Succeeded")

    world.edit(INSTANCE, {"spec": {"chart": {"version": EDITED}}})

    await world.until(lambda: world.running() == [EDITED], "the new intent")
    assert override(world) is None
    assert ops.phase(upgrade) == "Succeeded", "what ended has ended"


@pytest.mark.slow
@operations_story(behaviour=FluxBehaviour(upgrade_seconds=3600.0, source_fetch_seconds=0.1, install_seconds=0.3))
async def test_a_cancelled_upgrade_is_withdrawn_before_it_counts_as_cancelled_OPS_11(ops: Operating) -> None:
    await ops.prepare()
    world = ops.world
    upgrade = ops.submit("upgrade.helm", "up", {"targetVersion": LATER})
    await world.until(lambda: override(world) == LATER, "the override")
    waiting = ops.submit("upgrade.helm", "next", {"targetVersion": EDITED})
    await ops.says(waiting, "Blocked", "True/ConflictingOperation")

    ops.cancel(waiting)
    ops.cancel(upgrade)

    await ops.reaches(upgrade, "Cancelled")
    assert override(world) is None
    assert world.get(RELEASE)["spec"]["chartRef"]["name"] == SOURCE.name
    await ops.reaches(waiting, "Cancelled")


@pytest.mark.slow
@operations_story()
async def test_a_suspended_target_is_not_upgraded_until_it_goes_on_OPS_9(ops: Operating) -> None:
    await ops.prepare()
    world = ops.world
    world.edit(INSTANCE, {"spec": {"suspend": True}})
    await world.until(lambda: world.conditions().get("Suspended") == "True/ManuallySuspended", "Suspended")
    upgrade = ops.submit("upgrade.helm", "up", {"targetVersion": LATER})
    await ops.says(upgrade, "Blocked", "True/TargetNotReady")

    world.edit(INSTANCE, {"spec": {"suspend": False}})

    await ops.reaches(upgrade, "Succeeded")
    assert world.running() == [LATER]


@pytest.mark.slow
@operations_story()
async def test_an_upgrade_to_the_same_version_retries_a_stalled_release_REC_14(ops: Operating) -> None:
    await ops.prepare()
    world = ops.world
    world.edit(INSTANCE, {"spec": {"chart": {"version": BROKEN}}})
    await world.until(lambda: world.conditions().get("Stalled", "").startswith("True"), "Stalled")
    world.flux.behaviour = FluxBehaviour(source_fetch_seconds=0.1, upgrade_seconds=0.2)
    await world.clock.sleep(1)
    assert world.running() == [FIRST]

    again = ops.submit("upgrade.helm", "again", {"targetVersion": BROKEN})

    await ops.reaches(again, "Succeeded")
    assert world.running() == [BROKEN]


@pytest.mark.slow
@operations_story()
async def test_a_forbidden_version_is_not_reached_by_an_upgrade_RES_3(ops: Operating) -> None:
    await ops.prepare()
    world = ops.world
    ops.forbid(LATER)

    upgrade = ops.submit("upgrade.helm", "up", {"targetVersion": LATER})

    await ops.reaches(upgrade, "Failed")
    assert ops.condition(upgrade, "Failed") == "True/ForbiddenVersion"
    assert world.running() == [FIRST]


@pytest.mark.slow
@operations_story()
async def test_an_upgrade_ends_when_its_target_is_deleted(ops: Operating) -> None:
    await ops.prepare()
    ops.world.edit(INSTANCE, {"spec": {"suspend": False}})
    blocked = ops.submit("upgrade.helm", "up", {"targetVersion": "9.9.9"})
    await ops.reaches(blocked, "Running")

    ops.world.delete_object(INSTANCE)

    await ops.reaches(blocked, "Failed")
    assert await ops.says(blocked, "Failed", "True/TargetDeleted")
