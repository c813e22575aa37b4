"""The states of a graph node's objects, and the state that an object gets after a refused write (REC-8, REC-13)."""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import attrs

from purekube.apimachinery.errors import Conflict, Forbidden, Invalid, KindMissing, NotFound, Permanent
from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.problems import Place
from purekube.apimachinery.secret_material import safe
from purekube.controller.decision import REFUSED_SECONDS, SLOW_SECONDS, Failure, Requeue, RequeuePace, requeue_for
from purekube.controller.managed_fields import conflict_message
from purekube.graph.node import NOWHERE


class NodeState(StrEnum):
    """The state of one object of a graph node, such as waiting, being deleted, failed or ready.

    `judge` checks for these states in a fixed order, and uses the first that applies.
    """

    MISSING_KIND = "MissingKind"
    """The API server does not serve the kind."""
    ERROR = "Error"
    """An expression cannot be evaluated: existing objects stay as they are."""
    WAITING = "Waiting"
    """A value or a dependency does not exist yet: existing objects stay as they are."""
    EXCLUDED = "Excluded"
    """The node should not exist: its condition, or a node on which it depends, excludes it."""
    FOREIGN = "Foreign"
    """An object of that name exists and does not belong to the owner."""
    LEAVING = "Leaving"
    """The object is being deleted; it is created again once it is gone."""
    HELD = "Held"
    """The gate (the condition `when`) is closed: existing objects stay as they are."""
    LEFT = "Left"
    """The object was created once and no longer exists; it is not created again."""
    CONFLICT = "Conflict"
    """Another field manager holds one of its fields."""
    REFUSED = "Refused"
    """The API server refused its content."""
    DENIED = "Denied"
    """A permission is missing: an RBAC right, or the consent of another namespace or object."""
    RETRYING = "Retrying"
    """A write failed that may succeed later."""
    PENDING = "Pending"
    """The object is written in this pass."""
    FAILED = "Failed"
    """The object exists, and will not become ready without help."""
    PROGRESSING = "Progressing"
    """The object exists, and is not ready yet."""
    READY = "Ready"
    """The object is as desired, and healthy."""


STALLED: Final = frozenset(
    {NodeState.ERROR, NodeState.FOREIGN, NodeState.CONFLICT, NodeState.REFUSED, NodeState.FAILED}
)
"""The states that end only by a change of the owner or the graph, or by help from outside."""


@attrs.frozen
class Observation:
    """The state of one object of a graph node, or of the whole node if its objects are unknown (`ref` None).

    `reason` and `message` explain the state; the message does not repeat the object's name. `waits_for` are ids of the
    nodes that block the object; an unready object without any is itself the obstacle. `counts` is False if the object
    does not affect whether the owner is ready, for example because it is excluded, or its gate (a condition for the
    write) is closed by choice (`GraphNode.is_choice`). `place` is the position of the node or of its expression in the
    file that declares the graph, if there is one. `is_external` says that the object belongs to another owner and is
    only read.
    """

    node: str
    state: NodeState
    reason: str = ""
    message: str = ""
    key: str = ""
    ref: ObjectRef | None = None
    live: Manifest | None = attrs.field(default=None, eq=False, repr=False)
    waits_for: tuple[str, ...] = ()
    counts: bool = True
    place: Place = NOWHERE
    title: str = ""
    is_external: bool = False
    holds_ready: bool = False
    """True if an object in conflict is healthy, and is as desired except for the fields that others hold."""

    @property
    def is_ready(self) -> bool:
        """Report whether the object is ready, or its owner may become Ready even if the object is not."""
        return self.state is NodeState.READY or not self.counts

    @property
    def is_written(self) -> bool:
        """True if the object is written in this pass."""
        return self.state is NodeState.PENDING

    @property
    def is_stalled(self) -> bool:
        """Report whether the object's state ends only through a change of the owner or the graph, or outside help."""
        return self.state in STALLED

    @property
    def name(self) -> str:
        """The object's name for people: kind, namespace and name; the title of the graph node if no object is known."""
        return str(self.ref) if self.ref is not None else self.title or self.node


_IMMUTABLE: Final = re.compile(
    r"(?<![./\w-])immutable(?![./\w-])|updates to \w+ spec for fields other than|may not change once set"
    r"|cannot change roleRef|pod updates may not change fields other than|updates to \w+ are forbidden"
    r"|may not be changed in an update",
    re.I,
)
"""A pattern of API servers' messages about an immutable field; the rules of CRDs usually say `immutable` too.

Further kinds have words of their own: bindings, Pods, StorageClasses, PriorityClasses.
"""
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"?')
"""A quoted value in a message. Without a closing quote it extends to the end of the message, which keeps the search
linear.
"""


@attrs.frozen
class Setback:
    """The state that an object gets because a write of it was refused, with the reason and the time of the next try."""

    state: NodeState
    reason: str
    message: str
    requeue: Requeue


_LONGEST_CONFLICT: Final = 4096
"""The longest message about a conflict in bytes. The message ends with a command, which would be useless if cut."""


def setback(failure: Failure, manager: str) -> Setback:
    """Return the state of an object after the refused write in `failure`, with the reason and the time of the next try.

    `manager` is the field manager that made the write.
    """
    error = failure.error
    message = safe(f"{failure.verb}: {error.message}")
    match error:
        case Conflict():
            told = safe(conflict_message(failure, error, manager).removeprefix(f"{failure.ref}: "), _LONGEST_CONFLICT)
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
    """Report whether the server refused the write in `failure` only because it changes immutable fields.

    The object is deleted because of the result, so a match in its name or in a quoted value must not count. A refusal
    with a further problem does not count either, since the new object would be refused as well.
    """
    error = failure.error
    if not isinstance(error, Invalid):
        return False
    told = [cause.message.replace(f"{cause.field} in body", "") for cause in error.causes]
    said = error.message.partition(": ")[2] or error.message  # without what was asked for, which names the object
    return all(_IMMUTABLE.search(_QUOTED.sub("", text)) for text in told or [said])


def earliest_requeue(requeues: Iterable[Requeue]) -> Requeue:
    """Return one requeue that combines all of `requeues`; `Requeue.NO` if there are none.

    It has the most urgent pace (the rule for the delay, such as a backoff) among them, the lowest limit `after`, and
    the longest `not_before`, since the server may have asked for different times.
    """
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
    return attrs.evolve(chosen, not_before=max(requeue.not_before for requeue in found))
