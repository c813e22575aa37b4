"""The access to each kind that the operator needs, from which its RBAC is generated (RUN-7).

The lists are by place: the whole cluster, a managed namespace, Velero's namespace, the operator's own.

It also finds the RBAC objects by which Flux may install releases.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from purekube.apimachinery import resources as known
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import Access
from vworkspace_core.api import kinds as own_kinds
from vworkspace_core.api.installation import CREDENTIALS_SECRET
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.operations.approvals import LEDGER_SECRET
from vworkspace_core.operations.engines import ENGINES, KINDS_ELSEWHERE, LOOKED_UP_KINDS, engine_kinds

_Account: TypeAlias = tuple[str | None, str]
"""Namespace and name of a service account."""


def named_by_releases(rights: Mapping[ObjectRef, Manifest], releases: Iterable[Manifest]) -> frozenset[ObjectRef]:
    """Return the objects in `rights` that HelmReleases (`releases`) use.

    `rights` has live RBAC objects and service accounts. The result has the service accounts of the releases, their
    bindings, and the bound roles.
    """
    accounts = {
        (metadata(release).get("namespace"), str(name))
        for release in releases
        if (name := get_path(release, "spec", "serviceAccountName"))
    }
    bindings = [
        (ref, manifest)
        for ref, manifest in rights.items()
        if not accounts.isdisjoint(_subjects(manifest, ref.namespace))
    ]
    roles = {_role(manifest, ref.namespace) for ref, manifest in bindings}
    return frozenset(
        {ref for ref, _ in bindings}
        | {ref for ref in rights if (ref.kind.kind, ref.namespace, ref.name) in roles}
        | {ref for ref in rights if ref.kind.kind == "ServiceAccount" and (ref.namespace, ref.name) in accounts}
    )


def _subjects(binding: Manifest, namespace: str | None) -> Iterator[_Account]:
    for subject in binding.get("subjects") or ():
        if get_path(subject, "kind") == "ServiceAccount":
            yield get_path(subject, "namespace") or namespace, str(get_path(subject, "name"))


def _role(binding: Manifest, namespace: str | None) -> tuple[Any, str | None, Any]:
    kind, name = get_path(binding, "roleRef", "kind"), get_path(binding, "roleRef", "name")
    return kind, namespace if kind == "Role" else None, name


_FOLLOWED: Final = ("list", "watch")
_LOOKED_AT: Final = ("get", *_FOLLOWED)
_FLUX: Final = (known.HELM_RELEASE, known.OCI_REPOSITORY, known.HELM_REPOSITORY)
_ENGINES: Final = engine_kinds()
_BESIDE: Final = tuple(kind for kind in _ENGINES if kind not in KINDS_ELSEWHERE)

OWNERS: Final[tuple[Kind, ...]] = (own_kinds.APPLICATION_INSTANCE, own_kinds.OPERATION)
"""Kinds whose objects own others with `blockOwnerDeletion`.

The admission plugin OwnerReferencesPermissionEnforcement requires `update` on their finalizers subresource, which the
operator never calls itself.
"""

EVERYWHERE: Final[tuple[Access, ...]] = (
    # Informers watch every namespace: an object in one that is not gated gets a status and an Event that say so. The
    # finalizer must be removable (patch) when the Role is gone already: with its namespace, or before the objects.
    *(Access(kind, (*_LOOKED_AT, "patch")) for kind in OWNERS),
    Access(own_kinds.CLUSTER, ("create", *_FOLLOWED)),
    *(Access(kind, ("patch",), "status") for kind in own_kinds.OWN_KINDS),
    # The right to get an object that may be listed adds no power, and shows what is left in a namespace without its
    # Role.
    *(Access(kind, _LOOKED_AT) for kind in (*_FLUX, known.HELM_CHART, *_BESIDE, known.CONFIG_MAP)),
    *(Access(kind, _FOLLOWED) for kind in KINDS_ELSEWHERE),
    Access(known.CUSTOM_RESOURCE_DEFINITION, _LOOKED_AT),
    Access(known.NAMESPACE, ("get", *_FOLLOWED)),
    *(right for engine in ENGINES.values() for right in engine.access),
    *(Access(kind, _LOOKED_AT) for kind in LOOKED_UP_KINDS if kind not in _ENGINES),
    Access(known.EVENT, ("create", "patch")),
)
"""The operator's rights in the whole cluster, by a ClusterRole. None of them reads a Secret or changes a workload."""

