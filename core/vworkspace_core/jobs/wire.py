"""Jobs (requests of the control plane) as they come over the wire, and the problems of malformed ones (PULL-1, PULL-7).

`parse_job` never raises: a job with an id that cannot be read is answered `failed` with every problem and its path; one
without an id is dropped by the caller with a log line. Unknown fields are ignored.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeAlias, TypeVar

import attrs

from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.problems import Problem, join, type_name
from purekube.apimachinery.timestamps import parse_time
from vworkspace_core.control_plane.port import OversizedJob
from vworkspace_core.control_plane.untrusted_json import flaws

E = TypeVar("E", bound=StrEnum)

LONGEST_ID: Final = 512
LONGEST_KEY: Final = 1024


class JobKind(StrEnum):
    """The kinds of request that a job can make: apply a manifest, delete an object, or fulfil a named intent."""

    APPLY = "apply"
    DELETE = "delete"
    INTENT = "intent"


class IntentName(StrEnum):
    """The names of intents, which are requests by name, such as `request-operation`, as defined in PULL-1."""

    ENSURE_APPLICATION_INSTANCE = "ensure-application-instance"
    REQUEST_OPERATION = "request-operation"
    DELETE_APPLICATION_INSTANCE = "delete-application-instance"
    ROTATE_OPERATOR_CREDENTIALS = "rotate-operator-credentials"


@attrs.frozen
class ApplyRequest:
    """A request to apply the full manifest that it contains.

    `path` is the manifest's place in the job. `expected` is the kind of object that the job's intent (its request by
    name, such as `request-operation`) implies, or None if the job has no intent.
    """

    manifest: Manifest = attrs.field(repr=False)
    path: str
    expected: str | None = None


@attrs.frozen
class DeleteRequest:
    """A request to delete the object with this kind, namespace and name."""

    api_version: str
    kind: str
    namespace: str
    name: str


@attrs.frozen
class RotateRequest:
    """A request that the agent replace its control plane credential with a new one (PULL-8)."""


JobRequest: TypeAlias = ApplyRequest | DeleteRequest | RotateRequest


@attrs.frozen
class Job:
    """A job of the control plane that could be parsed. Times are in UTC. It has not been checked against any rule yet
    (see `scope`).
    """

    id: str
    request: JobRequest
    idempotency_key: str
    created_at: datetime
    expires_at: datetime
    traceparent: str = ""
    """The control plane's span, in the form of W3C Trace Context (SEE-7). Any other value is ignored."""


@attrs.frozen
class BadJob:
    """A job of the control plane that could not be parsed, with its problems.

    `id` is empty if the job has none and so cannot be answered.
    """

    id: str
    problems: tuple[Problem, ...]
    idempotency_key: str = ""

    def __str__(self) -> str:
        return "; ".join(map(str, self.problems))


def job_id_of(raw: Any) -> str:
    """Return the id of the job `raw`, by which it can be answered, or an empty string if there is none.

    An integer is accepted, because databases number their rows.
    """
    fields = raw.fields if isinstance(raw, OversizedJob) else raw
    job_id = fields.get("id") if isinstance(fields, Mapping) else None
    if isinstance(job_id, int) and not isinstance(job_id, bool):
        # Digits beyond the interpreter's conversion limit would raise; no row number comes near it.
        return str(job_id) if job_id.bit_length() <= 128 else ""
    if not isinstance(job_id, str) or not 0 < len(job_id) <= LONGEST_ID or not job_id.isprintable():
        return ""
    # A path segment of dots would be normalised away on the way to `jobs/<id>/ack`.
    return "" if set(job_id) == {"."} else job_id


def parse_job(raw: Any) -> Job | BadJob:
    """Return `raw` as a job, or a BadJob with all its problems, sorted by path."""
    if isinstance(raw, OversizedJob):
        return BadJob(job_id_of(raw), (Problem("", raw.reason),))
    if not isinstance(raw, Mapping):
        return BadJob("", (Problem("", f"a job must be an object, not {type_name(raw)}"),))
    if problems := flaws(raw):
        return BadJob(job_id_of(raw), problems)
    return read_job(raw)


def read_job(raw: Mapping[str, Any]) -> Job | BadJob:
    """Return the job `raw`, or a BadJob, as `parse_job` does.

    `raw` must have no `flaws` (values that JSON parsers refuse).
    """
    return _Reader(raw).job()


