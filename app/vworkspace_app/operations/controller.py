"""The Operation controller: it takes a snapshot of an Operation's objects, decides, and executes (OPS-1 to OPS-12).

Irreversible steps are decided on objects read live (`needs_live_view`), everything else on the caches. Operations on
one target are decided one at a time: their `exclusion_key` keeps the queue from running two at once, and live reads
show earlier writes (OPS-5).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Final, TypeAlias

import attrs

from purekube.apimachinery.conditions import conditions_of
from purekube.apimachinery.errors import NotFound, OperatorError, Permanent
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata, ref_of
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.problems import ValidationProblems
from purekube.apimachinery.resources import (
    CUSTOM_RESOURCE_DEFINITION,
    NAMESPACE,
)
from purekube.controller.decision import Decision
from purekube.controller.execute import PassRules
from purekube.controller.informer.changes import CacheChange, ChangeType
from purekube.controller.ownership import is_locked, unlocking
from purekube.controller.queue.event_handlers import Urgency, started_runs_first, when_defined
from purekube.controller.reconcile import ReconcileResult
from purekube.ports import Clock, EventSink, KubeApi, PatchType
from purekube_run.controller.controller import ControllerDefinition, For, Queue, StatusManager, Watches
from purekube_run.controller.decision_reconciler import DecisionReconciler, LiveRereads
from purekube_run.controller.definitions import is_served, refuse_late
from purekube_run.controller.informers import Informers, StoredObject
from purekube_run.controller.orphaning import OrphaningDeletions
from purekube_run.process.yaml_documents import parse_yaml
from vworkspace_app.operations.index import BY_UID, EVERYWHERE, LOCKED, OPEN, OPEN_ON, AwaitedObjects, target_in
from vworkspace_app.operations.unmanaged import UnmanagedReports
from vworkspace_core.api.codec import read_operation
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import APPLICATION_NAMESPACE, FIELD_MANAGER, FINALIZER, OPERATION_UID, is_managed
from vworkspace_core.api.operation import Operation, Phase, has_schedule
from vworkspace_core.api.own_status import OWN_STATUS, Unreadable, readable
from vworkspace_core.api.reasons import OperationReason as Reason
from vworkspace_core.operations.approvals import DEFAULT_BINDINGS, Claims, UsedApprovals, UsedApprovalStore
from vworkspace_core.operations.builtin import builtin_templates
from vworkspace_core.operations.conflicts import conflict_order_of, first_ahead, may_begin_sync
from vworkspace_core.operations.context import (
    OperationContext,
    OperationObserved,
    lookups,
    may_start,
    needs_siblings,
    observe_operation_live,
    operations_on,
    siblings_live,
    siblings_of,
)
from vworkspace_core.operations.engines import KINDS_ELSEWHERE, LOOKED_UP_KINDS, engine_kinds
from vworkspace_core.operations.identity import target_ref
from vworkspace_core.operations.preconditions import Start, start_or_unmet
from vworkspace_core.operations.reconcile import approval_to_redeem, needs_live_view, reconcile_operation
from vworkspace_core.operations.settings import OperationSettings
from vworkspace_core.operations.templates import Templates
from vworkspace_core.operations.unreadable import decide_unreadable_operation, unreadable_operation

OperationSource: TypeAlias = Operation | Unreadable[Operation]
ENGINE_KINDS: Final = engine_kinds()
AWAITED_KINDS: Final = (NAMESPACE, *dict.fromkeys((*LOOKED_UP_KINDS, *ENGINE_KINDS)))
"""The kinds whose objects may keep an Operation from starting.

A HelmRelease is not among them, since its instance's status shows its changes.
"""
_QUEUE_NEWS: Final = Urgency(after=2.0)
"""The urgency of Operations that still have to wait, and are reconciled only to show which one is ahead of them now.

