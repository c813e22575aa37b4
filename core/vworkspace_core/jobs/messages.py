"""Events and effects of the job machine: two closed sets of immutable values."""

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
class Offered:
    """The control plane's offer of a job, for the first time or again."""

    raw: Any = attrs.field(repr=False)


@attrs.frozen
class Resumed:
    """The event that the agent continues a job that the previous operator process left unfinished."""

    record: JobRecord = attrs.field(repr=False)


@attrs.frozen
class ServerTime:
    """The control plane's clock as its last answer reported it (PULL-12)."""

    at: datetime


@attrs.frozen
class SecurityChanged:
    """The new rules for payloads of jobs offered from now on. Open jobs keep the result of the old rules (PULL-9)."""

    security: Security


@attrs.frozen
class Recorded:
    """The report that the job's record was written."""

    job_id: str


@attrs.frozen
class RecordRefused:
    """The report that the job's record is too large ever to be written."""

    job_id: str
    message: str


@attrs.frozen
class Acked:
    """The report that the control plane confirmed the ack of the job."""

    job_id: str


@attrs.frozen
class AckLost:
    """The report that an ack was sent but not answered. It may have arrived, and is being sent again."""

    job_id: str


@attrs.frozen
class JobGone:
    """The report that the control plane does not know the job (404 on ack)."""

    job_id: str


@attrs.frozen
class JobAlreadyClosed:
    """The report that the control plane has closed the job (409 on ack)."""

    job_id: str


@attrs.frozen
class Inspected:
    """The answer to an Inspect effect: the object, its namespace and its tombstones (records of closed jobs)."""

    job_id: str
    seen: Inspection = attrs.field(repr=False)


@attrs.frozen
class Applied:
    """The report that the apply succeeded; `live` is the object afterwards."""

    job_id: str
    live: Manifest = attrs.field(repr=False)


@attrs.frozen
class DeleteSent:
    """The report that the delete was accepted, or the object was already absent."""

    job_id: str


@attrs.frozen
class Conflicted:
    """The report that other field managers own fields that the apply sets. Nothing was changed."""

    job_id: str
    conflicts: tuple[FieldConflict, ...]


@attrs.frozen
class PreconditionFailed:
    """The report that the object's uid or resourceVersion differs from that of the inspected object."""

    job_id: str
    message: str


@attrs.frozen
class EffectRefused:
    """The report that the API server refused the job's write, and that a retry cannot help."""

    job_id: str
    reason: str
    message: str


@attrs.frozen
class StepFailed:
    """The report that a call to the API server or the job store got no answer. Its effect may have happened."""

    job_id: str
    message: str


@attrs.frozen
class Rotated:
    """The report that a new credential is in use."""

    job_id: str


@attrs.frozen
class ResultAccepted:
    """The report that the control plane has accepted the result, or no longer needs it."""

    job_id: str


@attrs.frozen
class RecordClosed:
    """The report that the job's record was removed, and its tombstone (record of what the job has done) stored."""

    job_id: str


@attrs.frozen
class ObjectChanged:
    """The change of an object as an informer received it; `live` is None when the object is gone."""

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
"""The events of an open job."""

JobEvent: TypeAlias = Offered | Resumed | ServerTime | SecurityChanged | OpenJobEvent


@attrs.frozen
class PutRecord:
    """A write of a job's record, from which the job can be resumed after a restart.

    The answer is Recorded, RecordRefused or StepFailed.
    """

    job_id: str
    record: JobRecord = attrs.field(repr=False)


@attrs.frozen
class SendAck:
    """An ack to the control plane, repeated until the answer is Acked or JobGone.

    Each unanswered try gives an AckLost.
    """

    job_id: str


@attrs.frozen
class Inspect:
    """A read of the live object, its namespace and its tombstones (records of closed jobs).

    The answer is Inspected or StepFailed. `ref` is None for a job that concerns no object. `object_key` is the argument
    of `JobStore.newest`.
    """

    job_id: str
    ref: ObjectRef | None
    key: str
    object_key: str


@attrs.frozen
class ApplyForJob:
    """A server-side apply. The answer is Applied, Conflicted, PreconditionFailed, EffectRefused or StepFailed."""

    job_id: str
    ref: ObjectRef
    manifest: Manifest = attrs.field(repr=False)
    force: bool = False


@attrs.frozen
class CancelOperation:
    """A request to cancel exactly this resourceVersion of an Operation.

    An Operation that has started in the meantime has another version and is not cancelled. The answer is Applied,
    PreconditionFailed, EffectRefused or StepFailed.
    """

    job_id: str
    ref: ObjectRef
    uid: str
    version: str


@attrs.frozen
class DeleteForJob:
    """A delete of the object with this uid.

    The answer is DeleteSent (also if the object is absent), PreconditionFailed, EffectRefused or StepFailed.
    """

    job_id: str
    ref: ObjectRef
    uid: str


@attrs.frozen
class RotateCredential:
    """A rotation of the credential, performed once for each `key`.

    The answer is Rotated, EffectRefused or StepFailed.
    """

    job_id: str
    key: str = ""


@attrs.frozen
class PostStatus:
    """A status report to the control plane, sent with best effort. A newer report of the same job replaces it."""

    job_id: str
    body: Mapping[str, Any] = attrs.field(repr=False)


@attrs.frozen
class PostResult:
    """A result for the control plane, which is posted until the answer is ResultAccepted."""

    job_id: str
    body: Mapping[str, Any] = attrs.field(repr=False)


@attrs.frozen
class CloseRecord:
    """The removal of a job's record, with the tombstone (record of what the job has done) to store.

    The answer is RecordClosed or StepFailed.
    """

    job_id: str
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
