"""Events and effects of the credential machine: two closed sets of immutable values.

The machine issues and renews the credential of the agent for the control plane. An event is its input, and an effect is
an action that it requests, such as a write of the Secret. No token shows in a `repr`.
"""

from datetime import datetime
from typing import TypeAlias

import attrs

from purekube.controller.backoff import LogNote, Tick
from vworkspace_core.credentials.secret import StoredCredential

# --- events ---------------------------------------------------------------------------------------------


@attrs.frozen
class SecretRead:
    """The event that the credentials Secret was read; `stored` is its present content."""

    stored: StoredCredential


@attrs.frozen
class RotationRequested:
    """The event that a new credential is requested.

    `request` names the requester and its reason, such as `job/<key>`.
    """

    request: str


@attrs.frozen
class ClusterRequests:
    """The event that has all rotations (replacements) of the agent's credential that the Cluster object requests now.

    Each request is a string `cluster/<uid>/<generation>`.
    """

    requests: tuple[str, ...]


@attrs.frozen
class BootstrapToken:
    """The event that a one-time token for registration was found. The token is empty if there is no longer one."""

    token: str = attrs.field(default="", repr=False)
    cluster_id: str = ""


@attrs.frozen
class SecretWritten:
    """The answer to the effect WriteSecret that the credentials Secret was written."""


@attrs.frozen
class WriteFailed:
    """The answer to the effect WriteSecret that the write failed, or got no response from the API server.

    `refused` says that a retry will not help.
    """

    message: str
    refused: bool = False


@attrs.frozen
class SecretChanged:
    """The answer to WriteSecret that nothing was written, because the Secret held another token than expected.

    `stored` is the content that the Secret has instead.
    """

    stored: StoredCredential


@attrs.frozen
class Issued:
    """The credential that the control plane issued: its token, and when it expires."""

    token: str = attrs.field(repr=False)
    expires_at: datetime | None = None


@attrs.frozen
class RequestUnanswered:
    """The answer that a request for a credential got no usable response from the control plane.

    `wait` is the delay in seconds that the server demanded. `rejected` says that the server refused the operator's
    token.
    """

    message: str
    wait: float | None = None
    rejected: bool = False


@attrs.frozen
class RequestRefused:
    """The answer that the control plane refused to issue a credential, for the reason in `message`."""

    message: str


@attrs.frozen
class TokenAccepted:
    """The event that the control plane accepted a request with this token."""

    token: str = attrs.field(repr=False)


@attrs.frozen
class TokenRejected:
    """The event that the control plane rejected a request with this token by the status 401 or 403."""

    token: str = attrs.field(repr=False)


CredentialAnswer: TypeAlias = SecretWritten | WriteFailed | SecretChanged | Issued | RequestUnanswered | RequestRefused


@attrs.frozen
class EffectAnswered:
    """The event that the control plane or the API server answered the effect with the number `number`.

    An answer to an effect that the credential machine no longer waits for changes nothing.
    """

    number: int
    answer: CredentialAnswer


CredentialEvent: TypeAlias = (
    SecretRead
    | RotationRequested
    | ClusterRequests
    | BootstrapToken
    | EffectAnswered
    | TokenAccepted
    | TokenRejected
    | Tick
)


# --- effects --------------------------------------------------------------------------------------------


@attrs.frozen
class WriteSecret:
    """The effect that writes `stored` (tokens and records of rotations) into the agent's credentials Secret.

    Nothing is written if the Secret's present token is not `expected`. With an empty `expected` the Secret may be
    absent. The answer is SecretWritten, WriteFailed or SecretChanged.
    """

    number: int
    expected: str = attrs.field(repr=False)
    stored: StoredCredential


@attrs.frozen
class RequestRotation:
    """The effect that requests a new credential from the control plane, with the present credential.

    The answer is Issued, RequestUnanswered or RequestRefused.
    """

    number: int


@attrs.frozen
class RequestRegistration:
    """The effect that requests a credential from the control plane, with a one-time token.

    The answer is Issued, RequestUnanswered or RequestRefused.
    """

    number: int
    token: str = attrs.field(repr=False)
    cluster_id: str = ""


TokenRequest: TypeAlias = RequestRotation | RequestRegistration


@attrs.frozen
class UseToken:
    """The effect that makes all calls to the control plane use this token from now on."""

    token: str = attrs.field(repr=False)


@attrs.frozen
class RequestsServed:
    """The effect that reports to the requesters, such as a job, that these requests for a new credential are done.

    A new credential is stored and has worked.
    """

    requests: tuple[str, ...]


@attrs.frozen
class RequestsFailed:
    """The effect that reports to the requesters, such as a job, that these requests for a new credential cannot be
    done.

    `message` is the reason.
    """

    requests: tuple[str, ...]
    message: str


CredentialEffect: TypeAlias = (
    WriteSecret | RequestRotation | RequestRegistration | UseToken | RequestsServed | RequestsFailed | LogNote
)
