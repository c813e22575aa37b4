"""The translation of the server's refusals into the core's errors, for the in-process `KubeApi`.

It depends only on what HTTP would carry (status, reason, causes), so that a caller sees the same error through HTTP and
in process.
"""

from typing import Final

from kubelab.model.failure import ApiFailure, FailureCause
from purekube.apimachinery.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    FieldConflict,
    Forbidden,
    Invalid,
    KindMissing,
    NotFound,
    OperatorError,
    Permanent,
    Stale,
    StatusCause,
    Unauthorized,
    Unavailable,
)
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import SECRET

_CONTENT_ERRORS: Final = ("failed to create typed patch object", "etcdserver: request is too large")
"""The beginnings of messages of 500s that a retry cannot cure, only another content (S-15, W-37)."""


def core_error(failure: ApiFailure, asked: str, kind: Kind) -> OperatorError:
    """Translate `failure` into the core's error. `asked` describes the request, `kind` its object."""
    said = f"{asked}: {failure.message}"
    match failure.status:
        case 401:
            return Unauthorized(said)
        case 403:
            terminating = any(cause.reason == "NamespaceTerminating" for cause in failure.causes)
            return Forbidden(said, namespace_terminating=terminating)
        case 404:
            return KindMissing(said) if failure.plain or not (failure.details or {}).get("name") else NotFound(said)
        case 409:
            return _conflict(failure, said)
        case 410:
            return Expired(said)
        case 400 | 413 | 422:
            return _invalid(failure, said, asked, kind)
        case 500 if failure.message.startswith(_CONTENT_ERRORS):
            return _invalid(failure, said, asked, kind)
        case 408 | 429 | 500 | 502 | 503 | 504:
            return Unavailable(said, retry_after=failure.retry_after, status=failure.status)
        case _:
            return Permanent(said, status=failure.status)


def _conflict(failure: ApiFailure, said: str) -> OperatorError:
    if failure.reason == "AlreadyExists":
        return AlreadyExists(said)
    owned = tuple(_field_conflict(cause) for cause in failure.causes if cause.reason == "FieldManagerConflict")
    return Conflict(said, owned) if owned else Stale(said)


def _field_conflict(cause: FailureCause) -> FieldConflict:
    """Parse the manager out of the message: `conflict with "helm" with subresource "status" using v1` (S-79)."""
    quoted = cause.message.removeprefix('conflict with "')
    return FieldConflict(quoted.partition('"')[0], cause.field, cause.message)


def _invalid(failure: ApiFailure, said: str, asked: str, kind: Kind) -> Invalid:
    """Build the error of a refusal. The server quotes refused values; for a Secret only the fields are kept."""
    if kind != SECRET:
        return Invalid(said, tuple(StatusCause(cause.field, cause.message, cause.reason) for cause in failure.causes))
    fields = ", ".join(cause.field for cause in failure.causes) or "not said which field"
    hidden = tuple(StatusCause(cause.field, "refused (value withheld)", cause.reason) for cause in failure.causes)
    return Invalid(f"{asked}: refused: {fields} (values withheld)", hidden)
