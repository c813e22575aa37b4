"""What the operator does to which kind, and where: the one place that RBAC is derived from (RUN-7).

A verb stands here because some code of the operator uses it; a test with RBAC switched on finds every verb that is
missing and every one that is not used.
"""

from typing import Final

from vworkspace_core.api.installation import CREDENTIALS_SECRET
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.apimachinery import resources as known
from vworkspace_core.apimachinery.access import Access
from vworkspace_core.apimachinery.manifest import Kind
from vworkspace_core.operations.engines import engine_kinds
from vworkspace_core.operations.spent_approvals import LEDGER_SECRET

_FOLLOWED: Final = ("list", "watch")
_LOOKED_AT: Final = ("get", *_FOLLOWED)
_FLUX: Final = (known.HELM_RELEASE, known.OCI_REPOSITORY, known.HELM_REPOSITORY)
_ENGINES: Final = engine_kinds()
_VELERO: Final = tuple(kind for kind in _ENGINES if kind.group == known.VELERO_BACKUP.group)
_BESIDE: Final = tuple(kind for kind in _ENGINES if kind not in _VELERO)

OWNERS: Final[tuple[Kind, ...]] = (known.APPLICATION_INSTANCE, known.OPERATION)
"""Kinds whose objects own others with `blockOwnerDeletion`: the admission plugin OwnerReferencesPermissionEnforcement
wants `update` on their finalizers subresource, which the operator never calls itself."""

EVERYWHERE: Final[tuple[Access, ...]] = (
    # Informers look at every namespace: what is in one that is not gated is told so, in status and by an Event. The
    # finalizer has to come off (patch) where the Role has gone already: with its namespace, or before the objects.
    *(Access(kind, (*_LOOKED_AT, "patch")) for kind in OWNERS),
    Access(known.CLUSTER, ("create", *_FOLLOWED)),
    *(Access(kind, ("patch",), "status") for kind in known.OWN_KINDS),
    # To get one of what may be listed is no more power, and shows what is left in a namespace that loses its Role.
    *(Access(kind, _LOOKED_AT) for kind in (*_FLUX, known.HELM_CHART, *_BESIDE, known.CONFIG_MAP)),
    *(Access(kind, _FOLLOWED) for kind in _VELERO),
    Access(known.CUSTOM_RESOURCE_DEFINITION, _LOOKED_AT),
    Access(known.NAMESPACE, ("get", *_FOLLOWED)),
    # Bound to a VolumeSnapshot, and in no namespace: the proof that a snapshot is really there.
    Access(known.VOLUME_SNAPSHOT_CONTENT, ("get",)),
    # In no namespace either: which driver's snapshots a Velero backup is to hold, and when it is there (OPS-3, OPS-7).
    Access(known.VOLUME_SNAPSHOT_CLASS, _LOOKED_AT),
    Access(known.EVENT, ("create", "patch")),
)
"""In the whole cluster, by a ClusterRole. Nothing here reads a Secret or changes what runs."""

_CHANGED: Final = ("create", "patch", "delete")

TENANT: Final[tuple[Access, ...]] = (
    # Server-side apply of what is not there yet needs create beside patch.
    *(Access(kind, _CHANGED) for kind in (*_FLUX, *_BESIDE, known.CONFIG_MAP)),
    # Helm's record of the deployed revision, by name: the chart's hooks are in it (OPS-8). And whose a release is, by
    # the labels of its records, without their content (REC-4).
    Access(known.SECRET, ("get", "list")),
    # Why the pods of a Job do not start is said by its Events and by the pods, and nowhere else (OPS-8).
    Access(known.CORE_EVENT, ("list",)),
    Access(known.POD, ("list",)),
)
"""In each gated namespace, by a Role there (RES-5)."""

JOBS: Final[tuple[Access, ...]] = tuple(Access(kind, ("create", "delete")) for kind in OWNERS)
"""Beside `TENANT`, what jobs of a control plane need: without an agent nobody else makes or deletes these (SEE-4)."""

VIEW: Final[tuple[Access, ...]] = tuple(
    Access(kind, verbs, subresource)
    for kind in OWNERS
    for verbs, subresource in ((_LOOKED_AT, ""), (("get",), "status"))
)
"""For people who may read what is in a namespace (SEE-5)."""

EDIT: Final[tuple[Access, ...]] = tuple(
    Access(kind, ("create", "update", "patch", "delete", "deletecollection")) for kind in OWNERS
)
"""Beside `VIEW`, for people who may change what runs in a namespace. Whoever has `edit` may run pods as any account of
the namespace, that of releases included, so an instance or an Operation gives them nothing more. Statuses and
finalizers are the operator's, Clusters the administrators'."""

VELERO: Final[tuple[Access, ...]] = tuple(Access(kind, ("get", "create", "patch", "delete")) for kind in _VELERO)
"""In Velero's namespace, which is the only one that Velero looks at (OPS-7)."""

_LEASES: Final = Access(known.LEASE, ("get", "list", "create", "update"))
"""Of all shards: nobody begins while others work with another number of them (RUN-13)."""
_ACCOUNT: Final = Access(known.SERVICE_ACCOUNT, ("get",), name=FIELD_MANAGER)
"""Its own: by whose labels are on it, the operator knows which tool keeps its roles, and advises nothing against it."""

OWN: Final[tuple[Access, ...]] = (
    # The records of jobs have names of their own, and RBAC knows no labels; only the credential is watched.
    Access(known.SECRET, ("get", "list", "create", "update", "delete")),
    Access(known.SECRET, ("watch",), name=CREDENTIALS_SECRET),
    _LEASES,
    _ACCOUNT,
)
"""In the operator's own namespace: the credential, the records of open jobs, the leader's lease (PULL-4, RUN-4)."""

LOCAL_OWN: Final[tuple[Access, ...]] = (
    # The approval secret lies there, and which approvals have been used is written down (OPS-4). A right to create
    # cannot be limited to a name.
    Access(known.SECRET, ("get", *_FOLLOWED), name=CREDENTIALS_SECRET),
    Access(known.SECRET, ("get", "update"), name=LEDGER_SECRET),
    Access(known.SECRET, ("create",)),
    _LEASES,
    _ACCOUNT,
)
"""The same without an agent (SEE-4)."""
