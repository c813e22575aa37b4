"""The jobs of the control plane from offer to result, as a sans-I/O machine.

Its function is `step(state, event, now) -> (state, effects)`. Effects are the calls to make, such as an apply.

Expected flow. A job is offered; its record is written; it is acked; when it gets the work slot of its object (the right
to be the only job that works on it), the object is inspected, the intent recorded, the effect performed; the object's
status settles it; the result is posted; the record is removed and a tombstone stays (PULL-2, PULL-4).

Guarantees. One effect and one result per job, whatever is repeated, lost or reordered. One job at a time works on an
object. A newer generation is never overwritten by an older one.

Assumptions. Every effect except PostStatus and LogNote is answered by one of its events, sooner or later; a Tick comes
at `next_deadline` or after.

Caveats. Waiting jobs learn of their objects' changes through ObjectChanged; without any, a job reads its object every
five minutes.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import attrs

from purekube.apimachinery.manifest import ObjectRef, content_hash
from purekube.apimachinery.secret_material import shown
from purekube.apimachinery.timestamps import LARGEST_SKEW, shifted, time_or_none
from purekube.controller.backoff import LogLevel, LogNote, Tick
from vworkspace_core.control_plane.outbox import generation_in
from vworkspace_core.jobs import messages as m
from vworkspace_core.jobs.job_stages import advance, due_at
from vworkspace_core.jobs.job_store import Tombstone
from vworkspace_core.jobs.plan import Inspection
from vworkspace_core.jobs.result import JobOutcome
from vworkspace_core.jobs.scope import DeleteTask, JobScope
from vworkspace_core.jobs.state import (
    BUSY,
    STORING,
    JobStage,
    JobState,
    accept,
    may_have_had_effect,
    record_of,
    restore,
    tombstone_of,
)
from vworkspace_core.jobs.steps import JobStep, JobStepContext, supersede, superseded_by
from vworkspace_core.jobs.wire import BadJob
from vworkspace_core.jobs.work_slot import inspected, take_slot

# A faulty control plane may send jobs without ids for ever; the memory of those already logged must not grow with them.
_MOST_DROPPED = 1000
_STUCK = 5
"""The number of failed writes of a job's record, over about ten seconds, that is reported as an obstacle."""
GRACE = timedelta(minutes=5)
"""The time after a job's `expiresAt` in which the status of its applied object may still decide the result (PULL-3)."""


@attrs.frozen
class AgentState:
    """The state of the job agent: all open jobs, and how far the clocks of control plane and operator differ (PULL-12).

    `skew` is how far the control plane's clock is ahead. `apart` is that difference if it is too large to be used,
    because one clock is wrong, or the header with the control plane's time is forged. `dropped` holds hashes of jobs
    without an id that were already logged.
    """

    scope: JobScope
    grace: timedelta = GRACE
    jobs: Mapping[str, JobState] = attrs.field(factory=dict)
    arrivals: int = 0
    dropped: frozenset[str] = frozenset()
    skew: timedelta = timedelta(0)
    apart: timedelta = timedelta(0)


MachineStep: TypeAlias = tuple[AgentState, tuple[m.JobEffect, ...]]


def step(state: AgentState, event: m.JobEvent, now: datetime) -> MachineStep:
    """Return the job machine's state after `event`, and the effects (such as writes) to perform, in order.

    `now` is the time by the local clock.
    """
    changed, effects = _react(state, event, now)
    ready, started = _give_slots(changed)
    return ready, (*effects, *started)


def next_deadline(state: AgentState) -> datetime | None:
    """Return the time, by the local clock, at which the machine needs a Tick event, or None while no job needs one.

    `state` is the machine's present state, with all open jobs.
    """
    strict = state.scope.security.require_signed
    times = (due_at(job, state.skew, state.grace, strict=strict) for job in state.jobs.values())
    return min((moment for moment in times if moment is not None), default=None)


def unrecorded(state: AgentState) -> str:
    """Return a message that says why jobs wait to be recorded in the cluster, or an empty string if none does.

    A single failed write does not count, since writes are repeated.
    """
    stuck = (job for job in state.jobs.values() if job.stage in STORING and job.retry.failures >= _STUCK)
    job = next(stuck, None)
    return "" if job is None else f"jobs wait, as their records cannot be written: {shown(job.retry.why)}"


