"""Events and effects of the job machine: closed sets, all data."""

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
    """The control plane offers a job, for the first time or again."""

    raw: Any = attrs.field(repr=False)


@attrs.frozen
class Resumed:
    """A record of a job that was open when the process ended."""

    record: JobRecord = attrs.field(repr=False)


@attrs.frozen
class ServerTime:
    """The control plane's clock, as its last answer gave it (PULL-12)."""

    at: datetime


@attrs.frozen
class SecurityChanged:
    """New rules for jobs offered from now on; open jobs keep the verdict of the old rules (PULL-9)."""

    security: Security


@attrs.frozen
class Recorded:
    """The job's record was written."""

    job_id: str


@attrs.frozen
class RecordRefused:
    """The record can never be written as it is: it is too large."""

    job_id: str
    message: str


@attrs.frozen
class Acked:
    """The control plane recorded that we have the job."""

    job_id: str


@attrs.frozen
class AckLost:
    """An ack was sent and not answered: it may have arrived. It is being sent again."""

    job_id: str


@attrs.frozen
class JobGone:
    """The control plane does not know the job, or no longer knows it (404 on ack)."""

    job_id: str


@attrs.frozen
class JobAlreadyClosed:
    """The control plane has closed the job (409 on ack)."""

    job_id: str


@attrs.frozen
class Inspected:
    """The answer to Inspect."""

    job_id: str
    seen: Inspection = attrs.field(repr=False)


@attrs.frozen
class Applied:
    """The apply succeeded; `live` is the object after it."""

    job_id: str
    live: Manifest = attrs.field(repr=False)


@attrs.frozen
class DeleteSent:
    """The delete was accepted, or the object was gone already."""

    job_id: str


@attrs.frozen
class Conflicted:
    """Other field managers hold fields of the apply; nothing was changed."""

    job_id: str
    conflicts: tuple[FieldConflict, ...]


@attrs.frozen
class PreconditionFailed:
    """The object is not the one that was inspected: a uid or resourceVersion no longer holds."""

    job_id: str
    message: str


@attrs.frozen
class EffectRefused:
    """The effect cannot succeed by a retry."""

    job_id: str
    reason: str
    message: str


@attrs.frozen
class StepFailed:
    """A step on the cluster or the job store went unanswered; it may have happened."""

    job_id: str
    message: str


@attrs.frozen
class Rotated:
    """A new credential is in use."""

    job_id: str


@attrs.frozen
class ResultAccepted:
    """The control plane has the result, or no longer needs it."""

    job_id: str


@attrs.frozen
class RecordClosed:
    """The record is removed and the tombstone kept."""

    job_id: str


@attrs.frozen
class ObjectChanged:
    """An informer saw the object change; `live` is None when it is gone."""

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
    """A write of a job's record, for resuming after a restart; answered by Recorded, RecordRefused or StepFailed."""

    job_id: str
    record: JobRecord = attrs.field(repr=False)


@attrs.frozen
class SendAck:
    """An ack, sent until there is an answer: Acked or JobGone, with AckLost for every try without one."""

    job_id: str


@attrs.frozen
class Inspect:
    """A read of the live object, its namespace and the tombstones; answered by Inspected or StepFailed.

    `ref` is None for a job about no object; `object_key` is the argument of `JobStore.newest`.
    """

    job_id: str
    ref: ObjectRef | None
    key: str
    object_key: str


@attrs.frozen
class ApplyForJob:
    """A server-side apply; answered by Applied, Conflicted, PreconditionFailed, EffectRefused or StepFailed."""

    job_id: str
    ref: ObjectRef
    manifest: Manifest = attrs.field(repr=False)
    force: bool = False


@attrs.frozen
class CancelOperation:
    """A request to cancel exactly this version of an Operation.

    Answered by Applied, PreconditionFailed, EffectRefused or StepFailed. An Operation that has started meanwhile has
    another version and is left alone.
    """

    job_id: str
    ref: ObjectRef
    uid: str
    version: str


@attrs.frozen
class DeleteForJob:
    """A delete of the object with this uid.

    Answered by DeleteSent (for NotFound too), PreconditionFailed, EffectRefused or StepFailed.
    """

    job_id: str
    ref: ObjectRef
    uid: str


@attrs.frozen
class RotateCredential:
    """A rotation of the credential, once for `key`; answered by Rotated, EffectRefused or StepFailed."""

    job_id: str
    key: str = ""


@attrs.frozen
class PostStatus:
    """Progress to post, best effort: a newer status of the same job replaces it."""

    job_id: str
    body: Mapping[str, Any] = attrs.field(repr=False)


@attrs.frozen
class PostResult:
    """The result to post until there is an answer: ResultAccepted."""

    job_id: str
    body: Mapping[str, Any] = attrs.field(repr=False)


@attrs.frozen
class CloseRecord:
    """The removal of the record, with the tombstone to keep; answered by RecordClosed or StepFailed."""

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
