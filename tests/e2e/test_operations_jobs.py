"""Jobs that ask for Operations: their outcomes, and what is told of runs that no job waits for (PULL-3, PULL-6)."""

import pytest

from kubelab.downstream import DownstreamOutcome, Ending
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import NAMESPACE
from tests.support.e2e_world import CLUSTER, FIRST, INSTANCE, NS
from tests.support.operation_requests import AT_WORK, Operating, operations_story, rules
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.api.labels import ALLOWED_TYPES


def named(name: str) -> ObjectRef:
    return ObjectRef(OPERATION, NS, name)


@pytest.mark.slow
@operations_story(samples=True)
async def test_a_job_succeeds_when_its_operation_does_and_names_it_PULL_3(ops: Operating) -> None:
    await ops.prepare()

    job = ops.ask("backup.velero", "nightly")
    result = await ops.world.result(job)

    live = ops.world.get(named("nightly"))
    assert result["outcome"] == "succeeded"
    assert result["appliedRef"] == {
        "apiVersion": OPERATION.api_version,
        "kind": OPERATION.kind,
        "namespace": NS,
        "name": "nightly",
        "uid": live["metadata"]["uid"],
        "generation": 1,
    }
    assert live["status"]["phase"] == "Succeeded"
    phases = [status["phase"] for status in job.statuses]
    assert phases[-1] in ("Running", "Succeeded")
    told = ops.world.transitions("nightly")
    assert told == [], "what a job waits for is told by the job"


@pytest.mark.slow
@operations_story(rules(DownstreamOutcome(Ending.FAIL, "exit code 3")))
async def test_a_job_fails_with_what_the_engine_says_PULL_3(ops: Operating) -> None:
    await ops.prepare()

    result = await ops.world.result(ops.ask("migration.workflow", "migrate"))

    assert result["outcome"] == "failed"
    assert result["error"].startswith("WorkflowFailed: ")
    assert "exit code 3" in result["error"]


REFUSED = {
    "TargetNotFound": ("runCommand.job", {}),
    "CapabilityMissing": ("runCommand.job", {}),
    "TemplateNotAllowed": ("runCommand.job", {}),
    "ValidationFailed": ("restore.velero", {"backupName": "gone"}),
}
"""Reasons for which an Operation is refused although nothing is wrong with its spec alone (D3)."""


def refuse(ops: Operating, reason: str) -> None:
    """The world as it is when an Operation is refused for that reason."""
    match reason:
        case "CapabilityMissing":
            ops.world.edit(INSTANCE, {"metadata": {"annotations": {"ops.vworkspace.io/runcommand": None}}})
        case "TemplateNotAllowed":
            ops.world.edit(ObjectRef(NAMESPACE, None, NS), {"metadata": {"annotations": {ALLOWED_TYPES: "Backup"}}})
        case _:
            pass


def mend(ops: Operating, reason: str) -> None:
    """What was lacking comes, days later."""
    match reason:
        case "TargetNotFound":
            ops.world.ask(FIRST, 1)
        case "CapabilityMissing":
            ops.world.edit(INSTANCE, {"metadata": {"annotations": {"ops.vworkspace.io/runcommand": "job"}}})
        case "TemplateNotAllowed":
            ops.world.edit(ObjectRef(NAMESPACE, None, NS), {"metadata": {"annotations": {ALLOWED_TYPES: None}}})
        case _:
            ops.submit("backup.velero", "another")


async def refused_for_good(ops: Operating, reason: str) -> None:
    """A refusal, told by the job; later what was lacking comes."""
    await ops.prepare(ready=reason != "TargetNotFound")
    of, parameters = REFUSED[reason]
    desired = ops.manifest(of, "drop", parameters)
    refuse(ops, reason)
    key = f"Operation/{NS}/drop@1"
    payload = {"intent": "request-operation", "operation": desired}
    job = ops.world.control.enqueue(CLUSTER, kind="intent", payload=payload, idempotency_key=key)

    result = await ops.world.result(job)
    assert result["outcome"] == "failed"
    assert result["error"].startswith(f"{reason}: ")
    await ops.reaches(named("drop"), "Cancelled")

    mend(ops, reason)
    await ops.world.clock.sleep(5)
    assert ops.phase(named("drop")) == "Cancelled"
    assert ops.made(named("drop")) == []
    assert told(ops, "drop") in (["OperationCancelled"], []), "and nothing of it has started"


@pytest.mark.slow
@operations_story()
async def test_a_command_for_a_target_that_does_not_exist_never_runs_PULL_3(ops: Operating) -> None:
    await refused_for_good(ops, "TargetNotFound")


@pytest.mark.slow
@operations_story(samples=True)
async def test_a_command_whose_capability_is_missing_never_runs_PULL_3(ops: Operating) -> None:
    await refused_for_good(ops, "CapabilityMissing")


@pytest.mark.slow
@operations_story()
async def test_a_command_of_a_type_that_is_not_allowed_never_runs_PULL_3(ops: Operating) -> None:
    await refused_for_good(ops, "TemplateNotAllowed")


