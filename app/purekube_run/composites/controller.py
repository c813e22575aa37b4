"""The controller of a composite, which is a kind whose objects have children (PH-6).

For each object it takes a snapshot of the caches, decides on writes by a pure function, and executes the writes.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import attrs
import structlog

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.meta import names_in
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from purekube.composites.composite import Composite, status_writer, wants_metadata
from purekube.composites.decisions import condition_as_written
from purekube.composites.observe import add_children, snapshot_of
from purekube.composites.parent import Parent
from purekube.composites.rights import not_permitted, remedy
from purekube.composites.status_writers import StatusWriter, shared_statuses
from purekube.controller.decision import Snapshot
from purekube.controller.informer.changes import CacheChange
from purekube.controller.live_reads import LiveReads
from purekube.controller.reconcile import ReconcileResult
from purekube.controller.reconcile_error import standard_words
from purekube.ports import Clock, Entropy, EventSink, KubeApi
from purekube_run.composites.caches import (
    OWNER,
    READS,
    UID,
    account_informers,
    external_informers,
    informers_of,
    read_key,
)
from purekube_run.composites.further_watches import AccountWatches, TakenNames
from purekube_run.controller.controller import ControllerDefinition, For, Queue, StatusManager, Watches, Work
from purekube_run.controller.decision_reconciler import DecisionReconciler, LiveRereads, is_reconciling
from purekube_run.controller.definitions import is_served
from purekube_run.controller.informer import InformerRunner
from purekube_run.controller.informers import Informers
from purekube_run.controller.orphaning import OrphaningDeletions
from purekube_run.controller.runner import ManagerOptions
from purekube_run.process.command_line import CommandError

_log = structlog.get_logger("operator")


@attrs.define(eq=False)
class CompositeReconciler:
    """The reconciler of a composite, a kind whose objects have children; these objects are called parents (PH-6).

    It takes a snapshot of a parent from caches, and determines which parents a changed object affects. `informers`
    watch parents and children. `externals` watch objects of other owners, which the composite only reads. `shared`
    watch CRDs and Namespaces.
    """

    composite: Composite
    api: KubeApi
    clock: Clock
    informers: Informers
    externals: Informers
    shared: Informers
    random: Callable[[], float] = lambda: 0.5
    taken: TakenNames = attrs.field(init=False)
    accounts: AccountWatches = attrs.field(init=False)
    orphaning: OrphaningDeletions = attrs.field(factory=OrphaningDeletions, init=False)

    def __attrs_post_init__(self) -> None:
        self.orphaning.follow(self.parents)
        self.taken = TakenNames(self.api, self.clock, self.random)
        self.accounts = AccountWatches(partial(account_informers, self.api, self.clock, self.random, self.composite))

    @property
    def parents(self) -> tuple[InformerRunner, ...]:
        """The informers of the composite's own kind: one, or one for each namespace that is watched separately."""
        return tuple(informer for informer in self.informers if informer.kind == self.composite.kind)

    def controller(self, events: EventSink, *, workers: int, entropy: Entropy) -> ControllerDefinition:
        """Return the definition of the controller that reconciles parents (objects of the composite's own kind).

        It has `workers` workers. `events` receives its Events, and `entropy` generates secrets.
        """
        composite = self.composite
        reconciler = DecisionReconciler(
            composite.pass_rules(self.clock.now, entropy),
            lambda stored: composite.read(stored.manifest),
            lambda key, parent, stored: self.observe(key, parent),
            self.api,
            events,
            LiveRereads(self.informers, self.clock),
            depends_on=lambda key, parent: (key, *self._children(parent)),
            is_under_way=lambda parent, result: is_reconciling(result.status, parent.conditions),
            absent=self._forget,
            concluded=lambda key, result: self.taken.record(key, result.decision.awaits),
        )
        return ControllerDefinition(
            composite.controller,
            composite.kind,
            reconciler,
            self.informers,
            For(self.parents),
            self._writer(),
            watches=tuple(self._watches()),
            further=tuple(self.externals),
            queue=Queue(workers),
            resync=composite.resync,
            synced=self._synced,
            background=(lambda work: self.taken.run(work.enqueue), self._follow_accounts),
        )

    def _writer(self) -> StatusManager:
        composite = self.composite
        return StatusManager(
            composite.status_owner,
            partial(not_permitted, composite),
            partial(remedy, composite),
            standard_words(composite.kind, composite.condition_types, condition_as_written),
            composite.title,
            yields=True,
        )

    def _watches(self) -> Iterator[Watches]:
        yield Watches(self.informers, self.keys_of_child)
        yield Watches(self.externals, self.keys_of_external)
        definitions, namespaces = (self.shared.find(kind) for kind in (CUSTOM_RESOURCE_DEFINITION, NAMESPACE))
        yield Watches(filter(None, (definitions,)), self.keys_of_definition)
        yield Watches(filter(None, (namespaces,)), self.keys_of_namespace)

    async def _synced(self) -> None:
        for informers in (self.informers, self.externals, self.shared):
            await informers.wait_for_sync()
        missing = [runner.kind.crd_name for runner in (*self.informers, *self.externals) if runner.missing]
        word = self.composite.word
        _log.info(f"caches of the {word} are settled", **{word: self.composite.told}, missing=missing)

    async def _follow_accounts(self, work: Work) -> None:
        def wake(informers: tuple[InformerRunner, ...]) -> None:
            work.subscribe(Watches(informers, self.keys_of_child))
            work.subscribe(Watches(informers, self.keys_of_external))

        await self.accounts.run(wake)

    async def _forget(self, key: ObjectRef) -> ReconcileResult:
        self.taken.record(key, ())
        self.accounts.record(key, None)
        return ReconcileResult()

    # --- observation ---------------------------------------------------------------------------------------------

    async def observe(self, key: ObjectRef, parent: Parent) -> Snapshot:
        """Return a snapshot for the decision about `parent`, an object of the composite's own kind.

        The snapshot has the parent's children, and the other objects that the composite reads (externals). They are
        taken from the caches, with two exceptions. While the parent is being deleted, its children are read from the
        API server, because a cache may be outdated. A composite may impersonate an account that the parent names. Then
        children and externals are read from the API server as this account; if the parent names none, the snapshot has
        no objects.
        """
        account = self.composite.account_of(parent)
        self.accounts.record(key, account)
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
        snapshot = snapshot_of(reading, self._namespace(parent), self.peers(parent))
        return attrs.evolve(snapshot, is_orphaning=parent.metadata.uid in self.orphaning)

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
        """Return the names of other namespaces in which a parent may create children.

        A parent is an object of the composite's own kind. Such a namespace has an annotation that lists the parent's
        namespace. The result is empty unless the composite computes the namespaces of children.
        """
        asks = self.composite.asks_namespaces
        return self.composite.peers(self.shared.store(NAMESPACE).objects(), parent) if asks else frozenset()

    def _is_missing(self, kind: Kind, namespace: str | None) -> bool:
        """Report whether the API server does not serve a kind.

        That is so if the kind's informer reports the kind as missing, and its CRD is not established (REC-12).
        """
        runner = self.informers.find(kind, namespace)
        assert runner is not None
        return runner.missing and not is_served(kind, self.shared.store(CUSTOM_RESOURCE_DEFINITION))

    # --- wake-ups --------------------------------------------------------------------------------------------------

    def keys_of_child(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield the parent of a changed child. If the child moved to another parent, yield the former parent, too."""
        for uid in dict.fromkeys((self._owner_uid(change.object), self._owner_uid(change.old_object))):
            yield from self._parents(UID, uid)

    def keys_of_external(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield every parent that reads the changed object as an external (an object of another owner)."""
        key = read_key(change.ref.kind, change.ref.namespace, change.ref.name)
        yield from self._parents(READS, key)

    def keys_of_namespace(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield the parents that must be reconciled after a Namespace changed.

        Parents in the Namespace are yielded if their snapshots contain the Namespace. Parents in other namespaces are
        yielded if the Namespace's annotation lists their namespace, before or after the change: such parents may create
        children in the Namespace.
        """
        woken = {change.ref.name} if self.composite.namespaces else set()
        if self.composite.asks_namespaces:
            for manifest in (change.object, change.old_object):
                woken |= names_in(manifest, self.composite.marks.peers)
        for one in sorted(woken) if self.composite.kind.namespaced else ():
            yield from self._parents("namespace", one)

    def keys_of_definition(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield every parent if the changed CRD defines a kind of the composite's children, else nothing.

        The children could not be created while their kind was not served.
        """
        if any(kind.crd_name == change.ref.name for kind in self.composite.child_kinds):
            for store in self.informers.stores(self.composite.kind):
                for namespace, name in store.names():
                    yield ObjectRef(self.composite.kind, namespace or None, name)

    def _parents(self, index: str, value: str) -> Iterator[ObjectRef]:
        for store in self.informers.stores(self.composite.kind):
            for namespace, name in store.indexed_names(index, value):
                yield ObjectRef(self.composite.kind, namespace or None, name)

    def _owner_uid(self, manifest: Manifest | None) -> str:
        return str(get_path(manifest, "metadata", "labels", self.composite.marks.owner_uid) or "")


def composite_reconcilers(
    api: KubeApi, clock: Clock, composites: Iterable[Composite], options: ManagerOptions, shared: Informers
) -> Iterator[CompositeReconciler]:
    """Yield a reconciler with its own caches for each composite (a kind whose objects have children).

    `options` are those of all controllers of the process, such as the namespaces to watch. `shared` are the informers
    of CRDs and Namespaces. Raises CommandError if two composites would write the status of the same kind.
    """
    composites = tuple(composites)
    refuse_shared_kinds(composites)
    for composite in composites:
        informers = Informers(informers_of(api, clock, options.random, composite, options.namespaces))
        externals = Informers(external_informers(api, clock, options.random, composite, options.namespaces))
        yield CompositeReconciler(composite, api, clock, informers, externals, shared, options.random)


def refuse_shared_kinds(composites: Iterable[Composite], others: Iterable[StatusWriter] = ()) -> None:
    """Raise CommandError if two controllers would write the status of the same kind.

    The controllers are those of `composites` (kinds whose objects have children), and the status writers in `others`.
    """
    if refusals := list(shared_statuses((*map(status_writer, composites), *others))):
        raise CommandError("\n".join(refusals))
