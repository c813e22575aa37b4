"""What the job machine is told: a closed set, all data."""

from datetime import datetime
from typing import Any, TypeAlias

import attrs

from vworkspace_core.agent.applier import Seen
from vworkspace_core.agent.security import Security
from vworkspace_core.errors import FieldConflict
from vworkspace_core.manifest import Manifest, ObjectRef
from vworkspace_core.ports import JobRecord

__all__ = [
    "AckLost",
    "Acked",
    "Applied",
    "Conflicted",
    "DeleteSent",
    "Event",
    "Inspected",
    "JobClosed",
    "JobGone",
    "LookAgain",
    "ObjectChanged",
    "Offered",
    "RecordClosed",
    "RecordRefused",
    "Recorded",
    "Refused",
    "ResultAccepted",
    "Resumed",
    "Rotated",
    "SecurityChanged",
    "ServerTime",
    "StepFailed",
    "Tick",
]


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
    """Jobs are judged by this from now on; those that are open have been judged (PULL-9)."""

    security: Security


@attrs.frozen
class Recorded:
    """The job's record is written."""

    job_id: str


@attrs.frozen
class RecordRefused:
    """The record can never be written as it is: too large."""

    job_id: str
    message: str


@attrs.frozen
class Acked:
    """The control plane knows that we have the job."""

    job_id: str


@attrs.frozen
class AckLost:
    """An ack was sent and not answered: it may have arrived. It is being sent again."""

    job_id: str


@attrs.frozen
class JobGone:
    """The control plane does not know the job, or does not tell that it knew it (404 on ack)."""

    job_id: str


@attrs.frozen
class JobClosed:
    """The control plane has closed the job (409 on ack)."""

    job_id: str


@attrs.frozen
class Inspected:
    """Answer to Inspect."""

    job_id: str
    seen: Seen = attrs.field(repr=False)


@attrs.frozen
class Applied:
    """The apply went through; `live` is the object after it."""

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
class LookAgain:
    """The object is not the one that was inspected: a uid or resourceVersion no longer holds."""

    job_id: str
    message: str


@attrs.frozen
class Refused:
    """The effect can not succeed by itself."""

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
    """The result is with the control plane, or it has no use for it any more."""

    job_id: str


@attrs.frozen
class RecordClosed:
    """The record is gone and the tombstone is kept."""

    job_id: str


@attrs.frozen
class ObjectChanged:
    """An informer saw the object change; `live` is None when it is gone."""

    ref: ObjectRef
    live: Manifest | None = attrs.field(repr=False)


@attrs.frozen
class Tick:
    """Time passed."""


Event: TypeAlias = (
    Offered
    | Resumed
    | ServerTime
    | SecurityChanged
    | Recorded
    | RecordRefused
    | Acked
    | AckLost
    | JobClosed
    | JobGone
    | Inspected
    | Applied
    | DeleteSent
    | Conflicted
    | LookAgain
    | Refused
    | StepFailed
    | Rotated
    | ResultAccepted
    | RecordClosed
    | ObjectChanged
    | Tick
)
