"""What the job machine asks for: a closed set, all data."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs

from vworkspace_core.manifest import Manifest, ObjectRef
from vworkspace_core.ports import JobRecord, Tombstone

__all__ = [
    "Apply",
    "CallOff",
    "CloseRecord",
    "Delete",
    "Effect",
    "Inspect",
    "Note",
    "PostResult",
    "PostStatus",
    "PutRecord",
    "RotateCredential",
    "SendAck",
]


@attrs.frozen
class PutRecord:
    """Write the record; answer Recorded, RecordRefused or StepFailed."""

    job_id: str
    record: JobRecord = attrs.field(repr=False)


@attrs.frozen
class SendAck:
    """Ack, until there is an answer: Acked or JobGone, with AckLost for every try that got none."""

    job_id: str


@attrs.frozen
class Inspect:
    """Read the live object, its namespace and the tombstones; answer Inspected or StepFailed.

    `ref` is None for a job about no object; `object_key` is what `JobStore.newest` takes.
    """

    job_id: str
    ref: ObjectRef | None
    key: str
    object_key: str


@attrs.frozen
class Apply:
    """Server-side apply; answer Applied, Conflicted, LookAgain, Refused or StepFailed."""

    job_id: str
    ref: ObjectRef
    manifest: Manifest = attrs.field(repr=False)
    force: bool = False


@attrs.frozen
class CallOff:
    """Ask for the cancellation of exactly this version of an Operation.

    Answer Applied, LookAgain, Refused or StepFailed. One that has started meanwhile is of another version: it is left
    alone.
    """

    job_id: str
    ref: ObjectRef
    uid: str
    version: str


@attrs.frozen
class Delete:
    """Delete the object with this uid; answer DeleteSent (NotFound is that too), LookAgain, Refused or StepFailed."""

    job_id: str
    ref: ObjectRef
    uid: str


@attrs.frozen
class RotateCredential:
    """Rotate the credential, once for `key`; answer Rotated, Refused or StepFailed."""

    job_id: str
    key: str = ""


@attrs.frozen
class PostStatus:
    """Progress, best effort: a newer one of the same job replaces it."""

    job_id: str
    body: Mapping[str, Any] = attrs.field(repr=False)


@attrs.frozen
class PostResult:
    """The result, until there is an answer: ResultAccepted."""

    job_id: str
    body: Mapping[str, Any] = attrs.field(repr=False)


@attrs.frozen
class CloseRecord:
    """Remove the record and keep the tombstone; answer RecordClosed or StepFailed."""

    job_id: str
    tombstone: Tombstone | None


@attrs.frozen
class Note:
    """Something an operator of the operator should read in the log. `level` is info, warning or error."""

    level: str
    message: str
    job_id: str = ""


Effect: TypeAlias = (
    PutRecord
    | SendAck
    | Inspect
    | Apply
    | CallOff
    | Delete
    | RotateCredential
    | PostStatus
    | PostResult
    | CloseRecord
    | Note
)
