"""What the controller of a composite does to which kind, and where: what its roles grant, and no more (RUN-7, L25)."""

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from vworkspace_core.apimachinery import resources as known
from vworkspace_core.apimachinery.access import Access
from vworkspace_core.composites.composite import Composite

FOLLOWED: Final = ("list", "watch")
"""The verbs of an informer."""
LEASE: Final = (Access(known.LEASE, ("get", "create", "update")),)
FORMER: Final = ("list", "patch", "delete")
"""The verbs that the prune of a kind takes which the definition does not name any more: what is kept is let go of."""
_MADE: Final = ("get", "create", "patch", "delete")


@attrs.frozen
class CompositeAccess:
    """`everywhere`: by a ClusterRole. `tenant`: where its objects are, by a Role in each such namespace, or there too.

    Informers of a process that watches some namespaces need `tenant` there and nothing in others.

    `own`: in the namespace of the process that runs it, where it stands for election.
    """

    everywhere: tuple[Access, ...]
    tenant: tuple[Access, ...] = ()
    own: tuple[Access, ...] = LEASE


def looked_at(composite: Composite, *, near: bool) -> Iterator[Access]:
    """Yield what informers follow and what is read by its name; `near`: in the namespaces of parents, else elsewhere.

    Finalizers and statuses of parents are written wherever these are.
    """
    if composite.kind.namespaced is near:
        yield Access(composite.kind, ("get", *FOLLOWED, "patch"))
        yield Access(composite.kind, ("patch",), "status")
    for kind in composite.child_kinds:
        if composite.is_near(kind) is near:
            yield Access(kind, FOLLOWED)
    for external in composite.externals:
        if composite.is_read_near(external) is near:
            yield Access(external.kind, FOLLOWED if external.watch else ("get",))


def shared_access(composites: Iterable[Composite]) -> Iterator[Access]:
    """What the controllers of all composites use beside their kinds."""
    yield Access(known.CUSTOM_RESOURCE_DEFINITION, FOLLOWED)
    yield Access(known.EVENT, ("create", "patch"))
    if any(one.namespaces or one.asks_namespaces for one in composites):
        yield Access(known.NAMESPACE, FOLLOWED)


def composite_access(composite: Composite) -> CompositeAccess:
    """The verbs of one that may do everything to its children."""
    made = {kind: Access(kind, _MADE) for kind in composite.child_kinds}
    wide = [made[kind] for kind in made if not composite.is_near(kind)]
    near = [made[kind] for kind in made if composite.is_near(kind)]
    everywhere = (*shared_access((composite,)), *looked_at(composite, near=False), *wide)
    return CompositeAccess(everywhere, (*near, *looked_at(composite, near=True)))


def owner_access(composites: Iterable[Composite]) -> Iterator[Access]:
    """What the admission plugin OwnerReferencesPermissionEnforcement asks of who sets `blockOwnerDeletion`."""
    return (Access(one.kind, ("update",), "finalizers") for one in composites if one.references)
