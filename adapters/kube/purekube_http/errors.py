"""The translation of an API server's answers, and of failures to get one, into an `OperatorError`.

`error_of` translates an HTTP answer, `transport_error` a failure below HTTP. Both are pure. They rest on how a real API
server was observed to answer: the rules S-15 to S-19, S-77 to S-81, W-05, W-11 and W-30 to W-38 of the specification.
lightkube's own errors (raw `HTTPStatusError`, `KeyError` without a content type) cannot occur, as its requests are not
used.
"""

import re
import ssl
from collections.abc import Iterable, Mapping
from typing import Any

import aiohttp
import attrs
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
from purekube.apimachinery.manifest import Json, get_path
from purekube.apimachinery.resources import SECRET
from purekube.apimachinery.secret_material import redact
from purekube.ports import KubeRequest

_MESSAGE_LIMIT = 1024
_BODY_EXCERPT = 200

# Server errors that no retry cures, only another content (S-15 to S-17, W-37).
_INVALID_500 = ("failed to create typed patch object", "etcdserver: request is too large")

# The text of a 404 for a group or resource that is not served (W-38). Every server that is written in Go answers so.
_UNSERVED = "404 page not found"

# The header that an API server sends with every answer of its own (apiserver: endpoints/filters/audit_init.go).
_OF_THE_API_SERVER = "audit-id"

# conflict with "M"[ with subresource "S"][ using V][ at T]: only the manager is parsed, which is quoted as Go's %q
# does. The time is in kube-apiserver's code but never appeared in measured answers (S-79); both forms are accepted.
_CAUSE = re.compile(r'^conflict with ("(?:[^"\\]|\\.)*")')


@attrs.frozen
class ServerResponse:
    """The parts of an HTTP response that determine into which OperatorError it is translated.

    `code` is the HTTP status. `status` is the Kubernetes Status in the body, decoded from JSON, or None. If the body is
    not a Kubernetes Status, `text` is a short excerpt of it. `audited` says that the response has the header by which
    an API server names its audit event.
    """

    code: int
    content_type: str
    retry_after: float | None
    status: Mapping[str, Any] | None
    text: str
    audited: bool = False

    @classmethod
    def read(cls, code: int, headers: Mapping[str, str], body: bytes) -> "ServerResponse":
        """Return the parts of a response with the HTTP status `code`. The names of `headers` must be in lower case.

        If `body` is not a Kubernetes Status, `text` is a short excerpt of it.
        """
        status = _status(body)
        return cls(
            code=code,
            content_type=headers.get("content-type", "").partition(";")[0].strip().lower(),
            retry_after=_retry_after(headers.get("retry-after", ""), status),
            status=status,
            text="" if status is not None else _excerpt(body),
            audited=_OF_THE_API_SERVER in headers,
        )

    @property
    def reason(self) -> str:
        """The field `reason` of the Status; empty if there is none."""
        return str(get_path(self.status, "reason") or "")

    @property
    def message(self) -> str:
        """The server's message, cut to 1 KiB."""
        if self.status is None:
            return (
                f"HTTP {self.code} without a Kubernetes Status ({self.content_type or 'no content type'}) {self.text}"
            )
        return str(get_path(self.status, "message") or self.reason or f"HTTP {self.code}")[:_MESSAGE_LIMIT]

    @property
    def causes(self) -> tuple[Mapping[str, Any], ...]:
        """The field `details.causes` of the Status."""
        causes = get_path(self.status, "details", "causes")
        return tuple(cause for cause in causes if isinstance(cause, Mapping)) if isinstance(causes, list) else ()


