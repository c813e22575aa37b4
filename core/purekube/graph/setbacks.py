"""The meaning of a refused write for an item, and when it is tried again (REC-8, REC-13)."""

import re
from collections.abc import Iterable
from typing import Final

import attrs

from purekube.apimachinery.errors import Conflict, Forbidden, Invalid, KindMissing, NotFound, Permanent
from purekube.apimachinery.secret_material import safe
from purekube.controller.decision import Failure
from purekube.controller.refused_writes import conflict_message
from purekube.controller.requeue import REFUSED_SECONDS, SLOW_SECONDS, Requeue, RequeuePace, requeue_for
from purekube.graph.states import NodeState

_IMMUTABLE: Final = re.compile(r"immutable|updates to \w+ spec for fields other than|may not change once set", re.I)
"""Messages of API servers for a field that is immutable; rules of CRDs usually say `immutable` too."""


@attrs.frozen
class Setback:
    """The state of an item whose write was refused, why, and when to try again."""

    state: NodeState
    reason: str
    message: str
    requeue: Requeue


def setback(failure: Failure, manager: str) -> Setback:
    """Return what a refused write means for the item."""
    error = failure.error
    message = safe(f"{failure.verb}: {error.message}")
    match error:
        case Conflict():
            told = safe(conflict_message(failure, error, manager).removeprefix(f"{failure.ref}: "))
            return Setback(NodeState.CONFLICT, "FieldConflict", told, Requeue.SLOW)
        case Invalid():
            return Setback(NodeState.REFUSED, "Invalid", message, Requeue.NO)
        case KindMissing():
            return Setback(NodeState.MISSING_KIND, "MissingKind", message, Requeue.SLOW)
        case Forbidden():
            pace = Requeue.REFUSED if error.right is not None else Requeue.SLOW
            return Setback(NodeState.DENIED, "Forbidden", message, pace)
        case Permanent():
            return Setback(NodeState.REFUSED, "Refused", message, Requeue.SLOW)
        case NotFound():
            return Setback(NodeState.RETRYING, "NotFound", f"{message}; tried again", Requeue.SLOW)
        case _:
            return Setback(NodeState.RETRYING, type(error).__name__, f"{message}; tried again", requeue_for(error))


def is_immutable(failure: Failure) -> bool:
    """Report whether the server refused to change an immutable field."""
    error = failure.error
    if not isinstance(error, Invalid):
        return False
    return any(_IMMUTABLE.search(text) for text in (error.message, *(cause.message for cause in error.causes)))


def earliest_requeue(requeues: Iterable[Requeue]) -> Requeue:
    """Combine requeues: the pace of the failure that is most likely to pass, and the earliest of all times."""
    found = tuple(requeues)
    if not found:
        return Requeue.NO
    by_pace = {requeue.pace: requeue for requeue in found}
    paces = (RequeuePace.IMMEDIATE, RequeuePace.BACKOFF, RequeuePace.REFUSED, RequeuePace.SLOW)
    chosen = next((by_pace[pace] for pace in paces if pace in by_pace), Requeue.NO)
    if chosen.pace is RequeuePace.BACKOFF and RequeuePace.REFUSED in by_pace:
        chosen = chosen.no_later_than(REFUSED_SECONDS)
    elif chosen.pace in (RequeuePace.BACKOFF, RequeuePace.REFUSED) and RequeuePace.SLOW in by_pace:
        chosen = chosen.no_later_than(SLOW_SECONDS)
    for requeue in found:
        chosen = chosen.no_later_than(requeue.after)
    return chosen
