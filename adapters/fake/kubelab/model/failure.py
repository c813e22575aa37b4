"""Refusals of the API server: one exception, sent as a `Status` over HTTP and as an `OperatorError` in process."""

from collections.abc import Iterable, Mapping
from typing import Any

from purekube.apimachinery.errors import KindMissing, OperatorError, StatusCause
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.status_errors import error_of_status

# apiserver: registry/generic/registry/store.go, OptimisticLockErrorMsg.
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class ApiFailure(Exception):
    """The error for a request that the API server refuses.

    `status` is the HTTP status. `reason` is the reason in the Status object; it is empty for those 500s that have none.
    `details` has the fields of `Status.details` except `causes`: `name`, `group`, `kind`, `uid` and
    `retryAfterSeconds`, as far as kube-apiserver sends them. It is None if kube-apiserver sends no details. `plain`
    means that the answer is `text/plain` and not a Status, as for an unknown group or resource (W-38). `continue_token`
    is the token with which a client may continue a list after a 410 (W-05). `audited` is True once the audit log has
    the request.
    """

    audited = False

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        causes: Iterable[StatusCause] = (),
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
        """The seconds for the `Retry-After` header; None if the failure has none."""
        return None if self.details is None else self.details.get("retryAfterSeconds")


def status_body(failure: ApiFailure) -> dict[str, Any]:
    """Return the `Status` object that the client receives."""
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
            body["details"]["causes"] = [_rendered(cause) for cause in failure.causes]
    # The order of the members is that of Go's struct Status, for readers of raw answers.
    body["code"] = failure.status
    return body


def _rendered(cause: StatusCause) -> dict[str, str]:
    parts = {"reason": cause.reason, "message": cause.message, "field": cause.field}
    return {key: value for key, value in parts.items() if value}


def resource_of(group: str, plural: str) -> str:
    """Return a resource's name with its group, such as `widgets.example.test`. For the core group it is the plural."""
    return f"{plural}.{group}" if group else plural


def not_found(group: str, plural: str, name: str) -> ApiFailure:
    """Return the 404 failure for an object that does not exist; `name` is the object's name.

    It is also the failure for a create in a namespace that does not exist. `name` is the namespace's name then.
    """
    details = {"name": name, "group": group, "kind": plural}
    # Here details.kind has the plural name (apimachinery: api/errors/errors.go, NewNotFound), and in a 422 the kind.
    return ApiFailure(404, "NotFound", f'{resource_of(group, plural)} "{name}" not found', details=details)


def not_served() -> ApiFailure:
    """Build the 404 for a group, version or resource that is not served: plain text, no Status (W-38)."""
    return ApiFailure(404, "NotFound", "404 page not found", plain=True)


def no_route() -> ApiFailure:
    """Build the 404 for a path that the router of the built-in kinds does not know below a resource.

    Unlike the answer of `not_served`, this one is a Status. Its text is the server's generic text for the status code.
    """
    return ApiFailure(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(group: str, plural: str, name: str, *, is_going: bool = False) -> ApiFailure:
    """Build the 409 for a create of an existing object (W-35).

    With `is_going` the message says that the existing object is being deleted.
    """
    details = {"name": name, "group": group, "kind": plural}
    message = f'{resource_of(group, plural)} "{name}" already exists'
    if is_going:
        # apiserver: registry/generic/registry/store.go, Create.
        message = f"object is being deleted: {message}"
    return ApiFailure(409, "AlreadyExists", message, details=details)


def stale(group: str, plural: str, name: str, why: str = MODIFIED) -> ApiFailure:
    """Build the 409 for a write that requires another resourceVersion or uid than the object has.

    It has no `details.causes`. `why` is the end of its message.
    """
    details = {"name": name, "group": group, "kind": plural}
    message = f'Operation cannot be fulfilled on {resource_of(group, plural)} "{name}": {why}'
    return ApiFailure(409, "Conflict", message, details=details)


def field_conflict(message: str, causes: Iterable[StatusCause]) -> ApiFailure:
    """Build the 409 of server-side apply: other managers own the fields in `causes`. It names no object (S-77)."""
    # apimachinery: api/errors/errors.go, NewApplyConflict sets no name and no kind, unlike NewConflict.
    return ApiFailure(409, "Conflict", message, causes=causes)


def invalid(group: str, kind: str, name: str, causes: Iterable[StatusCause]) -> ApiFailure:
    """Build the 422 for content that breaks a rule of the kind; `causes` name the fields."""
    causes = tuple(causes)
    texts = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes]
    # apimachinery: util/errors, aggregate.Error leaves out repeated messages and has brackets only around several; the
    # causes keep the repetitions.
    listed = texts[0] if len(set(texts)) == 1 else "[" + ", ".join(dict.fromkeys(texts)) + "]"
    details = {"name": name, "group": group, "kind": kind}
    message = f'{resource_of(group, kind)} "{name}" is invalid: {listed}'
    return ApiFailure(422, "Invalid", message, causes=causes, details=details)


