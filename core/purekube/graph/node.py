"""The input of the engine: nodes, what they depend on and may read, and when they cannot be judged (PH-1)."""

from collections.abc import Callable, Mapping, Set
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, merge_patch
from purekube.apimachinery.problems import Place
from purekube.apimachinery.resources import SECRET
from purekube.controller.decision import Fill
from purekube.readiness import Readiness

if TYPE_CHECKING:
    from purekube.schema import Schema


@attrs.frozen
class Item:
    """One object that a node wants.

    `key` identifies an item within a list; it is empty if the node wants one object. `manifest` is what the author
    wrote, with values filled in; the engine adds owner, labels and hash. `bindings` are the caller's, for use when it
    decides whether this item is ready.
    """

    key: str
    manifest: Manifest
    bindings: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class Child:
    """An item as other nodes see it: desired (`rendered`) and existing (`live`), either of which may be None.

    Before its node is rendered, as for a soft reference in a cycle, `live` is found by its labels.
    """

    key: str
    ref: ObjectRef | None = None
    rendered: Manifest | None = None
    live: Manifest | None = None
    bindings: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def object(self) -> Manifest | None:
        """The live object with the rendered one merged over it: the value of `web` in an expression."""
        if self.live is None or self.rendered is None:
            return self.live if self.rendered is None else self.rendered
        return merge_patch(self.live, self.rendered)


class NodeKnowledge(Enum):
    """The knowledge about a node while others are rendered."""

    NOT_YET = "it comes later in the order; what exists is found by its labels"
    RENDERED = "its items are known"
    UNKNOWN = "whether it is wanted, or its items, could not be evaluated"
    EXCLUDED = "it is not to exist"


@attrs.frozen
class NodeChildren:
    """The items of one node as far as they are known, in rendering order."""

    knowledge: NodeKnowledge = NodeKnowledge.NOT_YET
    items: tuple[Child, ...] = ()


@attrs.frozen
class Scope:
    """The values that a node's functions read.

    `values` is the caller's own, such as the parent and settings; the engine never reads it. `nodes` is filled by the
    engine, by node id. In `render` and `include` it holds the nodes that come earlier in the graph; in `gate` and
    `ready` it is complete.
    """

    values: Mapping[str, Any] = attrs.field(factory=dict)
    nodes: Mapping[str, NodeChildren] = attrs.field(factory=dict)


NOWHERE: Final = Place()
"""The place of nodes that come from no file."""


class Until(Enum):
    """The state of a dependency that a node waits for."""

    NOTHING = "its value is looked at where it is there: it comes first in the order where that is possible"
    APPLIED = "it is applied in the same pass, before; or it is as wanted already"
    OBSERVED = "it exists and is as wanted"
    READY = "it is ready at its own generation"


@attrs.frozen
class Edge:
    """A dependency on the node `to`.

    An inferred edge counts only if the rendering read it (`Rendered.touched`); a `declared` one always counts.
    """

    to: str
    until: Until = Until.READY
    place: Place = attrs.field(default=NOWHERE, eq=False)
    declared: bool = False


class ApplyPolicy(Enum):
    """The policy by which an object is created and updated."""

    ALWAYS = "it is applied whenever it differs"
    IF_ABSENT = "it is created where there is none, and never touched again"
    ONCE = "it is created once in its owner's life, also when somebody deletes it"
    NEVER = "it is somebody else's: looked at, never written, never deleted"


class Removal(Enum):
    """The handling of an object that is no longer desired, or whose owner is being deleted."""

    DELETE = "it is deleted"
    ORPHAN = "it is let go of, and stays"


class PruneTime(Enum):
    """The moment at which an object that is no longer desired is pruned."""

    WHEN_READY = "once everything that is wanted is ready"
    AT_ONCE = "as soon as it is known that it is not wanted"


class OnImmutable(Enum):
    """The reaction when the API server refuses to change a field of an object."""

    FAIL = "it is told, and only another content can help"
    RECREATE = "the object is deleted, and made again once it is gone"


class HoldCause(Enum):
    """The reason why a condition of a node is not known to be true."""

    NO = "the answer is no: like False, with a message that says why"
    MISSING = "a value that is not there yet: it is waited for"
    FAULT = "the expression cannot be evaluated on these values: only another content can help"
    DENIED = "somebody whose leave it takes has not given it: no fault of the content"
    LIMIT = "it takes more than it may: only another content can help"


@attrs.frozen
class Hold:
    """The reason why a node's function returns neither True nor its items.

    `HoldCause.NO` counts as False. With any other cause from `include` or `render`, the node's objects are neither
    written nor pruned. `touched` are the edges that the evaluation read, as in `Rendered`.
    """

    cause: HoldCause
    message: str
    place: Place = NOWHERE
    touched: Set[Edge] | None = None


@attrs.frozen
class Rendered:
    """The items that a node requires now; their keys are unique.

    `touched` are the node's edges that the evaluation read: the branch of a condition that was not taken is no
    dependency. None if that is unknown: then all edges count.
    """

    items: tuple[Item, ...] = ()
    touched: Set[Edge] | None = None


def always(scope: Scope) -> bool:
    """Return True: the condition of a node without a condition."""
    return True


def always_ready(scope: Scope, item: Item, live: Manifest) -> bool:
    """Return True: the readiness of a node that adds nothing to its kind's own rule."""
    return True


Question: TypeAlias = Callable[[Scope], bool | Hold]
"""A question about the scope; the answer is a Hold if it cannot be answered, or to say why it is no."""


@attrs.frozen(eq=False)
class GraphNode:
    """One resource: none, one or many objects of one kind.

    `include`: whether it should exist; False prunes its objects, a Hold leaves them. `render`: its items. `gate`:
    whether it may be written now; False or a missing value leaves existing objects unchanged. `ready`: whether a live
    item is healthy, in addition to `readiness`; if that is None, the kind's own rule holds. `is_choice`: a closed gate
    does not keep the owner from being ready. `schema`, if known, says which lists are keyed and whether a status is
    expected. `adopt`: an existing object of that name without a controller is taken over. `refers`: its objects get an
    owner reference where one is legal; otherwise their label alone identifies them. `generate`: fields that are filled
    with random text when the object is created. `roll_on`: ids of nodes whose content is put as a hash on the pod
    template. `title`: the node's name for people while no object of it is known; by default the kind and the id.
    """

    id: str
    kind: Kind
    render: Callable[[Scope], Rendered | Hold]
    edges: tuple[Edge, ...] = ()
    include: Question = always
    when: Question = always
    is_choice: bool = False
    ready: Callable[[Scope, Item, Manifest], bool | Hold] = always_ready
    readiness: Callable[[Manifest], Readiness] | None = None
    schema: "Schema | None" = None
    policy: ApplyPolicy = ApplyPolicy.ALWAYS
    removal: Removal = Removal.DELETE
    prune: PruneTime = PruneTime.WHEN_READY
    on_immutable: OnImmutable = OnImmutable.FAIL
    adopt: bool = False
    refers: bool = True
    generate: tuple[Fill, ...] = ()
    roll_on: tuple[str, ...] = ()
    place: Place = NOWHERE
    title: str = ""

    @property
    def is_rolled_as_rendered(self) -> bool:
        """Report whether `roll_on` hashes rendered content; otherwise it hashes what exists.

        The content of a Secret is never hashed: a reader of the pod template could find the value by trying candidates.
        """
        return self.policy is ApplyPolicy.ALWAYS and self.kind != SECRET
