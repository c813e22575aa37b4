"""Conversion of the records of the control plane's open jobs to Secrets and back (PULL-4).

Pure. The format has a version number.

    vworkspace-job-<hash of the job's id>                     the head: the whole record, or the names of its parts
    vworkspace-job-<hash>-<uid>-<digest>-<number>             a part of a payload that does not fit one Secret

A record counts once its head is marked whole. For a payload in parts the head is written first, not marked; then the
parts, which the head owns, so that garbage collection removes them with it; then the head again, marked. A crash at any
point leaves either a whole record or one that was never acked. No function here raises on what it reads: a Secret that
cannot be read is a value too.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs
import msgspec

from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import Manifest, canonical_json, get_path, metadata
from purekube.apimachinery.resources import SECRET
from vworkspace_core.api import labels
from vworkspace_core.jobs.job_store import JobRecord
from vworkspace_core.jobs.result import JobResult, Reason

SECRET_TYPE: Final = "vworkspace.io/job"
FORMAT: Final = 1
"""The version of the format in which Secrets are written. A Secret with a later version is never changed."""


def secret_manifest(namespace: str, name: str, role: str, value: bytes, **metadata: Any) -> dict[str, Any]:
    """Return the Secret `name` of the job store in `namespace`, with the single value `value` under the key `role`.

    The role is `record`, `part` (of a record), or `tombstones`. `metadata` is added to the Secret's.
    """
    meta = {"labels": {labels.JOB_STORE: role}, **metadata}
    data = {role: base64.b64encode(value).decode()}
    return SECRET.manifest(name, namespace, meta, type=SECRET_TYPE, data=data)


def role_of(secret: Manifest) -> str:
    """Return the role of the Secret in the job store: `record`, `part` (of a record), or `tombstones`.

    Return an empty string if the Secret does not belong to the store.
    """
    if secret.get("type") != SECRET_TYPE:
        return ""
    role = get_path(secret, "metadata", "labels", labels.JOB_STORE)
    return role if isinstance(role, str) else ""


def value_of(secret: Manifest, role: str) -> bytes:
    """Return the bytes that a Secret of the job store has under the key `role`.

    Raises ValueError if there are none, or if they are not base64.
    """
    text = get_path(secret, "data", role)
    if not isinstance(text, str):
        raise ValueError(f"it has no data.{role}")
    return base64.b64decode(text, validate=True)


def later_format(value: Any) -> str | None:
    """Return a message if a later version of the operator wrote `value`, the JSON in a Secret of the job store.

    Return None if this version can read it. Raises ValueError if the value names no format, or an unknown format.
    """
    format_number = get_path(value, "v")
    if isinstance(format_number, int) and format_number > FORMAT:
        return f"it has format {format_number}, this version reads {FORMAT}"
    if format_number != FORMAT:
        raise ValueError("it does not say in which format it is")
    return None


def first_line(error: Exception) -> str:
    """Return the first line of an error, for a message about a Secret."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


ONE_SECRET: Final = 1_000_000
"""The most bytes of one value: a Secret can hold 1,048,576 in all."""
LONGEST: Final = 4 * ONE_SECRET
"""The longest record in bytes by default: more than an API server takes as one object, so more than can be applied."""

_RECORD: Final = "record"
_PART: Final = "part"


@attrs.frozen
class Payload:
    """A job's raw JSON as bytes in one or more chunks, with its SHA-256 as `digest`.

    `is_split` says that it is too large for the head (main) Secret, so that each chunk gets a Secret of its own.
    """

    chunks: Sequence[bytes] = attrs.field(repr=False)
    digest: str
    is_split: bool


@attrs.frozen
class Head:
    """The decoded head (main) Secret of a job's record.

    `version` is its resourceVersion, `order` the job's number in order of arrival. `raw` is None if the payload is
    split over the Secrets named by `parts`. `is_whole` is False as long as the record is incomplete.
    """

    job_id: str
    name: str
    uid: str
    version: str
    order: int
    state: Mapping[str, Any] = attrs.field(repr=False)
    raw: Mapping[str, Any] | None = attrs.field(default=None, repr=False)
    parts: tuple[str, ...] = ()
    digest: str = ""
    is_whole: bool = True


@attrs.frozen
class PayloadChunk:
    """One part of a job's payload that is split over several Secrets, because it is too large for one."""

    name: str
    content: bytes = attrs.field(repr=False)


@attrs.frozen
class CorruptSecret:
    """A Secret of the job store that cannot be read. `job_id` is empty if even the id is unreadable."""

    name: str
    why: str
    job_id: str = ""
    uid: str = ""
    version: str = ""


@attrs.frozen
class ForeignSecret:
    """A Secret with a name or label of the job store that another program or a later version wrote.

    It is never changed.
    """

    name: str
    why: str


RecordSecret: TypeAlias = Head | PayloadChunk | CorruptSecret | ForeignSecret


def head_name(job_id: str) -> str:
    """Return the name of the main Secret (head) of a job's record. It is a valid name for any job id."""
    return f"vworkspace-job-{hashlib.sha256(job_id.encode()).hexdigest()[:40]}"


