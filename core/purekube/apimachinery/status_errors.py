"""The translation of a refusal of the API server, as its `Status` describes it, into an `OperatorError`.

The rules are those that were observed of a real API server: S-15 to S-19, S-77 to S-81 and W-30 to W-38 of the
specification.
"""

import re
from typing import Final

import msgspec

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
    invalid_secret,
)
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import SECRET

# Server errors that no retry cures, only another content (S-15 to S-17, W-37).
_INVALID_500: Final = ("failed to create typed patch object", "etcdserver: request is too large")

# conflict with "M"[ with subresource "S"][ using V][ at T]: only the manager is parsed, which is quoted as Go's %q
# does. The time is in kube-apiserver's code but never appeared in measured answers (S-79); both forms are accepted.
_CAUSE: Final = re.compile(r'^conflict with ("(?:[^"\\]|\\.)*")')


def error_of_status(
    asked: str,
    kind: Kind,
    code: int,
    message: str,
    *,
    reason: str = "",
    causes: tuple[StatusCause, ...] = (),
    names_object: bool = False,
    retry_after: float | None = None,
) -> OperatorError:
    """Return the OperatorError for a Status with the HTTP status `code`. Never raises.

    `asked` describes the request, which was about an object of `kind`. `names_object` says that the details of the
    Status have a name, and `retry_after` is the delay that the server requested, in seconds.
    """
    said = f"{asked}: {message}"
    match code:
        case 401:
            return Unauthorized(said)
        case 403:
            # The cause is set for a create alone; the message is not parsed, as it is no API (apiserver:
            # admission/plugin/namespace/lifecycle).
            terminating = any(cause.reason == "NamespaceTerminating" for cause in causes)
            return Forbidden(said, namespace_terminating=terminating)
        case 404:
            # The 404 for an unserved resource names no object; that for a missing namespace names the namespace (S-19).
            return NotFound(said) if names_object else KindMissing(said)
        case 409:
            return _conflict(said, reason, causes)
        case 410:
            # etcd has compacted the revision, or a `continue` is too old: only a new list helps, never a retry
            # (apiserver: storage/etcd3/errors.go, interpretListError).
            return Expired(said)
        case 400 | 413 | 422:
            return _invalid(asked, kind, said, causes)
        case 500 if any(text in message for text in _INVALID_500):
            # An apply that does not fit the schema is answered by a 500 without a reason; no retry ever helps. It is a
            # plain error of the typed conversion, no StatusError (apimachinery: util/managedfields/internal/
            # structuredmerge.go, Apply).
            return _invalid(asked, kind, said, ())
        # API Priority and Fairness rejects with 429 before it executes a request, so a retry is safe (apiserver:
        # server/filters/priority-and-fairness.go, tooManyRequests).
        case code if code in (408, 429) or code >= 500:
            return Unavailable(said, retry_after=retry_after, status=code)
        case code:
            return Permanent(said, status=code)


def _conflict(said: str, reason: str, causes: tuple[StatusCause, ...]) -> OperatorError:
    # Three situations share the status 409; only the reason and the causes distinguish them (S-77).
    if reason == "AlreadyExists":
        return AlreadyExists(said)
    held = [cause for cause in causes if cause.reason == "FieldManagerConflict"]
    conflicts = tuple(FieldConflict(_manager(cause.message), cause.field, cause.message) for cause in held)
    return Conflict(said, conflicts) if conflicts else Stale(said)


def _manager(message: str) -> str:
    match = _CAUSE.match(message)
    if match is None:
        return ""
    try:
        return str(msgspec.json.decode(match[1]))
    except msgspec.DecodeError:  # Go escapes (\x00, \a) that are invalid in JSON
        return match[1][1:-1]


def _invalid(asked: str, kind: Kind, said: str, causes: tuple[StatusCause, ...]) -> Invalid:
    """Return the Invalid error of a refused request. For a Secret it has no values, which the server quotes."""
    return invalid_secret(asked, causes) if kind == SECRET else Invalid(said, causes)