def has_open_job(state: AgentState, ref: ObjectRef) -> bool:
    """Report whether an open job in `state` reports the changes of the object `ref` to the control plane.

    If one does, no separate events are sent (PULL-6).
    """
    return any(job.ref == ref and not job.has_ended for job in state.jobs.values())


def _react(state: AgentState, event: m.JobEvent, now: datetime) -> MachineStep:
    match event:
        case m.ServerTime(at):
            return _clocks_compared(state, at - now)
        case m.SecurityChanged(security):
            return attrs.evolve(state, scope=attrs.evolve(state.scope, security=security)), ()
        case m.Offered(raw):
            return _offered(state, raw)
        case m.Resumed(record):
            return _resumed(state, restore(record, state.arrivals, state.scope))
        case m.Inspected(job_id, seen) if (job := state.jobs.get(job_id)) and job.stage is JobStage.INSPECTING:
            return _plan(state, job, seen, now)
        case m.ObjectChanged(ref):
            return _each(state, (job for job in state.jobs.values() if job.ref == ref), event, now)
        case Tick():
            return _each(state, state.jobs.values(), event, now)
        case m.RecordClosed(job_id):
            job = state.jobs.get(job_id)
            return (_closed(state, job), ()) if job and job.stage is JobStage.CLOSING else (state, ())
        case _:
            job = state.jobs.get(event.job_id)
            return (state, ()) if job is None else _each(state, (job,), event, now)


def _clocks_compared(state: AgentState, ahead: timedelta) -> MachineStep:
    """Return the step (state and effects) that records by how much the control plane's clock is `ahead`.

    A large difference is only logged and not used, since the HTTP header that shows it is not signed.
    """
    if abs(ahead) <= LARGEST_SKEW:
        note = LogNote(LogLevel.INFO, "this machine's clock and the control plane's agree again")
        return attrs.evolve(state, skew=ahead, apart=timedelta(0)), ((note,) if state.apart else ())
    changed = attrs.evolve(state, skew=timedelta(0), apart=ahead)
    return changed, (() if state.apart else (LogNote(LogLevel.ERROR, clock_skew_message(ahead)),))


def clock_skew_message(ahead: timedelta) -> str:
    """Return a message that the clocks of control plane and operator differ too much, with the remedy.

    `ahead` is how far the control plane's clock is ahead; it is negative if that clock is slow.
    """
    where = "ahead of" if ahead > timedelta(0) else "behind"
    return (
        f"the control plane's clock is {abs(ahead) // timedelta(minutes=1)} minutes {where} this machine's, by its Date"
        " header; that is too much to be used, so expiry is judged by this machine's clock alone: set the wrong one"
        " of the two right (NTP)"
    )


def _offered(state: AgentState, raw: Any) -> MachineStep:
    job = accept(raw, state.arrivals, state.scope)
    if isinstance(job, BadJob):
        return _unanswerable(state, raw, job)
    present = state.jobs.get(job.id)
    if present is not None:
        # Offered again although it was acked: that answer was lost, or the server forgot.
        late = present.stage not in (JobStage.RECORDING, JobStage.ACKING, JobStage.CLOSING)
        return state, ((m.SendAck(job.id),) if late else ())
    return _with(attrs.evolve(state, arrivals=state.arrivals + 1), job), (m.PutRecord(job.id, record_of(job)),)


def _unanswerable(state: AgentState, raw: Any, bad_job: BadJob) -> MachineStep:
    """Return the step (state and effects) that logs the job `raw`, which has no usable id.

    The job cannot be answered, so every poll offers it again; it is logged only once.
    """
    mark = _content_mark(raw) or str(bad_job)
    if mark in state.dropped:
        return state, ()
    marks = state.dropped if len(state.dropped) < _MOST_DROPPED else frozenset[str]()
    cure = "it comes with every poll until the control plane withdraws it"
    note = LogNote(LogLevel.ERROR, f"a job without a usable id was dropped: {bad_job}; {cure}")
    return attrs.evolve(state, dropped=marks | {mark}), (note,)


def _content_mark(raw: Any) -> str:
    """Return a hash by which the job `raw`, which has no id, is recognized.

    The result is an empty string if `raw` cannot be encoded.
    """
    try:
        return content_hash(raw)
    except (TypeError, ValueError, RecursionError):
        return ""


def _resumed(state: AgentState, job: JobState) -> MachineStep:
    if job.id in state.jobs:
        return state, ()
    return _with(attrs.evolve(state, arrivals=state.arrivals + 1), job), (m.SendAck(job.id),)


