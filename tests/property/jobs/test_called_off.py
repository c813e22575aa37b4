"""What Odoo was told has failed is never carried out later: its Operation is called off first (PULL-3, D3)."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.inprocess import run_sync
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import NAMESPACE
from purekube.ports import PatchType
from tests.support.builders import condition
from tests.support.job_world import World
from tests.support.jobs import CLUSTER_ID, operation
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.jobs import messages as m
from vworkspace_fake.controlplane import JobEntry

REF = ObjectRef(OPERATION, "org-myteam", "backup-1")
REFUSALS = ("TargetNotFound", "CapabilityMissing", "TemplateNotAllowed", "ValidationFailed", "HookNotFound")


def ask(world: World, **fields: Any) -> JobEntry:
    payload = {"intent": "request-operation", "operation": operation()}
    return world.control_server.enqueue(
        CLUSTER_ID, kind="intent", payload=payload, idempotency_key="Operation/org-myteam/backup-1@1", **fields
    )


def live(world: World) -> Manifest:
    return run_sync(world.kube.get(REF))


def status(world: World, phase: str = "Pending", *conditions: Any, **more: Any) -> None:
    """The reconciler writes a status, and its informer tells."""
    generation = live(world)["metadata"]["generation"]
    told = [{**one, "observedGeneration": generation} for one in conditions]
    found = {"phase": phase, "observedGeneration": generation, "conditions": told, **more}
    manifest = {**OPERATION.manifest(REF.name, REF.namespace), "status": found}
    seen = run_sync(world.kube.apply_status(manifest, kind=OPERATION, field_manager=labels.FIELD_MANAGER))
    world.feed(m.ObjectChanged(REF, seen))


def refuse(world: World, reason: str = "TargetNotFound") -> None:
    status(world, "Pending", condition("Accepted", "False", reason, message="there is none"))


def drain(world: World) -> None:
    while world.pending:
        world.perform(0)


def taken_in(world: World, **fields: Any) -> JobEntry:
    job = ask(world, **fields)
    world.fetch()
    drain(world)
    return job


def answer(job: JobEntry) -> Any:
    return job.result


def is_called_off(world: World) -> bool:
    return bool(get_path(live(world), "metadata", "annotations", labels.CANCEL) == "true")


@pytest.mark.parametrize("reason", REFUSALS)
def test_an_operation_whose_job_fails_before_it_started_is_cancelled_with_it_PULL_3(reason: str) -> None:
    world = World()
    job = taken_in(world)

    refuse(world, reason)
    while job.result is None:
        posts = [effect for effect in world.pending if isinstance(effect, m.PostResult)]
        assert not posts or is_called_off(world), "called off before it is called failed"
        world.perform(0)

    assert (answer(job)["outcome"], answer(job)["error"]) == ("failed", f"{reason}: there is none")
    assert is_called_off(world)


@pytest.mark.slow
@given(st.integers(0, 60), st.booleans())
@example(2, True)
@example(3, False)
def test_a_crash_between_cancelling_and_answering_tells_the_same_and_runs_nothing(number: int, after: bool) -> None:
    """The process ends after so many effects; the next one may find the Operation cancelled already."""
    world = World()
    job = taken_in(world)
    refuse(world)
    for _ in range(number):
        if world.pending:
            world.perform(0)
    world.start()
    if is_called_off(world) and after:
        status(world, "Cancelled", condition("Cancelled", "True", "UserCancelled"), finishedAt="2026-01-01T00:01:00Z")
    for _ in range(3):
        drain(world)
        world.advance(301)

    assert answer(job)["error"] == "TargetNotFound: there is none"
    assert is_called_off(world)
    assert not world.records()


def test_one_that_starts_at_the_last_moment_is_left_alone_and_judged_by_its_run() -> None:
    world = World()
    job = taken_in(world)
    refuse(world)
    while not any(isinstance(effect, m.CancelOperation) for effect in world.pending):
        world.perform(0)
    status(world, "Running", condition("Running", "True", "JobPodActive"), startedAt="2026-01-01T00:00:30Z")
    for _ in range(3):
        drain(world)
        world.advance(60)

    assert not is_called_off(world)
    assert job.result is None
    status(world, "Succeeded", finishedAt="2026-01-01T00:01:00Z", startedAt="2026-01-01T00:00:30Z")
    drain(world)
    assert answer(job)["outcome"] == "succeeded"


def test_one_that_is_accepted_after_all_before_it_was_called_off_goes_on() -> None:
    world = World()
    job = taken_in(world)
    refuse(world)
    world.start()  # nothing of the refusal was on record yet
    status(world, "Pending", condition("Accepted", "True", "TemplateValidated"))
    drain(world)

    assert job.result is None
    assert not is_called_off(world)


def test_what_somebody_else_holds_of_the_operation_does_not_keep_it_from_being_cancelled() -> None:
    world = World()
    job = taken_in(world)
    patch = {"spec": {"timeoutSeconds": 77}, "metadata": {"labels": {labels.MANAGED_BY: "control-plane"}}}
    run_sync(world.kube.patch(REF, patch, patch_type=PatchType.MERGE, field_manager="kubectl-edit"))
    refuse(world)
    drain(world)

    assert answer(job)["error"].startswith("TargetNotFound")
    assert is_called_off(world)
    assert live(world)["spec"]["timeoutSeconds"] == 77


def test_where_it_cannot_be_cancelled_the_job_stays_open_until_it_can() -> None:
    world = World()
    job = taken_in(world)
    refuse(world)
    while not any(isinstance(effect, m.CancelOperation) for effect in world.pending):
        world.perform(0)
    (effect,) = world.pending
    world.pending.clear()
    world.feed(m.EffectRefused(effect.job_id, "Forbidden", "patch operations is forbidden"))
    assert job.result is None
    assert [note.message for note in world.notes] == ["acting: patch operations is forbidden; tried again"]

    world.advance(60)
    drain(world)

    assert answer(job)["error"].startswith("TargetNotFound")
    assert is_called_off(world)


@pytest.mark.parametrize("reason", ["Forbidden", "ClusterRefused"])
def test_what_may_still_run_is_not_called_failed_because_it_cannot_be_read(reason: str) -> None:
    world = World()
    job = taken_in(world, expires_in=timedelta(minutes=1))
    for _ in range(40):
        world.advance(60)
        while world.pending:
            if isinstance(world.pending[0], m.Inspect):
                world.feed(m.EffectRefused(world.pending.pop(0).job_id, reason, "get operations is refused"))
            else:
                world.perform(0)
    assert job.result is None

    world.advance(60)
    drain(world)

    assert answer(job)["error"].startswith("Timeout: Operation org-myteam/backup-1 had not started and was cancelled")
    assert is_called_off(world)


def test_behind_a_closed_gate_nothing_is_called_failed_that_may_still_run() -> None:
    world = World()
    job = taken_in(world, expires_in=timedelta(minutes=1))
    gate(world, None)
    world.start()
    for _ in range(4):
        drain(world)
        world.advance(301)
    assert job.result is None

    gate(world, "vworkspace")
    world.advance(301)
    drain(world)

    assert answer(job)["error"].startswith("Timeout: Operation org-myteam/backup-1 had not started and was cancelled")
    assert is_called_off(world)


def gate(world: World, value: str | None) -> None:
    patch = {"metadata": {"labels": {"managed-by": value}}}
    ref = ObjectRef(NAMESPACE, None, "org-myteam")
    run_sync(world.kube.patch(ref, patch, patch_type=PatchType.MERGE, field_manager="admin"))


def test_a_timeout_names_what_the_operation_waited_for() -> None:
    world = World()
    job = taken_in(world, expires_in=timedelta(minutes=1))
    status(world, "Pending", condition("Blocked", "True", "TargetNotReady", message="the target is Installing"))
    drain(world)
    world.advance(6 * 60)
    drain(world)

    assert answer(job)["error"].endswith("; last seen: TargetNotReady: the target is Installing")


def test_a_second_request_for_an_operation_that_has_ended_is_a_noop_with_the_time_PULL_3() -> None:
    for phase in ("Succeeded", "Failed", "Cancelled"):
        world = World()
        job = taken_in(world)
        status(world, phase, condition(phase, "True", "Whatever"), finishedAt="2026-01-01T00:03:00Z")
        drain(world)
        assert job.result is not None
        before = live(world)

        payload = {"intent": "request-operation", "operation": operation()}
        again = world.control_server.enqueue(
            CLUSTER_ID, kind="intent", payload=payload, idempotency_key="Operation/org-myteam/backup-1@2"
        )
        world.fetch()
        drain(world)

        assert answer(again)["outcome"] == "noop"
        told = (
            f"AlreadyEnded: Operation org-myteam/backup-1 ended {phase} at 2026-01-01T00:03:00Z; to run it once more,"
        )
        assert answer(again)["error"].startswith(told)
        assert answer(again)["appliedRef"]["uid"] == before["metadata"]["uid"]
        assert live(world) == before, "nothing is written"


def test_its_redelivery_runs_nothing_after_the_operation_was_cleaned_up_PULL_4() -> None:
    world = World()
    taken_in(world)
    status(world, "Succeeded", finishedAt="2026-01-01T00:03:00Z")
    drain(world)
    payload = {"intent": "request-operation", "operation": operation()}
    again = world.control_server.enqueue(CLUSTER_ID, kind="intent", payload=payload, idempotency_key="hash")
    world.fetch()
    drain(world)
    run_sync(world.kube.delete(REF))
    world.offer_again(again)
    world.fetch()
    drain(world)

    assert answer(again)["outcome"] == "noop"
    assert list(run_sync(world.kube.list(OPERATION)).items) == []


SCHEDULED = {"parameters": {"source": "data", "repository": "restic", "schedule": "0 3 * * *"}}


def scheduled(world: World) -> JobEntry:
    desired = operation()
    desired["spec"] |= {**SCHEDULED, "engine": "volsync"}
    job = world.control_server.enqueue(
        CLUSTER_ID,
        kind="intent",
        payload={"intent": "request-operation", "operation": desired},
        idempotency_key="Operation/org-myteam/backup-1@1",
    )
    world.fetch()
    drain(world)
    return job


STARTED = {"startedAt": "2026-01-01T00:00:30Z"}
AT_WORK = condition("Running", "True", "VolSyncSyncInProgress")
IDLE = condition("Running", "True", "VolSyncWaitingForSchedule")
SYNCED = condition("Succeeded", "True", "EngineSucceeded", message="the last sync ended at 2026-01-01T03:01:00Z")


def test_a_job_for_a_recurring_operation_succeeds_after_its_first_sync_PULL_3() -> None:
    world = World()
    job = scheduled(world)
    status(world, "Running", AT_WORK, **STARTED)
    drain(world)
    assert job.result is None

    status(world, "Running", IDLE, SYNCED, **STARTED)
    drain(world)

    assert answer(job)["outcome"] == "succeeded"
    assert not world.records()


def test_when_its_first_time_is_later_than_the_job_it_succeeds_once_it_waits_for_it_as_asked() -> None:
    world = World()
    job = scheduled(world)
    status(world, "Running", IDLE, **STARTED)
    drain(world)
    world.advance(3600)
    drain(world)
    assert job.result is None, "not before the job's time is over"
    world.advance(301)
    drain(world)

    assert answer(job)["outcome"] == "succeeded"
    assert not is_called_off(world)


def test_while_it_tries_in_vain_it_is_not_called_a_success() -> None:
    world = World()
    job = scheduled(world)
    status(world, "Running", condition("Running", "True", "VolSyncError", message="no such repository"), **STARTED)
    for _ in range(3):
        drain(world)
        world.advance(3600)
    assert job.result is None

    status(world, "Running", IDLE, **STARTED)
    drain(world)
    assert answer(job)["outcome"] == "succeeded"
