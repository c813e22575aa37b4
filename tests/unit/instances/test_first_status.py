"""While other keys wait, the first word about an instance waits for Flux's, for two seconds at most (REC-1, RUN-2)."""

from datetime import timedelta
from typing import Any

import pytest

from purekube.apimachinery.manifest import get_path
from purekube.controller.queue.event_handlers import PROGRESS_SECONDS
from purekube.controller.reconcile import ReconcileResult
from tests.support.instance_worlds import instance_manifest
from tests.support.simulation import HELM, INSTANCE, Simulation


def backlogged(**spec: Any) -> Simulation:
    world = Simulation()
    world.is_backlogged = True
    world.submit(instance_manifest(**spec))
    world.server.audit.clear()
    return world


def reconciled(world: Simulation) -> ReconcileResult:
    result = world.reconcile(INSTANCE)
    assert result is not None
    return result


def reasons(world: Simulation) -> list[str]:
    return [event.reason for event in world.events.events]


def test_the_first_status_is_left_to_the_next_pass_which_comes_within_a_second_REC_1() -> None:
    world = backlogged()

    result = reconciled(world)

    assert world.get(HELM) is not None, "what was asked for is begun"
    assert (result.status, result.writes, world.operator_writes(), reasons(world)) == (None, 3, 3, [])
    assert result.requeue.after is not None
    assert result.requeue.after <= PROGRESS_SECONDS
    assert result.at_fixed_point, "its own writes need not wake it"


def test_a_pass_between_leaves_the_first_status_to_a_later_pass_too_REC_1() -> None:
    world = backlogged()
    reconciled(world)

    result = reconciled(world)

    assert (result.status, result.writes, reasons(world)) == (None, 0, [])
    assert result.requeue.after is not None
    assert 0 < result.requeue.after <= PROGRESS_SECONDS


def test_after_two_seconds_the_first_status_is_told_whoever_waits_REC_1() -> None:
    world = backlogged()
    reconciled(world)
    world.now += timedelta(seconds=PROGRESS_SECONDS + 1)

    result = reconciled(world)

    assert world.condition(INSTANCE, "Ready") == ("False", "Installing")
    assert world.condition(INSTANCE, "Reconciling") == ("True", "HelmReleaseInstalling")
    assert (result.writes, reasons(world)) == (1, ["Installing"])


def test_a_release_that_flux_confirms_before_is_told_in_one_status_and_one_Event_REC_1() -> None:
    world = backlogged()
    reconciled(world)
    for _ in range(20):
        world.pass_time(1)

    reconciled(world)

    assert world.condition(INSTANCE, "Ready") == ("True", "HelmReleaseReady")
    assert (world.operator_writes(), reasons(world)) == (4, ["ReleaseReady"])
    assert get_path(world.get(INSTANCE), "status", "helmReleaseRef", "name") == HELM.name


def test_an_upgrade_is_told_at_once_REC_7() -> None:
    world = backlogged()
    world.settle(INSTANCE)
    world.edit(INSTANCE, {"spec": {"chart": {"version": "6.7.0"}}})

    reconciled(world)

    assert world.condition(INSTANCE, "Ready") == ("False", "Upgrading")


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"mode": "placeholder", "chart": None, "release": None, "values": None}, ("Ready", "True", "Placeholder")),
        ({"suspend": True}, ("Suspended", "True", "ManuallySuspended")),
        ({"values": {"source": "inline", "inline": {"password": "p"}}}, ("Blocked", "True", "ValidationFailed")),
    ],
)
def test_whatever_is_not_on_its_way_is_told_at_once_RES_4(spec: dict[str, Any], told: tuple[str, ...]) -> None:
    world = backlogged(**spec)

    reconciled(world)

    assert world.condition(INSTANCE, told[0]) == told[1:]


def test_an_instance_that_nobody_waits_with_is_told_in_the_same_pass_REC_1() -> None:
    world = backlogged()
    world.is_backlogged = False

    reconciled(world)

    assert world.condition(INSTANCE, "Ready") == ("False", "Installing")


@pytest.mark.parametrize(
    ("age", "wait"), [(-5.0, 1.0), (0.0, 1.0), (1.0, 1.0), (1.25, 0.75), (1.75, 0.25)], ids=lambda each: f"{each} s"
)
def test_the_first_status_waits_until_its_release_is_two_seconds_old_REC_1(age: float, wait: float) -> None:
    world = backlogged()
    reconciled(world)
    world.now += timedelta(seconds=age)

    result = reconciled(world)

    assert (result.status, result.requeue.after) == (None, wait)


def test_only_events_of_a_status_that_is_reconciling_report_progress_RUN_5() -> None:
    world = Simulation()
    world.submit(instance_manifest())

    world.settle(INSTANCE)

    assert [(event.reason, event.is_progress) for event in world.events.events] == [
        ("Installing", True),
        ("ReleaseReady", False),
    ]
