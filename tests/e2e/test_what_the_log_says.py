"""U5: `kubectl logs` is where every operator user looks first: transitions, writes and verdicts are there."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.e2e_world import BROKEN, INSTANCE, NAME, NS, World, instance
from tests.support.operation_requests import LABELS
from tests.support.run_by import run_by
from tests.support.servers import IN_PROCESS
from vworkspace_app.instances.controller import InstanceReconciler
from vworkspace_core.api.kinds import APPLICATION_INSTANCE


def create(world: World, **changes: Any) -> None:
    made = {**instance(), "metadata": {"name": NAME, "namespace": NS, "labels": LABELS}, **changes}
    world.create_object(made, APPLICATION_INSTANCE)


def events(lines: list[Any], event: str) -> list[Any]:
    return [line for line in lines if line["event"] == event]


@run_by(IN_PROCESS.run)
async def test_an_instance_that_somebody_creates_is_told_from_its_first_write_to_Ready(world: World) -> None:
    with capture_logs() as logs:
        create(world)
        await world.until(lambda: world.conditions().get("Ready") == "True/HelmReleaseReady", "Ready")
        await world.clock.sleep(1)
    (written,) = events(logs, "written")
    assert written["object"] == str(INSTANCE)
    assert [write.rpartition(" ")[0] for write in written["writes"]] == [
        "add finalizer ApplicationInstance",
        "apply OCIRepository",
        "apply HelmRelease",
    ]
    changes = [condition for line in events(logs, "status changed") for condition in line["conditions"]]
    assert "Ready=True/HelmReleaseReady" in changes
    assert {line["log_level"] for line in events(logs, "status changed")} == {"info"}


@pytest.mark.slow
@run_by(IN_PROCESS.run)
async def test_what_blocks_is_a_warning_with_its_message(world: World) -> None:
    with capture_logs() as logs:
        chart = {**instance()["spec"]["chart"], "sourceType": "helm", "url": "http://charts.example.com"}
        create(world, spec={**instance()["spec"], "chart": chart})
        await world.until(lambda: world.conditions().get("Blocked", "").startswith("True"), "Blocked")
    (line,) = events(logs, "status changed")
    assert line["log_level"] == "warning"
    assert "Blocked=True/ValidationFailed" in line["conditions"]
    assert "spec.chart.url" in line["message"]


@pytest.mark.slow
@run_by(IN_PROCESS.run)
async def test_a_failed_job_is_a_warning_and_names_its_object(world: World) -> None:
    await world.ready()
    with capture_logs() as logs:
        failed = world.ask(BROKEN, 8)
        assert (await world.result(failed))["outcome"] == "failed"
        refused = world.ask("6.8.0", 9, payload={**instance(), "spec": {"nonsense": 1}})
        assert (await world.result(refused))["outcome"] == "failed"
    told = {line["job_id"]: line for line in events(logs, "a job is settled")}
    for job in (failed, refused):
        assert told[job.id]["log_level"] == "warning"
        assert NAME in told[job.id]["object"]


def test_kinds_that_nobody_installed_are_one_line_and_no_warning() -> None:
    async def story(world: World) -> None:
        lines = LINES
        absent = [line for line in lines if line["event"].startswith("engines not installed: ")]
        assert len(absent) == 1
        assert absent[0]["log_level"] == "info"
        assert "workflows.argoproj.io" in absent[0]["event"]
        assert [line for line in lines if line["log_level"] == "warning"] == []

    with capture_logs() as LINES:
        IN_PROCESS.run(story)


@pytest.mark.slow
def test_a_defect_that_stays_is_told_in_full_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(self: InstanceReconciler, source: Any, observed: Any) -> Any:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(InstanceReconciler, "_decide", decide)

    async def story(world: World) -> None:
        with capture_logs() as logs:
            create(world)
            await world.clock.sleep(1800)
        crashes = events(logs, "reconcile crashed")
        assert 3 < len(crashes) < 30
        assert len([line for line in crashes if line["exc_info"]]) == 1
        assert INSTANCE.name in crashes[0]["object"]

    IN_PROCESS.run(story)


@pytest.mark.slow
@run_by(IN_PROCESS.run)
async def test_somebody_who_edits_all_the_time_is_no_hot_loop(world: World) -> None:
    await world.ready()
    with capture_logs() as logs:
        for number in range(40):
            world.edit(INSTANCE, {"spec": {"values": {"inline": {"replicaCount": number + 2}}}})
            await world.clock.sleep(5)
    assert [line for line in logs if "hot loop" in line["event"]] == []
