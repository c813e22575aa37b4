"""What is answered: a state with a reason for machines and a message for people."""

from enum import Enum

import attrs


class State(Enum):
    """How far an object has come."""

    READY = "Ready"
    PROGRESSING = "Progressing"
    FAILED = "Failed"
    """It will not become ready without a change from outside."""
    UNKNOWN = "Unknown"
    """It is there, and what it says cannot be read."""


@attrs.frozen
class Readiness:
    """The message names what is missing; it is empty where there is nothing to say."""

    state: State
    reason: str
    message: str = ""

    @property
    def is_ready(self) -> bool:
        """Whether a dependent object may go on."""
        return self.state is State.READY


def ready(reason: str = "Ready", message: str = "") -> Readiness:
    """Nothing is missing."""
    return Readiness(State.READY, reason, message)


def progressing(reason: str, message: str) -> Readiness:
    """Something is missing that comes by itself."""
    return Readiness(State.PROGRESSING, reason, message)


def failed(reason: str, message: str) -> Readiness:
    """Something is missing that does not come by itself."""
    return Readiness(State.FAILED, reason, message)


def unknown(reason: str, message: str) -> Readiness:
    """What the object says cannot be read."""
    return Readiness(State.UNKNOWN, reason, message)
