"""The closed set of errors that a port (an interface to another system, such as the API server) may raise.

    OperatorError
    ├── NotFound                 the object, its namespace, or (KindMissing) its kind is not there
    │   └── KindMissing          the API server does not serve this kind: a CRD is not installed
    ├── AlreadyExists            a create found an object of that name
    ├── Conflict                 server-side apply: other managers hold fields we want to change
    ├── Stale                    a resourceVersion or uid precondition no longer holds: look again at once
    ├── Invalid                  the server refuses the content; only another content can succeed
    ├── Forbidden                the caller may not do this
    │   └── Unauthorized         the credential itself is not accepted
    ├── Expired                  a list or watch position is too old: list again
    ├── JobClosed                the control plane has closed the job, and wants nothing more of it
    ├── Unavailable              nothing is wrong with the request: try it again later
    └── Permanent                any other error: a retry will not help

Adapters translate every foreign exception into one of these (`raise … from error`); the core never sees a client's
exception. Clauses: REC-8, REC-13, PULL-7.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import attrs

_REFUSED: Final = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>[a-z:-]+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)" '
    r'(?:in the namespace "(?P<namespace>[^"]+)"|at the cluster scope)'
)
"""The pattern of the message of a 403 for a missing right, which has the same form for all authorizers."""


@attrs.frozen(order=True)
class Right:
    """A permission to use a verb on a resource, such as `helmreleases` or `operations/status`.

    `namespace` is empty at cluster scope. `user` is the user who lacks the permission, as the API server names it. It
    is ignored when permissions are compared.
    """

    verb: str
    group: str
    resource: str
    namespace: str = ""
    user: str = attrs.field(default="", eq=False, order=False)

    def __str__(self) -> str:
        where = f"in namespace {self.namespace}" if self.namespace else "in the whole cluster"
        resource, _, below = self.resource.partition("/")
        name = f"{resource}.{self.group}" if self.group else resource
        return f"{self.verb} {name}{'/' if below else ''}{below} {where}"


def refused_right(message: str) -> Right | None:
    """Return the missing right that the message of a 403 names.

    Return None for any other 403, such as a refusal by a quota or by a webhook.
    """
    match = _REFUSED.search(message)
    if match is None:
        return None
    if match["verb"].startswith("impersonate-on:"):  # since 1.36 it names what the account was to do as well
        return Right("impersonate", "", "serviceaccounts", match["namespace"] or "", match["user"])
    return Right(match["verb"], match["group"], match["resource"], match["namespace"] or "", match["user"])


@attrs.frozen(order=True)
class FieldConflict:
    """One field that another manager owns (one cause of a server-side apply 409).

    `field` is the path as the server prints it (`.spec.chart`). It cannot be parsed back, because keys in it are not
    quoted. `detail` is the server's cause message, which may contain subresource and apiVersion.
    """

    manager: str
    field: str
    detail: str = ""


@attrs.frozen
class StatusCause:
    """One cause in an answer `Invalid` of the API server: `field` is the path of a field, `message` what is wrong with
    it.
    """

    field: str
    message: str
    reason: str = "FieldValueInvalid"


class OperatorError(Exception):
    """The base of every error of a request to another system. `message` is safe to show: it has no secret in it.

    `request_id` is the id that the other system gave to the request, for a search in that system's log; empty if none.
    """

    request_id: str = ""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), dict(self.__dict__)))


def _rebuild(cls: type[OperatorError], state: dict[str, Any]) -> OperatorError:
    error = cls.__new__(cls)
    error.__dict__.update(state)
    error.args = (state["message"],)
    return error


class NotFound(OperatorError):
    """HTTP 404: the object or its namespace does not exist."""


class KindMissing(NotFound):
    """HTTP 404 for a whole resource type: the API server does not serve this kind (REC-12)."""


class AlreadyExists(OperatorError):
    """HTTP 409, reason AlreadyExists: a create found an object of that name."""


class NameTaken(AlreadyExists):
    """An apply that was not sent, since it would take over an object of that name that has another owner."""


class Conflict(OperatorError):
    """HTTP 409 with causes: other field managers own the fields (REC-8)."""

    def __init__(self, message: str, conflicts: tuple[FieldConflict, ...]) -> None:
        super().__init__(message)
        # The server answers the causes in random order (S-81): sorted here, so that equal conflicts give equal status
        # messages.
        self.conflicts = tuple(sorted(conflicts))


class Stale(OperatorError):
    """HTTP 409 without causes: the object changed, or was deleted and recreated (REC-6)."""


class Invalid(OperatorError):
    """HTTP 422, most 400s, and the 500 of an apply configuration that does not fit the schema (S-15): the server
    refuses the content of the request, so only a request with another content can succeed.
    """

    def __init__(self, message: str, causes: tuple[StatusCause, ...] = ()) -> None:
        super().__init__(message)
        self.causes = causes


_FIXED: Final = ("field is immutable", "field is immutable when `immutable` is set")


def invalid_secret(asked: str, causes: Iterable[StatusCause]) -> Invalid:
    """Return the error of a refused request about a Secret, without the values that the server's messages quote.

    `asked` describes the request. The error names the fields, and says of each whether it is fixed.
    """
    hidden = tuple(map(_withheld, causes))
    fields = ", ".join(cause.field for cause in hidden) or "not said which field"
    return Invalid(f"{asked}: refused: {fields} (values withheld)", hidden)


def _withheld(cause: StatusCause) -> StatusCause:
    is_fixed = cause.message.rpartition(": ")[2] in _FIXED
    return attrs.evolve(cause, message=f"{'field is immutable' if is_fixed else 'refused'} (value withheld)")


class Forbidden(OperatorError):
    """HTTP 403. `namespace_terminating` is True if the write was refused because the namespace is being deleted. It is
    False for any other reason, such as a missing permission (REC-14).
    """

    def __init__(self, message: str, *, namespace_terminating: bool = False) -> None:
        super().__init__(message)
        self.namespace_terminating = namespace_terminating

    @property
    def right(self) -> Right | None:
        """The missing right that the message names; None if it names none, as when a quota, an admission policy or the
        control plane refused.
        """
        return refused_right(self.message)


class Unauthorized(Forbidden):
    """HTTP 401: the server does not accept the credential of the request, such as its token."""


def first_refusal(errors: Iterable[OperatorError]) -> Forbidden | None:
    """Return the first 403 in `errors` that names a missing right (`Forbidden.right`); None if there is none."""
    return next((error for error in errors if isinstance(error, Forbidden) and error.right is not None), None)


class Expired(OperatorError):
    """HTTP 410, or a watch event with code 410: the resourceVersion or continue token is too old."""


class JobClosed(OperatorError):
    """HTTP 409 of the control plane (the server that offers jobs) when the operator acknowledges a job: the job is
    closed there, for any reason (PULL-6).
    """


class Unavailable(OperatorError):
    """Network failure, timeout, 429 or 5xx. The write may or may not have happened.

    `retry_after` is the delay in seconds that the server requested, if any; `may_have_happened` is False if the request
    certainly had no effect (no connection, 429).
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        status: int | None = None,
        may_have_happened: bool = True,
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.status = status
        self.may_have_happened = may_have_happened


class Permanent(OperatorError):
    """The error for any other answer of a server, after which a retry will not help."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors in an exception group, at any depth. If `error` is not a group, yield `error` alone."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from leaves_of(each)
    else:
        yield error


def unwrap_group(error: BaseException) -> BaseException:
    """Return the only error in an exception group, even if groups are nested. Return a group of several errors
    unchanged, and an error that is not a group.
    """
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
