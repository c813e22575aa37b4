"""The input of the graph engine: nodes, their dependencies, and what their functions read and return (PH-1).

A node is a resource that should exist for an owner: any number of child objects of one kind.
"""

from collections.abc import Callable, Mapping, Set
from enum import Enum, StrEnum
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
    """A desired object as its graph node rendered it.

    `key` identifies the item in a node with a list of objects; it is "" in a node with a single object. `manifest` is
    what the author wrote, with all expressions replaced by their values; owner, labels and hash are added later.
    `bindings` hold values that the caller needs to decide whether this item is ready.
    """

    key: str
    manifest: Manifest
    bindings: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class Child:
    """An object as other graph nodes see it: desired (`rendered`) and existing (`live`). Either may be None.

    A node that depends on another with `Until.NOTHING` does not wait for it, and may read it before it is rendered.
    Until then `rendered` is None, and `live` is the object found by its labels.
    """

    key: str
    ref: ObjectRef | None = None
    rendered: Manifest | None = None
    live: Manifest | None = None
    bindings: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def object(self) -> Manifest | None:
        """The live object with the rendered one merged over it. An expression that names the graph node reads this
        value.
        """
        if self.live is None or self.rendered is None:
            return self.live if self.rendered is None else self.rendered
        return merge_patch(self.live, self.rendered)


class NodeKnowledge(Enum):
    """The extent to which the objects of a graph node are known while the graph is being evaluated.

    They are not rendered yet, rendered, unknown because the evaluation failed or waits for a value, or excluded.
    """

    NOT_YET = "it comes later in the order; what exists is found by its labels"
    RENDERED = "its items are known"
    UNKNOWN = "whether it is wanted, or its items, could not be evaluated"
    EXCLUDED = "it is not to exist"


@attrs.frozen
class NodeChildren:
    """The objects of one graph node as far as they are known, in the order in which the node rendered them."""

    knowledge: NodeKnowledge = NodeKnowledge.NOT_YET
    items: tuple[Child, ...] = ()


@attrs.frozen
class Scope:
    """The values that a graph node's functions (`include`, `render`, `when`, `ready`) read.

    `values` belongs to the caller, for example the parent and settings; the graph engine never reads it. The engine
    fills `nodes`: the desired and the live objects of each other node, by node id. In `render` and `include` it has
    only the nodes that come earlier in the graph; in `when` and `ready` it has all.
    """

    values: Mapping[str, Any] = attrs.field(factory=dict)
    nodes: Mapping[str, NodeChildren] = attrs.field(factory=dict)


NOWHERE: Final = Place()
"""The empty place (position in a file), for graph nodes that were not read from a file."""


class Until(Enum):
    """The state that a dependency must reach before the graph node that depends on it is written.

    APPLIED: it is written earlier in the same pass, or is already as desired. OBSERVED: it exists as desired. READY: it
    is ready at its present generation. NOTHING: it comes first in the order if possible, and is not waited for.
    """

    NOTHING = "its value is looked at where it is there: it comes first in the order where that is possible"
    APPLIED = "it is applied in the same pass, before; or it is as wanted already"
    OBSERVED = "it exists and is as wanted"
    READY = "it is ready at its own generation"


@attrs.frozen
class Edge:
    """A dependency of a graph node on the node `to`, which must first reach the state `until`.

    A `declared` dependency always counts. A dependency inferred from an expression counts only if rendering really read
    the node `to` (`Rendered.touched`).
    """

    to: str
    until: Until = Until.READY
    place: Place = attrs.field(default=NOWHERE, eq=False)
    declared: bool = False


class ApplyPolicy(Enum):
    """The policy by which the objects of a graph node are created and updated.

    ALWAYS: an object is applied whenever it differs. IF_ABSENT: it is created if it is missing, and never updated.
    ONCE: it is created once in its owner's life, and not again if it is deleted. NEVER: it belongs to another owner,
    and is only read.
    """

    ALWAYS = "it is applied whenever it differs"
    IF_ABSENT = "it is created where there is none, and never touched again"
    ONCE = "it is created once in its owner's life, also when somebody deletes it"
    NEVER = "it is somebody else's: looked at, never written, never deleted"


