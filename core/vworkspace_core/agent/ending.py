"""How a job ends: settled, superseded, out of time (PULL-3)."""

from vworkspace_core.agent import messages as m
from vworkspace_core.agent.jobstate import JobState, Stage, tombstone_of
from vworkspace_core.agent.outcome import Reason, Verdict
from vworkspace_core.agent.reports import result_body
from vworkspace_core.agent.standing import can_still_start, last_words
from vworkspace_core.agent.times import format_time
from vworkspace_core.agent.transition import Moment, Step, clear

__all__ = ["close", "settle", "supersede", "timeout"]


def settle(job: JobState, verdict: Verdict, at: Moment) -> Step:
    """The verdict is final: answer the control plane."""
    ended = clear(job, stage=Stage.ANSWERING, verdict=verdict, latest=None, writing=None, written=None, recheck_at=None)
    return ended, (m.PostResult(job.id, result_body(verdict, job.applied, at.server_now)),)


def supersede(job: JobState, by: JobState, at: Moment) -> Step:
    """Another job's effect replaced what this one is waiting for."""
    newer = f"generation {by.generation}" if by.generation is not None else "a later request"
    about = f" for {job.ref}" if job.ref is not None else ""
    return settle(job, Verdict.failed(Reason.SUPERSEDED, f"{newer}{about} came first"), at)


def close(job: JobState, at: Moment) -> m.CloseRecord:
    """The record goes; what must outlive it stays as a tombstone."""
    return m.CloseRecord(job.id, tombstone_of(job, format_time(at.server_now)))


def timeout(job: JobState) -> Verdict:
    """It neither succeeded nor failed in its time: what it waited for, as far as its object says."""
    until = format_time(job.expires_at) if job.expires_at else "its time"
    seen = job.latest or {}
    what = "had not started and was cancelled" if can_still_start(seen) else "had not settled"
    told = f"{job.ref} {what} by {until} and the grace period after it"
    words = last_words(seen)
    return Verdict.failed(Reason.TIMEOUT, f"{told}; last seen: {words}" if words else told)
