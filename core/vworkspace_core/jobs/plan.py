"""The plan of a job that has the work slot: one exact write, a wait, or the end (REC-6, PULL-3, PULL-4).

A job is a request of the control plane. Only the job that has the work slot of an object may write it. The first table
is for a job that has not begun to write. The second is for a job whose intent to write is recorded, so that the write
may have happened. `same uid` means the uid in that intent, or any uid if it has none.

    job not applied yet             live object                       the plan
    ------------------------------  --------------------------------  -----------------------------------------
    its key had its effect before   any                               FinishJob noop
    may not touch it (scope)        any                               FinishJob failed/NotPermitted
    older than what is known        any                               FinishJob failed/Superseded
    expired                         any, absent for a delete excepted FinishJob noop "expired"
    apply                           absent                            PlanApply, no uid
    apply                           there                             PlanApply with its uid
    apply                           terminating                       WaitDeleted
    apply                           an Operation that has ended       FinishJob noop, with the time it ended
    delete                          absent                            FinishJob succeeded
    delete                          there, terminating or not         PlanDelete with its uid

    intent recorded (after a crash or an unanswered write)
    ------------------------------  --------------------------------  -----------------------------------------
    apply of an Operation           its namespace is not managed      WaitForManagedNamespace: it may still start
    apply                           has the job's key, same uid       AlreadyApplied: go on waiting
    apply onto an object            that object is gone               FinishJob failed/Deleted: nothing is resurrected
    apply that certainly happened   the object has another key by now FinishJob failed/Superseded
    delete                          another uid, or absent            FinishJob succeeded
    delete                          that object, terminating          AlreadyApplied: go on waiting
    otherwise                       as in the first table             as in the first table

The control plane's generation, from the idempotency key, is compared with the object's own annotation, the tombstones
and the open jobs on the same object.
"""

from typing import Any, TypeAlias

import attrs

from purekube.apimachinery.manifest import Manifest, get_path, metadata, with_preconditions
from purekube.controller.drift import needs_apply
from purekube.controller.managed_fields import written_annotation
from vworkspace_core.api import labels
from vworkspace_core.api.application_instance import Mode
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.jobs.job_store import UNAPPLIED, Tombstone
from vworkspace_core.jobs.object_status import ended_at
from vworkspace_core.jobs.result import EXPIRED, SUCCEEDED, JobOutcome, JobResult, Reason
from vworkspace_core.jobs.scope import ApplyTask, DeleteTask, JobScope, RotateTask, Task, may_touch, namespace_refusal


@attrs.frozen
class EffectIntent:
    """The record of the effect that a job is about to have, such as an apply, stored before the effect happens.

    `uid` is the live object's, empty if there is none. `happened` is recorded afterwards: the effect certainly happened
    on the object with that uid. `generation` is the object's `metadata.generation`, which is reported in the result
    even if a later process finds the object terminating or gone.
    """

    uid: str = ""
    happened: bool = False
    generation: int = 0


@attrs.frozen
class Inspection:
    """The result of an Inspect effect: the live object of a job, its namespace, and its tombstones (records of closed
    jobs).

    The object is not read in a namespace that is not managed. `tombstone` is the one with the job's own idempotency
    key, `newest` the one with the highest generation (the control plane's counter of jobs) for the same object.
    """

    live: Manifest | None = attrs.field(default=None, repr=False)
    namespace: Manifest | None = attrs.field(default=None, repr=False)
    tombstone: Tombstone | None = None
    newest: Tombstone | None = None


@attrs.frozen
class SlotHolder:
    """A control plane's job that has the work slot of its object, reduced to the facts from which its plan follows.

    Only one job at a time has the slot, and only that job may write the object.
    """

    task: Task
    key: str
    generation: int | None
    expired: bool
    intent: EffectIntent | None = None


@attrs.frozen
class PlanApply:
    """A plan to apply exactly `manifest` to the object with this uid, for a control plane's job.

    An empty uid means that there is no object yet.
    """

    manifest: Manifest = attrs.field(repr=False)
    uid: str


@attrs.frozen
class PlanDelete:
    """A plan to delete the object with this uid, for a control plane's job."""

    uid: str
    generation: int


@attrs.frozen
class PlanRotate:
    """A plan to request a new credential for the connection to the control plane, for a job that asks for it."""


@attrs.frozen
class WaitDeleted:
    """A plan to wait until the terminating object with this uid is gone, and to apply the job's manifest afterwards."""

    uid: str


