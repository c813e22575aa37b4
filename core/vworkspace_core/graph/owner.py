"""Who owns the objects of a graph, and how that is written on them."""

from collections.abc import Mapping

import attrs

from vworkspace_core.apimachinery.manifest import Kind
from vworkspace_core.apimachinery.meta import ObjectMeta
from vworkspace_core.graph.once import CreateRecord


@attrs.frozen
class Marks:
    """Names of the labels and annotations by which objects are told again; all but one lie below `domain`.

    Prune and teardown read nothing else.
    """

    domain: str
    applied_hash: str = "vworkspace.io/applied-hash"

    @property
    def owner_uid(self) -> str:
        """Label: uid of the owner."""
        return f"{self.domain}/owner-uid"

    @property
    def node(self) -> str:
        """Label: id of the node."""
        return f"{self.domain}/node"

    @property
    def item(self) -> str:
        """Label: key of the item, where the node has a list of them."""
        return f"{self.domain}/item"

    @property
    def wave(self) -> str:
        """Annotation: the wave in which it was applied."""
        return f"{self.domain}/wave"

    @property
    def removal(self) -> str:
        """Annotation: `Orphan` on what is let go of instead of deleted."""
        return f"{self.domain}/on-delete"

    @property
    def roll(self) -> str:
        """Annotation of a pod template: hash of what it is to be rolled on."""
        return f"{self.domain}/roll-hash"


@attrs.frozen
class Owner:
    """The object that a graph is for. `meta` holds its uid: another object of that name is another owner.

    `manager` is the field manager of all writes. `labels` are put on every object beside the marks. `records` is what
    the owner's status says of objects that are created once. Without `references` no object gets an owner reference:
    the garbage collector then takes nothing down out of order, and nothing at all.
    """

    kind: Kind
    meta: ObjectMeta
    manager: str
    marks: Marks
    labels: Mapping[str, str] = attrs.field(factory=dict)
    records: tuple[CreateRecord, ...] = ()
    references: bool = True
