"""The ApplicationInstance controller, which reads an instance's objects, decides the writes and makes them (REC-1).

Reconciles that wait at the same time share the reads of the Secrets in which Helm stores releases: when many instances
of a namespace come at once, as after a Kustomization of Flux, one request reads for all of them.
"""

from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Final, TypeAlias

import anyio
import attrs
import msgspec

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata, ref_of
from purekube.apimachinery.problems import ValidationProblems
from purekube.apimachinery.resources import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, HELM_CHART, NAMESPACE
from purekube.controller.decision import Decision
from purekube.controller.execute import PassRules
from purekube.controller.informer.changes import CacheChange
from purekube.controller.informer.outline import is_outline
from purekube.controller.queue.event_handlers import by_spec, owners_of_kind, verdict_first, when_defined
from purekube.ports import Clock, EventSink, KubeApi
from purekube_run.controller.controller import ControllerDefinition, For, Queue, StatusManager, Watches
from purekube_run.controller.decision_reconciler import DecisionReconciler, LiveRereads, is_reconciling
from purekube_run.controller.definitions import is_served, refuse_late
from purekube_run.controller.informers import Informers, StoredObject
from vworkspace_app.operations.index import UPGRADES_OF, has_ended, target_in
from vworkspace_app.operations.unmanaged import UnmanagedReports
from vworkspace_core.api.application_instance import ApplicationInstance, ReleaseOverride
from vworkspace_core.api.chart import Policy
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION
from vworkspace_core.api.labels import FIELD_MANAGER, FINALIZER, is_managed
from vworkspace_core.api.operation import EngineName
from vworkspace_core.api.own_status import OWN_STATUS, Unreadable, readable
from vworkspace_core.clusters.decision import strictest_policy
from vworkspace_core.clusters.inventory import FLUX_KINDS
from vworkspace_core.instances.context import Context, InstanceObserved, Settings
from vworkspace_core.instances.desired import DOWNSTREAM_KINDS, read_refs, watched_refs
from vworkspace_core.instances.naming import releases_of
from vworkspace_core.instances.observe import RELEASE_LABEL, list_records, observe_live, release_records
from vworkspace_core.instances.reconcile import decide_unreadable, reconcile, unreadable_instance
from vworkspace_core.operations.context import operations_on
from vworkspace_core.operations.override import release_request

MOST_NAMES: Final = 50
"""The maximum number of releases in one request. Their names, of at most 53 characters each, then take less than the
8 KiB to which proxies limit a request line.
"""
RELEASE_INDEX = "release"
InstanceSource: TypeAlias = ApplicationInstance | Unreadable[ApplicationInstance]


@attrs.define
class _Batch:
    """The names of releases that one request reads, and its answer; None until the request has succeeded."""

    names: list[str] = attrs.field(factory=list)
    records: tuple[Manifest, ...] | None = None


@attrs.define
class _Lane:
    """The reads of one namespace, one request at a time; `batch` is the next request, and `readers` wait or read."""

    turn: anyio.Lock = attrs.field(factory=anyio.Lock)
    batch: _Batch = attrs.field(factory=_Batch)
    readers: int = 0


@attrs.define
class SharedRecords:
    """A reader of Helm's records whose requests include all releases that were asked for during the last request.

    Every answer is as new as if it had been asked for alone: its request begins after the call of `read`.
    """

    _api: KubeApi
    _lanes: dict[str, _Lane] = attrs.field(factory=dict)

    async def read(self, namespace: str, release: str) -> list[Manifest]:
        """Return the metadata of the Secrets in which Helm stores `release`. Raises the errors of `KubeApi.list`."""
        with self._lane(namespace) as lane:
            if len(lane.batch.names) >= MOST_NAMES:
                lane.batch = _Batch()
            batch = lane.batch
            batch.names.append(release)
            async with lane.turn:
                if lane.batch is batch:
                    lane.batch = _Batch()
                if batch.records is None:  # no reader has asked yet, or the request failed
                    batch.records = await list_records(self._api, namespace, *batch.names)
        return [record for record in batch.records if get_path(record, "metadata", "labels", RELEASE_LABEL) == release]

    @contextmanager
    def _lane(self, namespace: str) -> Iterator[_Lane]:
        lane = self._lanes.setdefault(namespace, _Lane())
        lane.readers += 1
        try:
            yield lane
        finally:
            lane.readers -= 1
            if not lane.readers:
                del self._lanes[namespace]


