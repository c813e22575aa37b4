"""The life of one job: what an answer or a change means for it, and what to do next (PULL-2, PULL-3).

`advance` is one transition. Answers that come in a stage that does not wait for them are late or repeated
and change nothing: duplicates are part of the protocol (PULL-4).
"""

from datetime import timedelta
from typing import Final

import attrs

from vworkspace_core.apimachinery.timestamps import shifted
from vworkspace_core.jobs import messages as m
from vworkspace_core.jobs.awaiting_status import applied, await_gone_for_good, changed, looked
from vworkspace_core.jobs.deadlines import tick
from vworkspace_core.jobs.outcome import SUCCEEDED, Reason, Verdict
from vworkspace_core.jobs.scope import DeleteTask
from vworkspace_core.jobs.state import JobState, Stage, record_of, slim
from vworkspace_core.jobs.steps import Moment, Step, clear, close, retry, settle
from vworkspace_core.jobs.turn import act, conflicted, note

_ASKING: Final = frozenset(
    {Stage.RECORDING, Stage.INSPECTING, Stage.INTENDING, Stage.ACTING, Stage.NOTING, Stage.CLOSING}
)
"""Stages that wait for the cluster or the job store, and ask again when no answer comes."""

_SOON: Final = timedelta(seconds=10)
"""When a waiting job looks again after a look that failed."""


def advance(job: JobState, event: m.Event, at: Moment) -> Step:  # noqa: C901 - one row per event
    """The job after `event`, and what it asks for."""
    match event, job.stage:
        case m.Recorded(), Stage.RECORDING:
            return clear(job, stage=Stage.ACKING), (m.SendAck(job.id),)
        case m.RecordRefused(message=message), Stage.RECORDING:
            return _unrecordable(job, message)
        case m.Recorded(), Stage.INTENDING:
            return act(clear(job, stage=Stage.ACTING))
        case m.RecordRefused(), Stage.INTENDING if job.ending is not None:
            return act(clear(job, stage=Stage.ACTING))  # only the reason is not on record
        case m.RecordRefused(message=message), Stage.INTENDING:
            return settle(job, Verdict.failed(Reason.PAYLOAD_TOO_LARGE, message), at)
        case m.AckLost(), Stage.ACKING:
            return attrs.evolve(job, ack_may_have_arrived=True), ()
        case m.Acked(), Stage.ACKING:
            return _acked(job, at)
        case m.JobGone(), Stage.ACKING:
            return _acked(job, at) if job.ack_may_have_arrived else _dropped(job, at)
        case m.JobClosed(), Stage.ACKING:
            return _dropped(job, at)
        case m.Applied(live=live), Stage.ACTING:
            return note(job, live, at)
        case ((m.Recorded() | m.RecordRefused()), Stage.NOTING):
            return applied(job, job.written or {}, at)
        case m.DeleteSent(), Stage.ACTING:
            return await_gone_for_good(job, at)
        case m.Rotated(), Stage.ACTING:
            return settle(attrs.evolve(job, had_effect=True), SUCCEEDED, at)
        case m.Conflicted(conflicts=conflicts), Stage.ACTING:
            return conflicted(job, conflicts, at)
        case m.LookAgain(message=message), Stage.ACTING:
            return retry(attrs.evolve(job, ending=None), message, at)
        case m.Refused(message=message), Stage.ACTING if job.ending is not None:
            # What can still be carried out has not failed: the job stays open until it can be called off.
            return retry(attrs.evolve(job, ending=None), message, at)
        case m.Refused(reason=reason, message=message), Stage.ACTING:
            return settle(job, Verdict.failed(reason, message), at)
        case m.Refused(reason=reason, message=message), Stage.INSPECTING:
            return settle(job, Verdict.failed(reason, message), at)
        case m.Inspected(seen=seen), Stage.WAITING:
            return looked(job, seen, at)
        case m.ObjectChanged(live=live), _:
            return changed(job, live, at)
        case m.StepFailed(message=message), stage if stage in _ASKING:
            return retry(job, message, at)
        case m.StepFailed(), Stage.WAITING:
            return attrs.evolve(job, recheck_at=shifted(at.now, _SOON)), ()
        case m.ResultAccepted(), Stage.ANSWERING:
            closing = clear(job, stage=Stage.CLOSING)
            return closing, (close(closing, at),)
        case m.Tick(), _:
            return tick(job, at)
        case _:
            return job, ()


def _unrecordable(job: JobState, message: str) -> Step:
    """The payload does not fit a record: the job is answered, not applied (PULL-4)."""
    if job.verdict is not None and job.task is None:
        # Not even the bare answer can be kept: it is given at once, and a crash in between loses only that.
        return clear(job, stage=Stage.ACKING), (m.SendAck(job.id), m.Note("warning", message, job.id))
    verdict = Verdict.failed(Reason.PAYLOAD_TOO_LARGE, message)
    small = clear(attrs.evolve(job, raw=slim(job.id, job.key), task=None, verdict=verdict))
    return small, (m.PutRecord(job.id, record_of(small)),)


def _acked(job: JobState, at: Moment) -> Step:
    if job.verdict is not None:
        return settle(job, job.verdict, at)
    return clear(job, stage=Stage.READY), ()


def _dropped(job: JobState, at: Moment) -> Step:
    """The control plane has closed the job: nothing is applied. What an earlier process did stays remembered.

    An effect that began may have happened; a delete whose ack arrived once may have been answered: asked again under
    their keys, neither may touch a successor (PULL-4).
    """
    note = m.Note("info", "the control plane has closed the job: dropped without applying it", job.id)
    answered = isinstance(job.task, DeleteTask) and job.ack_may_have_arrived
    had = job.had_effect or job.intent is not None or answered
    closing = clear(job, stage=Stage.CLOSING, verdict=None, had_effect=had)
    return closing, (note, close(closing, at))
