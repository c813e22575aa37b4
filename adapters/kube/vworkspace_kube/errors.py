"""The one place where answers of an API server, and failures to get one, become the core's errors.

`error_of` judges an HTTP answer, `transport_error` a failure below HTTP. Both are pure. Facts: S-15 to
S-19, S-77 to S-81, W-05, W-11, W-30 to W-38 of the measured rules; what lightkube does with errors
itself (raw `HTTPStatusError`, `KeyError` without a content type) never gets as far as here.
"""

import ssl
from collections.abc import Mapping
from typing import Any

import aiohttp
import attrs
import msgspec

from vworkspace_core.apimachinery.errors import (
    AlreadyExists,
    Conflict,
    Expired,
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
from vworkspace_core.apimachinery.manifest import Json, Kind, get_path
from vworkspace_core.apimachinery.resources import SECRET
from vworkspace_core.apimachinery.secret_material import redact
from vworkspace_kube.conflicts import field_conflicts

_MESSAGE_LIMIT = 1024
_BODY_EXCERPT = 200

# A server error that only another content can cure (S-15 to S-17, W-37): retrying these never ends.
_INVALID_500 = ("failed to create typed patch object", "etcdserver: request is too large")


@attrs.frozen
class RequestInfo:
    """What a request is about: enough to say it in a message and to tell one 404 from another."""

    verb: str
    kind: Kind
    namespace: str | None = None
    name: str = ""

    def __str__(self) -> str:
        where = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.verb} {self.kind.kind} {where}".rstrip()


@attrs.frozen
class ServerResponse:
    """A response, reduced to what its error is made of. Header names are lower case."""

    code: int
    content_type: str
    retry_after: float | None
    status: Mapping[str, Any] | None
    text: str

    @classmethod
    def read(cls, code: int, headers: Mapping[str, str], body: bytes) -> "ServerResponse":
        """Read a response; a body that is not a Kubernetes Status becomes a short excerpt of text."""
        status = _status(body)
        return cls(
            code=code,
            content_type=headers.get("content-type", "").partition(";")[0].strip().lower(),
            retry_after=_retry_after(headers.get("retry-after", ""), status),
            status=status,
            text="" if status is not None else _excerpt(body),
        )

    @property
    def reason(self) -> str:
        """`reason` of the Status, empty without one."""
        return str(get_path(self.status, "reason") or "")

    @property
    def message(self) -> str:
        """What the server says, at most 1 KiB of it."""
        if self.status is None:
            return (
                f"HTTP {self.code} without a Kubernetes Status ({self.content_type or 'no content type'}) {self.text}"
            )
        return str(get_path(self.status, "message") or self.reason or f"HTTP {self.code}")[:_MESSAGE_LIMIT]

    @property
    def causes(self) -> tuple[Mapping[str, Any], ...]:
        """`details.causes` of the Status."""
        causes = get_path(self.status, "details", "causes")
        return tuple(cause for cause in causes or () if isinstance(cause, Mapping))


def error_of(info: RequestInfo, response: ServerResponse) -> OperatorError:
    """The core's error for an answer that is not a success. Never raises."""
    said = f"{info}: {response.message}".rstrip()
    match response.code:
        case 401:
            return Unauthorized(said)
        case 403 | 409 | 410 | 422 if response.status is None:
            # The API server says these in a Status only: a proxy or a mesh is no ground to give anything up.
            return Unavailable(f"{said}; is a proxy or a login page in between?", status=response.code)
        case 403:
            terminating = any(cause.get("reason") == "NamespaceTerminating" for cause in response.causes)
            return Forbidden(said, namespace_terminating=terminating)
        case 404:
            return _not_found(info, response, said)
        case 409:
            return _conflict(response, said)
        case 410:
            return Expired(said)
        case 400 | 413 | 422:
            return _invalid(info, response, said)
        case 408 | 429:
            return Unavailable(said, retry_after=response.retry_after, status=response.code)
        case code if code >= 500:
            return _server_error(info, response, said)
        case code:
            return Permanent(said, status=code)


