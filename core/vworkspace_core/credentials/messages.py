"""What the credential machine is told (events) and what it asks for (effects): closed sets, all data.

No token shows in a `repr`.
"""

from datetime import datetime
from typing import TypeAlias

import attrs

from vworkspace_core.credentials.secret import Kept

# --- events ---------------------------------------------------------------------------------------------


@attrs.frozen
class Seen:
    """What the Secret says now."""

    kept: Kept


@attrs.frozen
class Asked:
    """Somebody asks for a new credential, once: `request` names who and for what (`job/<key>`)."""

    request: str


@attrs.frozen
class Wished:
    """What stands as long as it stands: requests of the Cluster object (`cluster/<uid>/<generation>`)."""

    requests: tuple[str, ...]


@attrs.frozen
class Registrable:
    """A one-time token to register with, where there is one; empty otherwise."""

    token: str = attrs.field(default="", repr=False)
    cluster_id: str = ""


@attrs.frozen
class Wrote:
    """The Secret holds what was to be written."""


@attrs.frozen
class WriteFailed:
    """The Secret was not written, or nobody knows. `refused` tells an answer that will not change by itself."""

    message: str
    refused: bool = False


@attrs.frozen
class Moved:
    """The Secret holds another token than expected: nothing was written."""

    kept: Kept


@attrs.frozen
class Issued:
    """The control plane gave a new credential."""

    token: str = attrs.field(repr=False)
    expires_at: datetime | None = None


@attrs.frozen
class AskUnanswered:
    """No credential yet. `wait` is what the server wants in seconds; `rejected` tells that it was our token."""

    message: str
    wait: float | None = None
    rejected: bool = False


@attrs.frozen
class AskRefused:
    """The control plane will not give one."""

    message: str


@attrs.frozen
class Worked:
    """A request with this token was accepted."""

    token: str = attrs.field(repr=False)


@attrs.frozen
class Rejected:
    """A request with this token was answered 401 or 403."""

    token: str = attrs.field(repr=False)


@attrs.frozen
class Tick:
    """Time passed."""


Answer: TypeAlias = Wrote | WriteFailed | Moved | Issued | AskUnanswered | AskRefused


@attrs.frozen
class Answered:
    """What came of the effect of this number; one that is no longer waited for changes nothing."""

    turn: int
    answer: Answer


Event: TypeAlias = Seen | Asked | Wished | Registrable | Answered | Worked | Rejected | Tick


# --- effects --------------------------------------------------------------------------------------------


@attrs.frozen
class Write:
    """Have the Secret hold `kept`, if its token is still `expected` (empty: or if there is no Secret).

    Answer Wrote, WriteFailed or Moved.
    """

    turn: int
    expected: str = attrs.field(repr=False)
    kept: Kept


@attrs.frozen
class Rotate:
    """Ask for a new credential with the one in use; answer Issued, AskUnanswered or AskRefused."""

    turn: int


@attrs.frozen
class Register:
    """Ask for a credential with a one-time token; answers as for Rotate."""

    turn: int
    token: str = attrs.field(repr=False)
    cluster_id: str = ""


Ask: TypeAlias = Rotate | Register


@attrs.frozen
class Use:
    """Speak with this token from now on."""

    token: str = attrs.field(repr=False)


@attrs.frozen
class Done:
    """These requests are served by a new credential that is kept and has worked."""

    requests: tuple[str, ...]


@attrs.frozen
class Failed:
    """These requests cannot be served."""

    requests: tuple[str, ...]
    message: str


@attrs.frozen
class Note:
    """Something for the log. `level` is info, warning or error."""

    level: str
    message: str


Effect: TypeAlias = Write | Rotate | Register | Use | Done | Failed | Note