def patch_invalid(why: str) -> ApiFailure:
    """Build the 422 for a patch that leads to no valid document. It names neither the kind nor the object."""
    return invalid("", "", "", (StatusCause("patch", f'Invalid value: "": {why}'),))


def bad_request(message: str) -> ApiFailure:
    """Build the 400 for a malformed request."""
    return ApiFailure(400, "BadRequest", message)


def forbidden(group: str, plural: str, name: str, why: str, causes: Iterable[StatusCause] = ()) -> ApiFailure:
    """Build the 403 for a request that is not permitted, by authorization or by another rule of the server.

    `why` follows "is forbidden:" in the message.
    """
    details = {"name": name, "group": group, "kind": plural}
    target = f'{resource_of(group, plural)} "{name}"' if name else resource_of(group, plural)
    return ApiFailure(403, "Forbidden", f"{target} is forbidden: {why}", causes=causes, details=details)


def namespace_terminating(group: str, plural: str, name: str, namespace: str) -> ApiFailure:
    """Build the 403 for a create in a terminating namespace.

    Its cause distinguishes it from the 403 for a missing permission (S-19).
    """
    # apiserver: admission/plugin/namespace/lifecycle/admission.go.
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    cause = StatusCause("metadata.namespace", f"namespace {namespace} is being terminated", "NamespaceTerminating")
    return forbidden(group, plural, name, why, (cause,))


def unauthorized() -> ApiFailure:
    """Build the 401 for a credential that is not accepted."""
    return ApiFailure(401, "Unauthorized", "Unauthorized")


def method_not_allowed() -> ApiFailure:
    """Build the 405 for a verb that the resource does not have."""
    message = "the server does not allow this method on the requested resource"
    return ApiFailure(405, "MethodNotAllowed", message, details={})


def unsupported_media_type(accepted: Iterable[str]) -> ApiFailure:
    """Build the 415 for a body in a media type that the endpoint does not read."""
    types = ", ".join(accepted)
    # apiserver: endpoints/handlers/negotiation/errors.go.
    message = f"the body of the request was in an unknown format - accepted media types include: {types}"
    return ApiFailure(415, "UnsupportedMediaType", message)


def expired(message: str, continue_token: str = "") -> ApiFailure:
    """Return the 410 failure for a resourceVersion or continue token that is too old (W-05, W-06, W-11).

    Too old means older than the history that the server keeps. `continue_token` is the token with which the client may
    continue its list.
    """
    return ApiFailure(410, "Expired", message, continue_token=continue_token)


def too_large(message: str) -> ApiFailure:
    """Build the 413 for a request body over the limit."""
    return ApiFailure(413, "RequestEntityTooLarge", message)


def internal(message: str) -> ApiFailure:
    """Build the 500 without a reason that kube-apiserver sends for an error of its own or of a webhook (S-15, W-37).

    Examples are an object that is too large for etcd, and an apply that does not fit the schema.
    """
    return ApiFailure(500, "", message)


def core_error(failure: ApiFailure, asked: str, kind: Kind) -> OperatorError:
    """Return the OperatorError, such as NotFound, that a client raises for `failure`.

    `asked` describes the request in the error's message; `kind` is the kind of the requested object.
    """
    if failure.plain:
        return KindMissing(f"{asked}: {failure.message}")
    return error_of_status(
        asked,
        kind,
        failure.status,
        failure.message,
        reason=failure.reason,
        causes=failure.causes,
        names_object=bool((failure.details or {}).get("name")),
        retry_after=failure.retry_after,
    )
