"""The translation of failed HTTP exchanges into the errors of the core, which are subclasses of OperatorError.

The exchanges are with Odoo (the control plane), or with a receiver of notifications or traces. Each error has a message
of one line that names the URL (PULL-7).
"""

import json
import os
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import httpx2

from purekube.apimachinery.errors import OperatorError, Permanent, Unavailable
from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.secret_material import redact
from vworkspace_core.control_plane.port import error_of, parse_http_date, seconds_of
from vworkspace_odoo.decoding import is_json

_LONGEST_EXCERPT: Final = 300
_LONGEST_READ: Final = 4096
_LONGEST_ID: Final = 128
_DECIDING: Final = frozenset({400, 409, 410, 415, 422})
"""The statuses that end the delivery of a message: it is malformed, was accepted before, or is not wanted any more."""
_LONGEST_ERROR: Final = 262_144
"""The most bytes of an answer that is searched for an error: tracebacks of Odoo take some ten thousand."""


def server_time(headers: httpx2.Headers) -> datetime | None:
    """Return the server's time from the `Date` header, or None if the header is missing or malformed."""
    return parse_http_date(headers.get("date"))


def refusal(status: int, headers: httpx2.Headers, body: bytes, where: str) -> OperatorError:
    """Return the error for an HTTP response that is not a success. The error's class depends on `status`.

    `where` names the request in the message, which also quotes the server's explanation in `body`.
    """
    message = _message(status, headers, body, where)
    if 300 <= status < 400:
        # Following a redirect would send the token to another place.
        location = str(redact(headers.get("location", "nowhere")))[:_LONGEST_EXCERPT]
        return Permanent(f"{where}: {status} redirects to {location}: set the final URL", status=status)
    if status == 404 and not _is_own(headers, body):
        # The own 404 of a control plane has an error (PULL-6). Any other is of a router, gateway or mesh that has no
        # route, perhaps for a moment only, and says nothing about a job.
        return Permanent(f"{message}: is the base URL right?", status=status)
    now = server_time(headers) or datetime.now(UTC)
    error = error_of(status, message, seconds_of(headers.get("retry-after"), now))
    error.request_id = _request_id(headers, body)
    return error


def control_plane_refusal(status: int, headers: httpx2.Headers, body: bytes, where: str) -> OperatorError:
    """Return the error for a control plane's HTTP response that is not a success, as `refusal` does.

    A status that decides about a message counts only with the error body of a control plane (PULL-6). A proxy or
    gateway that answers everything with 400 for a while would otherwise use up events and results (PULL-4).
    """
    if status in _DECIDING and not _is_own(headers, body):
        problem = "not the control plane's own answer, which has an error in JSON"
        return Permanent(f"{_message(status, headers, body, where)}: {problem}")
    return refusal(status, headers, body, where)


def _is_own(headers: httpx2.Headers, body: bytes) -> bool:
    """Report whether an answer has the error body of a control plane (PULL-6)."""
    return isinstance(_error_body(headers, body).get("error"), str)


def _message(status: int, headers: httpx2.Headers, body: bytes, where: str) -> str:
    return f"{where}: {status} {_excerpt(headers, body)}".rstrip()


def _is_page(headers: httpx2.Headers, body: bytes) -> bool:
    return headers.get("content-type", "").startswith("text/html") and bool(body.strip())


def _excerpt(headers: httpx2.Headers, body: bytes) -> str:
    """Return the explanation in the server's answer as one short line."""
    if _is_page(headers, body):
        return "(an HTML page)"
    text = body[:_LONGEST_READ].decode("utf-8", "replace")
    said = _error_body(headers, body)
    text = next((said[name] for name in ("message", "error") if isinstance(said.get(name), str)), "") or text
    # Half of a surrogate pair, which JSON can hold, would make each status invalid that quotes the message.
    whole = text.encode(errors="replace").decode()
    return str(redact(" ".join(whole.split())))[:_LONGEST_EXCERPT]


def _request_id(headers: httpx2.Headers, body: bytes) -> str:
    """Return the id by which the server's logs have the request, or an empty string if the answer has no id."""
    request_id = _error_body(headers, body).get("requestId")
    return request_id[:_LONGEST_ID] if isinstance(request_id, str) and request_id.isprintable() else ""


def _error_body(headers: httpx2.Headers, body: bytes) -> Mapping[str, Any]:
    """Return the error body `{error, message, requestId}` (PULL-6); an empty mapping if `body` is not a JSON object."""
    if not is_json(headers.get("content-type", "")):
        return {}
    try:
        answer = json.loads(body[:_LONGEST_ERROR].decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, Mapping) else {}


def error_in(headers: httpx2.Headers, body: bytes) -> str:
    """Return the error that a JSON answer with a successful status has, in one line, or an empty string.

    The JSON-RPC routes of Odoo answer so when a call failed: `{"jsonrpc": "2.0", "error": {"message": …}}`. Long
    answers are not searched.
    """
    if len(body) > _LONGEST_ERROR or b'"error"' not in body or not is_json(headers.get("content-type", "")):
        return ""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    error = answer.get("error") if isinstance(answer, Mapping) else None
    if not error:
        return ""
    told = (error.get("message"), get_path(error, "data", "message")) if isinstance(error, Mapping) else (error,)
    text = ": ".join(part for part in told if isinstance(part, str) and part) or "no message"
    return str(redact(" ".join(text.encode(errors="replace").decode().split())))[:_LONGEST_EXCERPT]


def transport_failure(error: httpx2.HTTPError, where: str) -> Unavailable:
    """Return Unavailable for a request that got no response: no connection, a timeout, or a broken connection.

    `where` names the request in the message. The result's `may_have_happened` is False if the request certainly did not
    reach the server.
    """
    match error:
        case httpx2.TimeoutException():
            what = "no answer in time" if isinstance(error, httpx2.ReadTimeout) else "no connection in time"
        case httpx2.ConnectError():
            what = f"cannot connect: {_cause(error)}"
        case _:
            what = f"the connection broke: {_cause(error)}"
    never_sent = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
    return Unavailable(f"{where}: {what}", may_have_happened=not never_sent)


def _cause(error: BaseException) -> str:
    """Return the message of the innermost error: `Connection refused` instead of `All connection attempts failed`."""
    cause: BaseException | None = error
    text = str(error) or type(error).__name__
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            # An SSLError's errno counts OpenSSL's errors: as an errno of the system, 1 would be "Operation not
            # permitted".
            text = _tls(cause)
        elif isinstance(cause, OSError) and cause.errno is not None:
            # asyncio puts the address into strerror; name resolution has negative numbers and its own texts.
            text = os.strerror(cause.errno) if cause.errno > 0 else str(cause.strerror)
        elif isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
            continue
        cause = cause.__cause__ or cause.__context__
    return str(redact(" ".join(text.split())))[:_LONGEST_EXCERPT]


def _tls(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate is not trusted: {error.verify_message}"
    return f"TLS failed: {error.reason or 'no reason given'}"