_CHANGED: Final = ("create", "patch", "delete")

TENANT: Final[tuple[Access, ...]] = (
    # Server-side apply of an absent object needs create as well as patch (S-18).
    *(Access(kind, _CHANGED) for kind in (*_FLUX, *_BESIDE, known.CONFIG_MAP)),
    # Helm's record of the deployed revision, by name: the chart's hooks are in it (OPS-8). And the owner of a release,
    # by the labels of its records, without their content (REC-4).
    Access(known.SECRET, ("get", "list")),
    *dict.fromkeys(right for engine in ENGINES.values() for right in engine.tenant_access),
)
"""The operator's rights in each managed namespace, by a Role in that namespace (RES-5)."""

JOBS: Final[tuple[Access, ...]] = tuple(Access(kind, ("create", "delete")) for kind in OWNERS)
"""Further rights of an operator with an agent, which creates and deletes ApplicationInstances and Operations (SEE-4).

The agent carries out jobs of the control plane.

An operator without an agent never creates or deletes such objects.
"""

VIEW: Final[tuple[Access, ...]] = tuple(
    Access(kind, verbs, subresource)
    for kind in OWNERS
    for verbs, subresource in ((_LOOKED_AT, ""), (("get",), "status"))
)
"""The rights of people who may read the ApplicationInstances and Operations in a namespace (SEE-5)."""

EDIT: Final[tuple[Access, ...]] = tuple(
    Access(kind, ("create", "update", "patch", "delete", "deletecollection")) for kind in OWNERS
)
"""The rights, in addition to `VIEW`, of people who may change what runs in a namespace.

A user with the ClusterRole `edit` may run pods as any service account of the namespace, even the account of releases.
The right to create instances and Operations thus gives no further power. The subresources `status` and `finalizers` are
left to the operator, and Clusters to administrators.
"""

VELERO: Final[tuple[Access, ...]] = tuple(
    Access(kind, ("get", "create", "patch", "delete")) for kind in KINDS_ELSEWHERE
)
"""The operator's rights in Velero's namespace, which is the only namespace that Velero watches (OPS-7)."""

LEASES: Final = Access(known.LEASE, ("get", "list", "create", "update"))
"""The right to the Leases of all shards, since no replica starts work while others use another number of shards
(RUN-13).
"""
_ACCOUNT: Final = Access(known.SERVICE_ACCOUNT, ("get",), name=FIELD_MANAGER)
"""The right to read the operator's own account, whose labels show which tool manages the roles."""

OWN: Final[tuple[Access, ...]] = (
    # The records of jobs have names of their own, and RBAC ignores labels; only the credential is watched.
    Access(known.SECRET, ("get", "list", "create", "update", "delete")),
    Access(known.SECRET, ("watch",), name=CREDENTIALS_SECRET),
    LEASES,
    _ACCOUNT,
)
"""The operator's rights in its own namespace: for the credential, the records of the control plane's jobs, and the
lease (PULL-4, RUN-4).
"""

LOCAL_OWN: Final[tuple[Access, ...]] = (
    # The approval secret is there, and used approvals are recorded (OPS-4). A right to create cannot be limited to a
    # name.
    Access(known.SECRET, ("get", *_FOLLOWED), name=CREDENTIALS_SECRET),
    Access(known.SECRET, ("get", "update"), name=LEDGER_SECRET),
    Access(known.SECRET, ("create",)),
    LEASES,
    _ACCOUNT,
)
"""The rights of an operator without a job agent in its own namespace (SEE-4)."""
