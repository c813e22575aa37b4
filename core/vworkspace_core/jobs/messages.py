"""Events and effects of the job machine, which carries out the control plane's jobs: two closed sets of immutable
values.

An effect is a call that the machine requests, such as an apply. An event is what has happened, such as the answer.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeAlias

import attrs

from purekube.apimachinery.errors import FieldConflict
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.controller.backoff import LogNote, Tick
from vworkspace_core.jobs.job_store import JobRecord, Tombstone
from vworkspace_core.jobs.payload_security import Security
from vworkspace_core.jobs.plan import Inspection


@attrs.frozen
class OfJob:
    """The base class of events and effects of one job of the control plane, which `job_id` identifies."""

    job_id: str


@attrs.frozen
class Offered:
    """The event that the control plane offers a job (a request to the operator), for the first time or again."""

    raw: Any = attrs.field(repr=False)


@attrs.frozen
class Resumed:
    """The event that the agent continues a control plane's job that the previous operator process left unfinished."""

    record: JobRecord = attrs.field(repr=False)


@attrs.frozen
class ServerTime:
    """The event that an answer of the control plane showed the time of its clock (PULL-12)."""

    at: datetime


@attrs.frozen
class SecurityChanged:
    """The event that new rules hold for payloads of jobs that are offered from now on.

    Rules say, for example, whether jobs must be signed. Open jobs keep the result of the old rules (PULL-9).
    """

    security: Security


@attrs.frozen
class Recorded(OfJob):
    """The event that the record of a control plane's job was written to a Secret of the job store: the answer to
    PutRecord.
    """


@attrs.frozen
class RecordRefused(OfJob):
    """The event that the record of a control plane's job is too large ever to be written to the job store.

    It is an answer to PutRecord.
    """

    message: str


@attrs.frozen
class Acked(OfJob):
    """The event that the control plane confirmed the ack (receipt) of its job: the answer to SendAck."""


@attrs.frozen
class AckLost(OfJob):
    """The event that the ack (receipt) of a control plane's job was sent but not answered.

    It may have arrived, and is being sent again.
    """


@attrs.frozen
class JobGone(OfJob):
    """The event that the control plane does not know the job (404 on ack)."""


@attrs.frozen
class JobAlreadyClosed(OfJob):
    """The event that the control plane has closed the job (409 on ack)."""


@attrs.frozen
class Inspected(OfJob):
    """The answer to an Inspect effect: the object, its namespace and its tombstones (records of closed jobs)."""

    seen: Inspection = attrs.field(repr=False)


@attrs.frozen
class Applied(OfJob):
    """The event that an apply for a control plane's job succeeded; `live` is the object afterwards."""

    live: Manifest = attrs.field(repr=False)


@attrs.frozen
class DeleteSent(OfJob):
    """The event that a delete for a control plane's job was accepted, or that the object was already absent."""


@attrs.frozen
class Conflicted(OfJob):
    """The event that an apply for a control plane's job failed, because other field managers own fields that it sets.

    Nothing was changed. `conflicts` has these fields and their managers.
    """

    conflicts: tuple[FieldConflict, ...]


@attrs.frozen
class PreconditionFailed(OfJob):
    """The event that a write for a control plane's job was refused, because its object has changed in the meantime.

    The object's uid or resourceVersion differs from that of the inspected object.
    """

    message: str


@attrs.frozen
class EffectRefused(OfJob):
    """The event that a write of a control plane's job was refused for a reason that a retry cannot change."""

    reason: str
    message: str


@attrs.frozen
class StepFailed(OfJob):
    """The event that a call to the API server or the job store got no answer. It may have succeeded nevertheless."""

    message: str


@attrs.frozen
class Rotated(OfJob):
    """The event that a new credential for the control plane is in use: the answer to RotateCredential."""


@attrs.frozen
class ResultAccepted(OfJob):
    """The event that the control plane has accepted the job's result, or no longer needs it: the answer
    to PostResult.
    """


