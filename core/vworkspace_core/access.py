"""What the operator does to which kind, and where: the one place that RBAC is derived from (RUN-7).

A verb stands here because some code of the operator uses it; a test with RBAC switched on finds every verb that is
missing and every one that is not used.
"""

from collections.abc import Iterable
from typing import Final

import attrs

from vworkspace_core import known
from vworkspace_core.manifest import Kind

__all__ = ["EVERYWHERE", "OWN", "OWNERS", "TENANT", "Access", "resources"]


@attrs.frozen
class Access:
    """Verbs of the API on a kind, or on one of its subresources."""

    kind: Kind
    verbs: tuple[str, ...]
    subresource: str = ""

    @property
    def resource(self) -> str:
        """`helmreleases`, `applicationinstances/status`."""
        return f"{self.kind.plural}/{self.subresource}" if self.subresource else self.kind.plural


_FOLLOWED: Final = ("list", "watch")
_FLUX: Final = (known.HELM_RELEASE, known.OCI_REPOSITORY, known.HELM_REPOSITORY)

EVERYWHERE: Final[tuple[Access, ...]] = (
    # Informers look at every namespace: an instance in one that is not gated is told so, in status and by an Event.
    Access(known.APPLICATION_INSTANCE, _FOLLOWED),
    Access(known.APPLICATION_INSTANCE, ("patch",), "status"),
    Access(known.CLUSTER, ("create", *_FOLLOWED)),
    Access(known.CLUSTER, ("patch",), "status"),
    *(Access(kind, _FOLLOWED) for kind in (*_FLUX, known.HELM_CHART)),
    Access(known.CONFIG_MAP, _FOLLOWED),
    Access(known.CUSTOM_RESOURCE_DEFINITION, _FOLLOWED),
    Access(known.NAMESPACE, ("get", *_FOLLOWED)),
    Access(known.EVENT, ("create", "patch")),
)
"""In the whole cluster, by a ClusterRole. Nothing here reads a Secret or changes what runs."""

TENANT: Final[tuple[Access, ...]] = (
    # Server-side apply of what is not there yet needs create beside patch.
    Access(known.APPLICATION_INSTANCE, ("get", "create", "patch", "delete")),
    *(Access(kind, ("get", "create", "patch", "delete")) for kind in _FLUX),
    Access(known.CONFIG_MAP, ("create", "patch", "delete")),
)
"""In each gated namespace, by a Role there (RES-5)."""

OWN: Final[tuple[Access, ...]] = (Access(known.SECRET, ("get", "list", "watch", "create", "update", "delete")),)
"""In the operator's own namespace: the credential, and the records of open jobs (PULL-4, PULL-8)."""

OWNERS: Final[tuple[Kind, ...]] = (known.APPLICATION_INSTANCE,)
"""Kinds whose objects own others with `blockOwnerDeletion`: the admission plugin OwnerReferencesPermissionEnforcement
wants `update` on their finalizers subresource, which the operator never calls itself."""


def resources(accesses: Iterable[Access]) -> dict[tuple[str, str], set[str]]:
    """Verbs by (group, resource)."""
    found: dict[tuple[str, str], set[str]] = {}
    for access in accesses:
        found.setdefault((access.kind.group, access.resource), set()).update(access.verbs)
    return found
