"""The input of a node's functions: the caller's values, and what is known of the nodes so far."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs

from purekube.apimachinery.manifest import Manifest, ObjectRef, merge_patch


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
