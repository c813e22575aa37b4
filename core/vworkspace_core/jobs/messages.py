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
    """The control plane offers a job, for the first time or again."""

    raw: Any = attrs.field(repr=False)


@attrs.frozen
class Resumed:
    """A record was found of a job that was open when the last process ended."""

    record: JobRecord = attrs.field(repr=False)


@attrs.frozen
class ServerTime:
    """The control plane's clock as its last answer reported it (PULL-12)."""

    at: datetime


@attrs.frozen
class SecurityChanged:
    """New rules apply to jobs offered from now on. Open jobs keep the result of the old rules (PULL-9)."""

    security: Security


@attrs.frozen
class Recorded:
    """The job's record was written."""

    job_id: str


@attrs.frozen
class RecordRefused:
    """The job's record can never be written, because it is too large."""

    job_id: str
    message: str


@attrs.frozen
class Acked:
    """The control plane confirmed our ack of the job."""

    job_id: str


@attrs.frozen
class AckLost:
    """An ack was sent but not answered, so it may have arrived. It is being sent again."""

    job_id: str


@attrs.frozen
class JobGone:
    """The control plane does not know the job, or no longer does (404 on ack)."""

    job_id: str


@attrs.frozen
class JobAlreadyClosed:
    """The control plane has closed the job (409 on ack)."""

    job_id: str


@attrs.frozen
class Inspected:
    """The result of an Inspect effect."""

    job_id: str
    seen: Inspection = attrs.field(repr=False)


@attrs.frozen
class Applied:
    """The apply succeeded; `live` is the object after it."""

    job_id: str
    live: Manifest = attrs.field(repr=False)


@attrs.frozen
class DeleteSent:
    """The delete was accepted, or the object was already absent."""

    job_id: str


@attrs.frozen
class Conflicted:
    """Other field managers hold fields that the apply sets. Nothing was changed."""

    job_id: str
    conflicts: tuple[FieldConflict, ...]


@attrs.frozen
class PreconditionFailed:
    """The object differs from the one that was inspected: its uid or resourceVersion has changed."""

    job_id: str
    message: str


@attrs.frozen
class EffectRefused:
    """The API server refused the write that the job asks for, and a retry cannot help."""

    job_id: str
    reason: str
    message: str


@attrs.frozen
class StepFailed:
    """A step on the cluster or the job store was not answered. It may have happened."""

    job_id: str
    message: str


@attrs.frozen
class Rotated:
    """A new credential is in use."""

    job_id: str


@attrs.frozen
class ResultAccepted:
    """The control plane has accepted the result, or no longer needs it."""

    job_id: str


@attrs.frozen
class RecordClosed:
    """The job's record was removed, and its tombstone stored."""

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
    """A write of a job's record, from which it can be resumed after a restart.

    Answered by Recorded, RecordRefused or StepFailed.
    """

    job_id: str
    record: JobRecord = attrs.field(repr=False)


@attrs.frozen
class SendAck:
    """An ack, which is sent until it is answered by Acked or JobGone. Each try without an answer gives an AckLost."""

    job_id: str


@attrs.frozen
class Inspect:
    """A read of the live object, its namespace and the tombstones. Answered by Inspected or StepFailed.

    `ref` is None for a job that concerns no object. `object_key` is the argument of `JobStore.newest`.
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

    Answered by Applied, PreconditionFailed, EffectRefused or StepFailed. An Operation that has started in the meantime
    has another version and is not cancelled.
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
    """A rotation of the credential, done once for each `key`. Answered by Rotated, EffectRefused or StepFailed."""

    job_id: str
    key: str = ""


@attrs.frozen
class PostStatus:
    """Progress to post, with best effort. A newer status of the same job replaces it."""

    job_id: str
    body: Mapping[str, Any] = attrs.field(repr=False)


@attrs.frozen
class PostResult:
    """A result, which is posted until it is answered by ResultAccepted."""

    job_id: str
    body: Mapping[str, Any] = attrs.field(repr=False)


@attrs.frozen
class CloseRecord:
    """The removal of a job's record, with the tombstone to store. Answered by RecordClosed or StepFailed."""

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
