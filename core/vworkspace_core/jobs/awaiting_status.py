"""Steps of a control plane's job that had its effect and waits for the outcome in its object's status (PULL-2 steps 6
to 8).
"""

from datetime import timedelta
from typing import Final

import attrs

from purekube.apimachinery.manifest import Manifest, get_path, metadata
from purekube.apimachinery.timestamps import shifted
from vworkspace_core.api import kinds as own_kinds
from vworkspace_core.api import labels
from vworkspace_core.api.labels import IDEMPOTENCY_KEY
from vworkspace_core.api.own_status import OWN_STATUS
from vworkspace_core.control_plane.outbox import object_key
from vworkspace_core.jobs import messages as m
from vworkspace_core.jobs.object_status import can_still_start, has_started, waits_for_schedule
from vworkspace_core.jobs.plan import Inspection
from vworkspace_core.jobs.result import SUCCEEDED, JobOutcome, JobResult, Reason, result_of
from vworkspace_core.jobs.scope import ApplyTask, DeleteTask
from vworkspace_core.jobs.state import JobStage, JobState, record_of
from vworkspace_core.jobs.steps import JobStep, JobStepContext, clear, generation, post, progress, ref, settle, timeout

SOON: Final = timedelta(seconds=10)
"""The delay until a waiting job reads its object again, after a failed read or an edit that may be reverted."""
RECHECK: Final = timedelta(minutes=5)
"""The interval in which a waiting job reads its object although no informer reported a change."""


def applied(job: JobState, live: Manifest, at: JobStepContext) -> JobStep:
    """Return the step (state and effects) after the job's write is in the cluster.

    The job now waits for the outcome in its object's status. `live` is the object after the write, which an earlier
    process that crashed may have made. `at` has the present time.
    """
    # A deletion raises an object's generation; the result of a delete names the generation that it was to delete.
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
    if job.object_is_gone:  # deleted during the write: only a read shows which came first
        return waiting, (inspect(waiting),)
    return _consider(waiting, _fresher(job, live), at, has_slot=True)


def _fresher(job: JobState, live: Manifest) -> Manifest:
    """Return the newer copy of the object: `live`, or the one that an informer received during the apply.

    The informer's copy is returned if it is at least as new.
    """
    seen = job.latest
    if seen is None or metadata(seen).get("uid") != metadata(live).get("uid"):
        return live
    return seen if _is_after(job, seen) and generation(seen) >= generation(live) else live


def _is_after(job: JobState, seen: Manifest) -> bool:
    """Report whether `seen`, an informer's copy of the job's object, is newer than the job's apply."""
    return isinstance(job.task, DeleteTask) or get_path(seen, "metadata", "annotations", IDEMPOTENCY_KEY) == job.key


def wait_deleted(job: JobState, at: JobStepContext) -> JobStep:
    """Return the step (state and effects) after an accepted delete: the job waits until the object no longer exists.

    `at` has the time and the limits on jobs.
    """
    waiting = clear(job, stage=JobStage.WAITING, had_effect=True, recheck_at=shifted(at.now, RECHECK))
    # The delete may have finished at once: only a read shows whether a finalizer still holds the object.
    return waiting, (inspect(waiting),)


def object_changed(job: JobState, live: Manifest | None, at: JobStepContext) -> JobStep:
    """Return the step (state and effects) after an informer received a change of the job's object.

    `live` is the changed object, None if it is gone. `at` has the time and the limits on jobs.
    """
    if _is_gone(job, live):
        # The event may be of an earlier object with this name: only a read of the server can decide.
        return job, (inspect(job),)
    return _consider(job, live, at) if live is not None and _is_after(job, live) else (job, ())


def _is_gone(job: JobState, live: Manifest | None) -> bool:
    return live is None or job.applied is None or metadata(live).get("uid") != job.applied.uid


def on_status_read(job: JobState, seen: Inspection, at: JobStepContext) -> JobStep:
    """Return the step (state and effects) after the job read its object; `seen` is the result of the read.

    If the namespace is not managed, the object was not read, and nothing is concluded. `at` has the time and the limits
    on jobs.
    """
    if seen.namespace is not None and not labels.namespace_is_managed(seen.namespace):
        return job, ()
    if _is_undone(job, seen.live):
        return clear(job, stage=JobStage.READY, intent=None, applied=None, latest=None, recheck_at=None), ()
    return _consider(job, seen.live, at, looked=True)


def _is_undone(job: JobState, live: Manifest | None) -> bool:
    """Report whether the job's effect on the object was undone by a restore of the cluster's storage (RUN-1)."""
    if live is None or job.applied is None or metadata(live).get("uid") != job.applied.uid:
        return False
    if isinstance(job.task, DeleteTask):
        return not metadata(live).get("deletionTimestamp")
    return generation(live) < job.applied.generation


