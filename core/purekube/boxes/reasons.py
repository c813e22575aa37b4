"""The conditions of applied boxes, and their reasons, for code that reads them and needs no boxes."""

from enum import StrEnum
from typing import Final

ACCEPTED, PERMITTED, SERVING, ROLLED_OUT = "Accepted", "Permitted", "Serving", "RolledOut"
CONDITIONS: Final = (ACCEPTED, PERMITTED, SERVING, ROLLED_OUT)
"""The types of an applied box's conditions."""


class BoxReason(StrEnum):
    """The reasons of the conditions of an applied box, in addition to those of a rollout."""

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


class RolloutPhase(StrEnum):
    """The state of a rollout. Its value is also the reason of the condition RolledOut."""

    COMPLETE = "Complete"
    STOPPED = "Stopped"
    PAUSED = "Paused"
    GATED = "Gated"
    JUDGING = "Judging"
    REFUSED = "Refused"
    PROGRESSING = "Progressing"
