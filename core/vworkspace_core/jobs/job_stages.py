"""The life of one job (a request of the control plane): the table of what each event means in each stage (PULL-2,
PULL-3).

`advance` is one transition. The steps that it returns are made by `work_slot` up to the job's effect, and by
`awaiting_status` after it. The event Inspected in the stage INSPECTING is handled by `machine`, which knows the other
jobs; no other module pairs events with stages. An answer in a stage that does not wait for it is late or repeated and
changes nothing: duplicates are part of the protocol (PULL-4).
"""

from datetime import datetime, timedelta
from typing import Final, assert_never

import attrs

from purekube.apimachinery.manifest import is_terminating
from purekube.apimachinery.timestamps import has_come, shifted
from purekube.controller.backoff import LogLevel, LogNote, Tick
from vworkspace_core.api.kinds import OPERATION
from vworkspace_core.jobs import messages as m
from vworkspace_core.jobs.awaiting_status import (
    RECHECK,
    SOON,
    applied,
    give_up,
    inspect,
    object_changed,
    on_status_read,
    out_of_time,
    runs_on,
    wait_deleted,
)
from vworkspace_core.jobs.result import SUCCEEDED, JobResult, Reason
from vworkspace_core.jobs.scope import ApplyTask, DeleteTask
from vworkspace_core.jobs.state import JobStage, JobState, bare_job, may_have_had_effect, record_of
from vworkspace_core.jobs.steps import JobStep, JobStepContext, clear, close, retry, settle
from vworkspace_core.jobs.work_slot import act, conflicted, record_effect, take_slot

REFUSALS: Final = 7
"""The number of refusals for a missing right or kind after which a job fails, about half a minute in all."""
_PASSING: Final = frozenset({Reason.FORBIDDEN, Reason.KIND_MISSING})
"""The reasons of refusals that may be over in a moment.

A kube-apiserver that has just started answers 403 until it knows its roles, and 404 until it serves a new CRD.
"""
_ASKS_AGAIN: Final = frozenset(
    {
        JobStage.RECORDING,
        JobStage.INSPECTING,
        JobStage.RECORDING_INTENT,
        JobStage.ACTING,
        JobStage.RECORDING_EFFECT,
        JobStage.CLOSING,
    }
)
"""The stages in which a job waits for the API server or the job store, and repeats an unanswered request."""


def advance(job: JobState, event: m.OpenJobEvent, at: JobStepContext) -> JobStep:
    """Return the job after `event`, and the effects to perform, such as reads and writes of objects.

    `at` has the time, and the limits of what a job may touch.
    """
    match event:
        case Tick():
            return _ticked(job, at)
        case m.Recorded() | m.RecordRefused() | m.RecordClosed():
            return _answered(job, event, at)
        case m.Acked() | m.AckLost() | m.JobGone() | m.JobAlreadyClosed() | m.ResultAccepted():
            return _answered(job, event, at)
        case m.Applied() | m.DeleteSent() | m.Rotated() | m.Conflicted() | m.PreconditionFailed():
            return _acted(job, event, at)
        case m.EffectRefused() | m.StepFailed():
            return _acted(job, event, at)
        case m.Inspected() | m.ObjectChanged():
            return _seen(job, event, at)
        case _:
            assert_never(event)


def _answered(job: JobState, event: m.OpenJobEvent, at: JobStepContext) -> JobStep:
    """Return the step after an answer of the job store or the control plane."""
    match event, job.stage:
        case m.Recorded(), JobStage.RECORDING:
            return clear(job, stage=JobStage.ACKING), (m.SendAck(job.id),)
        case m.RecordRefused(message=message), JobStage.RECORDING:
            return _unrecordable(job, message)
        case m.Recorded(), JobStage.RECORDING_INTENT:
            return act(clear(job, stage=JobStage.ACTING))
        case m.RecordRefused(), JobStage.RECORDING_INTENT if job.result_once_cancelled is not None:
            return act(clear(job, stage=JobStage.ACTING))  # only the reason is not on record
        case m.RecordRefused(message=message), JobStage.RECORDING_INTENT:
            return settle(job, JobResult.failed(Reason.PAYLOAD_TOO_LARGE, message), at)
        case m.Recorded() | m.RecordRefused(), JobStage.RECORDING_EFFECT:
            return applied(job, job.written or {}, at)
        case m.AckLost(), JobStage.ACKING:
            return attrs.evolve(job, ack_may_have_arrived=True), ()
        case m.Acked(), JobStage.ACKING:
            return _acked(job, at)
        case m.JobGone(), JobStage.ACKING:
            return _acked(job, at) if job.ack_may_have_arrived else _dropped(job, at)
        case m.JobAlreadyClosed(), JobStage.ACKING:
            return _dropped(job, at)
        case m.ResultAccepted(), JobStage.ANSWERING:
            closing = clear(job, stage=JobStage.CLOSING)
            return closing, (close(closing, at),)
        case _:
            return job, ()


