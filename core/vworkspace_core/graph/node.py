"""What is to exist, as the engine is told: nodes, what they depend on, and when they may not be judged (PH-1)."""

from collections.abc import Callable, Set
from enum import Enum
from typing import Final, TypeAlias

import attrs

from vworkspace_core.apimachinery.manifest import Kind, Manifest
from vworkspace_core.apimachinery.places import Place
from vworkspace_core.apimachinery.resources import SECRET
from vworkspace_core.controller.decision import Fill
from vworkspace_core.graph.scope import Item, Scope
from vworkspace_core.readiness import Readiness
from vworkspace_core.schema import Schema

NOWHERE: Final = Place()
"""Of what stands in no file."""


class Until(Enum):
    """How much of a dependency is waited for."""

    NOTHING = "its value is looked at where it is there: it comes first in the order where that is possible"
    APPLIED = "it is applied in the same pass, before; or it is as wanted already"
    OBSERVED = "it exists and is as wanted"
    READY = "it is ready at its own generation"


@attrs.frozen
class Edge:
    """A dependency on the node `to`.

    An inferred edge counts only where the rendering touched it (`Rendered.touched`); a `declared` one always does.
    """

    to: str
    until: Until = Until.READY
    place: Place = attrs.field(default=NOWHERE, eq=False)
    declared: bool = False


class ApplyPolicy(Enum):
    """What is done so that an object exists."""

    ALWAYS = "it is applied whenever it differs"
    IF_ABSENT = "it is created where there is none, and never touched again"
    ONCE = "it is created once in its owner's life, also when somebody deletes it"
    NEVER = "it is somebody else's: looked at, never written, never deleted"


class Removal(Enum):
    """What becomes of an object that is not wanted any more, or whose owner goes."""

    DELETE = "it is deleted"
    ORPHAN = "it is let go of, and stays"


class PruneTime(Enum):
    """When an object that is not wanted any more goes."""

    WHEN_READY = "once everything that is wanted is ready"
    AT_ONCE = "as soon as it is known that it is not wanted"


class OnImmutable(Enum):
    """What is done when the API server refuses to change a field of an object."""

    FAIL = "it is told, and only another content can help"
    RECREATE = "the object is deleted, and made again once it is gone"


class HoldCause(Enum):
    """Why there is no yes."""

    NO = "the answer is no: like False, with a message that says why"
    MISSING = "a value that is not there yet: it is waited for"
    FAULT = "the expression cannot be evaluated on these values: only another content can help"
    DENIED = "somebody whose leave it takes has not given it: no fault of the content"
    LIMIT = "it takes more than it may: only another content can help"


@attrs.frozen
class Hold:
    """The answer of a function that has none: neither yes nor no, so that nothing is applied and nothing deleted.

    Only `HoldCause.NO` is an answer. `touched` are the edges that the evaluation needed, as in `Rendered`.
    """

    cause: HoldCause
    message: str
    place: Place = NOWHERE
    touched: Set[Edge] | None = None


@attrs.frozen
class Rendered:
    """The items that a node wants now. No two have one key.

    `touched` are those of the node's edges that the evaluation read: the other branch of a condition is no dependency.
    None where that is not known: all of them.
    """

    items: tuple[Item, ...] = ()
    touched: Set[Edge] | None = None


def always(scope: Scope) -> bool:
    """Nothing was asked."""
    return True


def anyhow(scope: Scope, item: Item, live: Manifest) -> bool:
    """Nothing beside the kind's own readiness was asked."""
    return True


Question: TypeAlias = Callable[[Scope], bool | Hold]
"""Asked of the world; a Hold where it cannot be answered, or to say why not."""


@attrs.frozen(eq=False)
class GraphNode:
    """One resource: none, one or many objects of one kind.

    `include`: should it exist; False prunes, a Hold holds. `render`: its items. `gate`: may we act now; False or a
    missing value holds what exists as it is. `ready`: is a live item healthy, beside what `readiness` says of its
    kind; None there is the kind's own rule. `is_choice`: a closed gate does not keep the owner from being ready.

    `schema`, where it is known, tells which lists are keyed and whether a status is to be expected. `adopt`: an object
    of that name that nobody controls is taken over. `refers`: its objects have an owner reference where one is legal;
    without it they are known by their label alone. `generate` are fields that are filled with random text as the
    object is created. `roll_on` are ids of nodes whose content is put as a hash on the pod template. `title` is what
    people call the node where no object of it can be named, as a rule the kind and the id.
    """

    id: str
    kind: Kind
    render: Callable[[Scope], Rendered | Hold]
    edges: tuple[Edge, ...] = ()
    include: Question = always
    gate: Question = always
    is_choice: bool = False
    ready: Callable[[Scope, Item, Manifest], bool | Hold] = anyhow
    readiness: Callable[[Manifest], Readiness] | None = None
    schema: Schema | None = None
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
        """Whether `roll_on` hashes what is rendered here; else it goes by what exists.

        Of a Secret nothing is hashed: who may read the pods' template could try out what gives that hash (L21).
        """
        return self.policy is ApplyPolicy.ALWAYS and self.kind != SECRET