class Removal(StrEnum):
    """The handling of an object that is no longer desired, or whose owner is being deleted.

    DELETE: the object is deleted. ORPHAN: the object stays, and no longer belongs to the owner.
    """

    DELETE = "Delete"
    ORPHAN = "Orphan"


class PruneTime(StrEnum):
    """The moment at which an object that is no longer desired is pruned.

    WHEN_READY: once all desired objects are ready. AT_ONCE: as soon as it is known that the object is not desired.
    """

    WHEN_READY = "WhenReady"
    AT_ONCE = "AtOnce"


class OnImmutable(StrEnum):
    """The reaction when the API server refuses to change an immutable field of an object.

    FAIL: the refusal is reported, and only a changed manifest can help. RECREATE: the object is deleted, and created
    again once it is gone.
    """

    FAIL = "Fail"
    RECREATE = "Recreate"


class HoldCause(Enum):
    """The reasons why a graph node must wait, or should not exist.

    NO: the answer is no. MISSING: a value is not there yet. FAULT: the expression cannot be evaluated. DENIED: a
    permission is missing. LIMIT: a limit is exceeded.
    """

    NO = "the answer is no: like False, with a message that says why"
    MISSING = "a value that is not there yet: it is waited for"
    FAULT = "the expression cannot be evaluated on these values: only another content can help"
    DENIED = "somebody whose leave it takes has not given it: no fault of the content"
    LIMIT = "it takes more than it may: only another content can help"


@attrs.frozen
class Hold:
    """A negative answer of a graph node's function, with the reason. `include`, `when` and `ready` return it in place
    of True, and `render` in place of the node's items.

    `HoldCause.NO` counts as False. For any other cause in `include` or `render`, the node's objects are neither written
    nor pruned. `touched` are the dependencies that the evaluation read, as in `Rendered`.
    """

    cause: HoldCause
    message: str
    place: Place = NOWHERE
    touched: Set[Edge] | None = None


@attrs.frozen
class Rendered:
    """The objects that a graph node requires now, each with a unique key.

    `touched` are the dependencies that the evaluation read, which are not those of a branch that was not taken. If it
    is None, all dependencies count.
    """

    items: tuple[Item, ...] = ()
    touched: Set[Edge] | None = None


def always(scope: Scope) -> bool:
    """Return True. This is the default of a graph node's conditions `include` and `when`."""
    return True


def always_ready(scope: Scope, item: Item, live: Manifest) -> bool:
    """Return True. This is the default of a graph node's `ready`: only the readiness rule of the kind decides."""
    return True


Question: TypeAlias = Callable[[Scope], bool | Hold]
"""A condition on the scope. It returns a Hold if it cannot be evaluated, or to give a reason why it is False."""


@attrs.frozen(eq=False)
class GraphNode:
    """One resource of a graph: any number of objects of one kind.

    `include` decides whether the node should exist: False prunes its objects, a Hold leaves them. `render` returns its
    desired objects. `when` is its gate, which decides whether it may be written now; while the gate is closed, existing
    objects stay unchanged. `is_choice` says that a closed gate does not keep the owner from being Ready. `ready` tests
    a live object in addition to `readiness`, which by default is the kind's own rule.

    `schema`, if known, says which lists are keyed and whether a status is expected. `adopt` says that an existing
    object of that name without a controller is taken over. `refers` says that the node's objects get an owner reference
    where Kubernetes permits one; otherwise only their label identifies them. `generate` are fields that are filled with
    random text when the object is created. `roll_on` are ids of nodes whose content is hashed into the pod template, so
    that a change replaces the pods. `title` is the node's name for people while it has no known object, by default kind
    and id.
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
        """Report whether the hash for nodes that name this node in `roll_on` is that of its rendered objects. If not,
        it is the hash of its live objects.

        The hash is put into the pod templates of these nodes, so that a change of it replaces the pods. Of a Secret
        only uid and resourceVersion are hashed, never the content, since a reader of the pod template could find its
        value by trying candidates.
        """
        return self.policy is ApplyPolicy.ALWAYS and self.kind != SECRET
