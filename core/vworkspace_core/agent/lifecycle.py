"""The life of one job: what an answer or a change means for it, and what to do next (PULL-2, PULL-3).

`advance` is one transition. Answers that come in a stage that does not wait for them are late or repeated
and change nothing: duplicates are part of the protocol (PULL-4).
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias, assert_never

import attrs

from vworkspace_core import known
from vworkspace_core.agent import messages as m
from vworkspace_core.agent.applier import (
    AwaitGone,
    Intent,
    Plan,
    Remove,
    Rotate,
    Seen,
    Settle,
    Turn,
    Write,
    Written,
    plan,
)
from vworkspace_core.agent.jobstate import AppliedRef, JobState, Stage, record_of, slim, tombstone_of
from vworkspace_core.agent.keys import object_key
from vworkspace_core.agent.outcome import SUCCEEDED, Outcome, Reason, Verdict, judge
from vworkspace_core.agent.reports import progress, result_body, waiting_body
from vworkspace_core.agent.scope import ApplyTask, DeleteTask, Scope
from vworkspace_core.agent.times import format_time, shifted
from vworkspace_core.errors import FieldConflict
from vworkspace_core.kinds import labels
from vworkspace_core.manifest import Manifest, dig, metadata

__all__ = ["Moment", "Step", "advance", "due_at", "inspect", "start_turn", "supersede"]

RECHECK: Final = timedelta(minutes=5)
"""How long a waiting job trusts the informer before it looks for itself."""
LONGEST_RETRY: Final = 60.0
_ASKING: Final = frozenset({Stage.RECORDING, Stage.INSPECTING, Stage.INTENDING, Stage.ACTING, Stage.CLOSING})
"""Stages that wait for the cluster or the job store, and ask again when no answer comes."""


@attrs.frozen
class Moment:
    """What a transition depends on besides the job: whose scope, which time, on both clocks (PULL-12)."""

    scope: Scope
    now: datetime
    server_now: datetime
    grace: timedelta


Step: TypeAlias = tuple[JobState, tuple[m.Effect, ...]]


def advance(job: JobState, event: m.Event, at: Moment) -> Step:  # noqa: C901 - one row per event
    """The job after `event`, and what it asks for."""
    match event, job.stage:
        case m.Recorded(), Stage.RECORDING:
            return _clear(job, stage=Stage.ACKING), (m.SendAck(job.id),)
        case m.RecordRefused(message=message), Stage.RECORDING:
            return _unrecordable(job, message)
        case m.Recorded(), Stage.INTENDING:
            return _act(_clear(job, stage=Stage.ACTING))
        case m.RecordRefused(message=message), Stage.INTENDING:
            return settle(job, Verdict.failed(Reason.PAYLOAD_TOO_LARGE, message), at)
        case m.AckLost(), Stage.ACKING:
            return attrs.evolve(job, ack_may_have_arrived=True), ()
        case m.Acked(), Stage.ACKING:
            return _acked(job, at)
        case m.JobGone(), Stage.ACKING:
            return _acked(job, at) if job.ack_may_have_arrived else _dropped(job)
        case m.Applied(live=live), Stage.ACTING:
            return _applied(job, live, at)
        case m.DeleteSent(), Stage.ACTING:
            return _await_gone_for_good(job, at)
        case m.Rotated(), Stage.ACTING:
            return settle(attrs.evolve(job, had_effect=True), SUCCEEDED, at)
        case m.Conflicted(conflicts=conflicts), Stage.ACTING:
            return _conflicted(job, conflicts, at)
        case m.LookAgain(message=message), Stage.ACTING:
            return _retry(attrs.evolve(job, cancel_sent=False), message, at)
        case m.Refused(reason=reason, message=message), Stage.ACTING:
            return settle(job, _timeout(job) if job.cancel_sent else Verdict.failed(reason, message), at)
        case m.Refused(reason=reason, message=message), Stage.INSPECTING:
            return settle(job, Verdict.failed(reason, message), at)
        case m.Inspected(seen=seen), Stage.WAITING:
            return _consider(job, seen.live, at)
        case m.ObjectChanged(live=live), _:
            return _changed(job, live, at)
        case m.StepFailed(message=message), stage if stage in _ASKING:
            return _retry(job, message, at)
        case m.ResultAccepted(), Stage.ANSWERING:
            closing = _clear(job, stage=Stage.CLOSING)
            return closing, (_close(closing, at),)
        case m.Tick(), _:
            return _tick(job, at)
        case _:
            return job, ()


def start_turn(job: JobState) -> Step:
    """Its turn on the object: look at what is there."""
    return attrs.evolve(job, stage=Stage.INSPECTING, retry_at=None), (inspect(job),)


def inspect(job: JobState) -> m.Inspect:
    """The question a plan needs answered."""
    return m.Inspect(job.id, job.ref, job.key, object_key(job.ref) if job.ref else "")


def inspected(job: JobState, seen: Seen, at: Moment) -> Step:
    """Plan with what was seen, and take the first step of the plan."""
    if job.task is None:
        raise AssertionError("a refused job has no turn")
    expired = job.expires_at is not None and at.server_now >= job.expires_at
    turn = Turn(job.task, job.key, job.generation, expired, job.intent)
    return _follow(_clear(job), plan(turn, seen, at.scope), seen, at)


def _follow(job: JobState, chosen: Plan, seen: Seen, at: Moment) -> Step:
    match chosen:
        case Settle(verdict):
            return settle(_with_live(job, seen) if verdict.outcome is Outcome.NOOP else job, verdict, at)
        case Write(manifest, uid):
            return _intend(attrs.evolve(job, writing=manifest), uid)
        case Remove(uid, generation):
            return _intend(attrs.evolve(job, applied=_ref(job, uid, generation)), uid)
        case Rotate():
            return _intend(job, "")
        case AwaitGone(uid):
            return _await_gone(job, uid, at)
        case Written(live):
            written = attrs.evolve(job, stage=Stage.ACTING)
            return _applied(written, live, at)
        case _:
            assert_never(chosen)


def _with_live(job: JobState, seen: Seen) -> JobState:
    """A replay tells what its key fell on; where no tombstone says so yet, this job leaves one."""
    if seen.live is None:
        return job
    live = _ref(job, str(metadata(seen.live).get("uid", "")), _generation(seen.live))
    ours = dig(seen.live, "metadata", "annotations", labels.IDEMPOTENCY_KEY) == job.key
    return attrs.evolve(job, applied=live, had_effect=seen.tombstone is None) if ours else job


# --- before the effect ----------------------------------------------------------------------------------


def _unrecordable(job: JobState, message: str) -> Step:
    """The payload does not fit a record: the job is answered, not applied (PULL-4)."""
    if job.verdict is not None and job.task is None:
        # Not even the bare answer can be kept: it is given at once, and a crash in between loses only that.
        return _clear(job, stage=Stage.ACKING), (m.SendAck(job.id), m.Note("warning", message, job.id))
    verdict = Verdict.failed(Reason.PAYLOAD_TOO_LARGE, message)
    small = _clear(attrs.evolve(job, raw=slim(job.id, job.key), task=None, verdict=verdict))
    return small, (m.PutRecord(job.id, record_of(small)),)


def _acked(job: JobState, at: Moment) -> Step:
    if job.verdict is not None:
        return settle(job, job.verdict, at)
    return _clear(job, stage=Stage.READY), ()


def _dropped(job: JobState) -> Step:
    note = m.Note("info", "the control plane has closed the job: dropped without applying it", job.id)
    closing = _clear(job, stage=Stage.CLOSING, verdict=None)
    return closing, (note, m.CloseRecord(job.id, None))


def _intend(job: JobState, uid: str) -> Step:
    """The intent is on record before the effect; one that is there already need not be written again."""
    intent = Intent(uid)
    if job.intent == intent:
        return _act(attrs.evolve(job, stage=Stage.ACTING))
    intending = attrs.evolve(job, stage=Stage.INTENDING, intent=intent)
    return intending, (m.PutRecord(job.id, record_of(intending)),)


def _act(job: JobState, *, force: bool = False) -> Step:
    acting = attrs.evolve(job, latest=None, vanished=False)
    if job.ref is None:
        return acting, (m.RotateCredential(job.id),)
    if isinstance(job.task, DeleteTask):
        return acting, (m.Delete(job.id, job.ref, job.intent.uid if job.intent else ""),)
    return acting, (m.Apply(job.id, job.ref, job.writing or {}, force),)


def _await_gone(job: JobState, uid: str, at: Moment) -> Step:
    body = waiting_body(f"waits for the terminating {job.ref} (uid {uid}) to be gone", at.server_now)
    waiting = attrs.evolve(job, stage=Stage.AWAITING_GONE, recheck_at=shifted(at.now, RECHECK))
    return _post(waiting, body)


# --- the effect -----------------------------------------------------------------------------------------


def _applied(job: JobState, live: Manifest, at: Moment) -> Step:
    if job.cancel_sent:
        return settle(job, _timeout(job), at)
    reference = _ref(job, str(metadata(live).get("uid", "")), _generation(live))
    waiting = _clear(
        job, stage=Stage.WAITING, applied=reference, had_effect=True, recheck_at=shifted(at.now, RECHECK), writing=None
    )
    if job.vanished:  # an informer saw it go while the answer was under way: which was first?
        return waiting, (inspect(waiting),)
    return _consider(waiting, _fresher(live, job.latest), at)


def _fresher(live: Manifest, seen: Manifest | None) -> Manifest:
    """What an informer saw while the apply was under way, when it is at least as new."""
    if seen is None or metadata(seen).get("uid") != metadata(live).get("uid"):
        return live
    return seen if _generation(seen) >= _generation(live) else live


def _await_gone_for_good(job: JobState, at: Moment) -> Step:
    waiting = _clear(job, stage=Stage.WAITING, had_effect=True, recheck_at=shifted(at.now, RECHECK))
    # The delete may have been all: whether something still holds the object, only a look can tell.
    return waiting, (inspect(waiting),)


def _conflicted(job: JobState, conflicts: tuple[FieldConflict, ...], at: Moment) -> Step:
    if job.cancel_sent:
        return settle(job, _timeout(job), at)
    others = [found for found in conflicts if found.manager != labels.FIELD_MANAGER]
    if conflicts and not others:
        # Only our own name: fields that this manager wrote by update once. Ours to take (REC-6).
        return _act(job, force=True)
    held = ", ".join(f"{found.manager} holds {found.field}" for found in others) or "another manager holds a field"
    return settle(job, Verdict.of(Outcome.CONFLICT, Reason.FIELD_CONFLICT, held), at)


# --- after the effect -----------------------------------------------------------------------------------


def _changed(job: JobState, live: Manifest | None, at: Moment) -> Step:
    match job.stage:
        case Stage.WAITING:
            return _consider(job, live, at)
        case Stage.ACTING:
            return attrs.evolve(job, latest=live, vanished=job.vanished or live is None), ()
        case Stage.AWAITING_GONE if live is None or not metadata(live).get("deletionTimestamp"):
            return _clear(job, stage=Stage.READY), ()
        case _:
            return job, ()


def _consider(job: JobState, live: Manifest | None, at: Moment) -> Step:
    """What the live object says about a job that had its effect."""
    uid = job.applied.uid if job.applied else ""
    gone = live is None or metadata(live).get("uid") != uid
    if isinstance(job.task, DeleteTask):
        if gone:
            return settle(job, SUCCEEDED, at)
    elif gone:
        return settle(job, Verdict.failed(Reason.DELETED, f"{job.ref} was deleted before the job settled"), at)
    if live is None:
        raise AssertionError("an object that is not gone is there")
    told, effects = _post(attrs.evolve(job, latest=live), progress(live, at.server_now))
    verdict = None if isinstance(job.task, DeleteTask) else judge(live, job.applied.generation if job.applied else 0)
    if verdict is None:
        return told, effects
    ended, last = settle(told, verdict, at)
    return ended, (*effects, *last)


def _post(job: JobState, body: Mapping[str, Any]) -> Step:
    """Post `body` unless it says what the last one said."""
    said = {name: value for name, value in body.items() if name != "timestamp"}
    return (job, ()) if said == job.posted else (attrs.evolve(job, posted=said), (m.PostStatus(job.id, body),))


def settle(job: JobState, verdict: Verdict, at: Moment) -> Step:
    """The verdict is final: answer the control plane."""
    ended = _clear(job, stage=Stage.ANSWERING, verdict=verdict, latest=None, writing=None, recheck_at=None)
    return ended, (m.PostResult(job.id, result_body(verdict, job.applied, at.server_now)),)


def supersede(job: JobState, by: JobState, at: Moment) -> Step:
    """Another job's effect replaced what this one is waiting for."""
    newer = f"generation {by.generation}" if by.generation is not None else "a later request"
    return settle(job, Verdict.failed(Reason.SUPERSEDED, f"{newer} for {job.ref} came first"), at)


