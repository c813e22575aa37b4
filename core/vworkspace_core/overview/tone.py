"""The urgency of a state at a glance, whatever its word: for colours, signs and the order of a list (SEE-3)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from purekube.graph import NodeState
from vworkspace_core.overview.summary import OverviewState


class Tone(StrEnum):
    """The meaning of a state to a viewer; the worst first."""

    BAD = "bad"
    """A person has to help."""
    WAITING = "waiting"
    """An obstacle is in the way."""
    MOVING = "moving"
    """Work is in progress."""
    GOOD = "good"
    QUIET = "quiet"
    """No change is expected."""


_OF_STATES: Final[Mapping[OverviewState, Tone]] = {
    OverviewState.READY: Tone.GOOD,
    OverviewState.SUCCEEDED: Tone.GOOD,
    OverviewState.PROGRESSING: Tone.MOVING,
    OverviewState.RUNNING: Tone.MOVING,
    OverviewState.DELETING: Tone.MOVING,
    OverviewState.WAITING: Tone.WAITING,
    OverviewState.NOT_READY: Tone.WAITING,
    OverviewState.STALLED: Tone.BAD,
    OverviewState.DEGRADED: Tone.BAD,
    OverviewState.FAILED: Tone.BAD,
    OverviewState.SUSPENDED: Tone.QUIET,
    OverviewState.CANCELLED: Tone.QUIET,
    OverviewState.UNSEEN: Tone.QUIET,
    OverviewState.EXCLUDED: Tone.QUIET,
}
_OF_NODES: Final[Mapping[NodeState, Tone]] = {
    NodeState.READY: Tone.GOOD,
    NodeState.PENDING: Tone.MOVING,
    NodeState.PROGRESSING: Tone.MOVING,
    NodeState.LEAVING: Tone.MOVING,
    NodeState.RETRYING: Tone.MOVING,
    NodeState.WAITING: Tone.WAITING,
    NodeState.HELD: Tone.WAITING,
    NodeState.MISSING_KIND: Tone.BAD,
    NodeState.ERROR: Tone.BAD,
    NodeState.FOREIGN: Tone.BAD,
    NodeState.CONFLICT: Tone.BAD,
    NodeState.REFUSED: Tone.BAD,
    NodeState.DENIED: Tone.BAD,
    NodeState.FAILED: Tone.BAD,
    NodeState.EXCLUDED: Tone.QUIET,
    NodeState.LEFT: Tone.QUIET,
}
_ORDER: Final = {tone: at for at, tone in enumerate(Tone)}


def tone_of(state: OverviewState) -> Tone:
    """Return the tone of an object's state."""
    return _OF_STATES[state]


def tone_of_node(state: NodeState) -> Tone:
    """Return the tone of a node's state in a graph."""
    return _OF_NODES[state]


def urgency(tone: Tone) -> int:
    """Return the rank of a tone: the smaller, the more urgent."""
    return _ORDER[tone]
