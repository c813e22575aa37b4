"""Events and effects of the credential machine: two closed sets of immutable values.

No token shows in a `repr`.
"""

from datetime import datetime
from typing import TypeAlias

import attrs

from purekube.controller.backoff import LogNote, Tick
from vworkspace_core.credentials.secret import StoredCredential

# --- events ---------------------------------------------------------------------------------------------


@attrs.frozen
class SecretRead:
    """The Secret was read; `stored` is its present content."""

    stored: StoredCredential


@attrs.frozen
class RotationRequested:
    """A request for a new credential. `request` names the requester and its reason, such as `job/<key>`."""

    request: str


@attrs.frozen
class ClusterRequests:
    """The rotations that the Cluster object requests now, as `cluster/<uid>/<generation>`."""

    requests: tuple[str, ...]


@attrs.frozen
class BootstrapToken:
    """A one-time token for registration; empty if there is none."""

    token: str = attrs.field(default="", repr=False)
    cluster_id: str = ""


@attrs.frozen
class SecretWritten:
    """The Secret was written."""


@attrs.frozen
class WriteFailed:
    """A write of the Secret failed or was not answered. `refused` says that a retry will not help."""

    message: str
    refused: bool = False


@attrs.frozen
class SecretChanged:
    """The Secret holds another token than expected, so nothing was written."""

    stored: StoredCredential


@attrs.frozen
class Issued:
    """The control plane issued a new credential."""

    token: str = attrs.field(repr=False)
    expires_at: datetime | None = None


@attrs.frozen
class RequestUnanswered:
    """A request for a credential had no result. `wait` is the delay in seconds that the server demanded.

    `rejected` says that the server refused our token.
    """

    message: str
    wait: float | None = None
    rejected: bool = False


@attrs.frozen
class RequestRefused:
    """The control plane refused to issue a credential."""

    message: str


@attrs.frozen
class TokenAccepted:
    """The control plane accepted a request with this token."""

    token: str = attrs.field(repr=False)


@attrs.frozen
class TokenRejected:
    """The control plane answered a request with this token by 401 or 403."""

    token: str = attrs.field(repr=False)


CredentialAnswer: TypeAlias = SecretWritten | WriteFailed | SecretChanged | Issued | RequestUnanswered | RequestRefused


@attrs.frozen
class EffectAnswered:
    """The answer to the effect with this number. The answer to an outdated effect changes nothing."""

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
    """A request to write `stored` into the Secret, if its token still is `expected`.

    With an empty `expected` the Secret may also be absent. Answered by SecretWritten, WriteFailed or SecretChanged.
    """

    number: int
    expected: str = attrs.field(repr=False)
    stored: StoredCredential


@attrs.frozen
class RequestRotation:
    """A request to the control plane for a new credential, made with the present one.

    Answered by Issued, RequestUnanswered or RequestRefused.
    """

    number: int


@attrs.frozen
class RequestRegistration:
    """A request to the control plane for a credential, made with a one-time token.

    Answered by Issued, RequestUnanswered or RequestRefused.
    """

    number: int
    token: str = attrs.field(repr=False)
    cluster_id: str = ""


TokenRequest: TypeAlias = RequestRotation | RequestRegistration


@attrs.frozen
class UseToken:
    """A request to use this token for all calls to the control plane from now on."""

    token: str = attrs.field(repr=False)


@attrs.frozen
class RequestsServed:
    """A report that these rotation requests are done: a new credential is stored and has worked."""

    requests: tuple[str, ...]


@attrs.frozen
class RequestsFailed:
    """A report that these rotation requests cannot be done."""

    requests: tuple[str, ...]
    message: str


CredentialEffect: TypeAlias = (
    WriteSecret | RequestRotation | RequestRegistration | UseToken | RequestsServed | RequestsFailed | LogNote
)
