"""A job that had its effect, waiting for what its object's status says (PULL-2 steps 6 to 8)."""

from datetime import timedelta
from typing import Final

import attrs

from vworkspace_core.api import labels
from vworkspace_core.api.labels import IDEMPOTENCY_KEY
from vworkspace_core.api.own_status import OWN_STATUS
from vworkspace_core.apimachinery import resources as known
from vworkspace_core.apimachinery.manifest import Manifest, get_path, metadata
from vworkspace_core.apimachinery.timestamps import shifted
from vworkspace_core.control_plane.event_keys import object_key
from vworkspace_core.jobs import messages as m
from vworkspace_core.jobs.object_status import can_still_start, has_started, waits_for_schedule
from vworkspace_core.jobs.plan import Inspection
from vworkspace_core.jobs.reports import progress
from vworkspace_core.jobs.result import SUCCEEDED, JobOutcome, JobResult, Reason, result_of
from vworkspace_core.jobs.scope import ApplyTask, DeleteTask
from vworkspace_core.jobs.state import JobStage, JobState, record_of
from vworkspace_core.jobs.steps import JobStep, JobStepContext, clear, generation, post, ref, settle, timeout

_SOON: Final = timedelta(seconds=10)
RECHECK: Final = timedelta(minutes=5)
"""How long a waiting job trusts the informer before it looks for itself."""


def applied(job: JobState, live: Manifest, at: JobStepContext) -> JobStep:
    """The write is there, now or since before a crash: wait for what comes of it."""
    # Its deletion counts as a generation of an object; a delete tells the one that it was asked to delete.
    known = job.applied if isinstance(job.task, DeleteTask) else None
    reference = known or ref(job, str(metadata(live).get("uid", "")), generation(live))
    waiting = clear(
        job,
        stage=JobStage.WAITING,
        applied=reference,
        had_effect=True,
        recheck_at=shifted(at.now, RECHECK),
        writing=None,
        written=None,
        result_once_cancelled=None if can_still_start(live) or has_started(live) else job.result_once_cancelled,
    )
    if job.object_is_gone:  # an informer saw it go while the answer was under way: which was first?
        return waiting, (inspect(waiting),)
    return _consider(waiting, _fresher(job, live), at, has_slot=True)


def _fresher(job: JobState, live: Manifest) -> Manifest:
    """What an informer saw while the apply was under way, when it is at least as new."""
    seen = job.latest
    if seen is None or metadata(seen).get("uid") != metadata(live).get("uid"):
        return live
    return seen if _is_after(job, seen) and generation(seen) >= generation(live) else live


def _is_after(job: JobState, seen: Manifest) -> bool:
    """Whether an informer's copy is from after the job's apply: an older one has another verdict, and may come late."""
    return isinstance(job.task, DeleteTask) or get_path(seen, "metadata", "annotations", IDEMPOTENCY_KEY) == job.key


def wait_deleted(job: JobState, at: JobStepContext) -> JobStep:
    """The delete was accepted: succeeded when the object is really gone."""
    waiting = clear(job, stage=JobStage.WAITING, had_effect=True, recheck_at=shifted(at.now, RECHECK))
    # The delete may have been all: whether something still holds the object, only a look can tell.
    return waiting, (inspect(waiting),)


def changed(job: JobState, live: Manifest | None, at: JobStepContext) -> JobStep:
    """An informer saw the object change."""
    match job.stage:
        case JobStage.WAITING if _is_gone(job, live):
            # News may be of an object that was there before this one: only a look at the server can tell.
            return job, (inspect(job),)
        case JobStage.WAITING:
            return _consider(job, live, at) if live is not None and _is_after(job, live) else (job, ())
        case JobStage.ACTING | JobStage.RECORDING_EFFECT:
            return attrs.evolve(job, latest=live, object_is_gone=job.object_is_gone or live is None), ()
        case JobStage.WAITING_DELETED if live is None or not metadata(live).get("deletionTimestamp"):
            return clear(job, stage=JobStage.READY), ()
        case _:
            return job, ()


def _is_gone(job: JobState, live: Manifest | None) -> bool:
    return live is None or job.applied is None or metadata(live).get("uid") != job.applied.uid


def looked(job: JobState, seen: Inspection, at: JobStepContext) -> JobStep:
    """The job looked for itself; where the gate is closed it saw nothing, which does not mean gone."""
    if seen.namespace is not None and not labels.namespace_is_gated(seen.namespace):
        return job, ()
    if _is_undone(job, seen.live):
        return clear(job, stage=JobStage.READY, intent=None, applied=None, latest=None, recheck_at=None), ()
    return _consider(job, seen.live, at, looked=True)


