"""A job that had its effect and waits for the outcome: what it makes of each copy of its object (PULL-2, PULL-3)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import is_terminating
from purekube.controller.backoff import Retry, Tick
from tests.support.builders import condition
from tests.support.jobs import operation, with_status
from tests.unit.jobs.test_exact_steps import (
    AHEAD,
    APPLIED,
    EXPIRY,
    GATED,
    GRACE,
    KEY,
    NOW,
    OBJECT,
    RECHECK,
    REF,
    RUN,
    SOON,
    WORDS,
    apply_job,
    at,
    changed,
    delete_job,
    live,
    run_job,
)
from vworkspace_core.api import labels
from vworkspace_core.api.operation import BETWEEN_SYNCS
from vworkspace_core.jobs import messages as m
from vworkspace_core.jobs.awaiting_status import runs_on
from vworkspace_core.jobs.job_stages import advance
from vworkspace_core.jobs.job_store import JobRecord
from vworkspace_core.jobs.plan import EffectIntent, Inspection
from vworkspace_core.jobs.result import SUCCEEDED, JobOutcome, JobResult
from vworkspace_core.jobs.state import AppliedRef, JobStage, JobState
from vworkspace_core.jobs.steps import JobStep, progress, timeout
from vworkspace_core.jobs.work_slot import inspected

S = JobStage
ON_RUN = AppliedRef(RUN, "u1", 3)
LOOK = m.Inspect("job-1", REF, KEY, OBJECT)
LOOK_AT_RUN = m.Inspect("job-1", RUN, "run-1", "Operation/org-myteam/backup-1")
LATE = EXPIRY + GRACE - AHEAD
DELETED = JobResult.failed("Deleted", f"{REF} was deleted before the job settled")
READY = with_status(live(), condition("Ready", "True", "HelmReleaseReady", 3), observedGeneration=3)
GOING = live(deletionTimestamp="2026-01-01T00:00:00Z")


def run(*conditions: Any, **status: Any) -> dict[str, Any]:
    return with_status(live("run-1", made=operation()), *conditions, **{"observedGeneration": 3, **status})


def called_off(found: dict[str, Any]) -> dict[str, Any]:
    annotations = {**found["metadata"]["annotations"], labels.CANCEL: "true"}
    return {**found, "metadata": {**found["metadata"], "annotations": annotations}}


def scheduled(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "spec": {**found["spec"], "parameters": {"schedule": "0 1 * * *"}}}


def held(found: dict[str, Any]) -> dict[str, Any]:
    """The object with a status that another field manager has written."""
    field: dict[str, Any] = {"f:status": {"f:phase": {}, "f:conditions": {}, "f:observedGeneration": {}}}
    entry = {"manager": "kubectl", "operation": "Update", "subresource": "status", "fieldsV1": field}
    return {**found, "metadata": {**found["metadata"], "managedFields": [*found["metadata"]["managedFields"], entry]}}


PENDING = run(phase="Pending")
RUNNING = run(phase="Running", startedAt="2026-01-01T00:00:00Z")
BETWEEN = scheduled(run(condition("Running", "True", BETWEEN_SYNCS, 3), phase="Running"))
REFUSED = run(condition("Accepted", "False", "TargetNotFound", 3, "none"), phase="Pending")
NOT_FOUND = JobResult.failed("TargetNotFound", "none")


def waits(made: Any = apply_job, **fields: Any) -> JobState:
    applied = {apply_job: APPLIED, delete_job: APPLIED, run_job: ON_RUN}[made]
    job: JobState = made(S.WAITING, **{"applied": applied, "had_effect": True, "recheck_at": RECHECK, **fields})
    return job


def wrote(made: Any = apply_job, **fields: Any) -> JobState:
    job: JobState = made(S.RECORDING_EFFECT, **{"had_effect": True, **fields})
    return job


def told(found: dict[str, Any]) -> m.PostStatus:
    return m.PostStatus("job-1", progress(found, NOW + AHEAD))


def read(job: JobState, found: Any, when: Any = None) -> JobStep:
    return advance(job, m.Inspected("job-1", Inspection(found, GATED)), when or at())


def heard(job: JobState, found: Any, when: Any = None) -> JobStep:
    return advance(job, m.ObjectChanged(REF, found), when or at())


# --- after the write ----------------------------------------------------------------------------------------------


def test_a_job_that_wrote_keeps_nothing_of_the_write_and_looks_again_after_the_interval() -> None:
    job = wrote(written=live(), writing={"a": 1}, retry=Retry(2, NOW))

    waiting, effects = advance(job, m.Recorded("job-1"), at())

    assert (waiting.stage, waiting.applied, waiting.had_effect, waiting.recheck_at) == (
        S.WAITING,
        APPLIED,
        True,
        RECHECK,
    )
    assert (waiting.writing, waiting.written, waiting.retry, waiting.latest) == (None, None, Retry(), live())
    assert effects == (told(live()),)


@pytest.mark.parametrize(
    ("latest", "fresher"),
    [
        (live(generation=3, labels={"a": "b"}), True),
        (live(generation=4), True),
        (live(generation=2), False),
        (live("another", generation=4), False),
        (live(uid="u2", generation=4), False),
        (None, False),
    ],
)
def test_of_two_copies_the_informer_s_counts_if_it_is_not_older_than_the_write(latest: Any, fresher: bool) -> None:
    waiting, _ = advance(wrote(written=live(), latest=latest), m.Recorded("job-1"), at())

    assert waiting.latest == (latest if fresher else live())


def test_an_object_that_was_deleted_during_the_write_is_read_first() -> None:
    waiting, effects = advance(wrote(written=live(), object_is_gone=True), m.Recorded("job-1"), at())

    assert (waiting.stage, waiting.applied, effects) == (S.WAITING, APPLIED, (LOOK,))


def test_a_delete_reports_the_generation_that_it_was_to_delete() -> None:
    job = delete_job(S.INSPECTING, intent=EffectIntent("u1", generation=2), applied=AppliedRef(REF, "u1", 2))
    found = Inspection(live(generation=3, deletionTimestamp="2026-01-01T00:00:00Z"), GATED)

    assert inspected(job, found, at())[0].applied == AppliedRef(REF, "u1", 2)
    unknown = attrs.evolve(job, applied=None)
    assert inspected(unknown, found, at())[0].applied == AppliedRef(REF, "u1", 3)


@pytest.mark.parametrize(
    ("found", "kept"), [(PENDING, False), (RUNNING, False), (called_off(PENDING), True), (run(phase="Cancelled"), True)]
)
def test_the_reason_of_a_cancellation_is_kept_once_the_operation_cannot_start(found: Any, kept: bool) -> None:
    job = wrote(run_job, written=found, result_once_cancelled=WORDS)

    after, _ = advance(job, m.Recorded("job-1"), at())

    assert after.result_once_cancelled == (WORDS if kept else None)
    assert after.result == (WORDS if kept else None)


# --- what an informer tells ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("found", [None, live(uid="u2")])
def test_an_object_that_is_said_to_be_gone_is_read_before_the_job_ends(found: Any) -> None:
    assert heard(waits(), found) == (waits(), (LOOK,))


def test_a_job_that_does_not_know_its_object_reads_it() -> None:
    job = waits(applied=None)

    assert heard(job, live()) == (job, (LOOK,))


def test_a_copy_from_before_the_write_is_no_answer() -> None:
    assert heard(waits(), live("another")) == (waits(), ())
    deleting = waits(delete_job)
    assert heard(deleting, live("another"))[1] == (told(live("another")),), "a delete wrote no key"


def test_the_same_report_is_sent_once() -> None:
    job, effects = heard(waits(), live())
    assert effects == (told(live()),)

    assert heard(job, live(labels={"a": "b"}))[1] == ()


def test_a_ready_object_ends_the_job_after_its_report() -> None:
    job, effects = heard(waits(), READY)

    assert (job.stage, job.result) == (S.ANSWERING, SUCCEEDED)
    assert [type(effect) for effect in effects] == [m.PostStatus, m.PostResult]
    assert effects[0] == told(READY)


@pytest.mark.parametrize(("generation", "ends"), [(2, True), (3, True), (4, False)])
def test_a_status_counts_from_the_generation_that_the_job_wrote_on(generation: int, ends: bool) -> None:
    job = waits(applied=AppliedRef(REF, "u1", generation))

    assert heard(job, READY)[0].has_ended is ends


# --- what a read shows --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "found", "result"),
    [
        (waits(), None, DELETED),
        (waits(), live(uid="u2"), DELETED),
        (waits(delete_job), None, SUCCEEDED),
        (waits(delete_job), live(uid="u2"), SUCCEEDED),
        (waits(delete_job), GOING, None),
        (waits(), live(), None),
        (waits(), READY, SUCCEEDED),
        (waits(delete_job), {**READY, "metadata": GOING["metadata"]}, None),
        (waits(run_job), REFUSED, None),
        (waits(run_job), called_off(REFUSED), NOT_FOUND),
        (waits(run_job), run(phase="Succeeded"), SUCCEEDED),
    ],
)
def test_a_read_decides_how_the_job_ends(job: JobState, found: Any, result: JobResult | None) -> None:
    assert read(job, found)[0].result == result


def test_behind_a_closed_gate_nothing_was_read() -> None:
    job, ungated = waits(), Inspection(None, {"metadata": {"name": "org-myteam"}})

    assert advance(job, m.Inspected("job-1", ungated), at()) == (job, ())
    assert advance(job, m.Inspected("job-1", Inspection()), at())[0].result == DELETED, "nor is there a namespace"


@pytest.mark.parametrize(
    ("job", "found", "undone"),
    [
        (waits(), live(generation=2), True),
        (waits(), live(generation=3), False),
        (waits(), live(generation=2, uid="u2"), False),
        (waits(), None, False),
        (waits(delete_job), live(), True),
        (waits(delete_job), GOING, False),
        (waits(applied=None), live(generation=2), False),
    ],
)
def test_an_effect_that_a_restore_has_undone_is_had_again_RUN_1(job: JobState, found: Any, undone: bool) -> None:
    job = attrs.evolve(job, intent=EffectIntent("u1"), latest=live(), retry=Retry(1))

    after, effects = read(job, found)

    assert (after.stage is S.READY) is undone
    if undone:
        cleared = {"stage": S.READY, "intent": None, "applied": None, "latest": None, "recheck_at": None}
        assert (changed(job, (after, ())), effects) == ({**cleared, "retry": Retry()}, ())


# --- a status that somebody else holds ----------------------------------------------------------------------------


def test_a_status_that_another_manager_holds_is_a_conflict_once_it_was_read_REC_8() -> None:
    found = held(READY)

    ended = read(waits(), found)[0]

    assert ended.result is not None
    assert ended.result.outcome is JobOutcome.CONFLICT
    assert ended.result.error.startswith(f"FieldConflict: {REF}: ")


@pytest.mark.parametrize(
    ("recheck", "after"), [(RECHECK, SOON), (None, SOON), (SOON, SOON), (NOW, NOW), (SOON + timedelta(seconds=1), SOON)]
)
def test_until_then_it_is_read_soon(recheck: Any, after: Any) -> None:
    job, effects = heard(waits(recheck_at=recheck), held(READY))

    assert (job.stage, job.recheck_at) == (S.WAITING, after)
    assert [type(effect) for effect in effects] == [m.PostStatus]


def test_at_the_end_of_time_it_is_still_read() -> None:
    last = datetime.max.replace(tzinfo=UTC)

    job, _ = heard(waits(recheck_at=None), held(READY), attrs.evolve(at(), now=last))

    assert job.recheck_at == last


def test_with_the_slot_it_is_read_at_once() -> None:
    waiting, effects = advance(wrote(written=held(READY)), m.Recorded("job-1"), at())

    assert waiting.stage is S.WAITING
    assert effects[1:] == (LOOK,)
    run_waiting, run_effects = advance(wrote(run_job, written=held(RUNNING)), m.Recorded("job-1"), at())
    assert (run_waiting.stage, run_effects[1:]) == (S.WAITING, (LOOK_AT_RUN,))


def test_a_conflict_that_an_operation_was_called_off_for_is_judged_anew() -> None:
    conflict = JobResult(JobOutcome.CONFLICT, "FieldConflict: of before")
    cancelled = called_off(PENDING)

    anew = read(waits(run_job, result_once_cancelled=conflict), held(cancelled))[0].result
    assert anew is not None
    assert anew.error.startswith(f"FieldConflict: {RUN}: ")
    assert read(waits(run_job, result_once_cancelled=conflict), cancelled)[0].result == conflict
    assert read(waits(run_job, result_once_cancelled=WORDS), held(cancelled))[0].result == WORDS


# --- a failure of an Operation that may still start ---------------------------------------------------------------


def test_an_operation_that_fails_before_its_start_is_called_off_in_the_slot_PULL_3() -> None:
    job = waits(run_job, retry=Retry(1))

    for step in (read(job, REFUSED), heard(job, REFUSED)):
        assert (step[0].stage, step[0].recheck_at, step[0].retry) == (S.READY, None, Retry())
        assert step[1] == (told(REFUSED),)


def test_with_the_slot_the_reason_is_recorded_before_it_is_called_off() -> None:
    cancelling, effects = advance(wrote(run_job, written=REFUSED), m.Recorded("job-1"), at())

    assert (cancelling.stage, cancelling.result_once_cancelled) == (S.RECORDING_INTENT, NOT_FOUND)
    ending = {"ending": {"outcome": "failed", "error": NOT_FOUND.error}}
    assert effects == (told(REFUSED), m.PutRecord("job-1", JobRecord("job-1", cancelling.raw, ending)))


def test_an_operation_that_has_started_is_judged_by_its_run() -> None:
    failed = run(condition("Failed", "True", "EngineFailed", 3, "boom"), phase="Failed")

    assert read(waits(run_job, result_once_cancelled=WORDS), failed)[0].result == JobResult.failed(
        "EngineFailed", "boom"
    )
    assert read(waits(run_job, result_once_cancelled=WORDS), RUNNING)[0].result is None


# --- time ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [-1, 0])
def test_an_object_that_has_not_settled_in_time_is_a_timeout(seconds: int) -> None:
    when = at(LATE + timedelta(seconds=seconds))

    ended = read(waits(), live(), when)[0]

    assert ended.result == (None if seconds else timeout(attrs.evolve(waits(), latest=live())))


@pytest.mark.parametrize(
    ("found", "result"),
    [(RUNNING, None), (BETWEEN, SUCCEEDED), (scheduled(RUNNING), None)],
)
def test_an_operation_that_runs_has_its_own_deadline_and_one_between_two_runs_succeeds_OPS_12(
    found: Any, result: JobResult | None
) -> None:
    job = waits(run_job, latest=found)

    assert read(job, found, at(LATE))[0].result == result
    assert advance(job, Tick(), at(LATE))[0].result == result
    assert runs_on(job) is (result is None)


def test_only_operations_run() -> None:
    started = with_status(live(), startedAt="2026-01-01T00:00:00Z")

    assert not runs_on(waits(latest=started))
    assert not runs_on(waits(run_job, latest=None))
    assert not runs_on(waits(run_job, latest=PENDING))


def test_out_of_time_an_operation_gets_the_slot_and_a_delete_times_out() -> None:
    asks, effects = advance(waits(run_job, latest=PENDING, retry=Retry(2)), Tick(), at(LATE))
    assert (asks.stage, asks.recheck_at, asks.retry, effects) == (S.READY, None, Retry(), ())

    ended, _ = advance(waits(delete_job, latest=GOING), Tick(), at(LATE))
    assert ended.result == timeout(waits(delete_job, latest=GOING))


def test_what_is_terminating_has_a_time_of_its_deletion() -> None:
    assert [is_terminating(found) for found in (None, live(), GOING)] == [False, False, True]
