"""What the functions of a node see: what the caller put in, and what is known of the nodes so far."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs

from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, merge_patch


@attrs.frozen
class Item:
    """One object that a node wants.

    `key` tells the items of a list apart and is their identity; it is empty where a node wants one object. `manifest`
    is what the author wrote, with its values; owner, labels and hash are added by the engine. `bindings` is the
    caller's: what it wants to find again when it is asked whether this item is ready.
    """

    key: str
    manifest: Manifest
    bindings: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class Child:
    """An item as others see it: what is wanted (`rendered`), what exists (`live`), either of which may be None.

    Before its node is rendered, as for a soft reference in a circle, `live` is found by its labels.
    """

    key: str
    ref: ObjectRef | None = None
    rendered: Manifest | None = None
    live: Manifest | None = None
    bindings: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def object(self) -> Manifest | None:
        """The live object with what is rendered over it: the value of `web` in an expression."""
        if self.live is None or self.rendered is None:
            return self.live if self.rendered is None else self.rendered
        return merge_patch(self.live, self.rendered)


class Knowledge(Enum):
    """How much is known of a node while others are rendered."""

    NOT_YET = "it comes later in the order; what exists is found by its labels"
    RENDERED = "its items are known"
    UNKNOWN = "whether it is wanted, or its items, could not be evaluated"
    EXCLUDED = "it is not to exist"


@attrs.frozen
class NodeChildren:
    """What is known of one node, its items in the order in which they were rendered."""

    knowledge: Knowledge = Knowledge.NOT_YET
    items: tuple[Child, ...] = ()


@attrs.frozen
class Scope:
    """`values` is the caller's own: the parent, settings, whatever its functions read. The engine never looks at it.

    `nodes` is filled by the engine, by node id. In `render` and `include` it holds what the order of the graph puts
    before; in `gate` and `ready` it is whole.
    """

    values: Mapping[str, Any] = attrs.field(factory=dict)
    nodes: Mapping[str, NodeChildren] = attrs.field(factory=dict)
