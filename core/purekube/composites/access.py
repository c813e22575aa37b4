"""The rights of a composite's controller, by kind and namespace: what its roles grant, and no more (RUN-7)."""

from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from purekube.apimachinery import resources as known
from purekube.apimachinery.access import Access
from purekube.composites.composite import Composite

FOLLOWED: Final = ("list", "watch")
"""The verbs of an informer."""
LEASE: Final = (Access(known.LEASE, ("get", "create", "update")),)
FORMER: Final = ("list", "patch", "delete")
"""The verbs to prune a kind that the definition no longer names; `patch` orphans the objects that are kept."""
_MADE: Final = ("get", "create", "patch", "delete")


@attrs.frozen
class CompositeAccess:
    """The rights of a composite's controller.

    `everywhere` is granted by a ClusterRole; `tenant` is needed where its objects are, by a Role in each such namespace
    or by the ClusterRole too. Informers of a process that watches some namespaces need `tenant` there and nothing in
    others. `own` is needed in the namespace of the process that runs it, for leader election.
    """

    everywhere: tuple[Access, ...]
    tenant: tuple[Access, ...] = ()
    own: tuple[Access, ...] = LEASE


def parent_rights(composite: Composite, *, near: bool) -> Iterator[Access]:
    """Yield the rights on kinds that are watched or read: in the namespaces of parents if `near`, otherwise elsewhere.

    Finalizers and statuses of parents are patched in the place where the parents are.
    """
    if composite.kind.namespaced is near:
        yield Access(composite.kind, ("get", *FOLLOWED, "patch"))
        yield Access(composite.kind, ("patch",), "status")
    if not composite.impersonates:
        yield from child_rights(composite, near=near)


def child_rights(composite: Composite, *, near: bool) -> Iterator[Access]:
    """Yield the rights to watch or read children and externals, as the controller or the parent's ServiceAccount."""
    for kind in composite.child_kinds:
        if composite.is_near(kind) is near:
            yield Access(kind, FOLLOWED)
    for external in composite.externals:
        if composite.is_read_near(external) is near:
            yield Access(external.kind, FOLLOWED if external.watch else ("get",))


def shared_access(composites: Iterable[Composite]) -> Iterator[Access]:
    """Yield the rights that the controllers of all composites need in addition to those on their kinds."""
    yield Access(known.CUSTOM_RESOURCE_DEFINITION, FOLLOWED)
    yield Access(known.EVENT, ("create", "patch"))
    if any(composite.namespaces or composite.asks_namespaces for composite in composites):
        yield Access(known.NAMESPACE, FOLLOWED)


def composite_access(composite: Composite) -> CompositeAccess:
    """Return the rights of a composite that may do everything to its children."""
    made = {kind: Access(kind, _MADE) for kind in composite.child_kinds}
    wide = [made[kind] for kind in made if not composite.is_near(kind)]
    near = [made[kind] for kind in made if composite.is_near(kind)]
    everywhere = (*shared_access((composite,)), *parent_rights(composite, near=False), *wide)
    return CompositeAccess(everywhere, (*near, *parent_rights(composite, near=True)))


def owner_access(composites: Iterable[Composite]) -> Iterator[Access]:
    """Yield the rights that OwnerReferencesPermissionEnforcement requires for `blockOwnerDeletion`."""
    return (Access(composite.kind, ("update",), "finalizers") for composite in composites if composite.references)
