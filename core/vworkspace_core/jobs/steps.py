"""Parts that many steps of a control plane's job share (PULL-1).

These are the context of a step, the bodies of reports to the control plane, and common steps such as a retry.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

import attrs

from purekube.apimachinery.manifest import Manifest, metadata
from purekube.apimachinery.secret_material import shown
from purekube.apimachinery.timestamps import format_time
from purekube.controller.backoff import LONGEST_RETRY, Backoff, LogLevel, LogNote, Retry
from vworkspace_core.jobs import messages as m
from vworkspace_core.jobs.object_status import (
    can_still_start,
    own_conditions_of,
    phase_of,
    summary_of,
    unsettled_reason,
)
from vworkspace_core.jobs.result import JobResult, Reason
from vworkspace_core.jobs.scope import DeleteTask, JobScope
from vworkspace_core.jobs.state import LATER_REQUEST, AppliedRef, JobStage, JobState, may_have_had_effect, tombstone_of

_TOLD = ("type", "status", "reason", "message", "lastTransitionTime", "observedGeneration")


def progress(live: Manifest, now: datetime) -> dict[str, Any]:
    """Return the body of `POST jobs/<id>/status` with the present phase and conditions of `live`, the job's object.

    `now` becomes the report's timestamp.
    """
    return {
        "phase": phase_of(live),
        "conditions": [condition_body(condition) for condition in own_conditions_of(live)],
        "message": summary_of(live),
        "timestamp": format_time(now),
    }


def waiting_body(message: str, now: datetime) -> dict[str, Any]:
    """Return the body of the status report for a job that cannot be applied yet: phase Pending, and `message` as the
    reason.

    `now` becomes the report's timestamp, so it must be a time by the control plane's clock.
    """
    return {"phase": "Pending", "conditions": [], "message": shown(message), "timestamp": format_time(now)}


def condition_body(condition: Mapping[str, Any]) -> dict[str, Any]:
    """Return one condition as it is sent to the control plane: its standard fields, without secrets in the message."""
    body = {name: condition[name] for name in _TOLD if name in condition}
    if isinstance(body.get("message"), str):
        body["message"] = shown(body["message"])
    return body


def result_body(result: JobResult, applied: AppliedRef | None, now: datetime, page: str = "") -> dict[str, Any]:
    """Return the body of `POST jobs/<id>/result`, which sends `result` to the control plane.

    `applied` names the object that the job wrote or deleted, None if there is none. `now` becomes the result's
    timestamp. `page` is the URL of the object's page, if it has one.
    """
    body: dict[str, Any] = {"outcome": result.outcome.value, "timestamp": format_time(now)}
    if result.error:
        body["error"] = result.error
    if applied is not None:
        kind, where = applied.ref.kind, {"namespace": applied.ref.namespace, "name": applied.ref.name}
        named = {"apiVersion": kind.api_version, "kind": kind.kind, **where}
        body["appliedRef"] = {**named, "uid": applied.uid, "generation": applied.generation}
    return {**body, "pageUrl": page} if page else body


_BACKOFF: Final = Backoff(0.25, LONGEST_RETRY)
"""The delay of retries: at first a quarter to half of a second, doubling up to a minute."""


@attrs.frozen
class JobStepContext:
    """The input of a job's step in addition to the job: the limits on jobs (`scope`), and the time by two clocks
    (PULL-12).

    `now` is the time by the local clock, `server_now` by the control plane's clock. Where signatures are required, a
    job expires by the later of the two, because the header that shows the control plane's time is not signed.
    """

    scope: JobScope
    now: datetime
    server_now: datetime
    grace: timedelta

    @property
    def expiry_now(self) -> datetime:
        """The time to compare with the `expiresAt` of a job that has written nothing to the cluster yet.

        It is the control plane's time, or the later of the two clocks' times if jobs must be signed.
        """
        return max(self.now, self.server_now) if self.scope.security.require_signed else self.server_now


JobStep: TypeAlias = tuple[JobState, tuple[m.JobEffect, ...]]


def clear(job: JobState, **changes: Any) -> JobState:
    """Return the job after a successful step, with no retry pending. `changes` are new values of the job's fields."""
    return attrs.evolve(job, retry=Retry(), **changes)