def error_of(request: KubeRequest, response: ServerResponse) -> OperatorError:
    """Return the OperatorError for an answer that is not a success. Never raises."""
    said = f"{request}: {response.message}".rstrip()
    match response.code:
        case 401:
            return Unauthorized(said)
        case 403 | 409 | 410 | 422 if response.status is None:
            # The API server sends these with a Status only; without one they come from a proxy or mesh, and are
            # retried.
            return Unavailable(f"{said}; is a proxy or a login page in between?", status=response.code)
        case 403:
            # The cause is set for a create alone; the message is not parsed, as it is no API (apiserver:
            # admission/plugin/namespace/lifecycle).
            terminating = any(cause.get("reason") == "NamespaceTerminating" for cause in response.causes)
            return Forbidden(said, namespace_terminating=terminating)
        case 404:
            return _not_found(request, response, said)
        case 409:
            return _conflict(response, said)
        case 410:
            # etcd has compacted the revision, or a `continue` is too old: only a new list helps, never a retry
            # (apiserver: storage/etcd3/errors.go, interpretListError).
            return Expired(said)
        case 400 | 413 | 422:
            return _invalid(request, response, said)
        # API Priority and Fairness rejects with 429 before it executes a request, so a retry is safe (apiserver:
        # server/filters/priority-and-fairness.go, tooManyRequests).
        case 408 | 429:
            return Unavailable(said, retry_after=response.retry_after, status=response.code)
        case code if code >= 500:
            return _server_error(request, response, said)
        case code:
            return Permanent(said, status=code)


def in_stream_error(request: KubeRequest, status: Json) -> OperatorError:
    """Return the error for an ERROR line of a watch, whose HTTP status was 200 (W-11, W-14).

    `status` is the Kubernetes Status object in the line.
    """
    message = f"{request}: {str(get_path(status, 'message') or 'an ERROR event without a message')[:_MESSAGE_LIMIT]}"
    code = get_path(status, "code")
    if code == 410 or get_path(status, "reason") in ("Expired", "Gone"):
        return Expired(message)
    return Unavailable(message, status=code if isinstance(code, int) else None)


def transport_error(request: KubeRequest, error: Exception) -> OperatorError:
    """Return the error for a request that was not answered completely.

    The text of an HTTP protocol error may quote headers, and so tokens; the returned message does not contain it.
    """
    match error:
        case aiohttp.ConnectionTimeoutError():
            return _no_answer(request, "connect timeout", may_have_happened=False)
        case TimeoutError():
            return _no_answer(request, "read timeout")
        case aiohttp.ClientConnectorCertificateError():
            return _no_answer(
                request, "the server's certificate is not trusted", _failure_reason(error), may_have_happened=False
            )
        case aiohttp.ClientConnectorError() | aiohttp.ClientSSLError():
            return _no_answer(request, "connect error", _failure_reason(error), may_have_happened=False)
        case aiohttp.ServerDisconnectedError():
            return _no_answer(request, "the server closed the connection without an answer")
        case aiohttp.ClientResponseError():
            return _no_answer(request, "the answer is not HTTP")
        case _:
            return _no_answer(request, "the connection broke", _failure_reason(error))


def _no_answer(request: KubeRequest, what: str, why: str = "", *, may_have_happened: bool = True) -> Unavailable:
    return Unavailable(f"{request}: {what}: {why}".removesuffix(": "), may_have_happened=may_have_happened)


def _not_found(request: KubeRequest, response: ServerResponse, said: str) -> OperatorError:
    if response.status is None:
        # The API server's own router answers an unserved group or resource in plain text (W-38; apiserver:
        # server/mux/pathrecorder.go, http.NotFoundHandler); any other page, say a proxy's HTML, the text of an
        # ingress's default backend or the empty answer of a mesh, reveals nothing about what the cluster serves. Nor
        # does the same text of a router in front, such as Traefik, that has no route for a moment.
        if response.audited and response.content_type == "text/plain" and response.text == _UNSERVED:
            return KindMissing(f"{request}: the API server does not serve {request.kind.crd_name}")
        return Unavailable(said, status=404)
    # The 404 for an unserved resource names no object; the one for a missing namespace names the namespace (S-19).
    if not get_path(response.status, "details", "name"):
        return KindMissing(said)
    return NotFound(said)