def _each(state: AgentState, jobs: Iterable[JobState], event: m.OpenJobEvent, now: datetime) -> MachineStep:
    effects: list[m.JobEffect] = []
    for before in list(jobs):
        job = state.jobs[before.id]  # an earlier one of this round may have superseded it
        state, asked = _put_back(state, job, advance(job, event, _context(state, now)), now)
        effects += asked
    return state, tuple(effects)


def _plan(state: AgentState, job: JobState, seen: Inspection, now: datetime) -> MachineStep:
    at = _context(state, now)
    effective = (other for other in _others(state, job) if other.had_effect and not _is_replay(other))
    newer = next((other for other in effective if _older(job, other)), None)
    known = _with_open_jobs(state, job, seen)
    # A replay is one whatever came after it: A, B, A again ends as it would have after B was closed.
    if newer is not None and job.intent is None and newer.key != job.key and known.tombstone is None:
        return _put_back(state, job, supersede(job, newer, at), now)
    return _put_back(state, job, inspected(job, known, at), now)


def _with_open_jobs(state: AgentState, job: JobState, seen: Inspection) -> Inspection:
    """Return `seen`, the result of a read, with the tombstones (records of jobs that had their effect) that it lacks.

    The job store did not have these at the time of the read. They belong to other open jobs that had their effect, and
    to jobs that were closed during the read.
    """
    missed = [
        tombstone
        for tombstone in job.missed_tombstones
        if job.ref is not None and generation_in(tombstone.idempotency_key, job.ref) is not None
    ]
    known = [*_tombstones(_others(state, job)), *missed, *filter(None, (seen.newest,))]
    twins = (other for other in state.jobs.values() if other.key == job.key and other.id != job.id)
    same_key = (*_tombstones(twins), *job.missed_tombstones)
    own = next((tombstone for tombstone in same_key if tombstone.idempotency_key == job.key), None)
    numbered = (tombstone for tombstone in known if tombstone.generation)
    newest = max(numbered, key=lambda tombstone: tombstone.generation, default=None)
    return attrs.evolve(seen, tombstone=seen.tombstone or own, newest=newest)


def _tombstones(jobs: Iterable[JobState]) -> Iterator[Tombstone]:
    return (tombstone for job in jobs if (tombstone := tombstone_of(job)) is not None)


def _closed(state: AgentState, job: JobState) -> AgentState:
    """Return the state without `job`.

    The job leaves a tombstone, a record of what it has done. Other jobs that are in the stage INSPECTING get it too,
    since they may have read the stored tombstones before this one was among them.
    """
    left, tombstone = _without(state, job.id), tombstone_of(job)
    if tombstone is None:
        return left
    looking = [other for other in left.jobs.values() if other.stage is JobStage.INSPECTING]
    for other in looking:
        left = _with(left, attrs.evolve(other, missed_tombstones=(*other.missed_tombstones, tombstone)))
    return left


def _put_back(state: AgentState, before: JobState, taken: JobStep, now: datetime) -> MachineStep:
    """Return the new state of all jobs and the effects to perform, after one job took the step `taken`.

    If that job just had its effect, older open jobs on the same object are superseded. `before` is the job before the
    step.
    """
    job, effects = taken
    state = _with(state, job)
    if before.had_effect or not job.had_effect or job.ref is None or _is_replay(job):
        return state, effects
    for other in _others(state, job):
        if _replaced(other, job):
            ended, asked = supersede(other, job, _context(state, now))
            state, effects = _with(state, ended), (*effects, *asked)
        elif _is_overtaken(other, job):
            judged = attrs.evolve(other, result=superseded_by(other, job))
            kept = (m.PutRecord(other.id, record_of(judged)),) if other.stage is JobStage.ACKING else ()
            state, effects = _with(state, judged), (*effects, *kept)
    return state, effects


def _is_overtaken(job: JobState, by: JobState) -> bool:
    """Report whether the newer job `by` had its effect before the ack of `job`.

    The result of `job` is final then, but can be sent only after the ack. By that time `by` may be closed. Its
    tombstone shows that it is the newer one only if both keys have a generation.
    """
    waits = job.stage in (JobStage.RECORDING, JobStage.ACKING) and job.result is None
    unnumbered = job.generation is None or by.generation is None
    return waits and unnumbered and job.key != by.key and _older(job, by) and not may_have_had_effect(job)


