"""The translation of an API server's answers, and of failures to get one, into an `OperatorError`.

`error_of` translates an HTTP answer, `transport_error` a failure below HTTP. Both are pure. They rest on how a real API
server was observed to answer: the rules S-15 to S-19, S-77 to S-81, W-05, W-11 and W-30 to W-38 of the specification.
lightkube's own errors (raw `HTTPStatusError`, `KeyError` without a content type) cannot occur, as its requests are not
used.
"""

import ssl
from collections.abc import Mapping
from typing import Any

import aiohttp
import attrs
import msgspec

from purekube.apimachinery.errors import Expired, KindMissing, OperatorError, Permanent, StatusCause, Unavailable
from purekube.apimachinery.manifest import Json, get_path
from purekube.apimachinery.secret_material import redact
from purekube.apimachinery.status_errors import error_of_status
from purekube.ports import KubeRequest

_MESSAGE_LIMIT = 1024
_BODY_EXCERPT = 200
# An API server asks for seconds. The page of a gateway under maintenance may ask for a day, and no object may be left
# alone for that long after the server is back.
_LONGEST_RETRY_AFTER = 300.0

# The text of a 404 for a group or resource that is not served (W-38). Every server that is written in Go answers so.
_UNSERVED = "404 page not found"

# An API server answers these to no request of ours without naming its audit event. Redirects lead to a login page.
_OF_PROXIES = frozenset((*range(300, 400), 402, 405, 406, 407, 412, 421, 423, 451))

# The header that an API server sends with every answer of its own (apiserver: endpoints/filters/audit_init.go).
_OF_THE_API_SERVER = "audit-id"


@attrs.frozen
class ServerResponse:
    """The parts of an HTTP response that determine into which OperatorError it is translated.

    `code` is the HTTP status. `status` is the Kubernetes Status in the body, decoded from JSON, or None. If the body is
    not a Kubernetes Status, `text` is a short excerpt of it. `audited` says that the response has the header by which
    an API server names its audit event. `location` is where a redirect leads, without user and query.
    """

    code: int
    content_type: str
    retry_after: float | None
    status: Mapping[str, Any] | None
    text: str
    audited: bool = False
    location: str = ""

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
            location=str(redact(headers.get("location", "").partition("?")[0]))[:_BODY_EXCERPT],
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
    def causes(self) -> tuple[StatusCause, ...]:
        """The field `details.causes` of the Status."""
        causes = get_path(self.status, "details", "causes")
        return tuple(
            StatusCause(*(str(cause.get(name, "")) for name in ("field", "message", "reason")))
            for cause in (causes if isinstance(causes, list) else ())
            if isinstance(cause, Mapping)
        )


def error_of(request: KubeRequest, response: ServerResponse) -> OperatorError:
    """Return the OperatorError for an answer that is not a success. Never raises."""
    said = f"{request}: {response.message}".rstrip()
    match response.code:
        case 403 | 409 | 410 | 422 if response.status is None:
            # The API server sends these with a Status only; without one they come from a proxy or mesh, and are
            # retried.
            return _of_a_proxy(said, response.code)
        case 404 if response.status is None:
            # The API server's own router answers an unserved group or resource in plain text (W-38; apiserver:
            # server/mux/pathrecorder.go, http.NotFoundHandler); any other page, say a proxy's HTML, the text of an
            # ingress's default backend or the empty answer of a mesh, reveals nothing about what the cluster serves.
            # Nor does the same text of a router in front, such as Traefik, that has no route for a moment.
            if response.audited and response.content_type == "text/plain" and response.text == _UNSERVED:
                return KindMissing(f"{request}: the API server does not serve {request.kind.crd_name}")
            return Unavailable(said, status=404)
        case 400 if response.status is None:
            return Permanent(said, status=400)
        case code if response.status is None and not response.audited and code in _OF_PROXIES:
            to = f"; it redirects to {response.location}" if response.location else ""
            return _of_a_proxy(f"{said}{to}", code)
        case code:
            return error_of_status(
                str(request),
                request.kind,
                code,
                response.message.rstrip(),
                reason=response.reason,
                causes=response.causes,
                names_object=bool(get_path(response.status, "details", "name")),
                retry_after=response.retry_after,
            )


def _of_a_proxy(said: str, code: int) -> Unavailable:
    return Unavailable(f"{said}; is a proxy or a login page in between?", status=code)


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


def _status(body: bytes) -> Mapping[str, Any] | None:
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) and decoded.get("kind") == "Status" else None


def _retry_after(header: str, status: Mapping[str, Any] | None) -> float | None:
    """Return the seconds to wait before a retry, or None if neither the header nor the Status has them.

    The header is preferred. Its HTTP-date form is ignored, because API servers do not use it. The result is at most
    five minutes.
    """
    # The API server writes both from one number (apiserver: endpoints/handlers/responsewriters/writers.go,
    # ErrorNegotiated); a gateway before it writes the header only.
    if header.isascii() and header.isdigit():
        return min(float(header), _LONGEST_RETRY_AFTER)
    seconds = get_path(status, "details", "retryAfterSeconds")
    return float(min(seconds, _LONGEST_RETRY_AFTER)) if isinstance(seconds, int | float) and seconds > 0 else None


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
