"""The result of a judgement: a state with a reason for machines and a message for people."""

from enum import Enum

import attrs


class State(Enum):
    """The state of an object."""

    READY = "Ready"
    PROGRESSING = "Progressing"
    FAILED = "Failed"
    """The object will not become ready without a change from outside."""
    UNKNOWN = "Unknown"
    """The object exists, and its status cannot be read."""


@attrs.frozen
class Readiness:
    """The readiness of an object. The message names what is missing; it is empty if there is nothing to say."""

    state: State
    reason: str
    message: str = ""

    @property
    def is_ready(self) -> bool:
        """Report whether a dependent object may proceed."""
        return self.state is State.READY


def ready(reason: str = "Ready", message: str = "") -> Readiness:
    """Return the result that nothing is missing."""
    return Readiness(State.READY, reason, message)


def progressing(reason: str, message: str) -> Readiness:
    """Return the result that something is missing that will come without intervention."""
    return Readiness(State.PROGRESSING, reason, message)


def failed(reason: str, message: str) -> Readiness:
    """Return the result that something is missing that will not come without intervention."""
    return Readiness(State.FAILED, reason, message)


def unknown(reason: str, message: str) -> Readiness:
    """Return the result that the object's status cannot be read."""
    return Readiness(State.UNKNOWN, reason, message)