@attrs.frozen
class AlreadyApplied:
    """The finding that the write of a control plane's job has already happened.

    `live` is the object after the write.
    """

    live: Manifest = attrs.field(repr=False)


@attrs.frozen
class FinishJob:
    """A plan to end a control plane's job with `result`.

    `had_effect` says that the job's effect, such as an apply, may have happened, and must not be repeated.
    """

    result: JobResult
    had_effect: bool = False


@attrs.frozen
class WaitForManagedNamespace:
    """A plan to wait until the namespace of a control plane's job is managed.

    An Operation may exist in it that was not read, and may still start (PULL-3).
    """


Plan: TypeAlias = (
    PlanApply | PlanDelete | PlanRotate | WaitDeleted | AlreadyApplied | WaitForManagedNamespace | FinishJob
)


def plan(holder: SlotHolder, seen: Inspection, scope: JobScope) -> Plan:
    """Return the next action of the job `holder`, which has its object's work slot. Never raises.

    `seen` is the result of reading the object. `scope` has the limits of what the job may touch.
    """
    if holder.intent is None and _is_replay(holder, seen):
        return FinishJob(_replayed(holder, seen))
    if (closed := namespace_refusal(holder.task, seen.namespace)) is not None:
        begun = holder.intent is not None and isinstance(holder.task, ApplyTask) and holder.task.ref.kind == OPERATION
        return WaitForManagedNamespace() if begun else FinishJob(closed)
    if (resumed := _resume(holder, seen)) is not None:
        return resumed
    if (refusal := may_touch(holder.task, seen.live, seen.namespace, scope)) is not None:
        return FinishJob(refusal)
    if holder.generation is not None and (newer := _highest_generation(holder, seen)) > holder.generation:
        goes_on = "the counter of an object goes on, also when it was deleted and is made anew"
        message = f"generation {newer} is newer than {holder.generation}; {goes_on}: ask with {newer + 1} or more"
        return FinishJob(JobResult.failed(Reason.SUPERSEDED, message))
    return _act(holder, seen)


def _act(holder: SlotHolder, seen: Inspection) -> Plan:
    match holder.task:
        case DeleteTask() if seen.live is None:
            return FinishJob(SUCCEEDED)
        case _ if holder.expired:
            return FinishJob(EXPIRED)
        case RotateTask():
            return PlanRotate()
        case DeleteTask():
            return PlanDelete(_uid(seen.live), int(get_path(seen.live, "metadata", "generation") or 0))
        case ApplyTask() as task:
            return _plan_apply(holder, task, seen.live)


def _resume(holder: SlotHolder, seen: Inspection) -> Plan | None:
    if holder.intent is None:
        return None
    aimed_uid, live_uid = holder.intent.uid, _uid(seen.live)
    match holder.task:
        case DeleteTask():
            if live_uid != aimed_uid or seen.live is None:
                return FinishJob(SUCCEEDED)
            return AlreadyApplied(seen.live) if metadata(seen.live).get("deletionTimestamp") else None
        case ApplyTask(ref):
            if aimed_uid and live_uid != aimed_uid:
                return FinishJob(JobResult.failed(Reason.DELETED, f"{ref} was deleted while the job was open"), True)
            key = key_of(seen.live)
            if seen.live is not None and (key == holder.key or (holder.intent.happened and key is None)):
                return AlreadyApplied(seen.live)  # a key that is not ours is no later request
            if holder.intent.happened:
                return FinishJob(JobResult.failed(Reason.SUPERSEDED, f"a later request for {ref} came first"), True)
            return None
        case RotateTask():
            return None


def _is_replay(holder: SlotHolder, seen: Inspection) -> bool:
    match holder.task:
        case ApplyTask(manifest=manifest):
            return seen.tombstone is not None or _shows_key(seen.live, holder.key, manifest)
        case DeleteTask() if seen.live is None:
            return seen.tombstone is not None and seen.tombstone.outcome != UNAPPLIED
        case DeleteTask():
            # A tombstone with this object's uid is not a delete's, since the object still exists. An apply may have had
            # the same key, since keys count generations of intent.
            return seen.tombstone is not None and _uid(seen.live) != seen.tombstone.object_uid
        case RotateTask():
            return seen.tombstone is not None


