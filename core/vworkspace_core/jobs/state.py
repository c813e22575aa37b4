"""The state of one job of the control plane as an immutable value, and its conversion to and from the stored record
(PULL-2, PULL-4).

    RECORDING ── ACKING ── READY ── INSPECTING ── RECORDING_INTENT ── ACTING ── RECORDING_EFFECT ── WAITING ──┐
                             └─ WAITING_DELETED ─┘                                   CLOSING ── ANSWERING ────┘
A refused job goes from ACKING to ANSWERING at once.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeAlias

import attrs

from purekube.apimachinery.manifest import Manifest, ObjectRef, text_or_empty
from purekube.controller.backoff import Retry
from vworkspace_core.control_plane.outbox import generation_in
from vworkspace_core.control_plane.untrusted_json import flaws
from vworkspace_core.jobs.job_store import UNAPPLIED, JobRecord, Tombstone
from vworkspace_core.jobs.payload_security import Security, decrypted, opened
from vworkspace_core.jobs.plan import EffectIntent
from vworkspace_core.jobs.result import JobOutcome, JobResult, Reason
from vworkspace_core.jobs.scope import ApplyTask, JobScope, Task, admit
from vworkspace_core.jobs.wire import BadJob, Job, job_id_of, parse_job, read_job


class JobStage(StrEnum):
    """The stage of a control plane's job, named after the step that is under way.

    In each stage the job waits for one event: in ACKING, that the control plane confirms the ack; in READY, that the
    job gets the work slot of its object; in WAITING, that the object's status shows the outcome. The values appear in
    log messages and must not change.
    """

    RECORDING = "recording"  # the job store: the record is written before the ack
    ACKING = "acking"  # the control plane: the job is ours before it has an effect
    READY = "ready"  # the work slot: one job at a time works on an object
    INSPECTING = "inspecting"  # the cluster and the job store: the present state
    WAITING_DELETED = "awaiting-gone"  # the cluster: the terminating object must be gone first
    RECORDING_INTENT = "intending"  # the job store: the intent is written before the effect
    ACTING = "acting"  # the cluster: the effect itself
    RECORDING_EFFECT = "noting"  # the job store: the apply happened, and on which object
    WAITING = "waiting"  # the reconciler: success or failure of the applied object
    ANSWERING = "answering"  # the control plane: the result is accepted
    CLOSING = "closing"  # the job store: record gone, tombstone kept


BUSY = frozenset({JobStage.INSPECTING, JobStage.RECORDING_INTENT, JobStage.ACTING, JobStage.RECORDING_EFFECT})
"""The stages in which a job has the work slot of its object. Only one job at a time has the slot."""

STORING = frozenset({JobStage.RECORDING, JobStage.RECORDING_INTENT, JobStage.RECORDING_EFFECT, JobStage.CLOSING})
"""The stages in which a job waits for a write of its record."""

ENDED = frozenset({JobStage.ANSWERING, JobStage.CLOSING})


@attrs.frozen
class AppliedRef:
    """The object on which a control plane's job had its effect, such as an apply.

    `generation` is the object's `metadata.generation` after the effect.
    """

    ref: ObjectRef
    uid: str
    generation: int


@attrs.frozen
class JobState:
    """The state of a control plane's job from its offer until its record is removed.

    `retry` says when a failed step is tried again. `refusals` counts how often a right or kind was missing.
    `missed_tombstones` are tombstones (records of closed jobs) that were stored while this job read its object, so that
    the read may have missed them. `status_before` is the object's status before the job's write.
    `result_once_cancelled` is the result that the job has once its Operation, not started yet, is cancelled.
    """

    id: str
    arrival: int
    raw: Mapping[str, Any] = attrs.field(repr=False)
    task: Task | None = attrs.field(repr=False)
    key: str
    expires_at: datetime | None
    stage: JobStage
    result: JobResult | None = None
    ack_may_have_arrived: bool = False
    intent: EffectIntent | None = None
    applied: AppliedRef | None = None
    had_effect: bool = False
    result_once_cancelled: JobResult | None = None
    latest: Manifest | None = attrs.field(default=None, repr=False)
    object_is_gone: bool = False
    posted: Mapping[str, Any] | None = attrs.field(default=None, repr=False)
    retry: Retry = attrs.field(factory=Retry)
    refusals: int = 0
    recheck_at: datetime | None = None
    writing: Manifest | None = attrs.field(default=None, repr=False)
    status_before: Any = attrs.field(default=None, repr=False)
    written: Manifest | None = attrs.field(default=None, repr=False)
    missed_tombstones: tuple[Tombstone, ...] = ()

    @property
    def ref(self) -> ObjectRef | None:
        """The object that the job concerns, or None for a job that concerns no object."""
        return None if self.task is None else self.task.ref

    @property
    def generation(self) -> int | None:
        """The generation in the job's idempotency key, which is the control plane's counter of jobs for the object.

        It is None if the key does not name the job's object.
        """
        return None if self.ref is None else generation_in(self.key, self.ref)

    @property
    def target(self) -> ObjectRef | None:
        """The application on which the job's Operation acts, or None for every other job."""
        return self.task.target if isinstance(self.task, ApplyTask) else None

    @property
    def has_ended(self) -> bool:
        """True if the job's result is final."""
        return self.stage in ENDED