def _acted(job: JobState, event: m.OpenJobEvent, at: JobStepContext) -> JobStep:
    """Return the step (state and effects) after the API server answered a request of the job, or did not answer it."""
    match event, job.stage:
        case m.Applied(live=live), JobStage.ACTING:
            return record_effect(job, live, at)
        case m.DeleteSent(), JobStage.ACTING:
            return wait_deleted(job, at)
        case m.Rotated(), JobStage.ACTING:
            return settle(attrs.evolve(job, had_effect=True), SUCCEEDED, at)
        case m.Conflicted(conflicts=conflicts), JobStage.ACTING:
            return conflicted(job, conflicts, at)
        case m.PreconditionFailed(message=message), JobStage.ACTING:
            return retry(attrs.evolve(job, result_once_cancelled=None), message, at)
        case m.EffectRefused(message=message), JobStage.ACTING if job.result_once_cancelled is not None:
            # An Operation that may still start has not failed: the job stays open until it can be cancelled.
            return retry(attrs.evolve(job, result_once_cancelled=None), message, at)
        case m.EffectRefused(reason=reason, message=message), _ if reason in _PASSING and job.refusals < REFUSALS - 1:
            return retry(attrs.evolve(job, refusals=job.refusals + 1), message, at)
        case m.EffectRefused(message=message), JobStage.INSPECTING if _may_run_later(job):
            return retry(job, message, at)
        case m.EffectRefused(reason=reason, message=message), JobStage.ACTING | JobStage.INSPECTING:
            return settle(job, JobResult.failed(reason, message), at)
        case m.StepFailed(message=message), stage if stage in _ASKS_AGAIN:
            return retry(job, message, at)
        case m.StepFailed(), JobStage.WAITING:
            return attrs.evolve(job, recheck_at=shifted(at.now, SOON)), ()
        case _:
            return job, ()


def _may_run_later(job: JobState) -> bool:
    """Report whether the job may have created an Operation that has not been read: it may still start, so the job has
    not failed.
    """
    return isinstance(job.task, ApplyTask) and job.task.ref.kind == OPERATION and may_have_had_effect(job)


def _seen(job: JobState, event: m.Inspected | m.ObjectChanged, at: JobStepContext) -> JobStep:
    """Return the step (state and effects) after the job's object was read or has changed."""
    match event, job.stage:
        case m.Inspected(seen=seen), JobStage.WAITING:
            return on_status_read(job, seen, at)
        case m.ObjectChanged(live=live), JobStage.WAITING:
            return object_changed(job, live, at)
        case m.ObjectChanged(live=live), JobStage.ACTING | JobStage.RECORDING_EFFECT:
            return attrs.evolve(job, latest=live, object_is_gone=job.object_is_gone or live is None), ()
        case m.ObjectChanged(live=live), JobStage.WAITING_DELETED if not is_terminating(live):
            return clear(job, stage=JobStage.READY), ()
        case _:
            return job, ()