def retry(job: JobState, message: str, at: JobStepContext) -> JobStep:
    """Return the step that schedules another try of the job's last effect, such as a write to the cluster.

    The effect failed or was not answered, for the reason `message`. A step is the job's next state, and the effects to
    perform, here at most a line for the log: only the first of several retries is logged. `at` has the present time,
    from which the next try is scheduled.
    """
    failures = job.retry.failures + 1
    again = job.retry.failed(_BACKOFF.delay(failures, _jitter(job.id, failures)), at.now, message)
    note = (LogNote(LogLevel.WARNING, f"{job.stage.value}: {message}; tried again", job.id),) if failures == 1 else ()
    return attrs.evolve(job, retry=again), note


def _jitter(job_id: str, failures: int) -> float:
    """Return a number in [0, 1] from a hash of the arguments, so that retries spread out but are reproducible."""
    return hashlib.sha256(f"{job_id}/{failures}".encode()).digest()[0] / 255


def post(job: JobState, body: Mapping[str, Any]) -> JobStep:
    """Return the step that sends `body` to the control plane as the job's status.

    A step is the job's next state, and the effects to perform. Here there is none if `body` equals the last body that
    was sent.
    """
    content = {name: value for name, value in body.items() if name != "timestamp"}
    return (job, ()) if content == job.posted else (attrs.evolve(job, posted=content), (m.PostStatus(job.id, body),))


def ref(job: JobState, uid: str, generation: int) -> AppliedRef | None:
    """Return the reference to the job's object, with this uid and this `metadata.generation`.

    Return None if the job concerns no object.
    """
    return None if job.ref is None else AppliedRef(job.ref, uid, generation)


def generation(live: Manifest) -> int:
    """Return `metadata.generation` of `live`, or 0 if it is missing."""
    number = metadata(live).get("generation")
    return number if isinstance(number, int) else 0


def settle(job: JobState, result: JobResult, at: JobStepContext) -> JobStep:
    """Return the step that ends the job with `result`, which is sent to the control plane.

    A step is the job's next state, and the effects to perform, here the sending. `at` has the time and the limits on
    jobs.
    """
    ended = clear(
        job, stage=JobStage.ANSWERING, result=result, latest=None, writing=None, written=None, recheck_at=None
    )
    return ended, (m.PostResult(job.id, result_body(result, job.applied, at.server_now, _page(job, at.scope))),)


def _page(job: JobState, scope: JobScope) -> str:
    """Return the URL of the page of the object that the job applied, or an empty string for a deletion."""
    return "" if job.applied is None or isinstance(job.task, DeleteTask) else scope.link(job.applied.ref)


def supersede(job: JobState, by: JobState, at: JobStepContext) -> JobStep:
    """Return the step that ends the job because of the newer job `by`. Its result says that it was superseded.

    A step is the job's next state, and the effects to perform, here the sending of the result. The write of `by` has
    replaced the state for which the job waits. The job's tombstone (record of a closed job) is stored if its own write
    may have happened (PULL-4). `at` has the time and the limits on jobs.
    """
    return settle(attrs.evolve(job, had_effect=may_have_had_effect(job)), superseded_by(job, by), at)


def superseded_by(job: JobState, by: JobState) -> JobResult:
    """Return the failed result of `job` because the newer job `by` had its effect first."""
    newer = f"generation {by.generation}" if by.generation is not None else LATER_REQUEST
    about = f" for {job.ref}" if job.ref is not None else ""
    return JobResult.failed(Reason.SUPERSEDED, f"{newer}{about} came first")


def close(job: JobState, at: JobStepContext) -> m.CloseRecord:
    """Return the request to the job store to remove the job's record.

    If the job has written to the cluster, its tombstone (the record of what a closed job has done) is stored as well.
    `at` has the time and the limits on jobs.
    """
    return m.CloseRecord(job.id, tombstone_of(job, format_time(at.server_now)))


def timeout(job: JobState) -> JobResult:
    """Return the failed result of a job whose object did not settle in time.

    Its message quotes the reason in the object's status.
    """
    until = format_time(job.expires_at) if job.expires_at else "its time"
    seen = job.latest or {}
    what = "had not started and was cancelled" if can_still_start(seen) else "had not settled"
    message = f"{job.ref} {what} by {until} and the grace period after it"
    words = unsettled_reason(seen)
    return JobResult.failed(Reason.TIMEOUT, f"{message}; last seen: {words}" if words else message)