@attrs.frozen
class RecordClosed(OfJob):
    """The event that a control plane's job is closed in the job store: the answer to CloseRecord.

    Its record was removed, and its tombstone (record of what the job has done) stored, if it has one.
    """


@attrs.frozen
class ObjectChanged:
    """The event that an informer received a change of an object; `live` is None when the object is gone."""

    ref: ObjectRef
    live: Manifest | None = attrs.field(repr=False)


OpenJobEvent: TypeAlias = (
    Recorded
    | RecordRefused
    | Acked
    | AckLost
    | JobAlreadyClosed
    | JobGone
    | Inspected
    | Applied
    | DeleteSent
    | Conflicted
    | PreconditionFailed
    | EffectRefused
    | StepFailed
    | Rotated
    | ResultAccepted
    | RecordClosed
    | ObjectChanged
    | Tick
)
"""The events to which an open job reacts."""

JobEvent: TypeAlias = Offered | Resumed | ServerTime | SecurityChanged | OpenJobEvent


@attrs.frozen
class PutRecord(OfJob):
    """The effect that writes the record of a control plane's job to a Secret of the job store.

    From the record, the job can be resumed after a restart. The answer is Recorded, RecordRefused or StepFailed.
    """

    record: JobRecord = attrs.field(repr=False)


@attrs.frozen
class SendAck(OfJob):
    """The effect that confirms the receipt of a job to the control plane (an ack), repeated until there is an answer.

    The answer is Acked, JobGone or JobAlreadyClosed. Each unanswered try gives an AckLost.
    """


@attrs.frozen
class Inspect(OfJob):
    """The effect that reads the live object of a control plane's job, its namespace and its tombstones.

    Tombstones are records of closed jobs. The answer is Inspected or StepFailed. `ref` is None for a job that concerns
    no object. `object_key` (`<kind>/<namespace>/<name>`) finds the newest tombstone of the object.
    """

    ref: ObjectRef | None
    key: str
    object_key: str


@attrs.frozen
class ApplyForJob(OfJob):
    """The effect that sends a server-side apply for a control plane's job.

    The answer is Applied, Conflicted, PreconditionFailed, EffectRefused or StepFailed.
    """

    ref: ObjectRef
    manifest: Manifest = attrs.field(repr=False)
    force: bool = False


@attrs.frozen
class CancelOperation(OfJob):
    """The effect that requests the cancellation of exactly this resourceVersion of an Operation.

    An Operation that has started in the meantime has another version and is not cancelled. The answer is Applied,
    PreconditionFailed, EffectRefused or StepFailed.
    """

    ref: ObjectRef
    uid: str
    version: str


@attrs.frozen
class DeleteForJob(OfJob):
    """The effect that deletes the object with this uid for a control plane's job.

    The answer is DeleteSent (even if the object is absent), PreconditionFailed, EffectRefused or StepFailed.
    """

    ref: ObjectRef
    uid: str


@attrs.frozen
class RotateCredential(OfJob):
    """The effect that rotates the operator's credential for the control plane, once for each `key`.

    `key` is the idempotency key of the job that requests it. The answer is Rotated, EffectRefused or StepFailed.
    """

    key: str = ""


@attrs.frozen
class PostStatus(OfJob):
    """The effect that sends a status report of a job to the control plane, with best effort.

    A newer report of the same job replaces it.
    """

    body: Mapping[str, Any] = attrs.field(repr=False)


@attrs.frozen
class PostResult(OfJob):
    """The effect that posts a job's result to the control plane until the answer is ResultAccepted."""

    body: Mapping[str, Any] = attrs.field(repr=False)


@attrs.frozen
class CloseRecord(OfJob):
    """The effect that removes the record of a control plane's job from the job store.

    The tombstone (record of what the job has done), if any, is stored. The answer is RecordClosed or StepFailed.
    """

    tombstone: Tombstone | None


JobEffect: TypeAlias = (
    PutRecord
    | SendAck
    | Inspect
    | ApplyForJob
    | CancelOperation
    | DeleteForJob
    | RotateCredential
    | PostStatus
    | PostResult
    | CloseRecord
    | LogNote
)
