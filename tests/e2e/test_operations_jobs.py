"""Jobs that ask for Operations: their outcomes, and what is told of runs that no job waits for (PULL-3, PULL-6)."""

from tests.e2e.operating import AT_WORK, Operating, operations_story, rules
from tests.e2e.world import INSTANCE, NS
from vworkspace_core.known import OPERATION
from vworkspace_core.manifest import ObjectRef
from vworkspace_fake.downstream import Ending, Outcome


def named(name: str) -> ObjectRef:
    return ObjectRef(OPERATION, NS, name)


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


@operations_story(rules(Outcome(Ending.FAIL, "exit code 3")))
async def test_a_job_fails_with_what_the_engine_says_PULL_3(ops: Operating) -> None:
    await ops.prepare()

    result = await ops.world.result(ops.ask("migration.workflow", "migrate"))

    assert result["outcome"] == "failed"
    assert result["error"].startswith("WorkflowFailed: ")
    assert "exit code 3" in result["error"]


@operations_story()
async def test_a_job_fails_when_its_operation_is_not_accepted_and_a_later_run_is_an_event_PULL_3(
    ops: Operating,
) -> None:
    await ops.prepare()
    job = ops.ask("runCommand.job", "run")
    ops.world.edit(INSTANCE, {"metadata": {"annotations": {"ops.vworkspace.io/runcommand": None}}})

    result = await ops.world.result(job)
    assert result["outcome"] == "failed"
    assert result["error"].startswith("CapabilityMissing: ")

    ops.world.edit(INSTANCE, {"metadata": {"annotations": {"ops.vworkspace.io/runcommand": "job"}}})
    await ops.reaches(named("run"), "Succeeded")
    await ops.world.until(lambda: told(ops, "run") == ["OperationStarted", "OperationSucceeded"], "its events")


def told(ops: Operating, name: str) -> list[str]:
    """Kinds of the life-cycle events of the Operation, as the control plane got them."""
    events = ops.world.transitions(f"operation/{NS}/{name}/")
    return [event["kind"] for event in events]


@operations_story(rules(AT_WORK))
async def test_a_cancelled_operation_fails_its_job_PULL_3(ops: Operating) -> None:
    await ops.prepare()
    job = ops.ask("runbook.workflow", "book")
    await ops.world.until(lambda: ops.condition(named("book"), "Running") == "True/WorkflowInProgress", "running")

    ops.cancel(named("book"))

    result = await ops.world.result(job)
    assert result["outcome"] == "failed"
    assert result["error"].startswith("Cancelled: UserCancelled")


@operations_story(takes_hours=True)  # the grace period is five minutes
async def test_an_operation_that_has_not_started_in_time_is_cancelled_PULL_3(ops: Operating) -> None:
    await ops.prepare()
    job = ops.ask("restore.velero", "late", {"backupName": "none"}, expires_in=60, approvals={"required": True})
    other = ops.ask("runCommand.job", "unapproved", expires_in=60, approvals={"required": True})

    assert (await ops.world.result(job))["outcome"] == "failed", "not accepted: there is no such backup"
    await ops.world.until(lambda: other.result is not None, "the end of its time", seconds=600)

    assert other.result is not None
    assert other.result["outcome"] == "failed"
    assert other.result["error"].startswith("Timeout: ")
    await ops.reaches(named("unapproved"), "Cancelled")
    assert ops.made(named("unapproved")) == []


@operations_story(rules(AT_WORK), takes_hours=True)
async def test_a_started_operation_outlives_the_expiry_of_its_job_PULL_3(ops: Operating) -> None:
    await ops.prepare()
    job = ops.ask("runCommand.job", "slow", expires_in=60)
    await ops.world.until(lambda: ops.phase(named("slow")) == "Running", "running")
    await ops.world.clock.sleep(1200)
    assert job.result is None
    assert ops.phase(named("slow")) == "Running"


@operations_story()
async def test_a_redelivered_request_starts_nothing_again_PULL_4(ops: Operating) -> None:
    await ops.prepare()
    assert (await ops.world.result(ops.ask("backup.velero", "once")))["outcome"] == "succeeded"

    again = await ops.world.result(ops.ask("backup.velero", "once"))

    assert again["outcome"] == "noop"
    assert len(ops.made(named("once"))) == 1


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
