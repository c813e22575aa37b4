"""What one event does to one job in one stage: the job afterwards, and its effects (PULL-2, PULL-3, PULL-4)."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from purekube.apimachinery.errors import FieldConflict
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.timestamps import format_time
from purekube.controller.backoff import LogLevel, LogNote, Retry, Tick
from tests.support.builders import NAME, NAMESPACE, condition
from tests.support.jobs import CLUSTER_ID, delete_payload, instance, operation, with_status
from tests.support.jobs import job as wire_job
from vworkspace_core.api import labels
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.jobs import messages as m
from vworkspace_core.jobs.job_stages import REFUSALS, advance, due_at
from vworkspace_core.jobs.job_store import JobRecord, Tombstone
from vworkspace_core.jobs.payload_security import Security
from vworkspace_core.jobs.plan import EffectIntent, Inspection
from vworkspace_core.jobs.result import EXPIRED, SUCCEEDED, JobOutcome, JobResult
from vworkspace_core.jobs.scope import JobScope
from vworkspace_core.jobs.state import AppliedRef, JobStage, JobState, accept, record_of, restore, tombstone_of
from vworkspace_core.jobs.steps import JobStep, JobStepContext, supersede, timeout
from vworkspace_core.jobs.work_slot import act, inspected, take_slot

NOW = datetime(2026, 1, 1, 0, 30, tzinfo=UTC)
EXPIRY = datetime(2026, 1, 1, 1, 0, tzinfo=UTC)
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
AHEAD = timedelta(minutes=2)
GRACE = timedelta(minutes=5)
RECHECK = NOW + timedelta(minutes=5)
SOON = NOW + timedelta(seconds=10)
REF = ObjectRef(APPLICATION_INSTANCE, NAMESPACE, NAME)
RUN = ObjectRef(OPERATION, NAMESPACE, "backup-1")
KEY = f"ApplicationInstance/{NAMESPACE}/{NAME}@1"
OBJECT = f"ApplicationInstance/{NAMESPACE}/{NAME}"
S = JobStage
SCOPE = JobScope(CLUSTER_ID, link=lambda ref: f"https://pages/{ref.name}")
OURS = {labels.MANAGED_BY: "control-plane", labels.CLUSTER_ID: CLUSTER_ID}
GATED = {"metadata": {"name": NAMESPACE, "labels": {"managed-by": "vworkspace"}}}
WORDS = JobResult(JobOutcome.FAILED, "TargetNotFound: no such application")


def at(now: datetime = NOW, *, strict: bool = False, ahead: timedelta = AHEAD) -> JobStepContext:
    scope = attrs.evolve(SCOPE, security=Security(require_signed=True)) if strict else SCOPE
    return JobStepContext(scope, now, now + ahead, GRACE)


def taken(raw: dict[str, Any], stage: JobStage, fields: dict[str, Any]) -> JobState:
    job = accept(raw, 0, SCOPE)
    assert isinstance(job, JobState)
    return attrs.evolve(job, stage=stage, **fields)


def apply_job(stage: JobStage, **fields: Any) -> JobState:
    return taken(wire_job(), stage, fields)


def delete_job(stage: JobStage, **fields: Any) -> JobState:
    return taken(wire_job(kind="delete", payload=delete_payload()), stage, fields)


def run_job(stage: JobStage, **fields: Any) -> JobState:
    payload = {"intent": "request-operation", "operation": operation()}
    return taken(wire_job(kind="intent", payload=payload, key="run-1"), stage, fields)


def rotate_job(stage: JobStage, **fields: Any) -> JobState:
    return taken(
        wire_job(kind="intent", payload={"intent": "rotate-operator-credentials"}, key="rotate-1"), stage, fields
    )


def live(key: str = KEY, generation: Any = 3, uid: str = "u1", made: Any = None, **meta: Any) -> dict[str, Any]:
    """An object that the job with this key wrote."""
    annotations = {labels.IDEMPOTENCY_KEY: key}
    written: dict[str, Any] = {"f:metadata": {"f:annotations": {f"f:{name}": {} for name in annotations}}}
    fields = [{"manager": labels.FIELD_MANAGER, "operation": "Apply", "fieldsV1": written}]
    found = made or instance()
    known = {"uid": uid, "generation": generation, "resourceVersion": "9", "labels": OURS, "managedFields": fields}
    return {**found, "metadata": {**found["metadata"], "annotations": annotations, **known, **meta}}


def changed(before: JobState, step: JobStep) -> dict[str, Any]:
    """What a step has changed of the job."""
    former, after = (attrs.asdict(job, recurse=False) for job in (before, step[0]))
    return {name: value for name, value in after.items() if value != former[name]}


def body(result: JobResult, applied: AppliedRef | None = None, page: str = "") -> dict[str, Any]:
    told = {"outcome": result.outcome.value, "timestamp": format_time(NOW + AHEAD)}
    told |= {"error": result.error} if result.error else {}
    if applied is not None:
        told["appliedRef"] = {  # type: ignore[assignment]
            "apiVersion": applied.ref.kind.api_version,
            "kind": applied.ref.kind.kind,
            "namespace": NAMESPACE,
            "name": applied.ref.name,
            "uid": applied.uid,
            "generation": applied.generation,
        }
    return {**told, "pageUrl": page} if page else told


def answered(before: JobState, step: JobStep, result: JobResult) -> None:
    """A job that ends keeps nothing of its work."""
    ended, effects = step
    page = "" if before.applied is None else f"https://pages/{before.applied.ref.name}"
    assert effects == (m.PostResult("job-1", body(result, before.applied, page)),)
    assert (ended.stage, ended.result, ended.retry) == (S.ANSWERING, result, Retry())
    assert [ended.latest, ended.writing, ended.written, ended.recheck_at] == [None] * 4


APPLIED = AppliedRef(REF, "u1", 3)
BUSY = {"retry": Retry(2, NOW), "latest": {"kind": "x"}, "writing": {"a": 1}, "written": {"b": 1}, "recheck_at": NOW}
ANSWERS: list[m.OpenJobEvent] = [
    m.Recorded("job-1"),
    m.RecordRefused("job-1", "too large"),
    m.Acked("job-1"),
    m.AckLost("job-1"),
    m.JobGone("job-1"),
    m.JobAlreadyClosed("job-1"),
    m.Inspected("job-1", Inspection()),
    m.Applied("job-1", live()),
    m.DeleteSent("job-1"),
    m.Rotated("job-1"),
    m.Conflicted("job-1", ()),
    m.PreconditionFailed("job-1", "changed"),
    m.EffectRefused("job-1", "Invalid", "no"),
    m.StepFailed("job-1", "unavailable"),
    m.ResultAccepted("job-1"),
    m.RecordClosed("job-1"),
    m.ObjectChanged(REF, live()),
]
AWAITED: dict[JobStage, set[type]] = {
    S.RECORDING: {m.Recorded, m.RecordRefused, m.StepFailed},
    S.ACKING: {m.AckLost, m.Acked, m.JobGone, m.JobAlreadyClosed},
    S.READY: set(),
    S.INSPECTING: {m.EffectRefused, m.StepFailed},  # what was inspected is for the machine
    S.RECORDING_INTENT: {m.Recorded, m.RecordRefused, m.StepFailed},
    S.ACTING: {
        m.Applied,
        m.DeleteSent,
        m.Rotated,
        m.Conflicted,
        m.PreconditionFailed,
        m.EffectRefused,
        m.ObjectChanged,
        m.StepFailed,
    },
    S.RECORDING_EFFECT: {m.Recorded, m.RecordRefused, m.ObjectChanged, m.StepFailed},
    S.WAITING: {m.Inspected, m.ObjectChanged, m.StepFailed},
    S.WAITING_DELETED: {m.ObjectChanged},
    S.ANSWERING: {m.ResultAccepted},
    S.CLOSING: {m.StepFailed},
}


@pytest.mark.parametrize("stage", list(S))
def test_an_answer_that_the_stage_does_not_wait_for_changes_nothing_PULL_4(stage: JobStage) -> None:
    job = apply_job(stage, applied=APPLIED, result=SUCCEEDED, retry=Retry(1, NOW))

    taken_up = {type(event) for event in ANSWERS if advance(job, event, at()) != (job, ())}

    assert taken_up == AWAITED[stage]


# --- the record and the ack ---------------------------------------------------------------------------------------


def test_what_is_recorded_is_acked_and_what_is_acked_waits_for_its_slot_PULL_2() -> None:
    recording, acking = (apply_job(stage, retry=Retry(3, NOW)) for stage in (S.RECORDING, S.ACKING))

    recorded, acked = advance(recording, m.Recorded("job-1"), at()), advance(acking, m.Acked("job-1"), at())

    assert (changed(recording, recorded), recorded[1]) == (
        {"stage": S.ACKING, "retry": Retry()},
        (m.SendAck("job-1"),),
    )
    assert (changed(acking, acked), acked[1]) == ({"stage": S.READY, "retry": Retry()}, ())


def test_a_refused_job_is_answered_once_it_is_acked() -> None:
    job = attrs.evolve(apply_job(S.ACKING, result=WORDS), task=None)

    answered(job, advance(job, m.Acked("job-1"), at()), WORDS)


def test_a_job_too_large_to_record_is_recorded_without_its_payload_and_then_refused_PULL_7() -> None:
    job = apply_job(S.RECORDING, retry=Retry(1, NOW))
    small = {"id": "job-1", "idempotencyKey": KEY}
    result = JobResult(JobOutcome.FAILED, "PayloadTooLarge: 2 MiB")

    step = advance(job, m.RecordRefused("job-1", "2 MiB"), at())

    assert changed(job, step) == {"raw": small, "task": None, "result": result, "retry": Retry()}
    verdict = {"outcome": "failed", "error": "PayloadTooLarge: 2 MiB"}
    assert step[1] == (m.PutRecord("job-1", JobRecord("job-1", small, {"verdict": verdict})),)
    again = advance(step[0], m.RecordRefused("job-1", "still"), at())
    assert changed(step[0], again) == {"stage": S.ACKING}
    assert again[1] == (m.SendAck("job-1"), LogNote(LogLevel.WARNING, "still", "job-1"))


def test_an_ack_that_nobody_answered_may_have_arrived() -> None:
    job = apply_job(S.ACKING)
    lost = advance(job, m.AckLost("job-1"), at())

    assert (changed(job, lost), lost[1]) == ({"ack_may_have_arrived": True}, ())
    assert changed(lost[0], advance(lost[0], m.JobGone("job-1"), at())) == {"stage": S.READY}


CLOSED = LogNote(LogLevel.INFO, "the control plane has closed the job: dropped without applying it", "job-1")


@pytest.mark.parametrize(
    ("job", "had_effect"),
    [
        (apply_job(S.ACKING), False),
        (apply_job(S.ACKING, ack_may_have_arrived=True), False),
        (delete_job(S.ACKING), False),
        (delete_job(S.ACKING, ack_may_have_arrived=True), True),
        (apply_job(S.ACKING, intent=EffectIntent("u1")), True),
        (apply_job(S.ACKING, had_effect=True), True),
    ],
)
def test_a_closed_job_is_dropped_and_remembered_if_it_may_have_acted_PULL_4(job: JobState, had_effect: bool) -> None:
    job = attrs.evolve(job, result=WORDS)
    dropped, effects = advance(job, m.JobAlreadyClosed("job-1"), at())

    uid = job.intent.uid if job.intent else ""
    stone = Tombstone(KEY, "", uid, 1, "2026-01-01T00:32:00Z") if had_effect else None
    assert effects == (CLOSED, m.CloseRecord("job-1", stone))
    assert (dropped.stage, dropped.result, dropped.had_effect) == (S.CLOSING, None, had_effect)


def test_a_job_that_is_gone_before_any_ack_is_dropped_too() -> None:
    step = advance(apply_job(S.ACKING), m.JobGone("job-1"), at())

    assert step[0].stage is S.CLOSING
    assert step[1] == (CLOSED, m.CloseRecord("job-1", None))


# --- the slot ----------------------------------------------------------------------------------------------------


def test_a_job_with_the_slot_reads_its_object_anew() -> None:
    job = apply_job(S.READY, retry=Retry(2, NOW), missed_tombstones=(Tombstone(KEY, "noop", "", 1),))

    step = take_slot(job)

    assert changed(job, step) == {"stage": S.INSPECTING, "retry": Retry(2), "missed_tombstones": ()}
    assert step[1] == (m.Inspect("job-1", REF, KEY, OBJECT),)
    assert take_slot(rotate_job(S.READY))[1] == (m.Inspect("job-1", None, "rotate-1", ""),)


def test_an_apply_records_its_intent_before_it_writes_PULL_4() -> None:
    before = {**live("older", 2), "status": {"observedGeneration": 2}}
    job = apply_job(S.INSPECTING, retry=Retry(1, NOW))

    asked, effects = inspected(job, Inspection(before, GATED), at())

    assert (asked.stage, asked.intent, asked.retry) == (S.RECORDING_INTENT, EffectIntent("u1"), Retry())
    assert (asked.status_before, asked.applied) == ({"observedGeneration": 2}, None)
    assert asked.writing is not None
    assert asked.writing["metadata"]["uid"] == "u1"
    assert effects == (m.PutRecord("job-1", JobRecord("job-1", job.raw, {"intent": {"uid": "u1"}})),)
    acting, effects = advance(asked, m.Recorded("job-1"), at())
    assert acting.stage is S.ACTING
    assert effects == (m.ApplyForJob("job-1", REF, asked.writing, force=False),)


def test_an_intent_that_is_on_record_is_not_recorded_twice() -> None:
    job = apply_job(S.INSPECTING, intent=EffectIntent("u1"), latest=live(), object_is_gone=True)

    acting, effects = inspected(job, Inspection(live("older"), GATED), at())

    assert (acting.stage, acting.latest, acting.object_is_gone) == (S.ACTING, None, False)
    assert effects == (m.ApplyForJob("job-1", REF, acting.writing or {}, force=False),)


def test_a_delete_records_uid_and_generation_that_it_is_about() -> None:
    asked, effects = inspected(delete_job(S.INSPECTING), Inspection(live("older", 4), GATED), at())

    assert (asked.intent, asked.applied) == (EffectIntent("u1", generation=4), AppliedRef(REF, "u1", 4))
    kept = {"intent": {"uid": "u1", "generation": 4}}
    assert effects == (m.PutRecord("job-1", JobRecord("job-1", asked.raw, kept)),)
    assert advance(asked, m.Recorded("job-1"), at())[1] == (m.DeleteForJob("job-1", REF, "u1"),)


def test_a_rotation_records_its_intent_and_is_done_once_it_rotated() -> None:
    asked, effects = inspected(rotate_job(S.INSPECTING), Inspection(), at())

    assert asked.intent == EffectIntent()
    assert effects == (m.PutRecord("job-1", JobRecord("job-1", asked.raw, {"intent": {"uid": ""}})),)
    acting, effects = advance(asked, m.Recorded("job-1"), at())
    assert effects == (m.RotateCredential("job-1", "rotate-1"),)
    step = advance(acting, m.Rotated("job-1"), at())
    answered(acting, step, SUCCEEDED)
    assert step[0].had_effect


def test_an_intent_too_large_to_record_fails_the_job_before_its_effect() -> None:
    job = apply_job(S.RECORDING_INTENT, intent=EffectIntent("u1"), **BUSY)

    answered(job, advance(job, m.RecordRefused("job-1", "full"), at()), JobResult.failed("PayloadTooLarge", "full"))


def test_an_operation_is_called_off_in_the_version_that_was_judged_PULL_3() -> None:
    found = live("run-1", made=operation())
    job = run_job(S.RECORDING_INTENT, result_once_cancelled=WORDS, latest=found, object_is_gone=True)
    event: m.OpenJobEvent

    for event in (m.Recorded("job-1"), m.RecordRefused("job-1", "full")):
        step = advance(job, event, at())
        assert changed(job, step) == {"stage": S.ACTING}
        assert step[1] == (m.CancelOperation("job-1", RUN, "u1", "9"),)
    unseen = attrs.evolve(job, latest=None)
    assert advance(unseen, m.Recorded("job-1"), at())[1] == (m.CancelOperation("job-1", RUN, "", ""),)


@pytest.mark.parametrize(
    ("offset", "strict", "ahead", "expired"),
    [
        (-AHEAD - timedelta(seconds=1), False, AHEAD, False),
        (-AHEAD, False, AHEAD, True),
        (timedelta(0), False, -AHEAD, False),
        (timedelta(0), True, -AHEAD, True),
        (-timedelta(seconds=1), True, -AHEAD, False),
        (-AHEAD, True, AHEAD, True),
    ],
)
def test_a_job_expires_by_the_clock_of_the_control_plane_PULL_12(
    offset: timedelta, strict: bool, ahead: timedelta, expired: bool
) -> None:
    """Where signatures are required, by the later of the two."""
    when = at(EXPIRY + offset, strict=strict, ahead=ahead)
    waiting = apply_job(S.WAITING_DELETED)

    ended, _ = inspected(apply_job(S.INSPECTING), Inspection(None, GATED), when)

    assert ended.result == (EXPIRED if expired else None)
    assert advance(waiting, Tick(), when)[0].stage is (S.READY if expired else S.WAITING_DELETED)


def test_a_job_without_an_expiry_never_expires() -> None:
    later, job = at(EXPIRY + timedelta(days=99)), apply_job(S.INSPECTING, expires_at=None)

    assert inspected(job, Inspection(None, GATED), later)[0].stage is S.RECORDING_INTENT
    waiting = attrs.evolve(job, stage=S.WAITING_DELETED)
    assert advance(waiting, Tick(), later) == (waiting, ())
    waiting = attrs.evolve(job, stage=S.WAITING, applied=APPLIED)
    assert advance(waiting, Tick(), later) == (waiting, ())


def test_a_terminating_object_is_waited_for_with_a_report_of_it() -> None:
    job = apply_job(S.INSPECTING, retry=Retry(1, NOW))
    found = Inspection(live("older", deletionTimestamp="2026-01-01T00:00:00Z"), GATED)
    told = {
        "phase": "Pending",
        "conditions": [],
        "message": f"waits for the terminating ApplicationInstance {NAMESPACE}/{NAME} (uid u1) to be gone",
    }

    step = inspected(job, found, at())

    posted = {**told, "timestamp": "2026-01-01T00:32:00Z"}
    assert step[1] == (m.PostStatus("job-1", posted),)
    waits = {"stage": S.WAITING_DELETED, "recheck_at": RECHECK, "posted": told, "retry": Retry()}
    assert changed(job, step) == waits
    again = inspected(attrs.evolve(step[0], stage=S.INSPECTING), found, at(NOW + timedelta(minutes=1)))
    assert again[1] == (), "the same is not told twice, whatever the time"


def test_an_operation_behind_a_closed_gate_is_looked_at_again_after_the_interval_PULL_3() -> None:
    job = run_job(S.INSPECTING, intent=EffectIntent("u1"), retry=Retry(4, NOW))
    ungated = {"metadata": {"name": NAMESPACE}}

    step = inspected(job, Inspection(None, ungated), at())

    assert (changed(job, step), step[1]) == ({"stage": S.WAITING, "retry": Retry(at=RECHECK)}, ())
    assert advance(step[0], Tick(), at(EXPIRY + timedelta(days=1)))[0].stage is S.READY, "it is not out of time"


def without_uid() -> dict[str, Any]:
    found = live()
    return {**found, "metadata": {name: value for name, value in found["metadata"].items() if name != "uid"}}


OTHERS = Tombstone(KEY, "succeeded", "u1", 1)
ENDED = with_status(live("older", made=operation()), phase="Succeeded", finishedAt="2026-01-01T00:10:00Z")
DONE = "Operation org-myteam/backup-1 ended Succeeded at 2026-01-01T00:10:00Z"
AGAIN = "to run it once more, ask for an Operation of another name"


@pytest.mark.parametrize(
    ("job", "seen", "applied", "had_effect"),
    [
        (apply_job(S.INSPECTING), Inspection(live(), GATED), APPLIED, True),
        (apply_job(S.INSPECTING), Inspection(live(), GATED, OTHERS), APPLIED, False),
        (apply_job(S.INSPECTING), Inspection(live(generation="x"), GATED), AppliedRef(REF, "u1", 0), True),
        (apply_job(S.INSPECTING), Inspection(None, GATED, OTHERS), None, False),
        (apply_job(S.INSPECTING), Inspection(live("another"), GATED, OTHERS), None, False),
        (apply_job(S.INSPECTING), Inspection(without_uid(), GATED), AppliedRef(REF, "", 3), True),
        (run_job(S.INSPECTING), Inspection(ENDED, GATED), AppliedRef(RUN, "u1", 3), True),
        (run_job(S.INSPECTING, expires_at=NOW), Inspection(ENDED, GATED), AppliedRef(RUN, "u1", 3), False),
        (run_job(S.INSPECTING), Inspection(ENDED, GATED, Tombstone("run-1", "noop", "u1", 0)), None, False),
        (apply_job(S.INSPECTING, expires_at=NOW), Inspection(live("another"), GATED), None, False),
    ],
)
def test_a_noop_names_the_object_that_has_its_key_and_remembers_the_key_once_PULL_4(
    job: JobState, seen: Inspection, applied: AppliedRef | None, had_effect: bool
) -> None:
    ended, effects = inspected(job, seen, at())

    assert (ended.applied, ended.had_effect) == (applied, had_effect)
    assert ended.result is not None
    assert ended.result.outcome is JobOutcome.NOOP
    page = f"https://pages/{applied.ref.name}" if applied else ""
    assert effects == (m.PostResult("job-1", body(ended.result, applied, page)),)


def test_an_operation_that_has_ended_says_when_in_the_noop_PULL_3() -> None:
    ended, _ = inspected(run_job(S.INSPECTING), Inspection(ENDED, GATED), at())

    assert ended.result == JobResult(JobOutcome.NOOP, f"AlreadyEnded: {DONE}; {AGAIN}")


def test_a_write_that_happened_before_a_crash_is_only_waited_for() -> None:
    job = apply_job(S.INSPECTING, intent=EffectIntent(), latest=live(generation=9))

    found, effects = inspected(job, Inspection(live(generation=3), GATED), at())

    assert (found.stage, found.applied, found.had_effect) == (S.WAITING, APPLIED, True)
    assert found.latest == live(generation=3), "what informers told before is older"
    assert [type(effect) for effect in effects] == [m.PostStatus]


def test_a_delete_without_an_intent_names_no_uid() -> None:
    assert act(delete_job(S.ACTING))[1] == (m.DeleteForJob("job-1", REF, ""),)


# --- the effect ---------------------------------------------------------------------------------------------------


def test_an_apply_is_recorded_before_its_status_is_judged_PULL_4() -> None:
    job = apply_job(S.ACTING, intent=EffectIntent(""), retry=Retry(1, NOW))

    step = advance(job, m.Applied("job-1", live()), at())

    intent = EffectIntent("u1", happened=True, generation=3)
    assert changed(job, step) == {
        "stage": S.RECORDING_EFFECT,
        "intent": intent,
        "applied": APPLIED,
        "had_effect": True,
        "written": live(),
        "retry": Retry(),
    }
    kept = {"intent": {"uid": "u1", "had": True, "generation": 3}}
    assert step[1] == (m.PutRecord("job-1", JobRecord("job-1", job.raw, kept)),)
    event: m.OpenJobEvent
    for event in (m.Recorded("job-1"), m.RecordRefused("job-1", "full")):
        waiting, effects = advance(step[0], event, at())
        assert (waiting.stage, waiting.recheck_at, waiting.written) == (S.WAITING, RECHECK, None)
        assert [type(effect) for effect in effects] == [m.PostStatus]


def test_an_accepted_delete_reads_whether_the_object_is_gone() -> None:
    job = delete_job(S.ACTING, intent=EffectIntent("u1"), retry=Retry(1, NOW))

    step = advance(job, m.DeleteSent("job-1"), at())

    assert changed(job, step) == {"stage": S.WAITING, "had_effect": True, "recheck_at": RECHECK, "retry": Retry()}
    assert step[1] == (m.Inspect("job-1", REF, KEY, OBJECT),)


MARK = f".metadata.annotations.{labels.IDEMPOTENCY_KEY}"


@pytest.mark.parametrize(
    ("conflicts", "error"),
    [
        ((), "another manager holds a field"),
        ((FieldConflict("kubectl", ".spec.x"),), "kubectl holds .spec.x"),
        ((FieldConflict(labels.FIELD_MANAGER, ".spec.x"), FieldConflict("b", ".spec.y")), "b holds .spec.y"),
        ((FieldConflict("a", ".spec.x"), FieldConflict("b", ".spec.y")), "a holds .spec.x, b holds .spec.y"),
        ((FieldConflict("a", ".spec.x"), FieldConflict("b", MARK)), "a holds .spec.x"),
    ],
)
def test_a_conflict_with_others_ends_the_job_and_names_them_REC_8(
    conflicts: tuple[FieldConflict, ...], error: str
) -> None:
    job = apply_job(S.ACTING, **BUSY)

    step = advance(job, m.Conflicted("job-1", conflicts), at())

    answered(job, step, JobResult(JobOutcome.CONFLICT, f"FieldConflict: {error}"))


@pytest.mark.parametrize("manager", [labels.FIELD_MANAGER, "kubectl"])
def test_fields_of_the_operator_itself_are_taken_with_the_judged_copy_REC_6(manager: str) -> None:
    field = ".spec.x" if manager == labels.FIELD_MANAGER else MARK
    job = apply_job(S.ACTING, writing={"kind": "judged"})

    _, effects = advance(job, m.Conflicted("job-1", (FieldConflict(manager, field),)), at())

    assert effects == (m.ApplyForJob("job-1", REF, {"kind": "judged"}, force=True),)


def test_a_write_that_was_refused_fails_the_job_with_the_reason_of_the_refusal() -> None:
    for stage in (S.ACTING, S.INSPECTING):
        job = apply_job(stage, **BUSY)
        answered(job, advance(job, m.EffectRefused("job-1", "Invalid", "no"), at()), JobResult.failed("Invalid", "no"))


def test_a_missing_right_is_asked_for_again_until_the_last_of_the_refusals() -> None:
    event = m.EffectRefused("job-1", "Forbidden", "no right")
    job, counted = apply_job(S.ACTING), 0

    while job.stage is S.ACTING:
        job, _ = advance(job, event, at())
        counted += 1

    assert counted == REFUSALS
    assert job.result == JobResult.failed("Forbidden", "no right")
    assert job.refusals == REFUSALS - 1


@pytest.mark.parametrize(
    "event", [m.PreconditionFailed("job-1", "changed"), m.EffectRefused("job-1", "Invalid", "changed")]
)
def test_an_operation_that_cannot_be_called_off_is_judged_anew(event: m.OpenJobEvent) -> None:
    job = run_job(S.ACTING, result_once_cancelled=WORDS)

    again, effects = advance(job, event, at())

    assert (again.stage, again.result, again.result_once_cancelled) == (S.ACTING, None, None)
    assert again.retry.failures == 1
    assert effects == (LogNote(LogLevel.WARNING, "acting: changed; tried again", "job-1"),)


def test_what_an_informer_tells_during_the_write_is_kept_for_after_it() -> None:
    for stage in (S.ACTING, S.RECORDING_EFFECT):
        job = apply_job(stage)
        told = advance(job, m.ObjectChanged(REF, live()), at())
        assert (changed(job, told), told[1]) == ({"latest": live()}, ())
        gone = advance(told[0], m.ObjectChanged(REF, None), at())
        assert (changed(told[0], gone), gone[1]) == ({"latest": None, "object_is_gone": True}, ())
        back = advance(gone[0], m.ObjectChanged(REF, live()), at())
        assert changed(gone[0], back) == {"latest": live()}, "that it was gone is not forgotten"


@pytest.mark.parametrize(
    ("found", "stage"),
    [(None, S.READY), (live(), S.READY), (live(deletionTimestamp="2026-01-01T00:00:00Z"), S.WAITING_DELETED)],
)
def test_a_job_that_waits_for_the_end_of_an_object_asks_for_its_slot_once_it_went(found: Any, stage: JobStage) -> None:
    job = apply_job(S.WAITING_DELETED)

    assert advance(job, m.ObjectChanged(REF, found), at()) == (attrs.evolve(job, stage=stage), ())


# --- failures and time --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", [S.RECORDING, S.INSPECTING, S.RECORDING_INTENT, S.ACTING, S.RECORDING_EFFECT])
def test_a_failed_step_is_told_the_first_time_and_tried_again_with_growing_delay(stage: JobStage) -> None:
    job, delays = apply_job(stage), []

    for number in range(1, 12):
        job, effects = advance(job, m.StepFailed("job-1", "unavailable"), at())
        assert job.retry.failures == number
        assert job.retry.at is not None
        told = LogNote(LogLevel.WARNING, f"{stage.value}: unavailable; tried again", "job-1")
        assert effects == ((told,) if number == 1 else ())
        delays.append((job.retry.at - NOW).total_seconds())

    ceilings = [min(60.0, 0.25 * 2**number) for number in range(1, 12)]
    assert all(max(0.25, most / 2) <= delay <= most for delay, most in zip(delays, ceilings, strict=True)), delays


def test_a_failed_read_of_a_waiting_job_is_repeated_soon() -> None:
    job = apply_job(S.WAITING, recheck_at=RECHECK)

    step = advance(job, m.StepFailed("job-1", "unavailable"), at())

    assert (changed(job, step), step[1]) == ({"recheck_at": SOON}, ())


STONE = Tombstone(KEY, "succeeded", "u1", 1, "2026-01-01T00:32:00Z")
RAW: Any = wire_job()
CLOSING = {"result": SUCCEEDED, "had_effect": True, "applied": APPLIED}


@pytest.mark.parametrize(
    ("job", "stage", "effects"),
    [
        (apply_job(S.RECORDING), S.RECORDING, (m.PutRecord("job-1", JobRecord("job-1", RAW, {})),)),
        (apply_job(S.RECORDING_INTENT), S.RECORDING_INTENT, (m.PutRecord("job-1", JobRecord("job-1", RAW, {})),)),
        (apply_job(S.RECORDING_EFFECT), S.RECORDING_EFFECT, (m.PutRecord("job-1", JobRecord("job-1", RAW, {})),)),
        (apply_job(S.INSPECTING), S.INSPECTING, (m.Inspect("job-1", REF, KEY, OBJECT),)),
        (apply_job(S.ACTING), S.INSPECTING, (m.Inspect("job-1", REF, KEY, OBJECT),)),
        (apply_job(S.WAITING), S.READY, ()),
        (apply_job(S.CLOSING, **CLOSING), S.CLOSING, (m.CloseRecord("job-1", STONE),)),
        (apply_job(S.ACKING), S.ACKING, ()),
        (apply_job(S.READY), S.READY, ()),
        (apply_job(S.WAITING_DELETED), S.WAITING_DELETED, ()),
        (apply_job(S.ANSWERING), S.ANSWERING, ()),
    ],
)
def test_a_retry_repeats_the_last_request_once_it_is_due(
    job: JobState, stage: JobStage, effects: tuple[m.JobEffect, ...]
) -> None:
    early, due = (attrs.evolve(job, retry=Retry(2, NOW + timedelta(seconds=wait))) for wait in (1, 0))

    assert advance(early, Tick(), at()) == (early, ())
    again, asked = advance(due, Tick(), at())
    assert (again.stage, again.retry, asked) == (stage, Retry(2), effects)


def test_an_accepted_result_closes_the_record_with_what_the_job_did_PULL_4() -> None:
    job = apply_job(S.ANSWERING, retry=Retry(1, NOW), **CLOSING)

    step = advance(job, m.ResultAccepted("job-1"), at())

    assert changed(job, step) == {"stage": S.CLOSING, "retry": Retry()}
    assert step[1] == (m.CloseRecord("job-1", STONE),)


@pytest.mark.parametrize(("wait", "due"), [(-1, True), (0, True), (1, False)])
def test_a_waiting_job_reads_its_object_when_its_time_has_come(wait: int, due: bool) -> None:
    when = NOW + timedelta(seconds=wait)
    waiting, deleted = (apply_job(stage, recheck_at=when) for stage in (S.WAITING, S.WAITING_DELETED))

    read = advance(waiting, Tick(), at())
    assert changed(waiting, read) == ({"recheck_at": RECHECK} if due else {})
    assert read[1] == ((m.Inspect("job-1", REF, KEY, OBJECT),) if due else ())
    ready = advance(deleted, Tick(), at())
    assert changed(deleted, ready) == ({"stage": S.READY, "recheck_at": None} if due else {})
    assert ready[1] == ()


EDGE = timedelta(minutes=1)
RUNS = with_status(live("run-1", made=operation()), phase="Running")
PENDING = with_status(live("run-1", made=operation()), phase="Pending")


@pytest.mark.parametrize(
    ("job", "early", "late"),
    [
        (apply_job(S.WAITING, applied=APPLIED), S.WAITING, S.ANSWERING),
        (run_job(S.WAITING, latest=RUNS, applied=APPLIED), S.WAITING, S.WAITING),
        (run_job(S.WAITING, latest=PENDING, applied=APPLIED), S.WAITING, S.READY),
    ],
)
def test_a_waiting_job_has_its_grace_after_the_expiry_PULL_3(job: JobState, early: JobStage, late: JobStage) -> None:
    """By the clock of the control plane; an Operation that runs has its own deadline (OPS-12)."""
    last = EXPIRY + GRACE - AHEAD

    assert advance(job, Tick(), at(last - timedelta(seconds=1)))[0].stage is early
    assert advance(job, Tick(), at(last))[0].stage is late
    tried_again = attrs.evolve(job, retry=Retry(1, last + EDGE))
    assert advance(tried_again, Tick(), at(last)) == (tried_again, ()), "its slot comes first"


@pytest.mark.parametrize(
    ("job", "skew", "strict", "due"),
    [
        (apply_job(S.RECORDING), EDGE, False, None),
        (apply_job(S.RECORDING, retry=Retry(1, NOW)), EDGE, False, NOW),
        (apply_job(S.RECORDING, recheck_at=NOW), EDGE, False, None),
        (apply_job(S.WAITING_DELETED), EDGE, False, EXPIRY - EDGE),
        (apply_job(S.WAITING_DELETED), -EDGE, False, EXPIRY + EDGE),
        (apply_job(S.WAITING_DELETED), EDGE, True, EXPIRY - EDGE),
        (apply_job(S.WAITING_DELETED), -EDGE, True, EXPIRY),
        (apply_job(S.WAITING_DELETED, recheck_at=RECHECK), EDGE, False, RECHECK),
        (apply_job(S.WAITING_DELETED, recheck_at=EXPIRY), EDGE, False, EXPIRY - EDGE),
        (apply_job(S.WAITING_DELETED, expires_at=None), EDGE, False, None),
        (apply_job(S.WAITING_DELETED, expires_at=FIRST), EDGE, False, FIRST),
        (apply_job(S.WAITING, expires_at=LAST), EDGE, False, LAST - EDGE),
        (apply_job(S.WAITING, expires_at=LAST), -EDGE, False, LAST),
        (apply_job(S.WAITING), EDGE, False, EXPIRY + GRACE - EDGE),
        (apply_job(S.WAITING), -EDGE, True, EXPIRY + GRACE + EDGE),
        (apply_job(S.WAITING, recheck_at=RECHECK), EDGE, False, RECHECK),
        (apply_job(S.WAITING, retry=Retry(1, NOW), recheck_at=RECHECK), EDGE, False, NOW),
        (apply_job(S.WAITING, retry=Retry(1, EXPIRY + 2 * GRACE)), EDGE, False, EXPIRY + 2 * GRACE),
        (run_job(S.WAITING, latest=RUNS), EDGE, False, None),
        (run_job(S.WAITING, latest=PENDING), EDGE, False, EXPIRY + GRACE - EDGE),
        (apply_job(S.ANSWERING), EDGE, False, None),
    ],
)
def test_a_job_says_when_time_changes_it(job: JobState, skew: timedelta, strict: bool, due: datetime | None) -> None:
    assert due_at(job, skew, GRACE, strict=strict) == due


# --- the end -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "by", "error", "had_effect"),
    [
        (apply_job(S.READY), apply_job(S.READY), f"generation 1 for ApplicationInstance {OBJECT[20:]}", False),
        (run_job(S.READY), run_job(S.READY), f"a later request for Operation {NAMESPACE}/backup-1", False),
        (apply_job(S.READY, intent=EffectIntent()), run_job(S.READY), f"a later request for {REF}", True),
        (apply_job(S.READY, had_effect=True), run_job(S.READY), f"a later request for {REF}", True),
        (rotate_job(S.READY), rotate_job(S.READY), "a later request", False),
    ],
)
def test_a_superseded_job_names_what_came_first(job: JobState, by: JobState, error: str, had_effect: bool) -> None:
    step = supersede(job, by, at())

    answered(job, step, JobResult(JobOutcome.FAILED, f"Superseded: {error} came first"))
    assert step[0].had_effect is had_effect


def test_the_result_of_a_deletion_has_no_page() -> None:
    job = delete_job(S.WAITING, applied=APPLIED, had_effect=True)

    _, effects = advance(job, m.Inspected("job-1", Inspection(None, GATED)), at())

    assert effects == (m.PostResult("job-1", body(SUCCEEDED, APPLIED)),)


def test_a_report_has_the_standard_fields_of_each_condition_PULL_2() -> None:
    told = {**condition("Ready", "False", "HelmReleaseFailed", 3, "late"), "extra": "x"}
    found = with_status(live(), told, {"type": "Odd", "status": "True", "message": 5})
    job = apply_job(S.WAITING, applied=APPLIED)

    _, effects = advance(job, m.ObjectChanged(REF, found), at())

    ready = {name: value for name, value in told.items() if name != "extra"}
    assert effects == (
        m.PostStatus(
            "job-1",
            {
                "phase": "Degraded",
                "conditions": [ready, {"type": "Odd", "status": "True", "message": 5}],
                "message": "late",
                "timestamp": "2026-01-01T00:32:00Z",
            },
        ),
    )


def test_a_report_shows_no_secret_of_a_condition() -> None:
    found = with_status(live(), condition("Ready", "False", "HelmReleaseFailed", 3, "password=hunter2 is wrong"))

    _, effects = advance(apply_job(S.WAITING, applied=APPLIED), m.ObjectChanged(REF, found), at())

    (status,) = [effect for effect in effects if isinstance(effect, m.PostStatus)]
    assert status.body["conditions"][0]["message"] == status.body["message"] == "password=*** is wrong"


@pytest.mark.parametrize("number", [1, 5])
def test_jobs_that_failed_together_come_back_apart_and_always_at_the_same_time(number: int) -> None:
    job = apply_job(S.ACTING, retry=Retry(number - 1))
    digest = hashlib.sha256(f"job-1/{number}".encode()).digest()
    ceiling = 0.25 * 2**number

    again, _ = advance(job, m.StepFailed("job-1", "unavailable"), at())

    assert again.retry.at is not None
    waited = (again.retry.at - NOW).total_seconds()
    assert waited == pytest.approx(ceiling / 2 + ceiling / 2 * digest[0] / 255, abs=1e-5)


UNSETTLED = f"{REF} had not settled by 2026-01-01T01:00:00Z and the grace period after it"
LATE = condition("Ready", "False", "HelmReleaseFailed", 3, "late")


@pytest.mark.parametrize(
    ("job", "error"),
    [
        (apply_job(S.WAITING), UNSETTLED),
        (apply_job(S.WAITING, latest=live()), UNSETTLED),
        (apply_job(S.WAITING, latest=with_status(live(), LATE)), f"{UNSETTLED}; last seen: HelmReleaseFailed: late"),
        (apply_job(S.WAITING, expires_at=None), UNSETTLED.replace("2026-01-01T01:00:00Z", "its time")),
        (run_job(S.WAITING, latest=RUNS), UNSETTLED.replace(str(REF), str(RUN))),
        (
            run_job(S.WAITING, latest=PENDING),
            UNSETTLED.replace(str(REF), str(RUN)).replace("not settled", "not started and was cancelled"),
        ),
    ],
)
def test_a_timeout_says_what_was_seen_last(job: JobState, error: str) -> None:
    assert timeout(job) == JobResult(JobOutcome.FAILED, f"Timeout: {error}")


def test_a_job_out_of_time_is_answered_with_its_timeout_PULL_3() -> None:
    job = apply_job(S.WAITING, applied=APPLIED, latest=with_status(live(), LATE))
    when = EXPIRY + GRACE

    ended, effects = advance(job, Tick(), at(when))

    assert ended.result == timeout(job)
    assert [type(effect) for effect in effects] == [m.PostResult]
    assert advance(job, m.ObjectChanged(REF, with_status(live(), LATE)), at(when))[0].result == timeout(job)


# --- what is durable ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "state"),
    [
        (apply_job(S.RECORDING), {}),
        (apply_job(S.ACTING, intent=EffectIntent()), {"intent": {"uid": ""}}),
        (apply_job(S.ACTING, intent=EffectIntent("u", happened=True)), {"intent": {"uid": "u", "had": True}}),
        (delete_job(S.ACTING, intent=EffectIntent("u", generation=4)), {"intent": {"uid": "u", "generation": 4}}),
        (apply_job(S.RECORDING, result=WORDS), {"verdict": {"outcome": "failed", "error": WORDS.error}}),
        (
            run_job(S.ACTING, result_once_cancelled=WORDS, intent=EffectIntent("u")),
            {"intent": {"uid": "u"}, "ending": {"outcome": "failed", "error": WORDS.error}},
        ),
    ],
)
def test_a_job_is_restored_from_its_record_as_it_was_PULL_4(job: JobState, state: dict[str, Any]) -> None:
    assert record_of(job) == JobRecord("job-1", job.raw, state)

    found = restore(JobRecord("job-1", job.raw, state), 7, SCOPE)

    assert (found.id, found.arrival, found.raw, found.task, found.key) == ("job-1", 7, job.raw, job.task, job.key)
    assert (found.stage, found.ack_may_have_arrived, found.expires_at) == (S.ACKING, True, job.expires_at)
    assert (found.intent, found.result, found.result_once_cancelled) == (
        job.intent,
        job.result,
        job.result_once_cancelled,
    )
    assert found.had_effect is (job.intent is not None and job.intent.happened)
    generation = job.intent.generation if job.intent is not None else 0
    assert found.applied == (AppliedRef(REF, "u", generation) if generation else None)


@pytest.mark.parametrize(
    ("state", "intent", "result"),
    [
        ({"intent": "x", "verdict": "x"}, None, None),
        ({"intent": {}}, EffectIntent(""), None),
        ({"intent": {"uid": 5, "had": "yes", "generation": "4"}}, EffectIntent("5"), None),
        ({"verdict": {"outcome": "noop"}}, None, JobResult(JobOutcome.NOOP)),
        ({"verdict": {"outcome": "of another version", "error": "x"}}, None, None),
        ({"verdict": {}}, None, None),
    ],
)
def test_a_record_of_another_version_is_read_as_far_as_it_goes(
    state: dict[str, Any], intent: EffectIntent | None, result: JobResult | None
) -> None:
    found = restore(JobRecord("job-1", RAW, state), 0, SCOPE)

    assert (found.intent, found.result, found.had_effect) == (intent, result, False)


def test_a_job_that_can_be_decrypted_no_more_leaves_its_tombstone_all_the_same_PULL_4() -> None:
    """Its write may have happened: asked for again under its key, it must not happen twice."""
    sealed = {**{name: value for name, value in RAW.items() if name != "payload"}, "encryptedPayload": "s"}

    found = restore(JobRecord("job-1", sealed, {"intent": {"uid": "u", "had": True}}), 0, SCOPE)

    assert found.result == JobResult.failed("JobPayloadDecryptionFailed", "the credentials have no decryption-key")
    assert tombstone_of(attrs.evolve(found, stage=S.CLOSING), "now") == Tombstone(KEY, "failed", "u", 0, "now")


def test_the_id_of_a_record_counts_and_not_that_in_its_job() -> None:
    found = restore(JobRecord("job-2", RAW, {}), 0, SCOPE)

    assert (found.id, found.raw["id"]) == ("job-2", "job-1")


def test_a_refused_job_keeps_its_key_and_nothing_of_its_payload() -> None:
    job = accept({**RAW, "kind": "upgrade"}, 4, SCOPE)

    assert isinstance(job, JobState)
    assert (job.raw, job.arrival, job.stage) == ({"id": "job-1", "idempotencyKey": KEY}, 4, S.RECORDING)
    assert (job.key, job.task, job.expires_at) == (KEY, None, None)


HAD = {"had_effect": True}


@pytest.mark.parametrize(
    ("job", "stone"),
    [
        (apply_job(S.CLOSING), None),
        (apply_job(S.CLOSING, result=WORDS), None),
        (apply_job(S.CLOSING, **HAD), Tombstone(KEY, "", "", 1, "now")),
        (apply_job(S.CLOSING, result=WORDS, **HAD), Tombstone(KEY, "failed", "", 1, "now")),
        (apply_job(S.CLOSING, result=SUCCEEDED), Tombstone(KEY, "succeeded", "", 1, "now")),
        (apply_job(S.CLOSING, intent=EffectIntent("i"), **HAD), Tombstone(KEY, "", "i", 1, "now")),
        (apply_job(S.CLOSING, intent=EffectIntent("i"), applied=APPLIED, **HAD), Tombstone(KEY, "", "u1", 1, "now")),
        (run_job(S.CLOSING, **HAD), Tombstone("run-1", "", "", 0, "now")),
        (apply_job(S.CLOSING, key="", **HAD), None),
    ],
)
def test_a_tombstone_is_left_by_what_had_an_effect_and_has_a_key_PULL_4(job: JobState, stone: Tombstone | None) -> None:
    assert tombstone_of(job, "now") == stone
