"""What time does to a job: retries, rechecks, expiry (PULL-3, PULL-12)."""

from datetime import datetime, timedelta

import attrs

from vworkspace_core.apimachinery.timestamps import shifted
from vworkspace_core.jobs import messages as m
from vworkspace_core.jobs.awaiting_status import RECHECK, give_up, inspect, out_of_time, runs_on
from vworkspace_core.jobs.state import JobState, Stage, record_of
from vworkspace_core.jobs.steps import Moment, Step, close
from vworkspace_core.jobs.turn import start_turn


def due_at(job: JobState, skew: timedelta, grace: timedelta, *, strict: bool = False) -> datetime | None:
    """When a Tick would do something for this job, on the local clock; None for never.

    `strict`: expired is what either clock says is (PULL-12).
    """
    times = [job.retry_at]
    if job.stage in (Stage.WAITING, Stage.AWAITING_GONE):
        times.append(job.recheck_at)
    if job.expires_at is not None:
        if job.stage is Stage.AWAITING_GONE:
            times.append(shifted(job.expires_at, -max(skew, timedelta(0)) if strict else -skew))
        if job.stage is Stage.WAITING and not runs_on(job) and job.retry_at is None:
            times.append(shifted(shifted(job.expires_at, grace), -skew))
    return min((found for found in times if found is not None), default=None)


def tick(job: JobState, at: Moment) -> Step:
    """What is due now. After it, `due_at` lies in the future."""
    if job.retry_at is not None and job.retry_at <= at.now:
        return _redo(attrs.evolve(job, retry_at=None), at)
    match job.stage:
        case Stage.WAITING if job.retry_at is None and out_of_time(job, at):
            return give_up(job, at)
        case Stage.AWAITING_GONE if _is_expired(job, at) or _recheck_due(job, at):
            return attrs.evolve(job, stage=Stage.READY, recheck_at=None), ()
        case Stage.WAITING if _recheck_due(job, at):
            return attrs.evolve(job, recheck_at=shifted(at.now, RECHECK)), (inspect(job),)
        case _:
            return job, ()


def _is_expired(job: JobState, at: Moment) -> bool:
    return job.expires_at is not None and at.expiry_now >= job.expires_at


def _recheck_due(job: JobState, at: Moment) -> bool:
    return job.recheck_at is not None and job.recheck_at <= at.now


def _redo(job: JobState, at: Moment) -> Step:
    match job.stage:
        case Stage.RECORDING | Stage.INTENDING | Stage.NOTING:
            return job, (m.PutRecord(job.id, record_of(job)),)
        case Stage.INSPECTING | Stage.ACTING:
            # After an unanswered write only a look can tell whether it happened.
            return start_turn(job)
        case Stage.WAITING:
            return attrs.evolve(job, stage=Stage.READY), ()
        case Stage.CLOSING:
            return job, (close(job, at),)
        case _:
            return job, ()
