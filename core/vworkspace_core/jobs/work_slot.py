"""Steps of a job that has the work slot of its object: inspect, plan, record the intent, perform the effect (PULL-4).

A job is a request of the control plane, and its effect is the write that it requests, such as an apply. One job at a
time has the slot, and only it may write the object (REC-6). The job gives the slot back once its effect is recorded, or
when it can only wait.
"""

from typing import assert_never

import attrs

from purekube.apimachinery.errors import FieldConflict
from purekube.apimachinery.manifest import Manifest, get_path, metadata
from purekube.apimachinery.timestamps import shifted
from purekube.controller.backoff import Retry
from vworkspace_core.api import labels
from vworkspace_core.api.labels import JOB_ANNOTATIONS
from vworkspace_core.jobs import messages as m
from vworkspace_core.jobs.awaiting_status import RECHECK, applied, inspect
from vworkspace_core.jobs.object_status import ended_at
from vworkspace_core.jobs.plan import (
    AlreadyApplied,
    EffectIntent,
    FinishJob,
    Inspection,
    Plan,
    PlanApply,
    PlanDelete,
    PlanRotate,
    SlotHolder,
    WaitDeleted,
    WaitForManagedNamespace,
    key_of,
    plan,
)
from vworkspace_core.jobs.result import JobOutcome, JobResult, Reason
from vworkspace_core.jobs.scope import DeleteTask
from vworkspace_core.jobs.state import JobStage, JobState, record_of
from vworkspace_core.jobs.steps import JobStep, JobStepContext, clear, generation, post, ref, settle, waiting_body


def take_slot(job: JobState) -> JobStep:
    """Return the step that gives the job the work slot of its object, and reads the object.

    Only one job at a time has the slot. A step is the job's next state, and the effects (such as reads and writes) to
    perform.
    """
    looking = attrs.evolve(job, stage=JobStage.INSPECTING, retry=job.retry.started(), missed_tombstones=())
    return looking, (inspect(job),)


def inspected(job: JobState, seen: Inspection, at: JobStepContext) -> JobStep:
    """Return the step after the job's object was read with the result `seen`.

    A step is the job's next state, and the effects (such as reads and writes) to perform. Here they begin the plan that
    follows from `seen`. `at` has the time and the limits on jobs.
    """
    if job.task is None:
        raise AssertionError("a refused job gets no slot")
    expired = job.expires_at is not None and at.expiry_now >= job.expires_at
    turn = SlotHolder(job.task, job.key, job.generation, expired, job.intent)
    return _follow(clear(job), plan(turn, seen, at.scope), seen, at)


def _follow(job: JobState, chosen: Plan, seen: Inspection, at: JobStepContext) -> JobStep:
    match chosen:
        case FinishJob(result, had_effect):
            ended = _with_live(job, seen) if result.outcome is JobOutcome.NOOP else job
            return settle(attrs.evolve(ended, had_effect=ended.had_effect or had_effect), result, at)
        case PlanApply(manifest, uid):
            return _record_intent(attrs.evolve(job, writing=manifest, status_before=get_path(seen.live, "status")), uid)
        case PlanDelete(uid, generation):
            return _record_intent(attrs.evolve(job, applied=ref(job, uid, generation)), uid, generation)
        case PlanRotate():
            return _record_intent(job, "")
        case WaitForManagedNamespace():
            return attrs.evolve(job, stage=JobStage.WAITING, retry=Retry(0, shifted(at.now, RECHECK), RECHECK)), ()
        case WaitDeleted(uid):
            return _wait_deleted(job, uid, at)
        case AlreadyApplied(live):
            written = attrs.evolve(job, latest=None)  # reports of informers until now are older
            return applied(written, live, at)
        case _:
            assert_never(chosen)


def _with_live(job: JobState, seen: Inspection) -> JobState:
    """Return `job`, which ends as a noop (without a write of its own), with a reference to the live object for its
    result.

    If the object has the job's key but the job store has no tombstone (record of a closed job) for that key, the job
    counts as having had its effect, and leaves a tombstone.
    """
    if seen.live is None:
        return job
    live = ref(job, str(metadata(seen.live).get("uid", "")), generation(seen.live))
    ours = key_of(seen.live) == job.key
    if not ours and (seen.tombstone is not None or not ended_at(seen.live)):
        return job
    return attrs.evolve(job, applied=live, had_effect=ours and seen.tombstone is None)