def _is_replay(job: JobState) -> bool:
    """Report whether an earlier job already had the effect of `job`. Such a job supersedes no other job."""
    return job.result is not None and job.result.outcome is JobOutcome.NOOP


def _replaced(job: JobState, by: JobState) -> bool:
    """Report whether `job` need not continue, because the effect of the newer job `by` has replaced its own."""
    waits = job.stage in (JobStage.READY, JobStage.WAITING_DELETED, JobStage.WAITING)
    under_way = isinstance(job.task, DeleteTask) and may_have_had_effect(job)
    return waits and job.key != by.key and _older(job, by) and not under_way


def _older(job: JobState, than: JobState) -> bool:
    """Report whether `job` is older than the job `than`.

    Their generations decide if both have different ones, otherwise their order of arrival.
    """
    if job.generation is not None and than.generation is not None and job.generation != than.generation:
        return job.generation < than.generation
    return job.arrival < than.arrival


def _give_slots(state: AgentState) -> MachineStep:
    """Return the state in which every ready job has the work slot of its object, unless another job has that slot.

    Only one job at a time has the slot, and only with the slot a job writes. After a crash, jobs that had a slot before
    go first, in the order of arrival, because only a read before any other effect can show whether their own effect
    happened.
    """
    ready = [job for job in state.jobs.values() if job.stage is JobStage.READY]
    if not ready:
        return state, ()
    busy = [job for job in state.jobs.values() if job.stage in BUSY]
    taken, keys = {job.ref for job in busy}, {job.key for job in busy}
    begun: dict[ObjectRef | None, str] = {}
    for job in filter(_had_the_slot, state.jobs.values()):
        begun.setdefault(job.ref, job.id)
    first = _first_arrivals(state)
    effects: list[m.JobEffect] = []
    for job in ready:
        other_side = (job.target is None, job.target or job.ref)
        if job.intent is None and first.get(other_side, job.arrival) < job.arrival:
            continue  # an earlier request on the same application has not had its effect
        if job.ref in taken or job.key in keys or begun.get(job.ref, job.id) != job.id:
            continue
        started, asked = take_slot(job)
        state = _with(state, started)
        effects += asked
        taken.add(job.ref)
        keys.add(job.key)
    return state, tuple(effects)


_Side: TypeAlias = tuple[bool, ObjectRef | None]


def _first_arrivals(state: AgentState) -> dict[_Side, int]:
    """Return the arrival number of the oldest job that has not had its effect, for each instance.

    An instance has two entries: one for jobs on the instance itself, one for jobs on its Operations. An Operation must
    not run before an edit of its target that was requested earlier.
    """
    first_arrivals: dict[_Side, int] = {}
    for job in state.jobs.values():
        if job.stage not in _BEFORE_THE_EFFECT or job.had_effect or job.ref is None:
            continue
        side = (job.target is not None, job.target or job.ref)
        first_arrivals[side] = min(first_arrivals.get(side, job.arrival), job.arrival)
    return first_arrivals


_BEFORE_THE_EFFECT = frozenset({JobStage.RECORDING, JobStage.ACKING, JobStage.READY, JobStage.WAITING_DELETED, *BUSY})


def _had_the_slot(job: JobState) -> bool:
    return job.stage in (JobStage.ACKING, JobStage.READY) and job.intent is not None and not job.had_effect


def _others(state: AgentState, job: JobState) -> Iterator[JobState]:
    return (other for other in state.jobs.values() if other.id != job.id and other.ref == job.ref)


def _context(state: AgentState, now: datetime) -> JobStepContext:
    return JobStepContext(state.scope, now, shifted(now, state.skew), state.grace)


def _with(state: AgentState, job: JobState) -> AgentState:
    return attrs.evolve(state, jobs={**state.jobs, job.id: job})


def _without(state: AgentState, job_id: str) -> AgentState:
    return attrs.evolve(state, jobs={name: job for name, job in state.jobs.items() if name != job_id})


def job_lag(state: AgentState, now: datetime) -> float:
    """Return the age in seconds of the oldest job in `state` without a result; 0.0 if there is none.

    `now` is the time by the local clock. The age is measured by the control plane's clock, whose skew is in `state`.
    """
    times = (time_or_none(job.raw.get("createdAt")) for job in state.jobs.values() if not job.has_ended)
    created = [moment for moment in times if moment is not None]
    return max(0.0, (now + state.skew - min(created)).total_seconds()) if created else 0.0