@pytest.mark.slow
@operations_story()
async def test_a_restore_whose_backup_is_missing_never_runs_PULL_3(ops: Operating) -> None:
    await refused_for_good(ops, "ValidationFailed")


@pytest.mark.slow
@operations_story()
async def test_a_second_request_for_a_finished_operation_is_a_noop_with_its_time_PULL_3(ops: Operating) -> None:
    await ops.prepare()
    assert (await ops.world.result(ops.ask("backup.velero", "nightly")))["outcome"] == "succeeded"
    payload = {"intent": "request-operation", "operation": ops.manifest("backup.velero", "nightly")}
    key = f"Operation/{NS}/nightly@2"

    again = await ops.world.result(
        ops.world.control.enqueue(CLUSTER, kind="intent", payload=payload, idempotency_key=key)
    )

    finished = ops.world.get(named("nightly"))["status"]["finishedAt"]
    assert again["outcome"] == "noop"
    assert f"ended Succeeded at {finished}" in again["error"]
    assert len(ops.made(named("nightly"))) == 1


@pytest.mark.slow
@operations_story()
async def test_a_job_for_a_recurring_operation_gets_its_result_after_the_first_sync_PULL_3(ops: Operating) -> None:
    await ops.prepare()

    job = ops.ask("backup.volsync", "hourly", {"schedule": "* * * * *"})
    await ops.world.until(lambda: job.result is not None, "the first sync", seconds=180)

    assert job.result["outcome"] == "succeeded"
    live = ops.world.get(named("hourly"))
    assert live["status"]["phase"] == "Running"
    assert ops.condition(named("hourly"), "Succeeded").startswith("True/")


def told(ops: Operating, name: str) -> list[str]:
    """Kinds of the life-cycle events of the Operation, as the control plane got them."""
    events = ops.world.transitions(f"operation/{NS}/{name}/")
    return [event["kind"] for event in events]


@pytest.mark.slow
@operations_story(rules(AT_WORK))
async def test_a_cancelled_operation_fails_its_job_PULL_3(ops: Operating) -> None:
    await ops.prepare()
    job = ops.ask("runbook.workflow", "book")
    await ops.world.until(lambda: ops.condition(named("book"), "Running") == "True/WorkflowInProgress", "running")

    ops.cancel(named("book"))

    result = await ops.world.result(job)
    assert result["outcome"] == "failed"
    assert result["error"].startswith("Cancelled: UserCancelled")


@pytest.mark.slow
@operations_story(takes_hours=True)  # the grace period is five minutes
async def test_an_operation_that_has_not_started_in_time_is_cancelled_PULL_3(ops: Operating) -> None:
    await ops.prepare()
    job = ops.ask("restore.velero", "late", {"backupName": "none"}, expires_in=60, approvals={"required": True})
    other = ops.ask("runCommand.job", "unapproved", expires_in=60, approvals={"required": True})

    assert (await ops.world.result(job))["outcome"] == "failed", "not accepted: there is no such backup"
    await ops.reaches(named("late"), "Cancelled")
    await ops.world.until(lambda: other.result is not None, "the end of its time", seconds=600)

    assert other.result is not None
    assert other.result["outcome"] == "failed"
    assert other.result["error"].startswith("Timeout: ")
    await ops.reaches(named("unapproved"), "Cancelled")
    assert ops.made(named("unapproved")) == []


@pytest.mark.slow
@operations_story(rules(AT_WORK), takes_hours=True)
async def test_a_started_operation_outlives_the_expiry_of_its_job_PULL_3(ops: Operating) -> None:
    await ops.prepare()
    job = ops.ask("runCommand.job", "slow", expires_in=60)
    await ops.world.until(lambda: ops.phase(named("slow")) == "Running", "running")
    await ops.world.clock.sleep(1200)
    assert job.result is None
    assert ops.phase(named("slow")) == "Running"


@pytest.mark.slow
@operations_story()
async def test_a_redelivered_request_starts_nothing_again_PULL_4(ops: Operating) -> None:
    await ops.prepare()
    assert (await ops.world.result(ops.ask("backup.velero", "once")))["outcome"] == "succeeded"

    again = await ops.world.result(ops.ask("backup.velero", "once"))

    assert again["outcome"] == "noop"
    assert len(ops.made(named("once"))) == 1


@pytest.mark.slow
@operations_story(rules(AT_WORK))
async def test_runs_that_no_job_asked_for_are_told_as_events_PULL_6(ops: Operating) -> None:
    await ops.prepare()
    by_hand = ops.submit("runCommand.job", "by-hand")
    await ops.world.until(lambda: told(ops, "by-hand") == ["OperationStarted"], "started")

    await ops.world.lever.restart()
    ops.cancel(by_hand)

    await ops.world.until(lambda: told(ops, "by-hand") == ["OperationStarted", "OperationCancelled"], "cancelled")
    keys = [event["eventKey"] for event in ops.world.transitions("/by-hand/")]
    assert any("/Cancelled/True/UserCancelled@" in key for key in keys)
