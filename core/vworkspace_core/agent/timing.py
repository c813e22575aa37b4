"""What time does to a job: retries, rechecks, expiry (PULL-3, PULL-12)."""

from datetime import datetime, timedelta

import attrs

from vworkspace_core import known
from vworkspace_core.agent import messages as m
from vworkspace_core.agent.ending import close, settle, timeout
from vworkspace_core.agent.jobstate import JobState, Stage, record_of
from vworkspace_core.agent.scope import ApplyTask
from vworkspace_core.agent.times import shifted
from vworkspace_core.agent.transition import Moment, Step
from vworkspace_core.agent.turn import act, start_turn
from vworkspace_core.agent.watching import RECHECK, inspect
from vworkspace_core.kinds import labels
from vworkspace_core.manifest import Manifest, dig, metadata

__all__ = ["due_at", "tick"]


def due_at(job: JobState, skew: timedelta, grace: timedelta) -> datetime | None:
    """When a Tick would do something for this job, on the local clock; None for never."""
    times = [job.retry_at]
    if job.stage in (Stage.WAITING, Stage.AWAITING_GONE):
        times.append(job.recheck_at)
    if job.expires_at is not None:
        if job.stage is Stage.AWAITING_GONE:
            times.append(shifted(job.expires_at, -skew))
        if job.stage is Stage.WAITING and not _runs_on(job):
            times.append(shifted(shifted(job.expires_at, grace), -skew))
    return min((found for found in times if found is not None), default=None)


def tick(job: JobState, at: Moment) -> Step:
    """What is due now. After it, `due_at` lies in the future."""
    if job.retry_at is not None and job.retry_at <= at.now:
        return _redo(attrs.evolve(job, retry_at=None), at)
    match job.stage:
        case Stage.WAITING if _past(job, at.grace, at) and not _runs_on(job):
            return _give_up(job, at)
        case Stage.AWAITING_GONE if _past(job, timedelta(0), at) or _recheck_due(job, at):
            return attrs.evolve(job, stage=Stage.READY, recheck_at=None), ()
        case Stage.WAITING if _recheck_due(job, at):
            return attrs.evolve(job, recheck_at=shifted(at.now, RECHECK)), (inspect(job),)
        case _:
            return job, ()


def _past(job: JobState, grace: timedelta, at: Moment) -> bool:
    return job.expires_at is not None and at.server_now >= shifted(job.expires_at, grace)


def _recheck_due(job: JobState, at: Moment) -> bool:
    return job.recheck_at is not None and job.recheck_at <= at.now


def _runs_on(job: JobState) -> bool:
    """An Operation that has started has its own deadline (OPS-12); only one that has not is given up."""
    phase = dig(job.latest, "status", "phase")
    return dig(job.latest, "kind") == known.OPERATION.kind and phase not in (None, "", "Pending")


def _give_up(job: JobState, at: Moment) -> Step:
    if not isinstance(job.task, ApplyTask) or dig(job.latest, "kind") != known.OPERATION.kind:
        return settle(job, timeout(job), at)
    writing = _cancelled(job.task.manifest, job.latest or {})
    return act(attrs.evolve(job, stage=Stage.ACTING, cancel_sent=True, writing=writing))


def _cancelled(manifest: Manifest, live: Manifest) -> Manifest:
    """The whole manifest again, with the request to cancel: annotations are written by apply only (REC-6).

    It holds the resourceVersion it was decided on: an Operation that has started meanwhile is left alone.
    """
    kept = {
        name: text
        for name, text in (metadata(live).get("annotations") or {}).items()
        if name in (labels.IDEMPOTENCY_KEY, labels.LAST_APPLIED_GENERATION)
    }
    meta = metadata(manifest)
    marked = {**(meta.get("annotations") or {}), **kept, labels.CANCEL: "true"}
    exact = {"uid": metadata(live).get("uid"), "resourceVersion": metadata(live).get("resourceVersion")}
    return {**manifest, "metadata": {**meta, "annotations": marked, **exact}}


def _redo(job: JobState, at: Moment) -> Step:
    match job.stage:
        case Stage.RECORDING | Stage.INTENDING | Stage.NOTING:
            return job, (m.PutRecord(job.id, record_of(job)),)
        case Stage.INSPECTING | Stage.ACTING:
            # After an unanswered write only a look can tell whether it happened.
            return start_turn(attrs.evolve(job, cancel_sent=False))
        case Stage.CLOSING:
            return job, (close(job, at),)
        case _:
            return job, ()
