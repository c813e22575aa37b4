"""The informers of controllers in Python. Controllers that need the same objects of a kind share one (RUN-1, PH-7).

An informer keeps the union of the fields that its controllers need. Each controller has its own indexes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import attrs
import structlog

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.controller.event_series import Once
from purekube.controller.informer.changes import Indexer
from purekube.controller.informer.outline import HELD_WHOLE
from purekube.controller.informer.store import ObjectStore
from purekube.controller.managed_fields import StatusOwner, without_managed_fields
from purekube.ports import Clock, KubeApi
from purekube.reconcilers.controllers import (
    AnyController,
    Feature,
    features_of,
    kind_of,
    name_of,
    reference_problem,
    resource_of,
    watched_of,
)
from purekube.reconcilers.status import status_owner
from purekube.reconcilers.watching import Watch, Watched
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.informers import Informers, projected

_log = structlog.get_logger("operator")

_Choice: TypeAlias = tuple[Kind, str | None, str, str]
"""The kind, namespace and selectors that identify one informer."""


def refers_index(controller: AnyController) -> str:
    """Return the name of the index that maps an object to the controller's objects that refer to it.

    Which objects refer to which is what the controller's method `refers_to` returns.
    """
    return f"{name_of(controller)}/refers"


def refers_key(ref: ObjectRef) -> str:
    """Return the key in the index `refers_index` under which the controller's objects that refer to the object `ref`
    are found.
    """
    namespace = ref.namespace if ref.kind.namespaced else None
    return f"{ref.kind.crd_name}/{namespace or ''}/{ref.name}"


@attrs.define
class _InformerNeeds:
    """The fields and indexes that one informer must provide for the controllers that share it.

    If `owner` is given, the cached objects also keep the field managers of their status.
    """

    watches: list[Watch] = attrs.field(factory=list)
    indexers: dict[str, Indexer] = attrs.field(factory=dict)
    owner: StatusOwner | None = None

    def transform(self) -> Callable[[Manifest], Manifest]:
        if any(watch.is_whole for watch in self.watches):
            return without_managed_fields if self.owner is None else self.owner.with_holders
        return projected(path for watch in self.watches for path in watch.paths)


@attrs.frozen
class ControllerWatches:
    """The informers of one controller: one for its own kind, and one for each kind that it owns or reads."""

    own: InformerRunner
    owned: Sequence[InformerRunner]
    read: Sequence[InformerRunner]
    informers: Informers

    def __iter__(self) -> Iterator[InformerRunner]:
        return iter(dict.fromkeys((self.own, *self.owned, *self.read)))

    def find_owned(self, ref: ObjectRef) -> Manifest | None:
        """Return an object of a kind that the controller owns from the cache. Return None if it is not cached."""
        stores = (runner.store for runner in self.owned if runner.kind == ref.kind)
        return next((found for store in stores if (found := store.get(ref.namespace, ref.name)) is not None), None)


def watches_of(
    api: KubeApi, clock: Clock, random: Callable[[], float], controllers: Sequence[AnyController]
) -> tuple[ControllerWatches, ...]:
    """Return the informers of each controller. Controllers that need the same objects of a kind share an informer."""
    asked: dict[_Choice, _InformerNeeds] = {}
    for controller in controllers:
        _ask_own(asked, controller)
        for watched in watched_of((*controller.owns, *controller.reads)):
            _informer_needs_of(asked, watched.kind, watched.watch)
    runners = {choice: _runner(api, clock, random, choice, wanted) for choice, wanted in asked.items()}
    return tuple(_watches(runners, controller) for controller in controllers)


def _ask_own(asked: dict[_Choice, _InformerNeeds], controller: AnyController) -> None:
    desired = _informer_needs_of(asked, kind_of(controller), controller.watch)
    if controller.reads:
        desired.indexers[refers_index(controller)] = _refers(controller)
    if Feature.CONDITIONS in features_of(controller):
        desired.owner = status_owner(controller)


def _informer_needs_of(asked: dict[_Choice, _InformerNeeds], kind: Kind, watch: Watch) -> _InformerNeeds:
    desired = asked.setdefault(_choice(kind, watch), _InformerNeeds())
    desired.watches.append(watch)
    return desired


def _choice(kind: Kind, watch: Watch) -> _Choice:
    return kind, watch.namespace if kind.namespaced else None, watch.label_selector, watch.field_selector


def _runner(
    api: KubeApi, clock: Clock, random: Callable[[], float], choice: _Choice, desired: _InformerNeeds
) -> InformerRunner:
    kind, namespace, labels, fields = choice
    return InformerRunner(
        api,
        kind,
        clock=clock,
        random=random,
        namespace=namespace,
        label_selector=labels,
        field_selector=fields,
        store=ObjectStore(kind, transform=desired.transform(), indexers=desired.indexers, whole=HELD_WHOLE),
    )


def _watches(runners: Mapping[_Choice, InformerRunner], controller: AnyController) -> ControllerWatches:
    def found(watched: Iterable[Watched]) -> tuple[InformerRunner, ...]:
        return tuple(runners[_choice(one.kind, one.watch)] for one in watched)

    own = runners[_choice(kind_of(controller), controller.watch)]
    owned, read = found(watched_of(controller.owns)), found(watched_of(controller.reads))
    by_place = {(one.kind, one.namespace): one for one in (*read, *owned, own)}
    return ControllerWatches(own, owned, read, Informers(by_place.values()))


def _refers(controller: AnyController) -> Indexer:
    """Return the index function for the controller's `refers_to`. An object for which that raises is not indexed.

    A reference that no change can match has no effect, and is logged once for each kind.
    """
    return partial(_referred, controller, Once())


def _referred(controller: AnyController, told: Once, manifest: Manifest) -> Iterable[str]:
    resource = resource_of(controller)
    try:
        given: Any = manifest if resource is None else resource.read(manifest)
        refs = list(controller.refers_to(given))
        known = [watched.kind for watched in watched_of(controller.reads)]
        for ref in refs:
            problem = reference_problem(ref, known)
            if problem and told.first(f"{name_of(controller)} {ref.kind.crd_name}", problem):
                _log.warning("refers_to failed; what such an object reads does not wake it", error=problem)
        return [refers_key(ref) for ref in refs]
    except Exception as error:
        if told.first(name_of(controller), type(error).__name__):
            _log.warning("refers_to failed; what such an object reads does not wake it", error=str(error))
        return ()