def _close(job: JobState, at: Moment) -> m.CloseRecord:
    return m.CloseRecord(job.id, tombstone_of(job, format_time(at.server_now)))


# --- time -----------------------------------------------------------------------------------------------


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


def _tick(job: JobState, at: Moment) -> Step:
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
        return settle(job, _timeout(job), at)
    writing = _cancelled(job.task.manifest, job.latest or {})
    return _act(attrs.evolve(job, stage=Stage.ACTING, cancel_sent=True, writing=writing))


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


def _timeout(job: JobState) -> Verdict:
    until = format_time(job.expires_at) if job.expires_at else "its time"
    what = "had not started and was cancelled" if job.cancel_sent else "had not settled"
    return Verdict.failed(Reason.TIMEOUT, f"{job.ref} {what} by {until} and the grace period after it")


def _retry(job: JobState, message: str, at: Moment) -> Step:
    failures = job.failures + 1
    again = shifted(at.now, timedelta(seconds=_delay(job.id, failures)))
    note = (m.Note("warning", f"{job.stage.value}: {message}; tried again", job.id),) if failures == 1 else ()
    return attrs.evolve(job, failures=failures, retry_at=again), note


def _delay(job_id: str, failures: int) -> float:
    """Seconds until the next try: 0.5 s doubling to a minute, spread by a hash so that jobs do not march in step."""
    spread = hashlib.sha256(f"{job_id}/{failures}".encode()).digest()[0] / 255
    return float(min(LONGEST_RETRY, 0.5 * 2.0 ** min(failures - 1, 10)) * (0.5 + 0.5 * spread))


def _redo(job: JobState, at: Moment) -> Step:
    match job.stage:
        case Stage.RECORDING | Stage.INTENDING:
            return job, (m.PutRecord(job.id, record_of(job)),)
        case Stage.INSPECTING | Stage.ACTING:
            # After an unanswered write only a look can tell whether it happened.
            return start_turn(attrs.evolve(job, cancel_sent=False))
        case Stage.CLOSING:
            return job, (_close(job, at),)
        case _:
            return job, ()


def _clear(job: JobState, **changes: Any) -> JobState:
    """The job after a step that worked: nothing is to be retried."""
    return attrs.evolve(job, failures=0, retry_at=None, **changes)


def _ref(job: JobState, uid: str, generation: int) -> AppliedRef | None:
    return None if job.ref is None else AppliedRef(job.ref, uid, generation)


def _generation(live: Manifest) -> int:
    found = metadata(live).get("generation")
    return found if isinstance(found, int) else 0