def _is_undone(job: JobState, live: Manifest | None) -> bool:
    """Whether the object is as it was before the job's effect: its storage was restored from a snapshot (RUN-1)."""
    if live is None or job.applied is None or _is_gone(job, live):
        return False
    if isinstance(job.task, DeleteTask):
        return not metadata(live).get("deletionTimestamp")
    return generation(live) < job.applied.generation


def _soon(job: JobState, at: JobStepContext) -> JobState:
    """Look in a moment: whoever edited the status by hand may be taking it back just now."""
    soon = shifted(at.now, _SOON)
    return job if job.recheck_at is not None and job.recheck_at <= soon else attrs.evolve(job, recheck_at=soon)


def out_of_time(job: JobState, at: JobStepContext) -> bool:
    """Whether the job has had its time: an Operation that has started has a deadline of its own (OPS-12)."""
    if job.expires_at is None or at.server_now < shifted(job.expires_at, at.grace):
        return False
    return not runs_on(job)


def runs_on(job: JobState) -> bool:
    """Whether its Operation is at work: one that only waits for its schedule is not."""
    live = job.latest or {}
    return live.get("kind") == known.OPERATION.kind and has_started(live) and not waits_for_schedule(live)


def give_up(job: JobState, at: JobStepContext) -> JobStep:
    """The job has had its time. An Operation that may still start is cancelled first, which takes the work slot."""
    if job.latest is not None and waits_for_schedule(job.latest):
        return settle(job, SUCCEEDED, at)  # it runs as asked; its next sync is later than anybody wants to wait
    if isinstance(job.task, ApplyTask) and job.task.ref.kind == known.OPERATION:
        return clear(job, stage=JobStage.READY, recheck_at=None), ()
    return settle(job, timeout(job), at)


def _consider(
    job: JobState, live: Manifest | None, at: JobStepContext, *, has_slot: bool = False, looked: bool = False
) -> JobStep:
    """What the live object says about a job that had its effect. `has_slot`: it was read while the job has the slot."""
    if live is None or _is_gone(job, live):
        deleted = JobResult.failed(Reason.DELETED, f"{job.ref} was deleted before the job settled")
        return settle(job, SUCCEEDED if isinstance(job.task, DeleteTask) else deleted, at)
    posted, effects = post(attrs.evolve(job, latest=live), progress(live, at.server_now))
    # One that may still start is cancelled first, exactly as it was judged: the result is told once that is done.
    final = looked or (has_slot and can_still_start(live))
    result = None if isinstance(job.task, DeleteTask) else _result(posted, live, at, final)
    if result is None and OWN_STATUS.holder(live) is None:
        return posted, effects
    if result is None:  # the command that takes the status back is told of the object as it is by then
        return (posted, (*effects, inspect(posted))) if has_slot else (_soon(posted, at), effects)
    ended, last = _end(posted, live, result, at, has_slot)
    return ended, (*effects, *last)


def _result(job: JobState, live: Manifest, at: JobStepContext, looked: bool) -> JobResult | None:
    """How the job ends. The reason it was cancelled for counts before what the cancelled Operation says of itself.

    `looked`: the API server was asked for the object with this alone in mind; a cache lacks what names holders.
    """
    holder, judged = OWN_STATUS.holder(live), job.result_once_cancelled
    if judged is not None and holder is not None and judged.outcome is JobOutcome.CONFLICT:
        judged = None  # its command was for the object before it was cancelled
    if judged is not None and not has_started(live) and not can_still_start(live):
        return judged
    if holder is not None and looked:
        # Nothing will ever be reported of this object while somebody holds its status: better now than by a Timeout.
        return JobResult.of(JobOutcome.CONFLICT, Reason.FIELD_CONFLICT, f"{job.ref}: {holder}")
    result = result_of(live, job.applied.generation if job.applied else 0, job.status_before)
    if result is None and out_of_time(job, at):
        return SUCCEEDED if waits_for_schedule(live) else timeout(job)
    return result


def _end(job: JobState, live: Manifest, result: JobResult, at: JobStepContext, has_slot: bool) -> JobStep:
    """What has failed is never carried out later: an Operation that may still start is cancelled first (PULL-3).

    Exactly the copy that was judged is, while the job has the slot, with the reason on record: a crash between the two
    leaves either an Operation that goes on, as if nothing had been judged, or one that is cancelled and why.
    """
    if result.outcome is JobOutcome.SUCCEEDED or not can_still_start(live):
        return settle(job, result, at)
    if not has_slot:
        return clear(job, stage=JobStage.READY, recheck_at=None), ()
    cancelling = clear(job, stage=JobStage.RECORDING_INTENT, result_once_cancelled=result)
    return cancelling, (m.PutRecord(job.id, record_of(cancelling)),)


def inspect(job: JobState) -> m.Inspect:
    """The question a plan needs answered."""
    return m.Inspect(job.id, job.ref, job.key, object_key(job.ref) if job.ref else "")
