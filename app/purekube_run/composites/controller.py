"""The controller of a composite: from a key to a snapshot, a decision, and its execution (PH-6)."""

from collections.abc import Callable, Iterator
from functools import partial

import attrs
import msgspec

from purekube.apimachinery.annotations import names_in
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from purekube.composites.composite import Composite, wants_metadata
from purekube.composites.observe import add_children, snapshot_of
from purekube.composites.parent import Parent
from purekube.controller.decision import Snapshot
from purekube.controller.execute import PassRules
from purekube.controller.informer.changes import CacheChange
from purekube.controller.live_reads import LiveReads
from purekube.controller.queue.read_your_writes import ObjectVersion
from purekube.controller.reconcile import ReconcileResult, run_pass
from purekube.controller.requeue import Requeue
from purekube.ports import Clock, Entropy, EventSink, KubeApi
from purekube_run.composites.account_watches import AccountWatches
from purekube_run.composites.caches import OWNER, READS, UID, read_key
from purekube_run.composites.taken_names import TakenNames
from purekube_run.controller.definitions import is_served
from purekube_run.controller.held_status import HeldStatuses
from purekube_run.controller.informers import Informers
from purekube_run.controller.pass_log import log_pass
from purekube_run.controller.safety_net import SafetyNet, is_reconciling
from purekube_run.process.entropy import SystemEntropy