def accept(raw: Any, arrival: int, scope: JobScope) -> JobState | BadJob:
    """Return the state of a job that was just offered.

    `raw` is the job as it was offered, and `arrival` its number in order of arrival. `scope` has the limits on jobs, by
    which the job may get a failed result at once. Return a BadJob if the job has no id, since it cannot be answered
    then.
    """
    return _accept(raw, arrival, scope, opened)


Opening: TypeAlias = Callable[[Mapping[str, Any], Security, str], Mapping[str, Any] | JobResult]


def _accept(raw: Any, arrival: int, scope: JobScope, opening: Opening) -> JobState | BadJob:
    job_id = job_id_of(raw)
    if not isinstance(raw, Mapping) or not job_id or flaws(raw):
        return _bad(parse_job(raw), job_id, arrival)
    clear = opening(raw, scope.security, scope.cluster_id)
    if isinstance(clear, JobResult):
        # Not even its key is kept: its sender is unknown.
        return _refused(job_id, arrival, "", clear)
    # A decrypted payload may have flaws too.
    parsed = read_job(clear) if clear is raw else parse_job(clear)
    if isinstance(parsed, BadJob):
        return _bad(parsed, job_id, arrival)
    admitted = admit(parsed, scope)
    if isinstance(admitted, JobResult):
        return _refused(job_id, arrival, parsed.idempotency_key, admitted)
    return JobState(job_id, arrival, raw, admitted, parsed.idempotency_key, parsed.expires_at, stage=JobStage.RECORDING)


def _bad(job: Job | BadJob, job_id: str, arrival: int) -> JobState | BadJob:
    if isinstance(job, Job):
        raise AssertionError("a job with flaws was read")
    result = JobResult.failed(Reason.INVALID_JOB, str(job))
    return _refused(job_id, arrival, job.idempotency_key, result) if job_id else job


def _known_good(raw: Mapping[str, Any], security: Security, _: str) -> Mapping[str, Any] | JobResult:
    """Return `raw`, a job from the operator's own record, with its payload decrypted.

    Its signature was verified when the job was offered.
    """
    return decrypted(raw, attrs.evolve(security, require_encrypted_secrets=False))


def _refused(job_id: str, arrival: int, key: str, result: JobResult) -> JobState:
    return JobState(job_id, arrival, bare_job(job_id, key), None, key, None, JobStage.RECORDING, result)


def bare_job(job_id: str, key: str) -> dict[str, Any]:
    """Return a job reduced to id and idempotency key. It replaces a job whose payload may be too large to record."""
    return {"id": job_id, "idempotencyKey": key}


def record_of(job: JobState) -> JobRecord:
    """Return the job as it is stored: the raw job, and its progress."""
    state: dict[str, Any] = {}
    if job.intent is not None:
        details = {"had": job.intent.happened, "generation": job.intent.generation}
        state["intent"] = {"uid": job.intent.uid, **{name: value for name, value in details.items() if value}}
    if job.result is not None:
        state["verdict"] = _as_record(job.result)
    if job.result_once_cancelled is not None:
        state["ending"] = _as_record(job.result_once_cancelled)
    return JobRecord(job.id, job.raw, state)