def _replayed(holder: SlotHolder, seen: Inspection) -> JobResult:
    """Return the result noop for a job whose effect has happened before, through an earlier job with the same key.

    The result's message says so if that effect was on another object. If the earlier job was superseded before its
    effect, this one is superseded too.
    """
    ref, uid = holder.task.ref, seen.tombstone.object_uid if seen.tombstone is not None else ""
    if seen.tombstone is not None and seen.tombstone.outcome == UNAPPLIED:
        message = f"a later request for {ref} came first: ask under a key of its own"
        return JobResult.failed(Reason.SUPERSEDED, message)
    if seen.tombstone is not None and seen.tombstone.outcome == JobOutcome.NOOP and (ended := ended_at(seen.live)):
        return _already_ended(holder.task, ended)
    if ref is None or holder.generation is not None or not uid or uid == _uid(seen.live):
        return JobResult(JobOutcome.NOOP)
    message = f"the key had its effect before, on another object (uid {uid}) than {ref}: ask under a key of its own"
    return JobResult.of(JobOutcome.NOOP, Reason.KEY_USED, message)


def _already_ended(task: Task, ended: str) -> JobResult:
    again = "to run it once more, ask for an Operation of another name"
    return JobResult.of(JobOutcome.NOOP, Reason.ALREADY_ENDED, f"{task.ref} ended {ended}; {again}")


def _shows_key(live: Manifest | None, key: str, manifest: Manifest) -> bool:
    """Report whether `live` has the idempotency key `key` in its annotation, and the same spec as `manifest`.

    The annotation alone proves nothing, since other clients may write it.
    """
    return key_of(live) == key and not needs_apply({"spec": manifest.get("spec")}, live)


def _highest_generation(holder: SlotHolder, seen: Inspection) -> int:
    """Return the highest generation that the control plane has requested for the object, as far as known, or 0.

    The job store's record takes precedence over the object's annotation, which others can edit.
    """
    return seen.newest.generation if seen.newest is not None else applied_generation(seen.live) or 0


def _plan_apply(holder: SlotHolder, task: ApplyTask, live: Manifest | None) -> Plan:
    if live is not None and metadata(live).get("deletionTimestamp"):
        return WaitDeleted(_uid(live))
    if ended := ended_at(live):
        # An end is final: nothing would run. The key is remembered, so that it runs nothing later either.
        return FinishJob(_already_ended(task, ended), True)
    return PlanApply(stamped(task.manifest, holder.key, holder.generation, live), _uid(live))


def stamped(manifest: Manifest, key: str, generation: int | None, live: Manifest | None) -> dict[str, Any]:
    """Return `manifest` with its job's annotations, the operator's finalizer, and the live uid and resourceVersion.

    `key` is the job's idempotency key, and `generation` the control plane's counter in it. If the key has none, the
    generation recorded on the object `live` is kept. The recorded generation protects the object against older jobs
    (REC-6, RUN-4).
    """
    stamped_generation = generation if generation is not None else applied_generation(live)
    marks = {labels.IDEMPOTENCY_KEY: key} | (
        {labels.LAST_APPLIED_GENERATION: str(stamped_generation)} if stamped_generation is not None else {}
    )
    meta = dict(metadata(manifest))
    meta["annotations"] = {**(meta.get("annotations") or {}), **marks}
    if _is_finalized(manifest, live):
        meta["finalizers"] = [labels.FINALIZER]
    return with_preconditions({**manifest, "metadata": meta}, live)


def _is_finalized(manifest: Manifest, live: Manifest | None) -> bool:
    """Report whether the apply of `manifest` has to include the operator's finalizer.

    It has to if there may be a release, or if the object `live` has the finalizer already: an apply removes fields that
    the previous apply set and the new apply omits (S-37).
    """
    if manifest.get("kind") != APPLICATION_INSTANCE.kind:
        return False
    may_have_release = get_path(manifest, "spec", "mode") != Mode.PLACEHOLDER
    return may_have_release or labels.FINALIZER in (metadata(live or {}).get("finalizers") or ())


def applied_generation(live: Manifest | None) -> int | None:
    """Return the generation (the control plane's counter of jobs for an object) that the operator recorded on `live`.

    Return None if it is missing or malformed.
    """
    text = written_annotation(live, labels.LAST_APPLIED_GENERATION, labels.FIELD_MANAGER)
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= 18 else None


def key_of(live: Manifest | None) -> str | None:
    """Return the idempotency key of the job that last wrote `live`, or None if the operator wrote no such key."""
    return written_annotation(live, labels.IDEMPOTENCY_KEY, labels.FIELD_MANAGER)


def _uid(live: Manifest | None) -> str:
    return str(get_path(live, "metadata", "uid") or "")
