"""The informers of the operator: their kinds, which objects of each kind they cache, and the indexes of the caches."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

import attrs

from purekube.apimachinery.manifest import Kind, Manifest
from purekube.apimachinery.resources import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    HELM_CHART,
    HELM_RELEASE,
    HELM_REPOSITORY,
    NAMESPACE,
    OCI_REPOSITORY,
)
from purekube.controller.informer.messages import DEFAULT_POLICY, InformerPolicy
from purekube.controller.informer.outline import HELD_WHOLE
from purekube.controller.informer.store import ObjectStore
from purekube.controller.shard import WHOLE, Shard
from purekube.ports import Clock, KubeApi
from purekube_run.controller.definitions import slim_definition
from purekube_run.controller.informer import InformerRunner
from vworkspace_app.instances.controller import RELEASE_INDEX, release_names
from vworkspace_app.operations.controller import ENGINE_KINDS
from vworkspace_app.operations.index import ENGINE_INDEXES, OPERATION_INDEXES
from vworkspace_core.api.installation import PRINTED, Installation
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION, OWN_KINDS
from vworkspace_core.api.labels import MANAGED_BY, MANAGED_BY_VALUE, OPERATION_UID
from vworkspace_core.api.own_status import OWN_STATUS
from vworkspace_core.api.remedies import remedy
from vworkspace_core.instances.foreign_objects import (
    slim_chart,
    slim_config_map,
    slim_engine_object,
    slim_release,
    slim_source,
)
from vworkspace_core.operations.engines import KINDS_ELSEWHERE, LOOKED_UP_KINDS
from vworkspace_core.overview.origin import with_writer

_WITHOUT: Final = InformerPolicy(optional=True)
"""The policy of informers for kinds that only one engine (such as Velero) needs to carry out Operations.

A kind that may not be listed delays no other part.

Operations read the objects of these kinds live as well.
"""


_SLIM: Mapping[Kind, Callable[[Manifest], Manifest]] = {
    HELM_RELEASE: slim_release,
    OCI_REPOSITORY: slim_source,
    HELM_REPOSITORY: slim_source,
    HELM_CHART: slim_chart,
    **dict.fromkeys(LOOKED_UP_KINDS, slim_engine_object),
}
"""The functions, by kind, that drop unneeded fields of an object before it is cached.

Users and other controllers create objects of these kinds, too.
"""


def _slim_own(manifest: Manifest) -> Manifest:
    """Return an object of the operator's own kinds in the form in which it is cached, with few of its managedFields.

    Those that stay show who wrote the spec, and which other managers own a part of the status. The result shares parts
    with `manifest`.
    """
    return with_writer(OWN_STATUS.with_holders(manifest), manifest)


@attrs.frozen
class CacheScope:
    """The namespaces whose objects this process caches: the namespaces of its shard (RUN-13), or all.

    A shard has the namespaces with certain hashes of their names, which a list request cannot select. So every shard
    reads all lists and watches, and drops the objects of other shards immediately. Objects in `velero_namespace` are
    cached by every shard. If `all_of_ours` is True, the objects of the operator's own kinds are cached in all
    namespaces.
    """

    shard: Shard = WHOLE
    velero_namespace: str = "velero"
    all_of_ours: bool = False

    def of(self, kind: Kind) -> Callable[[str], bool] | None:
        """Return a predicate that is true for each namespace whose objects of a kind are cached.

        Return None if the objects of all namespaces are cached.
        """
        if self.shard == WHOLE or (self.all_of_ours and kind in OWN_KINDS):
            return None
        beside = self.velero_namespace if kind in KINDS_ELSEWHERE else None
        return lambda namespace: namespace == beside or self.shard.owns(namespace)


def informers_of(
    api: KubeApi,
    clock: Clock,
    random: Callable[[], float],
    scope: CacheScope = CacheScope(),
    installation: Installation = PRINTED,
) -> Iterator[InformerRunner]:
    """Yield one informer per kind that the operator reads.

    Informers of the operator's own kinds have no selector, so that no object with its finalizer is missed (RES-5).
    `random` returns numbers in [0, 1) for jitter. `scope` limits the cached namespaces, and `installation` determines
    the remedies that messages name.
    """
    informer = partial(
        InformerRunner, api, clock=clock, random=random, remedy=partial(remedy, installation=installation)
    )
    yield informer(
        APPLICATION_INSTANCE,
        store=ObjectStore(
            APPLICATION_INSTANCE,
            indexers={RELEASE_INDEX: release_names},
            transform=_slim_own,
            wanted=scope.of(APPLICATION_INSTANCE),
            whole=HELD_WHOLE,
        ),
    )
    yield informer(
        OPERATION,
        store=ObjectStore(
            OPERATION,
            indexers=OPERATION_INDEXES,
            transform=_slim_own,
            wanted=scope.of(OPERATION),
            whole=HELD_WHOLE,
        ),
    )
    for kind in (kind for kind in ENGINE_KINDS if kind not in LOOKED_UP_KINDS):
        store = ObjectStore(kind, indexers=ENGINE_INDEXES, wanted=scope.of(kind), whole=HELD_WHOLE)
        yield informer(kind, label_selector=OPERATION_UID, store=store, policy=_WITHOUT)
    for kind, slim in _SLIM.items():
        policy = _WITHOUT if kind in LOOKED_UP_KINDS else DEFAULT_POLICY
        indexers = ENGINE_INDEXES if kind in ENGINE_KINDS else {}
        store = ObjectStore(kind, indexers=indexers, transform=slim, wanted=scope.of(kind), whole=HELD_WHOLE)
        yield informer(kind, store=store, policy=policy)
    for kind in (NAMESPACE, CLUSTER):
        yield informer(kind)
    yield informer(
        CONFIG_MAP,
        # In all namespaces: RBAC knows no labels, and gated namespaces come and go.
        label_selector=f"{MANAGED_BY}={MANAGED_BY_VALUE}",
        store=ObjectStore(CONFIG_MAP, transform=slim_config_map, wanted=scope.of(CONFIG_MAP), whole=HELD_WHOLE),
    )
    yield informer(
        CUSTOM_RESOURCE_DEFINITION,
        store=ObjectStore(CUSTOM_RESOURCE_DEFINITION, transform=slim_definition),
    )