Because of the delay in seconds, a long queue is read less often.
"""
_WAIT_FOR_SECRET = frozenset({Reason.AWAITING_APPROVAL, Reason.MISSING_SECRET})


@attrs.frozen
class ApprovalChecks:
    """The functions that return the data by which approval claims are checked (OPS-4), in every reconcile.

    An approval claim is a signed text in an Operation that says who approved it. `secret` returns the present approval
    secret, which signs claims, or None if there is none. `skew` returns how far the control plane's clock is ahead of
    this machine's (PULL-12). `required_bindings` are the fields to which every claim must be bound. Used claims are
    recorded in `namespace`.
    """

    secret: Callable[[], bytes | None] = lambda: None
    skew: Callable[[], timedelta] = lambda: timedelta(0)
    required_bindings: frozenset[str] = DEFAULT_BINDINGS
    namespace: str = "vworkspace-system"


@attrs.define(eq=False)
class OperationReconciler:
    """The reconciler of Operations, which reads objects from the caches of `informers`.

    It also determines which Operations a change of another object affects.
    """

    api: KubeApi
    informers: Informers
    settings: OperationSettings
    clock: Clock
    events: EventSink
    approvals: ApprovalChecks = attrs.field(factory=ApprovalChecks)
    templates: Templates = attrs.field(factory=builtin_templates)
    awaited: AwaitedObjects = attrs.field(factory=AwaitedObjects, init=False)
    orphaning: OrphaningDeletions = attrs.field(factory=OrphaningDeletions, init=False)
    _unmanaged: UnmanagedReports = attrs.field(init=False)
    _used_approvals: UsedApprovalStore = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.orphaning.follow(self.informers.of(OPERATION))
        self._unmanaged = UnmanagedReports(self.events)
        self._used_approvals = UsedApprovalStore(self.api, self.approvals.namespace)

    def controller(self, writer: StatusManager, workers: int, resync: float) -> ControllerDefinition:
        """Return the controller of Operations, with the watches that enqueue an Operation.

        `writer` has the controller's settings for the status that it writes, and `workers` is the number of concurrent
        reconciles. Every Operation is reconciled at least every `resync` seconds.
        """
        reconciler = DecisionReconciler(
            PassRules(OPERATION, _read, self._decide, FIELD_MANAGER, FINALIZER),
            lambda stored: _read(stored.manifest),
            self._observe,
            self.api,
            self.events,
            LiveRereads(self.informers, self.clock),
            depends_on=self._depends_on,
            is_under_way=_is_running,
            absent=self._forget,
        )
        informers = self.informers
        return ControllerDefinition(
            "operation",
            OPERATION,
            reconciler,
            informers,
            For(informers.of(OPERATION), self.keys_of_operation),
            writer,
            watches=(
                Watches(informers.of(OPERATION), self.keys_behind, lambda _: _QUEUE_NEWS),
                Watches(informers.of(*ENGINE_KINDS), self.keys_of_engine_object, started_runs_first),
                Watches(informers.of(*AWAITED_KINDS), self.keys_awaiting),
                Watches(informers.of(APPLICATION_INSTANCE), self.keys_of_target),
                Watches(informers.of(NAMESPACE), self.keys_of_namespace),
                Watches(informers.of(CUSTOM_RESOURCE_DEFINITION), when_defined(ENGINE_KINDS, self.open_keys)),
            ),
            queue=Queue(workers, exclusion_key=self.exclusion_key),
            resync=resync,
            synced=informers.wait_for_sync,
            all_keys=self.all_keys,
        )

    async def _forget(self, key: ObjectRef) -> ReconcileResult:
        """Unlock the engine object whose Operation is gone and that `key` names, if there is one (see `all_keys`)."""
        self.awaited.awaits(key, ())
        for kind in ENGINE_KINDS:
            place = self.settings.velero_namespace if kind in KINDS_ELSEWHERE else key.namespace
            live = self.informers.store(kind, place).get(place, key.name)
            if live is not None and _orphan_key(live) == key and is_locked(live):
                await self._unlock(ObjectRef(kind, place, key.name), live, key)
        return ReconcileResult()

    async def _unlock(self, ref: ObjectRef, live: Manifest, key: ObjectRef) -> None:
        operations = (await self.api.list(OPERATION, namespace=key.namespace)).items
        if not any(_is_maker(operation, live) for operation in operations):
            patch = unlocking(ref, live).patch
            with suppress(NotFound):
                await self.api.patch(ref, patch, patch_type=PatchType.MERGE, field_manager=FIELD_MANAGER)

    def _depends_on(self, key: ObjectRef, source: OperationSource) -> Iterable[ObjectRef]:
        """Return the objects on which a pass depends: the Operation, its target, and objects for the engine."""
        operation = readable(source)
        target = target_ref(operation)
        live = self.informers.store(target.kind).get(target.namespace, target.name)
        return dict.fromkeys((key, target, *lookups(operation, self._context(), live)))

    def _looked_at_before_the_start(self, source: OperationSource, context: OperationContext) -> Iterator[ObjectRef]:
        """Yield the objects on which the start of the Operation depends, or nothing if it has started."""
        if isinstance(source, Unreadable) or source.status.phase not in (None, Phase.PENDING):
            return
        if is_managed(source.metadata) and source.metadata.deletion_timestamp is None:
            target = target_ref(source)
            live = self.informers.store(target.kind).get(target.namespace, target.name)
            yield from lookups(source, context, live)

    def exclusion_key(self, key: ObjectRef) -> ObjectRef | None:
        """Return the Operation's target, so that Operations with the same target are reconciled one at a time (OPS-5).

        Return None if the Operation is not cached.
        """
        manifest = self.informers.store(OPERATION).get(key.namespace, key.name)
        return None if manifest is None else target_in(manifest)

    def _context(self, claims: Claims | None = None) -> OperationContext:
        """Return the data that a decision needs in addition to observed objects: settings, time, templates, and
        `claims`.

        `claims` is the data by which approvals are checked. If it is None, it is made from the present settings,
        without any used approval.
        """
        approvals = self.approvals
        if claims is None:
            bindings = approvals.required_bindings
            claims = Claims(approvals.secret(), self.settings.cluster_id, bindings, approvals.skew(), UsedApprovals())
        return OperationContext(
            self.settings, self.clock.now(), claims, templates=self.templates, parse_yaml=parse_yaml
        )

    def _decide(self, source: OperationSource, observed: OperationObserved) -> Decision:
        context = self._context(observed.claims)
        if isinstance(source, Unreadable):
            return decide_unreadable_operation(source, observed, context)
        return reconcile_operation(source, observed, context)

    async def _observe(self, key: ObjectRef, source: OperationSource, stored: StoredObject) -> OperationObserved:
        """Return the snapshot for the decisions of a pass: the observed objects, and the data on approval claims.

        Raises errors of the API server from live reads, and Permanent for an unreadable status.
        """
        if not is_managed(source.metadata):
            await self._unmanaged.report(key, stored.manifest)
        if isinstance(source, Unreadable):
            _refuse_unknown_past(source)
        context = self._context()
        self.awaited.awaits(key, self._looked_at_before_the_start(source, context))
        observed = await self._observe_objects(readable(source), context)
        return attrs.evolve(
            observed,
            claims=await self._claims_with_spent_approval(source, observed, context),
            is_orphaning=source.metadata.uid in self.orphaning,
        )

    async def _claims_with_spent_approval(
        self, source: OperationSource, observed: OperationObserved, context: OperationContext
    ) -> Claims:
        """Return the data on approval claims for this pass.

        If the pass starts a run that needs an approval, the approval is recorded as used before the run starts, and the
        result includes it. If the recording fails, the result has the error.
        """
        redemption = None if isinstance(source, Unreadable) else approval_to_redeem(source, observed, context)
        if redemption is None:
            return context.claims
        try:
            used_approvals = await self._used_approvals.redeem(redemption, self.clock.now())
            return attrs.evolve(context.claims, used_approvals=used_approvals)
        except OperatorError as error:
            return attrs.evolve(context.claims, trouble=error.message)

    async def _observe_objects(self, operation: Operation, context: OperationContext) -> OperationObserved:
        """Return the snapshot from the caches, or from live reads if the next step is irreversible."""
        observed = await self._cached(operation, context)
        if not needs_live_view(operation, observed, context):
            return observed
        target = str(target_ref(operation))
        known = self.informers.store(OPERATION).indexed(OPEN_ON, target)
        live = await observe_operation_live(self.api, operation, context, self._not_served(), known)
        if may_start(operation) and isinstance(start_or_unmet(operation, live, context), Start):
            live = attrs.evolve(live, siblings=await siblings_live(self.api, operation, context))
        refuse_late(live.missing_kinds, self.informers.store(CUSTOM_RESOURCE_DEFINITION))
        return live

    def _not_served(self) -> Iterator[Kind]:
        """Yield the kinds of engine objects whose CRDs are not installed. Yield nothing while the CRDs are unknown."""
        definitions = self.informers.find(CUSTOM_RESOURCE_DEFINITION)
        if definitions is not None and definitions.has_synced:
            kinds = (kind for kind in engine_kinds() if "." in kind.group)
            yield from (kind for kind in kinds if not is_served(kind, definitions.store))

    async def _cached(self, operation: Operation, context: OperationContext) -> OperationObserved:
        """Return the snapshot from the caches: the target, the objects that the engine looks up, and the namespace."""
        target = target_ref(operation)
        objects = {target: await self._held(target)}
        for lookup in lookups(operation, context, objects[target]):
            if self.informers.find(lookup.kind, lookup.namespace) is not None:
                objects[lookup] = await self._held(lookup)
        namespace = self.informers.store(NAMESPACE).get(None, operation.metadata.namespace)
        held = {ref: live for ref, live in objects.items() if live is not None}
        if not needs_siblings(operation, context):
            return OperationObserved(namespace, held)
        known = self.informers.store(OPERATION).indexed(OPEN_ON, str(target))
        return OperationObserved(namespace, held, siblings=tuple(siblings_of(operation, known, context)))

    async def _held(self, ref: ObjectRef) -> Manifest | None:
        """Return an object from the caches, or None if it does not exist.

        The object is read from the API server if the caches have only a part of it.
        """
        store = self.informers.store(ref.kind, ref.namespace)
        return await self.informers.whole(ref, store.get(ref.namespace, ref.name))

    def all_keys(self) -> Iterator[ObjectRef]:
        """Yield every Operation, and a key for each locked engine object whose Operation is gone.

        Without this key, the object could never be deleted. It exists if its create arrived after the end of its
        Operation, or if Velero created it: Velero copies a Backup with its finalizers into the object storage, and from
        there into any cluster. The key has the object's name in place of the Operation's.
        """
        yield from (ObjectRef(OPERATION, *name) for name in self.informers.store(OPERATION).names())
        for kind in ENGINE_KINDS:
            for runner in self.informers.of(kind):
                for live in runner.store.indexed(LOCKED, EVERYWHERE):
                    yield from self._keys_of_maker(live)

    # --- which Operations a change concerns -------------------------------------------------------------------------

    def keys_of_operation(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield the changed Operation, and waiting Operations on the same target that may start after the change."""
        yield change.ref
        yield from self._scheduled_on_target_of(change)
        yield from (ref for ref, is_next in self._waiting_for(change) if is_next)

    def _scheduled_on_target_of(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield the other Operations with a schedule on the changed Operation's target, which may have to postpone it.

        Yield nothing if the change does not affect that.
        """
        target, gone = target_in(change.object), change.type is ChangeType.DELETED
        before, now = _run_state(change.old_object), _run_state(None if gone else change.object)
        if target is None or (before == now and not gone):
            return
        for manifest in self.informers.store(OPERATION).indexed(OPEN_ON, str(target)):
            ref = ref_of(manifest, OPERATION)
            if ref != change.ref and has_schedule(manifest):
                yield ref

    def keys_behind(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield the waiting Operations on the changed Operation's target that cannot start after the change either.

        They are reconciled because they may now wait for another Operation than before.
        """
        yield from (ref for ref, is_next in self._waiting_for(change) if not is_next)

    def _waiting_for(self, change: CacheChange) -> Iterator[tuple[ObjectRef, bool]]:
        """Yield the other Operations on the changed Operation's target that wait to run, each with whether it may start
        now.

        Yield nothing if the change does not affect whether they may start.
        """
        target = target_in(change.object)
        if target is None or not _makes_room(change):
            return
        manifests = self.informers.store(OPERATION).indexed(OPEN_ON, str(target))
        operations = list(operations_on(target, manifests, self.settings.cluster_id))
        for operation in operations:
            ref = ObjectRef(OPERATION, operation.metadata.namespace, operation.metadata.name)
            if ref != change.ref and operation.status.phase is not Phase.RUNNING:
                yield ref, first_ahead(operation, operations) is None

    def keys_of_engine_object(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield the Operation for which the changed object was created, in any namespace.

        Such objects are created to carry out an Operation by its engine, such as a Backup of Velero.

        The Operation is found by the uid in the object's label, because names in labels may be shortened.
        """
        for manifest in (change.object, change.old_object or {}):
            yield from self._keys_of_maker(manifest)

    def _keys_of_maker(self, manifest: Manifest) -> Iterator[ObjectRef]:
        uid = get_path(manifest, "metadata", "labels", OPERATION_UID)
        if isinstance(uid, str) and uid:
            keys = list(self._found(BY_UID, uid))
            yield from keys or ([_orphan_key(manifest)] if is_locked(manifest) else [])

    def keys_of_target(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield every Operation on the changed instance that has not ended."""
        yield from self._found(OPEN_ON, str(change.ref))

    def keys_of_namespace(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield every unfinished Operation in the changed namespace, because the namespace may have become managed."""
        yield from self._found(OPEN, change.ref.name)

    def keys_awaiting(self, change: CacheChange) -> Iterator[ObjectRef]:
        """Yield every Operation that has not started and whose start depends on the changed object."""
        yield from self.awaited.keys_waiting_for(change.ref)

    def open_keys(self, _change: CacheChange) -> Iterator[ObjectRef]:
        """Yield every unfinished Operation. This is needed after the API server began or stopped serving a kind."""
        yield from self._found(OPEN, EVERYWHERE)

    def awaiting_approval(self) -> Iterator[ObjectRef]:
        """Yield every Operation that waits for an approval, or for the secret by which approvals are checked."""
        for manifest in self.informers.store(OPERATION).indexed(OPEN, EVERYWHERE):
            true = (condition for condition in conditions_of(manifest) if condition.get("status") == "True")
            if any(condition.get("reason") in _WAIT_FOR_SECRET for condition in true):
                meta = manifest["metadata"]
                yield ObjectRef(OPERATION, meta["namespace"], meta["name"])

    def _found(self, index: str, value: str) -> Iterator[ObjectRef]:
        for namespace, name in self.informers.store(OPERATION).indexed_names(index, value):
            yield ObjectRef(OPERATION, namespace, name)


def _orphan_key(live: Manifest) -> ObjectRef:
    """Return the key under which a locked engine object is unlocked if its Operation is gone (see `all_keys`)."""
    meta = metadata(live)
    namespace = get_path(live, "metadata", "labels", APPLICATION_NAMESPACE) or meta.get("namespace")
    return ObjectRef(OPERATION, str(namespace), str(meta["name"]))


def _is_maker(operation: Manifest, live: Manifest) -> bool:
    uid = get_path(live, "metadata", "labels", OPERATION_UID)
    return bool(uid == bounded_name(str(metadata(operation).get("uid"))))


def _read(manifest: Manifest) -> OperationSource:
    try:
        return read_operation(OWN_STATUS.without_foreign_conditions(manifest))
    except ValidationProblems as error:
        return unreadable_operation(manifest, error)


def _is_running(source: OperationSource, result: ReconcileResult) -> bool:
    written = result.status
    phase = readable(source).status.phase if written is None else get_path(written, "status", "phase")
    return bool(phase == Phase.RUNNING)


def _refuse_unknown_past(source: Unreadable[Operation]) -> None:
    """Raise Permanent for a managed Operation with an unreadable status.

    The Operation may have run, so it must not be started again.
    """
    if not source.has_status and source.metadata.deletion_timestamp is None and is_managed(source.metadata):
        raise Permanent(f"its status cannot be read, and nothing is written over it: {source.problems}")


def _makes_room(change: CacheChange) -> bool:
    """Report whether a change of an Operation may let other Operations on its target start.

    That is so if the Operation was running, or was next to start, and is no longer in that state after the change.
    """
    gone = change.type is ChangeType.DELETED
    before = _run_state(change.object if gone else change.old_object)
    return any(before) and before != _run_state(None if gone else change.object)


def _run_state(manifest: Manifest | None) -> tuple[bool, bool, bool]:
    """Return whether an Operation is running, whether it waits only for conflicting Operations, and whether a run may
    begin by its schedule.

    All are False if the Operation is missing or malformed.
    """
    operation = None if manifest is None else _read(manifest)
    if not isinstance(operation, Operation):
        return (False, False, False)
    return (*conflict_order_of(operation), may_begin_sync(operation))
