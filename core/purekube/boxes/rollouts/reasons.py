"""The types of the conditions of applied boxes (OperatorBox objects), and the reasons in these conditions.

The module imports nothing else of the package, for code that reads conditions and needs no more.
"""

from enum import StrEnum
from typing import Final

ACCEPTED, PERMITTED, SERVING, ROLLED_OUT = "Accepted", "Permitted", "Serving", "RolledOut"
CONDITIONS: Final = (ACCEPTED, PERMITTED, SERVING, ROLLED_OUT)
"""The types of an applied box's conditions."""


class BoxReason(StrEnum):
    """The reasons in the conditions of an applied box (an OperatorBox object), apart from those in `RolloutPhase`."""

    VALID = "Valid"
    INVALID = "Invalid"
    NOT_ACCEPTED = "NotAccepted"
    GRANTED = "Granted"
    FORBIDDEN = "Forbidden"
    NOT_PERMITTED = "NotPermitted"
    STARTING = "Starting"
    RUNNING = "Running"
    FORMER_REVISIONS = "FormerRevisions"
    REFUSED = "Refused"
    DELETING = "Deleting"
    NOT_SERVED = "NotServed"
    UNDONE = "Undone"
    NO_SUCH_REVISION = "NoSuchRevision"


class RolloutPhase(StrEnum):
    """The state of a rollout. Its value is also the reason of the condition RolledOut."""

    COMPLETE = "Complete"
    STOPPED = "Stopped"
    PAUSED = "Paused"
    GATED = "Gated"
    JUDGING = "Judging"
    REFUSED = "Refused"
    PROGRESSING = "Progressing"
