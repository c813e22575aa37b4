"""Events and effects of the credential machine: closed sets, all data.

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
    """The present content of the Secret."""

    stored: StoredCredential


@attrs.frozen
class RotationRequested:
    """A request for one new credential; `request` names the requester and its reason (`job/<key>`)."""

    request: str


@attrs.frozen
class ClusterRequests:
    """The rotations that the Cluster object requests at present (`cluster/<uid>/<generation>`)."""

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
    """The failure, or unknown result, of a write of the Secret. `refused`: a retry will not help."""

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
    """A request for a credential without result. `wait` is the delay in seconds that the server demanded.

    `rejected`: it refused our token.
    """

    message: str
    wait: float | None = None
    rejected: bool = False


@attrs.frozen
class RequestRefused:
    """The control plane refuses to issue one."""

    message: str


@attrs.frozen
class TokenAccepted:
    """A request with this token was accepted."""

    token: str = attrs.field(repr=False)


@attrs.frozen
class TokenRejected:
    """A request with this token was answered 401 or 403."""

    token: str = attrs.field(repr=False)


CredentialAnswer: TypeAlias = SecretWritten | WriteFailed | SecretChanged | Issued | RequestUnanswered | RequestRefused


@attrs.frozen
class EffectAnswered:
    """The answer to the effect of this number; the answer to an outdated effect changes nothing."""

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
    """A write of `stored` into the Secret if its token is still `expected` (empty: or if there is no Secret).

    Answered by SecretWritten, WriteFailed or SecretChanged.
    """

    number: int
    expected: str = attrs.field(repr=False)
    stored: StoredCredential


@attrs.frozen
class RequestRotation:
    """A request for a new credential with the one in use; answered by Issued, RequestUnanswered or RequestRefused."""

    number: int


@attrs.frozen
class RequestRegistration:
    """A request for a credential with a one-time token; answered as RequestRotation is."""

    number: int
    token: str = attrs.field(repr=False)
    cluster_id: str = ""


TokenRequest: TypeAlias = RequestRotation | RequestRegistration


@attrs.frozen
class UseToken:
    """The token to use from now on."""

    token: str = attrs.field(repr=False)


@attrs.frozen
class RequestsServed:
    """These requests are served by a new credential that is stored and has worked."""

    requests: tuple[str, ...]


@attrs.frozen
class RequestsFailed:
    """These requests cannot be served."""

    requests: tuple[str, ...]
    message: str


CredentialEffect: TypeAlias = (
    WriteSecret | RequestRotation | RequestRegistration | UseToken | RequestsServed | RequestsFailed | LogNote
)
