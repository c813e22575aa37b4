"""How the API server says no: one exception, rendered on the wire as a `Status` object.

Wording, reasons and details follow what a real kube-apiserver answers, since clients tell failures
apart by them: a 409 with `FieldManagerConflict` causes is a conflict of ownership, one without causes
is a stale write (facts S-77), a 500 that begins with "failed to create typed patch object" is the
caller's mistake (S-15).
"""

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


@attrs.frozen
class FailureCause:
    """One entry of `details.causes`. `reason` is the wire's word (`FieldValueInvalid`, `FieldManagerConflict`)."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"

    def render(self) -> dict[str, str]:
        """The entry as JSON; an absent field or reason has no key."""
        parts = {"reason": self.reason, "message": self.message, "field": self.field}
        return {key: value for key, value in parts.items() if value}


class ApiFailure(Exception):
    """A request the API server refuses.

    `status` is the HTTP status, `reason` the machine word (empty for the 500s that have none),
    `details` what `Status.details` holds besides the causes (name, group, kind, uid, retryAfterSeconds);
    None where a real server sends no details at all. `plain` marks the answers that are `text/plain`
    instead of a Status (an unknown group or resource, W-38). `continue_token` is the way out that a
    410 on a list offers (W-05). `audited` is set when the audit log has the request.
    """

    audited = False

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        causes: Iterable[FailureCause] = (),
        details: Mapping[str, Any] | None = None,
        plain: bool = False,
        continue_token: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = tuple(causes)
        self.details = details
        self.plain = plain
        self.continue_token = continue_token

    @property
    def retry_after(self) -> int | None:
        """Seconds for the `Retry-After` header, when the failure names them."""
        return None if self.details is None else self.details.get("retryAfterSeconds")


def status_body(failure: ApiFailure) -> dict[str, Any]:
    """The `Status` object a client reads."""
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {"continue": failure.continue_token} if failure.continue_token else {},
        "status": "Failure",
        "message": failure.message,
    }
    if failure.reason:
        body["reason"] = failure.reason
    if failure.details is not None or failure.causes:
        body["details"] = {key: value for key, value in (failure.details or {}).items() if value}
        if failure.causes:
            body["details"]["causes"] = [cause.render() for cause in failure.causes]
    body["code"] = failure.status
    return body


def resource_of(group: str, plural: str) -> str:
    """`widgets.example.test`, or the bare plural for the core group."""
    return f"{plural}.{group}" if group else plural


def not_found(group: str, plural: str, name: str) -> ApiFailure:
    """404 on one object (or on a namespace that a write needs)."""
    details = {"name": name, "group": group, "kind": plural}
    return ApiFailure(404, "NotFound", f'{resource_of(group, plural)} "{name}" not found', details=details)


def not_served() -> ApiFailure:
    """404 on a group, version or resource the server does not know: plain text, no Status (W-38)."""
    return ApiFailure(404, "NotFound", "404 page not found", plain=True)


def already_exists(group: str, plural: str, name: str, *, is_going: bool = False) -> ApiFailure:
    """409: a create met an object of that name (W-35), perhaps one that is being deleted."""
    details = {"name": name, "group": group, "kind": plural}
    message = f'{resource_of(group, plural)} "{name}" already exists'
    if is_going:
        message = f"object is being deleted: {message}"
    return ApiFailure(409, "AlreadyExists", message, details=details)


def stale(group: str, plural: str, name: str, why: str = MODIFIED) -> ApiFailure:
    """409 without causes: a resourceVersion or uid no longer holds. `why` is the server's own half sentence."""
    details = {"name": name, "group": group, "kind": plural}
    message = f'Operation cannot be fulfilled on {resource_of(group, plural)} "{name}": {why}'
    return ApiFailure(409, "Conflict", message, details=details)


def field_conflict(message: str, causes: Iterable[FailureCause]) -> ApiFailure:
    """409 of server-side apply: other managers hold the fields named by `causes` (S-77: no name, no kind)."""
    return ApiFailure(409, "Conflict", message, causes=causes)


def invalid(group: str, kind: str, name: str, causes: Iterable[FailureCause]) -> ApiFailure:
    """422: the content breaks a rule of the kind; `causes` name the fields."""
    field_causes = tuple(causes)
    texts = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in field_causes]
    listed = texts[0] if len(set(texts)) == 1 else "[" + ", ".join(dict.fromkeys(texts)) + "]"
    details = {"name": name, "group": group, "kind": kind}
    message = f'{resource_of(group, kind)} "{name}" is invalid: {listed}'
    return ApiFailure(422, "Invalid", message, causes=field_causes, details=details)


def bad_request(message: str) -> ApiFailure:
    """400: the request itself is malformed."""
    return ApiFailure(400, "BadRequest", message)


def forbidden(group: str, plural: str, name: str, why: str, causes: Iterable[FailureCause] = ()) -> ApiFailure:
    """403: `why` is the server's half sentence after "is forbidden:"."""
    details = {"name": name, "group": group, "kind": plural}
    target = f'{resource_of(group, plural)} "{name}"' if name else resource_of(group, plural)
    return ApiFailure(403, "Forbidden", f"{target} is forbidden: {why}", causes=causes, details=details)


def namespace_terminating(group: str, plural: str, name: str, namespace: str) -> ApiFailure:
    """403 on a create in a dying namespace, with the cause that tells it from a missing permission (S-19)."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    cause = FailureCause("metadata.namespace", f"namespace {namespace} is being terminated", "NamespaceTerminating")
    return forbidden(group, plural, name, why, (cause,))


def unauthorized() -> ApiFailure:
    """401: the credential is not accepted."""
    return ApiFailure(401, "Unauthorized", "Unauthorized")


def method_not_allowed(why: str = "the server does not allow this method on the requested resource") -> ApiFailure:
    """405: the resource has no such verb."""
    return ApiFailure(405, "MethodNotAllowed", why, details={})


def unsupported_media_type(accepted: Iterable[str]) -> ApiFailure:
    """415: the body is in a form this endpoint does not read."""
    types = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {types}"
    return ApiFailure(415, "UnsupportedMediaType", message)


def expired(message: str, continue_token: str = "") -> ApiFailure:
    """410: a resourceVersion or continue token from before the history the server keeps (W-05, W-06, W-11)."""
    return ApiFailure(410, "Expired", message, continue_token=continue_token)


def too_large(message: str) -> ApiFailure:
    """413: the request body is over the limit."""
    return ApiFailure(413, "RequestEntityTooLarge", message)


def internal(message: str) -> ApiFailure:
    """500 without a reason, as a real server sends for what its storage or merge refuses (S-15, W-37)."""
    return ApiFailure(500, "", message)
