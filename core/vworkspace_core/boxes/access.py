"""What a box does to which kind, and where: the verbs that its roles grant, and no other (RUN-7, L25).

Every verb stands here because the controller of a box uses it; a test with roles switched on compares them with what
an audit log saw.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from vworkspace_core.apimachinery import resources as known
from vworkspace_core.apimachinery.access import Access
from vworkspace_core.boxes.box import Box, BoxNode
from vworkspace_core.boxes.child_kinds import child_kinds
from vworkspace_core.boxes.model import ApplyMode, ImmutableMode, OnDelete, OwnerMode

_FOLLOWED: Final = ("list", "watch")


@attrs.frozen
class BoxAccess:
    """`everywhere`: by a ClusterRole. `tenant`: where its objects are, by a Role in each such namespace, or there too.

    `own`: in the namespace of the process that runs it, where it stands for election.
    """

    everywhere: tuple[Access, ...]
    tenant: tuple[Access, ...]
    own: tuple[Access, ...] = ()


LEASE: Final = (Access(known.LEASE, ("get", "create", "update")),)


def access_of(boxes: Iterable[Box]) -> BoxAccess:
    """The verbs that the boxes use together."""
    boxes = tuple(boxes)
    everywhere = [Access(known.CUSTOM_RESOURCE_DEFINITION, _FOLLOWED), Access(known.EVENT, ("create", "patch"))]
    if any(box.namespaces for box in boxes):
        everywhere.append(Access(known.NAMESPACE, _FOLLOWED))
    tenant: list[Access] = []
    for box in boxes:
        everywhere += _looked_at(box)
        for node in _nodes(box):
            wide = not node.kind.namespaced or node.owner is OwnerMode.LABEL
            (everywhere if wide else tenant).append(Access(node.kind, _changed(node)))
        tenant += _secrets(box)
    return BoxAccess(tuple(everywhere), tuple(tenant), LEASE)


def _nodes(box: Box) -> tuple[BoxNode, ...]:
    return (*box.nodes, *(node for phase in box.drains for node in phase))


def _looked_at(box: Box) -> Iterator[Access]:
    """What informers follow; the finalizer and the status of the box's own objects are written wherever these are."""
    yield Access(box.kind, ("get", *_FOLLOWED, "patch"))
    yield Access(box.kind, ("patch",), "status")
    for kind in child_kinds(box):
        yield Access(kind, _FOLLOWED)
    for external in box.externals:
        if external.watch:
            yield Access(external.kind, _FOLLOWED)


def _secrets(box: Box) -> Iterator[Access]:
    """What is read by its name alone, in each pass."""
    return (Access(external.kind, ("get",)) for external in box.externals if not external.watch)


def _changed(node: BoxNode) -> tuple[str, ...]:
    """Server-side apply of what is not there yet needs create beside patch; what was refused is looked at."""
    verbs = ["get", "create"]
    if node.apply is not ApplyMode.IF_ABSENT or node.on_delete is OnDelete.ORPHAN:
        verbs.append("patch")
    if node.on_delete is OnDelete.DELETE or node.on_immutable is ImmutableMode.RECREATE:
        verbs.append("delete")
    return tuple(verbs)


def owners(boxes: Iterable[Box]) -> Iterator[Access]:
    """What the admission plugin OwnerReferencesPermissionEnforcement asks of who sets `blockOwnerDeletion`."""
    return (Access(box.kind, ("update",), "finalizers") for box in boxes if not box.strict_order)