def _ticked(job: JobState, at: JobStepContext) -> JobStep:
    """Return the step (state and effects) at a time when the job may have something to do, such as a retry."""
    if job.retry.is_due(at.now):
        return _redo(attrs.evolve(job, retry=job.retry.started()), at)
    match job.stage:
        case JobStage.WAITING if job.retry.at is None and out_of_time(job, at):
            return give_up(job, at)
        case JobStage.WAITING if _recheck_due(job, at):
            return attrs.evolve(job, recheck_at=shifted(at.now, RECHECK)), (inspect(job),)
        case JobStage.WAITING_DELETED if _is_expired(job, at) or _recheck_due(job, at):
            return attrs.evolve(job, stage=JobStage.READY, recheck_at=None), ()
        case _:
            return job, ()


def _unrecordable(job: JobState, message: str) -> JobStep:
    """Return the step (state and effects) that fails a job without applying it, since its payload is too large to be
    recorded.
    """
    if job.result is not None:
        # Not even the bare answer can be recorded: it is given at once, and a crash in between loses only that.
        return clear(job, stage=JobStage.ACKING), (m.SendAck(job.id), LogNote(LogLevel.WARNING, message, job.id))
    result = JobResult.failed(Reason.PAYLOAD_TOO_LARGE, message)
    small = clear(attrs.evolve(job, raw=bare_job(job.id, job.key), task=None, result=result))
    return small, (m.PutRecord(job.id, record_of(small)),)


def _acked(job: JobState, at: JobStepContext) -> JobStep:
    if job.result is not None:
        return settle(job, job.result, at)
    return clear(job, stage=JobStage.READY), ()


def _dropped(job: JobState, at: JobStepContext) -> JobStep:
    """Return the step (state and effects) that drops a job which the control plane has closed, without applying it.

    A tombstone (record of what the job has done) is stored if the job's effect may have happened, or if the ack of a
    delete may have arrived. If the job is requested again under its key, it must not touch a later object of the same
    name (PULL-4).
    """
    note = LogNote(LogLevel.INFO, "the control plane has closed the job: dropped without applying it", job.id)
    answered = isinstance(job.task, DeleteTask) and job.ack_may_have_arrived
    had = may_have_had_effect(job) or answered
    closing = clear(job, stage=JobStage.CLOSING, result=None, had_effect=had)
    return closing, (note, close(closing, at))


def due_at(job: JobState, skew: timedelta, grace: timedelta, *, strict: bool = False) -> datetime | None:
    """Return when a Tick event next changes this job, by the local clock, or None if no Tick changes it.

    `skew` is how far the control plane's clock is ahead. A job that waits for an outcome gets `grace` after its expiry.
    With `strict`, the job expires as soon as either the local clock or the control plane's clock says so (PULL-12).
    """
    times = [job.retry.at]
    if job.stage in (JobStage.WAITING, JobStage.WAITING_DELETED):
        times.append(job.recheck_at)
    if job.expires_at is not None:
        if job.stage is JobStage.WAITING_DELETED:
            times.append(shifted(job.expires_at, -max(skew, timedelta(0)) if strict else -skew))
        if job.stage is JobStage.WAITING and not runs_on(job) and job.retry.at is None:
            times.append(shifted(shifted(job.expires_at, grace), -skew))
    return min((moment for moment in times if moment is not None), default=None)


def _is_expired(job: JobState, at: JobStepContext) -> bool:
    return job.expires_at is not None and at.expiry_now >= job.expires_at


def _recheck_due(job: JobState, at: JobStepContext) -> bool:
    return job.recheck_at is not None and has_come(job.recheck_at, at.now, RECHECK)


def _redo(job: JobState, at: JobStepContext) -> JobStep:
    """Return the step (state and effects) that repeats the job's last effect, which failed or was not answered."""
    match job.stage:
        case JobStage.RECORDING | JobStage.RECORDING_INTENT | JobStage.RECORDING_EFFECT:
            return job, (m.PutRecord(job.id, record_of(job)),)
        case JobStage.INSPECTING | JobStage.ACTING:
            # After an unanswered write only a read can tell whether it happened.
            return take_slot(job)
        case JobStage.WAITING:
            return attrs.evolve(job, stage=JobStage.READY), ()
        case JobStage.CLOSING:
            return job, (close(job, at),)
        case JobStage.ACKING | JobStage.READY | JobStage.WAITING_DELETED | JobStage.ANSWERING:
            return job, ()
        case _:
            assert_never(job.stage)