def payload_of(record: JobRecord, longest: int = LONGEST, room: int = ONE_SECRET) -> Payload:
    """Return the record's raw job, cut into chunks of at most `room` bytes if it does not fit into the head (main)
    Secret.

    Raises Invalid for a record of more than `longest` bytes.
    """
    content = canonical_json(record.raw)
    state = len(canonical_json(record.state))
    size = len(content) + state
    if size > longest:
        raise Invalid(f"the record of job {record.job_id} has {size} bytes, at most {longest} can be kept")
    digest = hashlib.sha256(content).hexdigest()
    if len(content) + state <= room:
        return Payload([content], digest, False)
    return Payload([content[at : at + room] for at in range(0, len(content), room)], digest, True)


def head_manifest(
    namespace: str, record: JobRecord, payload: Payload, order: int, *, parts: Sequence[str] = (), whole: bool = True
) -> dict[str, Any]:
    """Return the head (main) Secret of a job's record, in `namespace`. It contains the payload unless that is split.

    `order` is the job's number in order of arrival. For a split payload, `parts` are the names of the Secrets with its
    chunks, and `whole` says that the record is complete.
    """
    value: dict[str, Any] = {"v": FORMAT, "order": order, "state": record.state, "digest": payload.digest}
    if payload.is_split:
        value |= {"parts": list(parts), "whole": whole}
    else:
        value |= {"raw": record.raw}
    named = {labels.JOB_ID: record.job_id}
    return secret_manifest(namespace, head_name(record.job_id), _RECORD, canonical_json(value), annotations=named)


def part_manifests(namespace: str, head: Head, payload: Payload) -> list[dict[str, Any]]:
    """Return the Secrets in `namespace` with the chunks of a split payload, one for each chunk.

    The head (main) Secret `head` owns them, so that they are deleted with it.
    """
    owner = {"apiVersion": SECRET.api_version, "kind": SECRET.kind, "name": head.name, "uid": head.uid}
    made = []
    for at, chunk in enumerate(payload.chunks):
        name = f"{head.name}-{head.uid[:8]}-{payload.digest[:8]}-{at}"
        made.append(secret_manifest(namespace, name, _PART, chunk, ownerReferences=[owner]))
    return made


def read_record(secret: Manifest) -> RecordSecret:
    """Return the decoded content of a Secret of a job's record: the head (main) Secret, or one chunk of the payload.

    A Secret that is damaged, or of another format, gives a CorruptSecret or a ForeignSecret.
    """
    name = str(metadata(secret).get("name", ""))
    match role_of(secret):
        case "record":
            return _read_head(secret, name)
        case "part":
            try:
                return PayloadChunk(name, value_of(secret, _PART))
            except ValueError as error:
                return CorruptSecret(name, str(error))
        case _:
            return ForeignSecret(name, f"it is no job record: its type is {str(secret.get('type'))[:64]}")


def _read_head(secret: Manifest, name: str) -> RecordSecret:
    meta = metadata(secret)
    job_id = get_path(meta, "annotations", labels.JOB_ID)
    where = (str(meta.get("uid", "")), str(meta.get("resourceVersion", "")))
    known_id = job_id if isinstance(job_id, str) and head_name(job_id) == name else ""
    try:
        value = msgspec.json.decode(value_of(secret, _RECORD))
        if (later := later_format(value)) is not None:
            return ForeignSecret(name, later)
        if not known_id:
            raise ValueError(f"its annotation {labels.JOB_ID} does not fit its name")
        return _head(value, name, known_id, *where)
    except (ValueError, TypeError) as error:
        return CorruptSecret(name, first_line(error), known_id, *where)


def _head(value: Any, name: str, job_id: str, uid: str, version: str) -> Head:
    order, state, raw = get_path(value, "order"), get_path(value, "state"), get_path(value, "raw")
    parts, digest = get_path(value, "parts"), get_path(value, "digest")
    if not isinstance(order, int) or not isinstance(state, dict) or not isinstance(digest, str):
        raise TypeError("order, state or digest is missing")
    if isinstance(raw, dict):
        return Head(job_id, name, uid, version, order, state, raw, digest=digest)
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise TypeError("it has neither a job nor parts of one")
    whole = get_path(value, "whole") is True
    return Head(job_id, name, uid, version, order, state, None, tuple(parts), digest, whole)


def record_of(head: Head, parts: Mapping[str, bytes]) -> JobRecord | CorruptSecret:
    """Return the record of a head Secret (the main Secret of a job).

    Return a CorruptSecret if parts are missing or do not match the head's digest. `parts` maps the names of part
    Secrets to their contents.
    """
    if head.raw is not None:
        return JobRecord(head.job_id, head.raw, head.state)

    def damaged(why: str) -> CorruptSecret:
        return CorruptSecret(head.name, why, head.job_id, head.uid, head.version)

    if missing := [name for name in head.parts if name not in parts]:
        return damaged(f"Secret {missing[0]} is missing")
    content = b"".join(parts[name] for name in head.parts)
    if hashlib.sha256(content).hexdigest() != head.digest:
        return damaged("its parts do not fit together")
    return JobRecord(head.job_id, msgspec.json.decode(content), head.state)


def corrupt_record(secret: CorruptSecret) -> JobRecord:
    """Return a record with a failed result in place of the damaged record in `secret`.

    The job was acked, so the control plane must get a result.
    """
    why = f"Secret {secret.name} cannot be read ({secret.why}): whether the job had its effect is not known; ask again"
    result = JobResult.failed(Reason.RECORD_DAMAGED, why)
    state = {"verdict": {"outcome": result.outcome.value, "error": result.error}}
    return JobRecord(secret.job_id, {"id": secret.job_id}, state)
