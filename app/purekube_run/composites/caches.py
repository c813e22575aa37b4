"""The caches of a composite, which is a kind whose objects (parents) have children (RUN-1).

They contain the parents, the children, which have a label of the composite, and externals: objects of other owners,
which the composite only reads.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from purekube.apimachinery.manifest import LAST_APPLIED, Kind, Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, SECRET
from purekube.composites.composite import Composite, External, SecretUse, wants_metadata
from purekube.composites.rights import remedy
from purekube.controller.informer.outline import HELD_WHOLE
from purekube.controller.informer.store import ObjectStore
from purekube.controller.managed_fields import without_managed_fields
from purekube.ports import Clock, KubeApi
from purekube_run.controller.definitions import slim_definition
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.informers import projected

OWNER: Final = "composite-owner"
"""The name of the index of children by the uid of their parent."""
UID: Final = "composite-uid"
"""The name of the index of parents by their uid."""
READS: Final = "composite-reads"
"""The name of the index that finds parents by the externals (objects of other owners) that the parents read."""

_IDENTITY: Final = ("name", "namespace", "uid", "resourceVersion", "generation", "deletionTimestamp")


def own_uid(manifest: Manifest) -> Iterator[str]:
    """Yield the uid of a parent: the index function by which a parent is found in a store of parents.

    A child has the uid of its parent in a label.
    """
    yield str(metadata(manifest).get("uid", ""))


def owner_uid_of(composite: Composite) -> Callable[[Manifest], Iterator[str]]:
    """Return an index function for a store of children: it yields the uid of a child's parent.

    The children belong to `composite` (a kind whose objects have children), whose label on them has the parent's uid.
    """
    label = composite.marks.owner_uid

    def keys(manifest: Manifest) -> Iterator[str]:
        uid = get_path(metadata(manifest), "labels", label)
        if isinstance(uid, str):
            yield uid

    return keys


def reads_of(composite: Composite) -> Callable[[Manifest], Iterator[str]]:
    """Return an index function for a store of parents: it yields a key for each external that a parent reads.

    Externals are objects of other owners. Parents are the objects of `composite` (a kind whose objects have children).
    """

    def keys(manifest: Manifest) -> Iterator[str]:
        if not composite.externals:
            return
        for _, ref in composite.external_refs(composite.read(manifest)):
            yield read_key(ref.kind, ref.namespace, ref.name)

    return keys


def read_key(kind: Kind, namespace: str | None, name: str) -> str:
    """Return the key of an external (an object of another owner) in the index `READS` of parents.

    The index finds the parents that read the external.
    """
    return f"{kind.crd_name}/{namespace or ''}/{name}"


def slim_child(manifest: Manifest) -> Manifest:
    """Return a child without fields that are never read: managedFields, and the annotation of `kubectl apply`."""
    plain = without_managed_fields(manifest)
    annotations = metadata(plain).get("annotations") or {}
    if LAST_APPLIED not in annotations:
        return plain
    left = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
    return {**plain, "metadata": {**metadata(plain), "annotations": left}}


def slim_secret(manifest: Manifest) -> Manifest:
    """Return a Secret without its data, for composites (kinds with children) that only need to know that it exists."""
    return {key: value for key, value in slim_child(manifest).items() if key not in ("data", "stringData")}


def informers_of(
    api: KubeApi, clock: Clock, random: Callable[[], float], composite: Composite, namespaces: Sequence[str] = ()
) -> Iterator[InformerRunner]:
    """Yield the informers of the parents and children of a composite (a kind whose objects have children).

    There is one for each kind, or with `namespaces` one for each kind and namespace. All kinds are known from the
    start, so no informer is added later.
    """

    def informer(
        store: ObjectStore, label_selector: str = "", namespace: str | None = None, *, metadata_only: bool = False
    ) -> InformerRunner:
        return InformerRunner(
            api,
            store.kind,
            clock=clock,
            random=random,
            namespace=namespace,
            label_selector=label_selector,
            metadata_only=metadata_only,
            store=store,
        )

    owner_uid = owner_uid_of(composite)
    indexers = {UID: own_uid, READS: reads_of(composite), OWNER: owner_uid}
    for namespace in _watched(namespaces, near=composite.kind.namespaced):
        parents = ObjectStore(composite.kind, transform=composite.as_cached, indexers=indexers, whole=HELD_WHOLE)
        yield informer(parents, namespace=namespace)
    for kind in () if composite.impersonates else composite.child_kinds:
        slim = slim_secret if kind == SECRET and composite.secrets is SecretUse.TYPE else slim_child
        for namespace in _watched(namespaces, near=composite.is_near(kind)) if kind != composite.kind else ():
            children = ObjectStore(kind, transform=slim, indexers={OWNER: owner_uid}, whole=HELD_WHOLE)
            slim_wire = composite.wants_metadata_of(kind)
            yield informer(children, composite.selector, namespace, metadata_only=slim_wire)


def _watched(namespaces: Sequence[str], *, near: bool) -> Sequence[str | None]:
    """Return the namespaces for which separate informers are needed. None means one informer of all namespaces.

    The result is `namespaces` if the kind is `near`: its objects are always in the parent's namespace. For other kinds,
    or if `namespaces` is empty, the result contains only None.
    """
    return namespaces if namespaces and near else (None,)


def shared_informers(
    api: KubeApi, clock: Clock, random: Callable[[], float], *, namespaces: bool
) -> Iterator[InformerRunner]:
    """Yield the informers that all composites (kinds whose objects have children) of a process share.

    The first watches CRDs. If `namespaces` is True, there is a second, which watches Namespaces.
    """
    definitions = ObjectStore(CUSTOM_RESOURCE_DEFINITION, transform=slim_definition)
    yield InformerRunner(api, CUSTOM_RESOURCE_DEFINITION, clock=clock, random=random, store=definitions)
    if namespaces:
        yield InformerRunner(api, NAMESPACE, clock=clock, random=random)


def external_informers(
    api: KubeApi, clock: Clock, random: Callable[[], float], composite: Composite, namespaces: Sequence[str] = ()
) -> Iterator[InformerRunner]:
    """Yield the informers of the externals (objects of other owners) that a composite watches.

    A composite is a kind whose objects have children. Externals of one kind share one informer. With `namespaces`,
    externals that are read only in a parent's own namespace have an informer for each of these namespaces.
    """
    watched: dict[Kind, list[External]] = {}
    for external in composite.externals:
        if external.watch and not composite.impersonates:
            watched.setdefault(external.kind, []).append(external)
    for kind, externals in watched.items():
        selectors = {_selector_text(external) for external in externals}
        paths = [path for external in externals for path in external.fields]
        selector = selectors.pop() if len(selectors) == 1 else ""
        for namespace in _watched(namespaces, near=all(map(composite.is_read_near, externals))):
            store = ObjectStore(kind, transform=projected(paths, _IDENTITY), whole=HELD_WHOLE)
            yield InformerRunner(
                api,
                kind,
                clock=clock,
                random=random,
                namespace=namespace,
                label_selector=selector,
                metadata_only=all(map(wants_metadata, externals)),
                store=store,
            )


def account_informers(
    api: KubeApi, clock: Clock, random: Callable[[], float], composite: Composite, account: ObjectRef
) -> Iterator[InformerRunner]:
    """Yield the informers that watch a parent's children with the rights of the service account `account`.

    A parent is an object of `composite` (a kind whose objects have children). The informers watch children and
    externals (objects of other owners) in the account's namespace, and cache only metadata: their purpose is that
    changes requeue the parents.
    """
    selectors = {kind: composite.selector for kind in composite.child_kinds if composite.is_near(kind)}
    near = (external for external in composite.externals if external.watch and composite.is_read_near(external))
    for kind in dict.fromkeys((*selectors, *(external.kind for external in near))):
        if kind == composite.kind:
            continue  # its own informer shows it
        external = any(external.watch and external.kind == kind for external in composite.externals)
        yield InformerRunner(
            api.impersonating(account),
            kind,
            clock=clock,
            random=random,
            namespace=account.namespace,
            label_selector="" if external else selectors[kind],
            metadata_only=True,
            store=ObjectStore(kind, transform=projected((("metadata", "labels"),), _IDENTITY)),
            remedy=partial(remedy, composite),
        )


def _selector_text(external: External) -> str:
    labels = external.selector.get("matchLabels", external.selector)
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
