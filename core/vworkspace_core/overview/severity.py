"""The severity of each state of objects and graph nodes, for the colours, signs and order of lists (SEE-3).

A graph node is a child object that a box (a YAML file) or a reconciler in Python declares.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from purekube.graph.states import NodeState
from vworkspace_core.overview.summary import OverviewState


class Severity(StrEnum):
    """The severity of a state for a viewer, in order from worst to best."""

    BAD = "bad"
    """A person has to help."""
    WAITING = "waiting"
    """An obstacle is in the way."""
    MOVING = "moving"
    """Work is in progress."""
    GOOD = "good"
    QUIET = "quiet"
    """No change is expected."""


_OF_STATES: Final[Mapping[OverviewState, Severity]] = {
    OverviewState.READY: Severity.GOOD,
    OverviewState.SUCCEEDED: Severity.GOOD,
    OverviewState.PROGRESSING: Severity.MOVING,
    OverviewState.RUNNING: Severity.MOVING,
    OverviewState.DELETING: Severity.MOVING,
    OverviewState.WAITING: Severity.WAITING,
    OverviewState.NOT_READY: Severity.WAITING,
    OverviewState.STALLED: Severity.BAD,
    OverviewState.DEGRADED: Severity.BAD,
    OverviewState.FAILED: Severity.BAD,
    OverviewState.SUSPENDED: Severity.QUIET,
    OverviewState.CANCELLED: Severity.QUIET,
    OverviewState.UNSEEN: Severity.QUIET,
    OverviewState.EXCLUDED: Severity.QUIET,
}
_OF_NODES: Final[Mapping[NodeState, Severity]] = {
    NodeState.READY: Severity.GOOD,
    NodeState.PENDING: Severity.MOVING,
    NodeState.PROGRESSING: Severity.MOVING,
    NodeState.LEAVING: Severity.MOVING,
    NodeState.RETRYING: Severity.MOVING,
    NodeState.WAITING: Severity.WAITING,
    NodeState.HELD: Severity.WAITING,
    NodeState.MISSING_KIND: Severity.BAD,
    NodeState.ERROR: Severity.BAD,
    NodeState.FOREIGN: Severity.BAD,
    NodeState.CONFLICT: Severity.BAD,
    NodeState.REFUSED: Severity.BAD,
    NodeState.DENIED: Severity.BAD,
    NodeState.FAILED: Severity.BAD,
    NodeState.EXCLUDED: Severity.QUIET,
    NodeState.LEFT: Severity.QUIET,
}
_ORDER: Final = {severity: at for at, severity in enumerate(Severity)}


def severity_of(state: OverviewState) -> Severity:
    """Return the severity of an object's state."""
    return _OF_STATES[state]


def needs_person(state: OverviewState, *, is_helpable: bool) -> bool:
    """Report whether a person has to help an object in this state.

    The answer is True if the severity of the state is BAD. If only a person can remove the obstacle (`is_helpable`), it
    is also True if the severity is WAITING, and for an object that is being deleted.
    """
    severity = severity_of(state)
    can_wait = severity is Severity.WAITING or state is OverviewState.DELETING
    return severity is Severity.BAD or (can_wait and is_helpable)


def severity_of_node(state: NodeState) -> Severity:
    """Return the severity of the state of a graph node, a child object that an operator declares."""
    return _OF_NODES[state]


def urgency(severity: Severity) -> int:
    """Return the rank of a severity. The most urgent severity has the smallest rank."""
    return _ORDER[severity]