def _conflict(response: ServerResponse, said: str) -> OperatorError:
    # Three situations share the status 409; only the reason and the causes distinguish them (S-77).
    if response.reason == "AlreadyExists":
        return AlreadyExists(said)
    conflicts = _field_conflicts(response.causes)
    return Conflict(said, conflicts) if conflicts else Stale(said)


def _invalid(request: KubeRequest, response: ServerResponse, said: str) -> OperatorError:
    if response.status is None and response.code == 400:
        return Permanent(said, status=400)
    causes = tuple(
        StatusCause(str(cause.get("field", "")), str(cause.get("message", "")), str(cause.get("reason", "")))
        for cause in response.causes
    )
    return _without_values(request, said, causes)


def _without_values(request: KubeRequest, said: str, causes: tuple[StatusCause, ...]) -> Invalid:
    """Return the Invalid error of a refused request. For a Secret it has no values, which the server quotes."""
    return invalid_secret(str(request), causes) if request.kind == SECRET else Invalid(said, causes)


def _server_error(request: KubeRequest, response: ServerResponse, said: str) -> OperatorError:
    # An apply that does not fit the schema is answered by a 500 without a reason; no retry ever helps (S-15, W-37). It
    # is a plain error of the typed conversion, no StatusError (apimachinery: util/managedfields/internal/
    # structuredmerge.go, Apply).
    if response.code == 500 and any(text in response.message for text in _INVALID_500):
        return _without_values(request, said, ())
    return Unavailable(said, retry_after=response.retry_after, status=response.code)


def _status(body: bytes) -> Mapping[str, Any] | None:
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return decoded if isinstance(decoded, dict) and decoded.get("kind") == "Status" else None


def _retry_after(header: str, status: Mapping[str, Any] | None) -> float | None:
    """Return the seconds to wait before a retry, or None if neither the header nor the Status has them.

    The header is preferred. Its HTTP-date form is ignored, because API servers do not use it.
    """
    # The API server writes both from one number (apiserver: endpoints/handlers/responsewriters/writers.go,
    # ErrorNegotiated); a gateway before it writes the header only.
    if header.isascii() and header.isdigit():
        return float(header)
    seconds = get_path(status, "details", "retryAfterSeconds")
    return float(seconds) if isinstance(seconds, int | float) and seconds > 0 else None


def _excerpt(body: bytes) -> str:
    text = body[:_BODY_EXCERPT].decode("utf-8", "replace")
    return str(redact(" ".join("".join(char if char.isprintable() else " " for char in text).split())))


def _failure_reason(error: BaseException | None) -> str:
    """Return the reason of a TLS or socket failure. The reason never contains text of headers or bodies."""
    while error is not None:
        match error:
            case aiohttp.ClientConnectorCertificateError():
                error = error.certificate_error
            case aiohttp.ClientConnectorError():
                error = error.os_error
            case ssl.SSLCertVerificationError():
                return error.verify_message
            case OSError() if error.strerror:
                return error.strerror
            case _:
                error = error.__cause__ or error.__context__
    return ""


def _field_conflicts(causes: Iterable[Mapping[str, Any]]) -> tuple[FieldConflict, ...]:
    """Return the field conflicts among the causes of a 409. A 409 about a stale resourceVersion has none (S-77)."""
    return tuple(
        FieldConflict(
            _manager(str(cause.get("message", ""))), str(cause.get("field", "")), str(cause.get("message", ""))
        )
        for cause in causes
        if cause.get("reason") == "FieldManagerConflict"
    )


def _manager(message: str) -> str:
    match = _CAUSE.match(message)
    if match is None:
        return ""
    try:
        return str(msgspec.json.decode(match[1]))
    except msgspec.DecodeError:  # Go escapes (\x00, \a) that are invalid in JSON
        return match[1][1:-1]
