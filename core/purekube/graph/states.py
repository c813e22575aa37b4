"""The states of a node's items (the table of states)."""

from enum import StrEnum
from typing import Final

import attrs

from purekube.apimachinery.manifest import Manifest, ObjectRef
from purekube.apimachinery.places import Place
from purekube.graph.node import NOWHERE


class NodeState(StrEnum):
    """The state of one item; the first that applies."""

    MISSING_KIND = "MissingKind"
    """The API server does not serve the kind."""
    ERROR = "Error"
    """An expression cannot be evaluated: existing objects stay as they are."""
    WAITING = "Waiting"
    """A value or a dependency does not exist yet: existing objects stay as they are."""
    EXCLUDED = "Excluded"
    """The item should not exist."""
    FOREIGN = "Foreign"
    """An object of that name exists and is not ours."""
    LEAVING = "Leaving"
    """The object is being deleted; it is created again once it is gone."""
    HELD = "Held"
    """The gate is closed: existing objects stay as they are."""
    LEFT = "Left"
    """The object was created once, and is gone since."""
    CONFLICT = "Conflict"
    """Another field manager holds one of its fields."""
    REFUSED = "Refused"
    """The API server refused its content."""
    DENIED = "Denied"
    """The write is forbidden: a right or an agreement is missing."""
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
"""The states that only a change of the owner, of the graph, or help from outside can end."""


@attrs.frozen
class Observation:
    """The state of one item of a node, or of the node itself if its items are unknown (`ref` None).

    `reason` and `message` say why; the message does not repeat the object's name. `waits_for` are ids of the nodes that
    block it: without any it is an obstacle itself. `counts` is False if it does not affect whether the owner is ready:
    it is excluded, left, or held by choice. `place` is where the expression is in the file. `is_external`: it belongs
    to another owner and is only read.
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
        """Report whether the item does not keep the owner from being ready."""
        return self.state is NodeState.READY or not self.counts

    @property
    def is_stalled(self) -> bool:
        """Report whether only a change of the owner, of the graph, or help from outside can end its state."""
        return self.state in STALLED

    @property
    def name(self) -> str:
        """The name for people: kind, namespace and name; the node's title if no object is known."""
        return str(self.ref) if self.ref is not None else self.title or self.node