def _soon(job: JobState, at: JobStepContext) -> JobState:
    """Return the job with the next read of its object due soon at the latest. A manual edit of the object may be
    reverted within that time.
    """
    soon = shifted(at.now, SOON)
    return job if job.recheck_at is not None and job.recheck_at <= soon else attrs.evolve(job, recheck_at=soon)


def out_of_time(job: JobState, at: JobStepContext) -> bool:
    """Report whether the job has expired at the time in `at`.

    A job whose Operation is running does not expire, since the Operation has its own deadline (OPS-12).
    """
    if job.expires_at is None or at.server_now < shifted(job.expires_at, at.grace):
        return False
    return not runs_on(job)


def runs_on(job: JobState) -> bool:
    """Report whether the job's Operation is running.

    An Operation with a schedule does not count as running between two runs.
    """
    live = job.latest or {}
    return live.get("kind") == own_kinds.OPERATION.kind and has_started(live) and not waits_for_schedule(live)


def give_up(job: JobState, at: JobStepContext) -> JobStep:
    """Return the step (state and effects) that ends an expired job.

    If its Operation may still start, the Operation is cancelled first. For this the job needs the object's work slot,
    which only one job at a time has. `at` has the time and the limits on jobs.
    """
    if job.latest is not None and waits_for_schedule(job.latest):
        return settle(job, SUCCEEDED, at)  # it runs as requested; its next sync comes later than the job can wait
    if isinstance(job.task, ApplyTask) and job.task.ref.kind == own_kinds.OPERATION:
        return clear(job, stage=JobStage.READY, recheck_at=None), ()
    return settle(job, timeout(job), at)


def _consider(
    job: JobState, live: Manifest | None, at: JobStepContext, *, has_slot: bool = False, looked: bool = False
) -> JobStep:
    """Return the step (state and effects) that follows from `live`, the object of a job whose write is in the cluster.

    `has_slot` says that the object was read while the job has the object's work slot, which only one job at a time has.
    `looked` says that the object was read from the API server to decide how the job ends.
    """
    if live is None or _is_gone(job, live):
        deleted = JobResult.failed(Reason.DELETED, f"{job.ref} was deleted before the job settled")
        return settle(job, SUCCEEDED if isinstance(job.task, DeleteTask) else deleted, at)
    posted, effects = post(attrs.evolve(job, latest=live), progress(live, at.server_now))
    # An Operation that may still start is cancelled in exactly this version; its result is posted once that is done.
    final = looked or (has_slot and can_still_start(live))
    result = None if isinstance(job.task, DeleteTask) else _result(posted, live, at, final)
    if result is None and OWN_STATUS.holder(live) is None:
        return posted, effects
    if result is None:  # the command that takes the status back is derived from a fresh read
        return (posted, (*effects, inspect(posted))) if has_slot else (_soon(posted, at), effects)
    ended, last = _end(posted, live, result, at, has_slot)
    return ended, (*effects, *last)


def _result(job: JobState, live: Manifest, at: JobStepContext, looked: bool) -> JobResult | None:
    """Return the result of the job whose object is `live`, or None while the outcome is open.

    A recorded reason for the job's cancellation takes precedence over the Operation's own status. `looked` says that
    the object was just read from the API server; a cached copy lacks the names of field managers.
    """
    holder, judged = OWN_STATUS.holder(live), job.result_once_cancelled
    if judged is not None and holder is not None and judged.outcome is JobOutcome.CONFLICT:
        judged = None  # its command was for the object before it was cancelled
    if judged is not None and not has_started(live) and not can_still_start(live):
        return judged
    if holder is not None and looked:
        # No verdict can be reported while another manager holds the status: better a conflict now than a Timeout later.
        return JobResult.of(JobOutcome.CONFLICT, Reason.FIELD_CONFLICT, f"{job.ref}: {holder}")
    result = result_of(live, job.applied.generation if job.applied else 0, job.status_before)
    if result is None and out_of_time(job, at):
        return SUCCEEDED if waits_for_schedule(live) else timeout(job)
    return result


def _end(job: JobState, live: Manifest, result: JobResult, at: JobStepContext, has_slot: bool) -> JobStep:
    """Return the step (state and effects) that ends the job with `result`.

    If the job failed and its Operation may still start, the Operation is cancelled first (PULL-3). That needs the
    object's work slot, and cancels exactly the copy `live`. The result is recorded before the cancellation, so that it
    is known after a crash.
    """
    if result.outcome is JobOutcome.SUCCEEDED or not can_still_start(live):
        return settle(job, result, at)
    if not has_slot:
        return clear(job, stage=JobStage.READY, recheck_at=None), ()
    cancelling = clear(job, stage=JobStage.RECORDING_INTENT, result_once_cancelled=result)
    return cancelling, (m.PutRecord(job.id, record_of(cancelling)),)


def inspect(job: JobState) -> m.Inspect:
    """Return the effect that reads the job's object, its namespace and its tombstones (records of closed jobs)."""
    return m.Inspect(job.id, job.ref, job.key, object_key(job.ref) if job.ref else "")
