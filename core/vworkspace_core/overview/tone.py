"""How a state is to be taken at a glance, whatever its word: for colours, signs and the order of a list (SEE-3)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from vworkspace_core.graph import NodeState
from vworkspace_core.overview.summary import OverviewState


class Tone(StrEnum):
    """What a state means for whoever looks; the worst first."""

    BAD = "bad"
    """Somebody has to help."""
    WAITING = "waiting"
    """Something is in the way."""
    MOVING = "moving"
    """It is on the way."""
    GOOD = "good"
    QUIET = "quiet"
    """Nothing is expected of it."""


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
    """Of an object."""
    return _OF_STATES[state]


def tone_of_node(state: NodeState) -> Tone:
    """Of a node of a graph."""
    return _OF_NODES[state]


def urgency(tone: Tone) -> int:
    """The smaller, the more it wants somebody's eye."""
    return _ORDER[tone]
