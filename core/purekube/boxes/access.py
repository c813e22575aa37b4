"""The rights of a box's controller, by kind and namespace: the verbs that its roles grant, and no other (RUN-7).

Every verb is listed here because the controller of a box uses it; a test with roles switched on compares them with
those in an audit log.
"""

from collections.abc import Iterable, Iterator

from purekube.apimachinery.access import Access
from purekube.apimachinery.resources import SERVICE_ACCOUNT
from purekube.boxes.box import Box, BoxNode
from purekube.boxes.decide import composite_of
from purekube.boxes.model import ApplyMode, ImmutableMode, OnDelete
from purekube.composites.access import CompositeAccess, child_rights, owner_access, parent_rights, shared_access


def access_of(boxes: Iterable[Box]) -> CompositeAccess:
    """Return the rights that the boxes need together."""
    boxes = tuple(boxes)
    everywhere = [*shared_access(map(composite_of, boxes))]
    tenant: list[Access] = []
    for box in boxes:
        composite = composite_of(box)
        everywhere += parent_rights(composite, near=False)
        tenant += parent_rights(composite, near=True)
        if box.account is not None:
            name = "" if box.account.expressions else box.account.raw
            tenant.append(Access(SERVICE_ACCOUNT, ("impersonate",), name=name))
            continue
        for node in _nodes(box):
            (tenant if composite.is_near(node.kind) else everywhere).append(Access(node.kind, _changed(node)))
    return CompositeAccess(tuple(everywhere), tuple(tenant))


def access_of_account(box: Box) -> CompositeAccess:
    """Return the rights that a parent's ServiceAccount needs for the children, if the box acts as that account."""
    composite = composite_of(box)
    changed = [(composite.is_near(node.kind), Access(node.kind, _changed(node))) for node in _nodes(box)]
    everywhere = [*child_rights(composite, near=False), *(access for near, access in changed if not near)]
    tenant = [*child_rights(composite, near=True), *(access for near, access in changed if near)]
    return CompositeAccess(tuple(everywhere), tuple(tenant))


def _nodes(box: Box) -> tuple[BoxNode, ...]:
    return (*box.nodes, *(node for phase in box.drains for node in phase))


def _changed(node: BoxNode) -> tuple[str, ...]:
    """Return the verbs to change a node's objects. Server-side apply of a new object needs create as well as patch."""
    verbs = ["get", "create"]
    if node.apply is not ApplyMode.IF_ABSENT or node.on_delete is OnDelete.ORPHAN:
        verbs.append("patch")
    if node.on_delete is OnDelete.DELETE or node.on_immutable is ImmutableMode.RECREATE:
        verbs.append("delete")
    return tuple(verbs)


def owners(boxes: Iterable[Box]) -> Iterator[Access]:
    """Yield the rights that OwnerReferencesPermissionEnforcement requires for `blockOwnerDeletion`."""
    return owner_access(map(composite_of, boxes))
