"""What the credential machine hears of (events) and what it asks for (effects): closed sets, all data.

No token shows in a `repr`.
"""

from datetime import datetime
from typing import TypeAlias

import attrs

from vworkspace_core.controller.machine import LogNote, Tick
from vworkspace_core.credentials.secret import StoredCredential

# --- events ---------------------------------------------------------------------------------------------


@attrs.frozen
class SecretRead:
    """What the Secret says now."""

    stored: StoredCredential


@attrs.frozen
class RotationRequested:
    """Somebody asks for a new credential, once: `request` names who and for what (`job/<key>`)."""

    request: str


@attrs.frozen
class ClusterRequests:
    """What stands as long as it stands: requests of the Cluster object (`cluster/<uid>/<generation>`)."""

    requests: tuple[str, ...]


@attrs.frozen
class BootstrapToken:
    """A one-time token to register with, where there is one; empty otherwise."""

    token: str = attrs.field(default="", repr=False)
    cluster_id: str = ""


@attrs.frozen
class SecretWritten:
    """The Secret holds what was to be written."""


@attrs.frozen
class WriteFailed:
    """The Secret was not written, or nobody knows. `refused` tells an answer that will not change by itself."""

    message: str
    refused: bool = False


@attrs.frozen
class SecretChanged:
    """The Secret holds another token than expected: nothing was written."""

    stored: StoredCredential


@attrs.frozen
class Issued:
    """The control plane gave a new credential."""

    token: str = attrs.field(repr=False)
    expires_at: datetime | None = None


@attrs.frozen
class RequestUnanswered:
    """No credential yet. `wait` is what the server wants in seconds; `rejected` tells that it was our token."""

    message: str
    wait: float | None = None
    rejected: bool = False


@attrs.frozen
class RequestRefused:
    """The control plane will not give one."""

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
    """What came of the effect of this number; one that is no longer waited for changes nothing."""

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
    """Have the Secret hold `stored`, if its token is still `expected` (empty: or if there is no Secret).

    Answer Wrote, WriteFailed or Moved.
    """

    number: int
    expected: str = attrs.field(repr=False)
    stored: StoredCredential


@attrs.frozen
class RequestRotation:
    """Ask for a new credential with the one in use; answer Issued, AskUnanswered or AskRefused."""

    number: int


@attrs.frozen
class RequestRegistration:
    """Ask for a credential with a one-time token; answers as for Rotate."""

    number: int
    token: str = attrs.field(repr=False)
    cluster_id: str = ""


TokenRequest: TypeAlias = RequestRotation | RequestRegistration


@attrs.frozen
class UseToken:
    """Speak with this token from now on."""

    token: str = attrs.field(repr=False)


@attrs.frozen
class RequestsServed:
    """These requests are served by a new credential that is kept and has worked."""

    requests: tuple[str, ...]


@attrs.frozen
class RequestsFailed:
    """These requests cannot be served."""

    requests: tuple[str, ...]
    message: str


CredentialEffect: TypeAlias = (
    WriteSecret | RequestRotation | RequestRegistration | UseToken | RequestsServed | RequestsFailed | LogNote
)