@attrs.define
class _Reader:
    """A parser of one job that collects the job's problems. Each call of `parse_job` makes a new parser."""

    raw: Mapping[str, Any] = attrs.field(repr=False)
    problems: list[Problem] = attrs.field(factory=list)

    def job(self) -> Job | BadJob:
        job_id = job_id_of(self.raw)
        if not job_id:
            self.blame("id", "must be a non-empty string of at most 512 printable characters, or an integer")
        key = self.text(self.raw, "", "idempotencyKey", longest=LONGEST_KEY)
        created, expires = self.time("createdAt"), self.time("expiresAt")
        request = self.request()
        if self.problems or request is None or created is None or expires is None or key is None:
            return BadJob(job_id, tuple(sorted(set(self.problems))), key or "")
        given = self.raw.get("traceparent")
        return Job(job_id, request, key, created, expires, given if isinstance(given, str) else "")

    def request(self) -> JobRequest | None:
        kind = self.one_of(self.raw, "", "kind", JobKind)
        payload = self.mapping(self.raw, "", "payload")
        if kind is None or payload is None:
            return None
        match kind:
            case JobKind.APPLY:
                return ApplyRequest(payload, "payload")
            case JobKind.DELETE:
                return self.delete(payload)
            case JobKind.INTENT:
                return self.intent(payload)

    def delete(self, payload: Mapping[str, Any]) -> JobRequest | None:
        names = [self.text(payload, "payload", name) for name in ("apiVersion", "kind", "namespace", "name")]
        api_version, kind, namespace, name = names
        if api_version is None or kind is None or namespace is None or name is None:
            return None
        return DeleteRequest(api_version, kind, namespace, name)

    def intent(self, payload: Mapping[str, Any]) -> JobRequest | None:
        match self.one_of(payload, "payload", "intent", IntentName):
            case None:
                return None
            case IntentName.ENSURE_APPLICATION_INSTANCE:
                return self.manifest(payload, "applicationInstance", "ApplicationInstance")
            case IntentName.REQUEST_OPERATION:
                return self.manifest(payload, "operation", "Operation")
            case IntentName.DELETE_APPLICATION_INSTANCE:
                namespace, name = (self.text(payload, "payload", field) for field in ("namespace", "name"))
                if namespace is None or name is None:
                    return None
                return DeleteRequest("apps.vworkspace.io/v1alpha1", "ApplicationInstance", namespace, name)
            case IntentName.ROTATE_OPERATOR_CREDENTIALS:
                return RotateRequest()

    def manifest(self, payload: Mapping[str, Any], field: str, kind: str) -> JobRequest | None:
        manifest = self.mapping(payload, "payload", field)
        return None if manifest is None else ApplyRequest(manifest, f"payload.{field}", kind)

    def mapping(self, value: Mapping[str, Any], path: str, field: str) -> Mapping[str, Any] | None:
        member = value.get(field)
        if isinstance(member, Mapping):
            return member
        self.blame(join(path, field), "is required" if member is None else _must_be("an object", member))
        return None

    def text(self, value: Mapping[str, Any], path: str, field: str, *, longest: int = 253) -> str | None:
        text = value.get(field)
        if not isinstance(text, str) or not text:
            what = "is required" if text is None or text == "" else _must_be("a string", text)
            self.blame(join(path, field), what)
            return None
        if len(text) > longest or not text.isprintable():
            self.blame(join(path, field), f"must be at most {longest} printable characters")
            return None
        return text

    def one_of(self, value: Mapping[str, Any], path: str, field: str, members: type[E]) -> E | None:
        text = self.text(value, path, field)
        if text is not None and text not in set(members):
            self.blame(join(path, field), f"{text!r} is unknown; one of {', '.join(members)}")
            return None
        return None if text is None else members(text)

    def time(self, field: str) -> datetime | None:
        text = self.text(self.raw, "", field)
        if text is None:
            return None
        try:
            return parse_time(text)
        except ValueError as error:
            self.blame(field, str(error))
            return None

    def blame(self, path: str, message: str) -> None:
        self.problems.append(Problem(path, message))


def _must_be(what: str, value: Any) -> str:
    return f"must be {what}, not {type_name(value)}"