@attrs.define
class CompositeController:
    """A controller that reconciles the objects of one composite's kind from caches, writing through `api`.

    `informers` are of its own kind and of its children, `externals` of what it reads, `shared` of definitions and
    namespaces.
    """

    composite: Composite
    api: KubeApi
    informers: Informers
    externals: Informers
    shared: Informers
    clock: Clock
    events: EventSink
    on_write: Callable[[ObjectRef, ObjectVersion], None] = lambda key, written: None
    entropy: Entropy = attrs.field(factory=SystemEntropy)
    random: Callable[[], float] = lambda: 0.5
    net: SafetyNet = attrs.field(init=False)
    held: HeldStatuses = attrs.field(init=False)
    taken: TakenNames = attrs.field(init=False)
    accounts: AccountWatches = attrs.field(factory=AccountWatches)
    _reconciler: PassRules[Parent, Snapshot] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.net = SafetyNet(self.informers, self.clock)
        self.taken = TakenNames(self.api, self.clock, self.random)
        self.held = HeldStatuses(self.api, self.events, self.composite.status_owner, self.composite.title)
        self._reconciler = self.composite.pass_rules(self.clock.now, self.entropy)

    async def reconcile(self, key: ObjectRef) -> ReconcileResult:
        """Observe, decide, execute, once. Raises errors of the port from live reads only."""
        raw = self.informers.store(self.composite.kind, key.namespace).raw(key.namespace, key.name)
        if raw is None:
            self.net.forget(key)
            self.taken.heard(key, ())
            self.accounts.heard(key, None)
            return ReconcileResult()
        manifest = await self.informers.whole(key, msgspec.json.decode(raw))
        if manifest is None:
            return ReconcileResult()  # its DELETED event is on the way
        if await self.held.is_anothers(key, manifest):
            return ReconcileResult(requeue=Requeue.SLOW)
        parent = self.composite.read(manifest)
        await self.net.look_if_due(key, partial(self._read_anew, key, parent))
        self.accounts.heard(key, self.composite.account_of(parent))
        observed = await self._observe(parent)
        result = await run_pass(self._reconciler, parent, observed, self.api, self.events, partial(self.on_write, key))
        await self.held.heard(key, result)
        self.taken.heard(key, result.decision.awaits)
        log_pass(key, result)
        return self.net.until_next(key, result, under_way=is_reconciling(result.status, parent.conditions))

    def _read_anew(self, key: ObjectRef, parent: Parent) -> Iterator[ObjectRef]:
        yield key
        yield from self._children(parent)

    # --- observation ---------------------------------------------------------------------------------------------

    async def _observe(self, parent: Parent) -> Snapshot:
        """Return the snapshot from the caches; for a parent being deleted from live reads, since a cache may be
        outdated.

        What belongs to an account is read live, as that account.
        """
        account = self.composite.account_of(parent)
        if self.composite.impersonates and account is None:
            return Snapshot(self._namespace(parent))
        reading = LiveReads(self.api if account is None else self.api.impersonating(account))
        going = parent.metadata.deletion_timestamp is not None
        for kind in self.composite.observed_kinds(parent):
            if going or self.informers.find(kind, parent.namespace) is None:
                await add_children(reading, self.composite, parent, kind)
            elif self._is_missing(kind, parent.namespace):
                reading.missing.add(kind)
        if not going:
            for ref, child in self._children(parent).items():
                if (whole := await self.informers.whole(ref, child)) is not None:
                    reading.objects[ref] = whole
        await self._add_externals(reading, parent)
        return snapshot_of(reading, self._namespace(parent), self.peers(parent))

    def _children(self, parent: Parent) -> dict[ObjectRef, Manifest]:
        uid = parent.metadata.uid
        return {
            ref_of(manifest, kind): manifest
            for kind in self.composite.child_kinds
            for store in self.informers.stores(kind)
            for manifest in store.indexed(OWNER, uid)
        }

    async def _add_externals(self, reading: LiveReads, parent: Parent) -> None:
        for external, ref in self.composite.external_refs(parent):
            if not external.watch or self.composite.impersonates:
                await reading.add(ref, metadata_only=wants_metadata(external))
                continue
            held = self.externals.store(ref.kind, ref.namespace).get(ref.namespace, ref.name)
            if (live := await self.externals.whole(ref, held)) is not None:
                reading.objects[ref] = live

    def _namespace(self, parent: Parent) -> Manifest | None:
        if not self.composite.namespaces or parent.namespace is None:
            return None
        return self.shared.store(NAMESPACE).get(None, parent.namespace)

    def peers(self, parent: Parent) -> frozenset[str]:
        """Return the namespaces that let a parent's namespace in, if the composite uses that."""
        asks = self.composite.asks_namespaces
        return self.composite.peers(self.shared.store(NAMESPACE).objects(), parent) if asks else frozenset()

    def _is_missing(self, kind: Kind, namespace: str | None) -> bool:
        """Return whether a kind is not served, by its definition: its informer starts a moment later (REC-12)."""
        runner = self.informers.find(kind, namespace)
        assert runner is not None
        return runner.missing and not is_served(kind, self.shared.store(CUSTOM_RESOURCE_DEFINITION))

    # --- wake-ups --------------------------------------------------------------------------------------------------

    def keys_of_child(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield the parent of a child, before and after the change."""
        for uid in dict.fromkeys((self._owner_uid(change.object), self._owner_uid(change.old_object))):
            yield from self._parents(UID, uid)

    def keys_of_external(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield every parent that names the external."""
        key = read_key(change.ref.kind, change.ref.namespace, change.ref.name)
        yield from self._parents(READS, key)

    def keys_of_namespace(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield the parents in a Namespace whose labels may have changed, and in those that its annotation lets in or
        did.
        """
        woken = {change.ref.name} if self.composite.namespaces else set()
        if self.composite.asks_namespaces:
            for manifest in (change.object, change.old_object):
                woken |= names_in(manifest, self.composite.peers_annotation)
        for one in sorted(woken) if self.composite.kind.namespaced else ():
            yield from self._parents("namespace", one)

    def keys_of_definition(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield every parent, if the kind of a child appeared or disappeared."""
        if any(kind.crd_name == change.ref.name for kind in self.composite.child_kinds):
            yield from self.keys()

    def keys(self) -> Iterator[ObjectRef]:
        """Yield every parent."""
        for store in self.informers.stores(self.composite.kind):
            for namespace, name in store.names():
                yield ObjectRef(self.composite.kind, namespace or None, name)

    def _parents(self, index: str, value: str) -> Iterator[ObjectRef]:
        for store in self.informers.stores(self.composite.kind):
            for namespace, name in store.indexed_names(index, value):
                yield ObjectRef(self.composite.kind, namespace or None, name)

    def _owner_uid(self, manifest: Manifest | None) -> str:
        return str(get_path(manifest, "metadata", "labels", self.composite.marks.owner_uid) or "")
