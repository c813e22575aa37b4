"""The ApplicationInstance controller: from a key to a snapshot, a decision, and its execution (REC-1)."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import Final, TypeAlias

import attrs
import msgspec

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata, ref_of
from purekube.apimachinery.problems import ValidationProblems
from purekube.apimachinery.resources import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, HELM_CHART, NAMESPACE
from purekube.controller.decision import Decision
from purekube.controller.execute import PassRules
from purekube.controller.informer.changes import CacheChange
from purekube.controller.informer.outline import OUTLINE, is_outline
from purekube.controller.queue.event_handlers import owners_of_kind
from purekube.controller.queue.read_your_writes import ObjectVersion
from purekube.controller.reconcile import ReconcileResult, run_pass
from purekube.ports import Clock, EventSink, KubeApi
from purekube_run.controller.definitions import is_served
from purekube_run.controller.held_status import HeldStatuses
from purekube_run.controller.informers import Informers
from purekube_run.controller.observer import report_nothing
from purekube_run.controller.pass_log import log_pass
from purekube_run.controller.safety_net import SafetyNet, is_reconciling
from vworkspace_app.operations.index import UPGRADES_OF, target_in
from vworkspace_core.api.application_instance import ApplicationInstance, ReleaseOverride
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION
from vworkspace_core.api.labels import FIELD_MANAGER, FINALIZER, is_managed
from vworkspace_core.api.operation import EngineName
from vworkspace_core.api.own_status import OWN_STATUS
from vworkspace_core.api.policy import Policy
from vworkspace_core.api.unreadable import Unreadable, readable
from vworkspace_core.clusters.policy import strictest_policy
from vworkspace_core.instances.context import Context, InstanceObserved, Settings
from vworkspace_core.instances.desired import DOWNSTREAM_KINDS, read_refs, watched_refs
from vworkspace_core.instances.helm_storage import release_records
from vworkspace_core.instances.naming import releases_of
from vworkspace_core.instances.observe import observe_live
from vworkspace_core.instances.reconcile import reconcile
from vworkspace_core.instances.unreadable import decide_unreadable, unreadable_instance
from vworkspace_core.operations.observe import operations_on
from vworkspace_core.operations.override import release_request

RELEASE_INDEX = "release"
_OUTLINE: Final = OUTLINE.encode()

InstanceSource: TypeAlias = ApplicationInstance | Unreadable[ApplicationInstance]


def release_names(manifest: Manifest) -> Iterator[str]:
    """Yield the index key of an instance by the name of its release, so that a foreign object of that name wakes it."""
    name = get_path(manifest, "spec", "release", "name")
    if isinstance(name, str):
        yield f"{metadata(manifest).get('namespace')}/{name}"


@attrs.define
class InstanceController:
    """A controller that reconciles ApplicationInstances from the caches of `informers`, writing through `api`."""

    api: KubeApi
    informers: Informers
    settings: Settings
    clock: Clock
    events: EventSink
    tell_unmanaged: Callable[[ObjectRef, Manifest], Awaitable[None]] = report_nothing
    """The callback for each object that is not for this operator."""
    net: SafetyNet = attrs.field(init=False)
    held: HeldStatuses = attrs.field(init=False)
    _in_force: Settings = attrs.field(init=False)
    on_write: Callable[[ObjectRef, ObjectVersion], None] = lambda key, written: None
    """The callback for each write for a key, made as soon as it is answered (RUN-3)."""
    is_backlogged: Callable[[], bool] = lambda: False
    """A function that returns whether other keys wait: then the first status of an instance may wait for a second."""

    def __attrs_post_init__(self) -> None:
        self._in_force = self.settings
        self.net = SafetyNet(self.informers, self.clock)
        self.held = HeldStatuses(self.api, self.events)

    async def reconcile(self, key: ObjectRef) -> ReconcileResult:
        """Observe, decide, execute, once. Raises errors of the port from live reads only."""
        raw = self.informers.store(APPLICATION_INSTANCE).raw(key.namespace, key.name)
        if raw is None:
            self.net.forget(key)
            return ReconcileResult()
        source = await self._source(key, raw)
        if source is None:
            return ReconcileResult()  # its DELETED event is on the way
        if not is_managed(source.metadata):
            await self.tell_unmanaged(key, msgspec.json.decode(raw))
        instance = readable(source)
        await self.net.look_if_due(key, partial(self._read_anew, key, instance))
        observed = await self._observe(source)
        reconciler = PassRules(APPLICATION_INSTANCE, _read, self._decide, FIELD_MANAGER, FINALIZER, idempotent=True)
        on_write = partial(self.on_write, key)
        result = await run_pass(reconciler, source, observed, self.api, self.events, on_write, self.is_backlogged)
        await self.held.heard(key, result)
        log_pass(key, result)
        under_way = is_reconciling(result.status, instance.status.conditions)
        return self.net.until_next(key, result, under_way=under_way)

    async def _source(self, key: ObjectRef, raw: bytes) -> InstanceSource | None:
        """Return the instance, read live if the cache holds only its outline."""
        if _OUTLINE not in raw:
            return _read_raw(raw)
        whole = await self.informers.whole(key, msgspec.json.decode(raw))
        return None if whole is None else _read(whole)

    def _read_anew(self, key: ObjectRef, instance: ApplicationInstance) -> Iterable[ObjectRef]:
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
        """Return the settings with the policy of the Cluster objects: the same object until the policy changes."""
        if (policy := self._policy()) is not self._in_force.policy:
            self._in_force = attrs.evolve(self.settings, policy=policy)
        return self._in_force

    def _policy(self) -> Policy:
        """Return the joint policy of the Cluster objects of this cluster's id (RES-3); without one, everything is
        allowed.
        """
        clusters = self.informers.store(CLUSTER)
        manifests = (clusters.raw(namespace, name) for namespace, name in clusters.names())
        return strictest_policy(self.settings.policy, filter(None, manifests), self.settings.cluster_id)

    async def _observe(self, source: InstanceSource) -> InstanceObserved:
        instance = readable(source)
        if instance.metadata.deletion_timestamp is not None:
            # An object being deleted, whose finalizer comes off at the end, is decided on live reads: a cache may be
            # outdated.
            return await observe_live(self.api, instance)
        return await self._with_strangers(instance, await self._whole(await self._cached(instance)))

    async def _whole(self, observed: InstanceObserved) -> InstanceObserved:
        """Return the snapshot, with each object read live of which the caches hold an outline."""
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
        """Return what the helm Operations on the instance request of its release (REC-9)."""
        target = ObjectRef(APPLICATION_INSTANCE, instance.metadata.namespace, instance.metadata.name)
        held = self.informers.store(OPERATION).indexed(UPGRADES_OF, str(target))
        whole = [await self.informers.whole(ref_of(manifest, OPERATION), manifest) for manifest in held]
        upgrades = [manifest for manifest in whole if manifest is not None]
        return release_request(instance, operations_on(target, upgrades, self.settings.cluster_id))

    async def _with_strangers(self, instance: ApplicationInstance, observed: InstanceObserved) -> InstanceObserved:
        """Return the snapshot with foreign objects, which are read live: only our own ConfigMaps are cached (REC-4)."""
        objects = dict(observed.objects)
        for ref in watched_refs(instance, observed.override):
            if ref.kind == CONFIG_MAP and ref not in objects:
                page = await self.api.list(
                    CONFIG_MAP, namespace=ref.namespace, field_selector=f"metadata.name={ref.name}"
                )
                objects.update((ref, manifest) for manifest in page.items)
        objects |= await release_records(self.api, instance, observed)
        return attrs.evolve(observed, objects=objects)

    def keys_of_downstream(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield the owner of a changed object, and every instance that wants its name."""
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
        """Yield the target of an Operation that requests something of its release (REC-9)."""
        target = target_in(change.object)
        if target is not None and get_path(change.object, "spec", "engine") == EngineName.HELM:
            yield target

    def keys_of_namespace(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield every instance in a namespace whose labels may have changed."""
        for namespace, name in self.informers.store(APPLICATION_INSTANCE).names(change.ref.name):
            yield ObjectRef(APPLICATION_INSTANCE, namespace, name)

    def all_keys(self, _change: CacheChange) -> Iterator[ObjectRef]:
        """Yield every instance, since a kind appeared or disappeared, or the policy changed."""
        yield from self.keys()

    def keys(self) -> Iterator[ObjectRef]:
        """Yield every instance."""
        for namespace, name in self.informers.store(APPLICATION_INSTANCE).names():
            yield ObjectRef(APPLICATION_INSTANCE, namespace, name)


@lru_cache(maxsize=64)
def _read_raw(raw: bytes) -> InstanceSource:
    """Read an instance; cached, since several passes in a row read the same copy while Flux reports."""
    return _read(msgspec.json.decode(raw))


def _read(manifest: Manifest) -> InstanceSource:
    try:
        return read_application_instance(OWN_STATUS.without_foreign_conditions(manifest))
    except ValidationProblems as error:
        return unreadable_instance(manifest, error)
