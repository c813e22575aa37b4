"""How each item of each node stands (boxes, table of states; L14)."""

from enum import StrEnum
from typing import Final

import attrs

from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef
from vworkspace_core.apimachinery.places import Place
from vworkspace_core.graph.node import NOWHERE


class NodeState(StrEnum):
    """How one item stands; the first that applies."""

    MISSING_KIND = "MissingKind"
    """The API server does not serve the kind."""
    ERROR = "Error"
    """An expression cannot be evaluated: what exists is held as it is."""
    WAITING = "Waiting"
    """A value, or something that it depends on, is not there yet: what exists is held as it is."""
    EXCLUDED = "Excluded"
    """It is not to exist."""
    FOREIGN = "Foreign"
    """An object of that name exists and is not ours."""
    LEAVING = "Leaving"
    """The object is being deleted; it is made again once it has gone."""
    HELD = "Held"
    """Its gate is closed: what exists is held as it is."""
    LEFT = "Left"
    """It was created once, and has gone since."""
    CONFLICT = "Conflict"
    """Another field manager holds a field of it."""
    REFUSED = "Refused"
    """The API server refused its content."""
    DENIED = "Denied"
    """We may not write it."""
    RETRYING = "Retrying"
    """A write failed that may succeed later."""
    PENDING = "Pending"
    """It is written in this pass."""
    FAILED = "Failed"
    """It is there, and will not become ready by itself."""
    PROGRESSING = "Progressing"
    """It is there, and not ready yet."""
    READY = "Ready"
    """Nothing is missing."""


STALLED: Final = frozenset(
    {NodeState.ERROR, NodeState.FOREIGN, NodeState.CONFLICT, NodeState.REFUSED, NodeState.FAILED}
)
"""Only a change of the owner, of the graph, or help from outside can move these."""


@attrs.frozen
class Observation:
    """One item of a node, or the node itself where its items are not known (`ref` None).

    `reason` and `message` say why it stands so; the message does not repeat the object's name. `waits_for` are ids of
    the nodes in its way: what has none is an obstacle itself. `counts` is False where it has no say in whether the
    owner is ready: it is excluded, left, or held by a choice. `place` is where an expression stands. `is_external`:
    it is somebody else's, and only looked at.
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
    """Whether an object in conflict is healthy, and was brought to what is wanted but for what others hold."""

    @property
    def is_ready(self) -> bool:
        """Whether it keeps nothing from being ready."""
        return self.state is NodeState.READY or not self.counts

    @property
    def is_stalled(self) -> bool:
        """Whether only a change of the owner, of the graph, or help from outside can move it."""
        return self.state in STALLED

    @property
    def name(self) -> str:
        """What people know it by: kind, namespace and name; the node's title where no object is known."""
        return str(self.ref) if self.ref is not None else self.title or self.node