def _record_intent(job: JobState, uid: str, generation: int = 0) -> JobStep:
    """Return the step (state and effects) that records, before the write, the effect that the job is about to have.

    `uid` is that of the object, and `generation` is the generation to report. If the same effect is recorded already,
    return the step that performs it.
    """
    intent = EffectIntent(uid, generation=generation)
    if job.intent == intent:
        return act(attrs.evolve(job, stage=JobStage.ACTING))
    recording = attrs.evolve(job, stage=JobStage.RECORDING_INTENT, intent=intent)
    return recording, (m.PutRecord(job.id, record_of(recording)),)


def act(job: JobState, *, force: bool = False) -> JobStep:
    """Return the step that performs the write that the job has recorded as its intent, such as an apply or a delete.

    A step is the job's next state, and the effects to perform, here that write. With `force`, an apply takes fields
    from other managers.
    """
    acting = attrs.evolve(job, latest=None, object_is_gone=False)
    if job.ref is None:
        return acting, (m.RotateCredential(job.id, job.key),)
    if job.result_once_cancelled is not None:
        about = metadata(job.latest or {})
        uid, version = (str(about.get(name) or "") for name in ("uid", "resourceVersion"))
        return job, (m.CancelOperation(job.id, job.ref, uid, version),)
    if isinstance(job.task, DeleteTask):
        return acting, (m.DeleteForJob(job.id, job.ref, job.intent.uid if job.intent else ""),)
    return acting, (m.ApplyForJob(job.id, job.ref, job.writing or {}, force),)


def record_effect(job: JobState, live: Manifest, at: JobStepContext) -> JobStep:
    """Return the step that records a successful apply before anything else is done with the object.

    A step is the job's next state, and the effects to perform, here a write to the job store. `live` is the object
    after the apply. Without the record, a process that starts after a crash could not tell a lost write from an object
    that was deleted or changed later, and would repeat the effect (PULL-4). `at` has the time and the limits on jobs.
    """
    if job.result_once_cancelled is not None:
        return applied(attrs.evolve(job, latest=None), live, at)
    uid = str(metadata(live).get("uid", ""))
    reference, intent = ref(job, uid, generation(live)), EffectIntent(uid, True, generation(live))
    recording = clear(
        job, stage=JobStage.RECORDING_EFFECT, intent=intent, applied=reference, had_effect=True, written=live
    )
    return recording, (m.PutRecord(job.id, record_of(recording)),)


def _wait_deleted(job: JobState, uid: str, at: JobStepContext) -> JobStep:
    body = waiting_body(f"waits for the terminating {job.ref} (uid {uid}) to be gone", at.server_now)
    waiting = attrs.evolve(job, stage=JobStage.WAITING_DELETED, recheck_at=shifted(at.now, RECHECK))
    return post(waiting, body)


def _is_ours(conflict: FieldConflict) -> bool:
    """Report whether the operator may take over the field in `conflict`.

    It may if an older write by the operator owns the field, or if the field is an annotation that only the operator
    uses.
    """
    marks = {f".metadata.annotations.{name}" for name in JOB_ANNOTATIONS}
    return conflict.manager == labels.FIELD_MANAGER or conflict.field in marks


def conflicted(job: JobState, conflicts: tuple[FieldConflict, ...], at: JobStepContext) -> JobStep:
    """Return the step after an apply conflicted with fields of other managers (REC-8).

    A step is the job's next state, and the effects (such as writes) to perform. If all of the conflicting fields belong
    to the operator's own older field managers, the step applies again, with force. Otherwise the job ends, and its
    result names the managers and the fields. `at` has the time and the limits on jobs.
    """
    others = [conflict for conflict in conflicts if not _is_ours(conflict)]
    if conflicts and not others:
        # Exactly the judged copy is written: nothing else can be taken by force (REC-6).
        return act(job, force=True)
    held = (
        ", ".join(f"{conflict.manager} holds {conflict.field}" for conflict in others)
        or "another manager holds a field"
    )
    return settle(job, JobResult.of(JobOutcome.CONFLICT, Reason.FIELD_CONFLICT, held), at)