def _as_record(result: JobResult) -> dict[str, str]:
    return {"outcome": result.outcome.value, "error": result.error}


def restore(record: JobRecord, arrival: int, scope: JobScope) -> JobState:
    """Return the state of a recorded job after a restart.

    `arrival` is the job's number in order of arrival, and `scope` has the limits on jobs. The ack is repeated, and
    later progress is determined from the cluster. A job that had begun its effect, such as an apply, is not judged
    again by admission rules, which may have changed.
    """
    intent = _stored_intent(record)
    rules = scope if intent is None else attrs.evolve(scope, admission=lambda _: ())
    job = _accept({**record.raw, "id": record.job_id}, arrival, rules, _known_good)
    if isinstance(job, BadJob):  # only a record of another writer has such an id
        job = _refused(record.job_id, arrival, "", JobResult.failed(Reason.INVALID_JOB, str(job)))
    return attrs.evolve(
        job,
        # An unusable decryption key hides only the task.
        key=job.key or text_or_empty(record.raw.get("idempotencyKey")),
        raw=record.raw,
        stage=JobStage.ACKING,
        ack_may_have_arrived=True,
        result=_stored_result(record, "verdict") or job.result,
        result_once_cancelled=_stored_result(record, "ending"),
        intent=intent,
        had_effect=intent is not None and intent.happened,
        applied=_planned_ref(job, intent),
    )


def _planned_ref(job: JobState, intent: EffectIntent | None) -> AppliedRef | None:
    """Return the reference that a restored job reports for its object until the object is read again.

    It is taken from `intent`, the effect that the job recorded before the restart. Return None if no generation was
    recorded.
    """
    if job.ref is None or intent is None or not intent.generation:
        return None
    return AppliedRef(job.ref, intent.uid, intent.generation)


def _stored_intent(record: JobRecord) -> EffectIntent | None:
    fields = record.state.get("intent")
    if not isinstance(fields, Mapping):
        return None
    generation = fields.get("generation")
    return EffectIntent(
        str(fields.get("uid", "")), fields.get("had") is True, generation if isinstance(generation, int) else 0
    )


def _stored_result(record: JobRecord, name: str) -> JobResult | None:
    fields = record.state.get(name)
    if not isinstance(fields, Mapping):
        return None
    outcome = str(fields.get("outcome"))
    # A record of a later version may contain an unknown outcome: then the job is judged again.
    return JobResult(JobOutcome(outcome), str(fields.get("error", ""))) if outcome in set(JobOutcome) else None


def may_have_had_effect(job: JobState) -> bool:
    """Report whether the job had its effect, such as an apply, or began it in this process or an earlier process."""
    return job.had_effect or job.intent is not None


LATER_REQUEST: Final = "a later request"
"""The words for a newer job without a generation in the result of a job that it has superseded."""


def _is_superseded_unnumbered(job: JobState) -> bool:
    """Report whether the job was superseded, and no two generations show which of the two jobs is the newer one."""
    words = "" if job.generation is None else LATER_REQUEST
    return job.result is not None and job.result.error.startswith(f"{Reason.SUPERSEDED}: {words}")


def tombstone_of(job: JobState, closed_at: str = "") -> Tombstone | None:
    """Return the tombstone (record of what a closed job has done) to store for the job, closed at `closed_at`.

    Return None for a job that wrote nothing, and so may be requested again. A delete that found no object gets a
    tombstone too: if it were repeated, it could delete a later object of the same name (PULL-4). So does a superseded
    job if its key or the newer one has no generation, as nothing else would show that it is the older one.
    """
    if job.key and not job.had_effect and _is_superseded_unnumbered(job):
        return Tombstone(job.key, UNAPPLIED, closed_at=closed_at)
    outcome = job.result.outcome.value if job.result else ""
    if not job.key or not (job.had_effect or outcome == JobOutcome.SUCCEEDED):
        return None
    uid = job.applied.uid if job.applied else job.intent.uid if job.intent else ""
    return Tombstone(job.key, outcome, uid, job.generation or 0, closed_at)