def release_names(manifest: Manifest) -> Iterator[str]:
    """Yield the release of an instance as `<namespace>/<name>`, its key in an index of the instance cache.

    Through this index, the instances that want a release are found when an object with the release's name changes, even
    if another owner has that object. Nothing is yielded if the manifest names no release.
    """
    name = get_path(manifest, "spec", "release", "name")
    if isinstance(name, str):
        yield f"{metadata(manifest).get('namespace')}/{name}"


@attrs.define(eq=False)
class InstanceReconciler:
    """The reconciler of ApplicationInstances, which reads objects from the caches of `informers`.

    It also determines which instances a change of another object affects. `orphaning` has the uids of the Operations
    that are being deleted with `--cascade=orphan`.
    """

    api: KubeApi
    informers: Informers
    settings: Settings
    clock: Clock
    events: EventSink
    orphaning: Container[str]
    is_backlogged: Callable[[], bool] = lambda: False
    """A function that reports whether other keys wait in the queue.

    If so, the first status of an instance may be written a second later.
    """
    _in_force: Settings = attrs.field(init=False)
    _unmanaged: UnmanagedReports = attrs.field(init=False)
    _records: SharedRecords = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._in_force = self.settings
        self._unmanaged = UnmanagedReports(self.events)
        self._records = SharedRecords(self.api)

    def controller(self, writer: StatusManager, workers: int, resync: float) -> ControllerDefinition:
        """Return the controller of ApplicationInstances, with the watches that enqueue an instance.

        `writer` has the controller's settings for the status that it writes, and `workers` is the number of concurrent
        reconciles. `resync` is the interval in seconds after which every instance is reconciled again.
        """
        reconciler = DecisionReconciler(
            PassRules(APPLICATION_INSTANCE, _read, self._decide, FIELD_MANAGER, FINALIZER, idempotent=True),
            _read_stored,
            self._observe,
            self.api,
            self.events,
            LiveRereads(self.informers, self.clock),
            depends_on=self._depends_on,
            is_under_way=lambda source, result: is_reconciling(result.status, readable(source).status.conditions),
            is_backlogged=self.is_backlogged,
        )
        informers = self.informers
        return ControllerDefinition(
            "applicationinstance",
            APPLICATION_INSTANCE,
            reconciler,
            informers,
            For(informers.of(APPLICATION_INSTANCE)),
            writer,
            watches=(
                Watches(informers.of(*FLUX_KINDS, CONFIG_MAP), self.keys_of_downstream, verdict_first),
                Watches(informers.of(OPERATION), self.keys_of_operation),
                Watches(informers.of(NAMESPACE), self.keys_of_namespace),
                Watches(informers.of(CLUSTER), by_spec(self.all_keys)),
                Watches(informers.of(CUSTOM_RESOURCE_DEFINITION), when_defined(FLUX_KINDS, self.all_keys)),
            ),
            queue=Queue(workers),
            resync=resync,
            synced=informers.wait_for_sync,
        )

    def _depends_on(self, key: ObjectRef, source: InstanceSource) -> Iterable[ObjectRef]:
        instance = readable(source)
        return dict.fromkeys((key, *watched_refs(instance), *self._owned_refs(instance)))

    def _owned_refs(self, instance: ApplicationInstance) -> Iterator[ObjectRef]:
        for kind in DOWNSTREAM_KINDS:
            for namespace, name in self.informers.store(kind).indexed_names("owner", instance.metadata.uid):
                yield ObjectRef(kind, namespace, name)

    def _decide(self, source: InstanceSource, observed: InstanceObserved) -> Decision:
        context = Context(self._settings_in_force(), self.clock.now())
        if isinstance(source, Unreadable):
            return decide_unreadable(source, observed, context)
        return reconcile(source, observed, context)

    def _settings_in_force(self) -> Settings:
        """Return the operator's settings, restricted by the policy of the Cluster objects.

        The same object is returned until that policy changes.
        """
        if (policy := self._policy()) is not self._in_force.policy:
            self._in_force = attrs.evolve(self.settings, policy=policy)
        return self._in_force

    def _policy(self) -> Policy:
        """Return the strictest combination of the settings and of all Cluster objects with the cluster's id (RES-3)."""
        clusters = self.informers.store(CLUSTER)
        manifests = (clusters.raw(namespace, name) for namespace, name in clusters.names())
        return strictest_policy(self.settings.policy, filter(None, manifests), self.settings.cluster_id)

    async def _observe(self, key: ObjectRef, source: InstanceSource, stored: StoredObject) -> InstanceObserved:
        instance = readable(source)
        if not is_managed(instance.metadata):
            await self._unmanaged.report(key, stored.manifest)
        if instance.metadata.deletion_timestamp is not None:
            # An object being deleted, whose finalizer comes off at the end, is decided on live reads: a cache may be
            # outdated.
            live = await observe_live(self.api, instance)
            refuse_late(live.missing_kinds, self.informers.store(CUSTOM_RESOURCE_DEFINITION))
            return live
        return await self._with_unmanaged_objects(instance, await self._whole(await self._cached(instance)))

    async def _whole(self, observed: InstanceObserved) -> InstanceObserved:
        """Return the snapshot with full objects: those of which the caches hold only a part are read from the API
        server.
        """
        outlines = [ref for ref, manifest in observed.objects.items() if is_outline(manifest)]
        if not outlines:
            return observed
        objects = dict(observed.objects)
        for ref in outlines:
            whole = await self.informers.whole(ref, objects.pop(ref))
            if whole is not None:
                objects[ref] = whole
        return attrs.evolve(observed, objects=objects)

    async def _cached(self, instance: ApplicationInstance) -> InstanceObserved:
        meta = instance.metadata
        objects: dict[ObjectRef, Manifest] = {}
        for kind in DOWNSTREAM_KINDS:
            owned = self.informers.store(kind).owned_by(meta.uid)
            objects |= {ref_of(manifest, kind): manifest for manifest in owned}
        override, withdrawn = await self._release_request(instance)
        for ref in watched_refs(instance, override):
            live = None if ref in objects else self.informers.store(ref.kind).get(ref.namespace, ref.name)
            if live is not None:
                objects[ref] = live
        for ref in read_refs(instance, objects):
            live = None if ref in objects else self.informers.store(ref.kind).get(ref.namespace, ref.name)
            if live is not None:
                objects[ref] = live
        namespace = self.informers.store(NAMESPACE).get(None, meta.namespace)
        definitions = self.informers.store(CUSTOM_RESOURCE_DEFINITION)
        missing = frozenset(kind for kind in DOWNSTREAM_KINDS if kind.group and not is_served(kind, definitions))
        return InstanceObserved(namespace, objects, missing, override=override, withdrawn=withdrawn)

    async def _release_request(self, instance: ApplicationInstance) -> tuple[ReleaseOverride | None, frozenset[str]]:
        """Return the changes of the instance's release that Operations of the engine helm request (REC-9).

        The first value is the requested change, or None if there is no request. The second value has the uids of
        Operations whose request was withdrawn.
        """
        target = ObjectRef(APPLICATION_INSTANCE, instance.metadata.namespace, instance.metadata.name)
        upgrades = self.informers.store(OPERATION).indexed(UPGRADES_OF, str(target))
        held = [manifest for manifest in upgrades if _may_count(manifest, instance.status.release_override)]
        whole = [await self.informers.whole(ref_of(manifest, OPERATION), manifest) for manifest in held]
        found = [manifest for manifest in whole if manifest is not None]
        operations = operations_on(target, found, self.settings.cluster_id)
        return release_request(instance, operations, self.orphaning)

    async def _with_unmanaged_objects(
        self, instance: ApplicationInstance, observed: InstanceObserved
    ) -> InstanceObserved:
        """Return the snapshot with further objects, which are read live, since they are not cached.

        These are ConfigMaps that others created (REC-4), and Helm's release Secrets.
        """
        objects = dict(observed.objects)
        for ref in watched_refs(instance, observed.override):
            if ref.kind == CONFIG_MAP and ref not in objects:
                page = await self.api.list(
                    CONFIG_MAP, namespace=ref.namespace, field_selector=f"metadata.name={ref.name}"
                )
                objects.update((ref, manifest) for manifest in page.items)
        objects |= await release_records(self._records.read, instance, observed)
        return attrs.evolve(observed, objects=objects)

    def keys_of_downstream(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield the keys of the instances that a change of a Flux object or ConfigMap may affect.

        They are the instance that owns the changed object, and each instance for whose release the operator would
        create an object with this name.
        """
        owners = tuple(owners_of_kind(APPLICATION_INSTANCE)(change))
        yield from owners
        name = change.ref.name
        if change.ref.kind == HELM_CHART:
            # Flux names the HelmChart of a release NAMESPACE-NAME, and gives it no owner (`foreign_objects.py`).
            name = name.removeprefix(f"{change.ref.namespace}-")
        instances = self.informers.store(APPLICATION_INSTANCE)
        for release in releases_of(name):
            for namespace, wanting in instances.indexed_names(RELEASE_INDEX, f"{change.ref.namespace}/{release}"):
                ref = ObjectRef(APPLICATION_INSTANCE, namespace, wanting)
                if ref not in owners:
                    yield ref

    def keys_of_operation(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield the key of the instance that is the target of a changed Operation with the engine helm (REC-9)."""
        target = target_in(change.object)
        if target is not None and get_path(change.object, "spec", "engine") == EngineName.HELM:
            yield target

    def keys_of_namespace(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield the keys of all instances in a changed namespace, because the namespace's labels may affect them."""
        for namespace, name in self.informers.store(APPLICATION_INSTANCE).names(change.ref.name):
            yield ObjectRef(APPLICATION_INSTANCE, namespace, name)

    def all_keys(self, _change: CacheChange) -> Iterator[ObjectRef]:
        """Yield the keys of all instances, after a change that affects them all.

        This is a change of the CRDs that the cluster serves, or of the policy in a Cluster object.
        """
        for namespace, name in self.informers.store(APPLICATION_INSTANCE).names():
            yield ObjectRef(APPLICATION_INSTANCE, namespace, name)


def _may_count(upgrade: Manifest, standing: ReleaseOverride | None) -> bool:
    """Report whether an Operation of the engine helm may decide about the release of its target.

    It may until it has ended, and afterwards as long as its change is in the target's status (`standing`), from which
    the change is withdrawn if the Operation failed. Other ended Operations are left out: they are kept for years, and
    each pass would read them.
    """
    recorded = [standing, standing.replaced] if standing is not None else []
    uids = [each.uid for each in recorded if each is not None]
    return not has_ended(upgrade) or metadata(upgrade).get("uid") in uids


def _read_stored(stored: StoredObject) -> InstanceSource:
    return _read_raw(stored.raw) if stored.live is None else _read(stored.live)


@lru_cache(maxsize=64)
def _read_raw(raw: bytes) -> InstanceSource:
    """Decode an instance from its JSON.

    The result is cached, because successive passes often read the same version of an instance while Flux reports
    progress.
    """
    return _read(msgspec.json.decode(raw))


def _read(manifest: Manifest) -> InstanceSource:
    try:
        return read_application_instance(OWN_STATUS.without_foreign_conditions(manifest))
    except ValidationProblems as error:
        return unreadable_instance(manifest, error)