def in_stream_error(info: RequestInfo, status: Json) -> OperatorError:
    """The error of an ERROR line of a watch, whose HTTP status was 200 (W-11, W-14)."""
    message = f"{info}: {str(get_path(status, 'message') or 'an ERROR event without a message')[:_MESSAGE_LIMIT]}"
    code = get_path(status, "code")
    if code == 410 or get_path(status, "reason") in ("Expired", "Gone"):
        return Expired(message)
    return Unavailable(message, status=code if isinstance(code, int) else None)


def transport_error(info: RequestInfo, error: Exception) -> OperatorError:
    """The error of a request that got no whole answer.

    Texts of protocol errors can hold header values, tokens among them: those are named, not quoted.
    """
    match error:
        case aiohttp.ConnectionTimeoutError():
            return _no_answer(info, "connect timeout", may_have_happened=False)
        case TimeoutError():
            return _no_answer(info, "read timeout")
        case aiohttp.ClientConnectorCertificateError():
            return _no_answer(info, "the server's certificate is not trusted", _why(error), may_have_happened=False)
        case aiohttp.ClientConnectorError() | aiohttp.ClientSSLError():
            return _no_answer(info, "connect error", _why(error), may_have_happened=False)
        case aiohttp.ServerDisconnectedError():
            return _no_answer(info, "the server closed the connection without an answer")
        case aiohttp.ClientResponseError():
            return _no_answer(info, "the answer is not HTTP")
        case _:
            return _no_answer(info, "the connection broke", _why(error))


def _no_answer(info: RequestInfo, what: str, why: str = "", *, may_have_happened: bool = True) -> Unavailable:
    return Unavailable(f"{info}: {what}: {why}".removesuffix(": "), may_have_happened=may_have_happened)


def _not_found(info: RequestInfo, response: ServerResponse, said: str) -> OperatorError:
    if response.status is None:
        # The API server's own router answers an unserved group or resource in plain text (W-38); anything
        # else, say a proxy's HTML page, tells nothing about what the cluster serves.
        if response.content_type in ("text/plain", ""):
            return KindMissing(f"{info}: the API server does not serve {info.kind.crd_name}")
        return Unavailable(said, status=404)
    if not get_path(response.status, "details", "name"):
        return KindMissing(said)
    return NotFound(said)


def _conflict(response: ServerResponse, said: str) -> OperatorError:
    if response.reason == "AlreadyExists":
        return AlreadyExists(said)
    conflicts = field_conflicts(response.causes)
    return Conflict(said, conflicts) if conflicts else Stale(said)


def _invalid(info: RequestInfo, response: ServerResponse, said: str) -> OperatorError:
    if response.status is None and response.code == 400:
        return Permanent(said, status=400)
    causes = tuple(
        StatusCause(str(cause.get("field", "")), str(cause.get("message", "")), str(cause.get("reason", "")))
        for cause in response.causes
    )
    return _without_values(info, said, causes)


def _without_values(info: RequestInfo, said: str, causes: tuple[StatusCause, ...]) -> Invalid:
    """A refusal quotes the refused value; for a Secret only the fields may be named."""
    if info.kind != SECRET:
        return Invalid(said, causes)
    fields = ", ".join(cause.field for cause in causes) or "not said which field"
    hidden = tuple(attrs.evolve(cause, message="refused (value withheld)") for cause in causes)
    return Invalid(f"{info}: refused: {fields} (values withheld)", hidden)


def _server_error(info: RequestInfo, response: ServerResponse, said: str) -> OperatorError:
    if response.code == 500 and any(text in response.message for text in _INVALID_500):
        return _without_values(info, said, ())
    return Unavailable(said, retry_after=response.retry_after, status=response.code)


def _status(body: bytes) -> Mapping[str, Any] | None:
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return decoded if isinstance(decoded, dict) and decoded.get("kind") == "Status" else None


def _retry_after(header: str, status: Mapping[str, Any] | None) -> float | None:
    """Seconds the server asks for; the HTTP-date form is not used by API servers and counts as not said."""
    seconds = header if header.isascii() and header.isdigit() else get_path(status, "details", "retryAfterSeconds")
    return float(seconds) if seconds else None


def _excerpt(body: bytes) -> str:
    text = body[:_BODY_EXCERPT].decode("utf-8", "replace")
    return str(redact(" ".join("".join(char if char.isprintable() else " " for char in text).split())))


def _why(error: BaseException | None) -> str:
    """Why TLS failed, or what the socket said: never header or body text."""
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
