"""The second half of planning: the `NodeState` of each desired object, and the writes that follow from it.

The checks have a fixed order, and the first that applies decides. A node is a resource of the graph, with its child
objects; a blocked node blocks only what depends on it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, assert_never

import attrs

from purekube.apimachinery.errors import AlreadyExists, Invalid
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.problems import Place, listed
from purekube.controller.decision import Apply, Create, Delete, Failure, MergePatch, Requeue, Snapshot
from purekube.controller.drift import needs_apply
from purekube.controller.managed_fields import is_own_history, kubectl_name
from purekube.controller.ownership import controlled_by_another, controller_of, is_locked, locked, unlocking
from purekube.graph.node import (
    NOWHERE,
    ApplyPolicy,
    Edge,
    GraphNode,
    Hold,
    HoldCause,
    NodeKnowledge,
    OnImmutable,
    Scope,
    Until,
)
from purekube.graph.node_order import Graph
from purekube.graph.owner import CreateRecord, Owner
from purekube.graph.required_objects import WantedItem, WantedNode
from purekube.graph.states import NodeState, Observation, is_immutable, setback
from purekube.readiness import Readiness, State, readiness

if TYPE_CHECKING:
    from purekube.schema import Schema

_IN_PLACE = frozenset({NodeState.PROGRESSING, NodeState.FAILED})
"""States of objects that exist with the desired content, whatever their health."""
_CONFLICT = NodeState.CONFLICT
_MOST_NAMES = 3


@attrs.define
class NodeEvaluation:
    """The results for a graph: the state of each object, and the writes that bring the objects to their desired state.

    The nodes are evaluated one after another. Each call of `judge` adds the results of one node.
    """

    graph: Graph
    owner: Owner
    observed: Snapshot
    scope: Scope
    observations: dict[str, tuple[Observation, ...]] = attrs.field(factory=dict)
    applies: list[Apply] = attrs.field(factory=list)
    creates: list[Create] = attrs.field(factory=list)
    patches: list[MergePatch] = attrs.field(factory=list)
    deletes: list[Delete] = attrs.field(factory=list)
    records: dict[tuple[str, str], CreateRecord] = attrs.field(init=False)
    """The records, for the owner's status, of objects that are created only once, by node id and item key.

    No record is ever removed.
    """
    requeues: list[Requeue] = attrs.field(factory=list)
    taken: list[ObjectRef] = attrs.field(factory=list)
    """Objects that the graph requires, but whose names are taken by objects of other owners."""
    held: set[str] = attrs.field(factory=set)
    """Ids of nodes whose gate (the condition `when`) is closed; their objects are not deleted either."""
    failures: Mapping[ObjectRef, Failure] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.failures = {failure.ref: failure for failure in self.observed.failures}
        self.records = {(record.node, record.item): record for record in self.owner.records}

    def judge(self, desired: WantedNode) -> None:
        """Add the states and writes of the graph node in `desired`, which holds its desired objects.

        The nodes on which it depends must have been judged before.
        """
        self.observations[desired.node.id] = _NodeJudgement(self, desired, desired.node).observations()


@attrs.frozen
class _NodeJudgement:
    """The evaluation of one graph node, `wanted`: the states of its objects. The writes are added to `work`."""

    work: NodeEvaluation
    wanted: WantedNode
    node: GraphNode

    def observations(self) -> tuple[Observation, ...]:
        """Return the state of each object of the graph node. A node that is excluded or could not be evaluated has a
        single state for the whole node.
        """
        match self.wanted.knowledge:
            case NodeKnowledge.EXCLUDED:
                return (self._whole(NodeState.EXCLUDED, "Excluded", self._why_excluded(), counts=False),)
            case NodeKnowledge.UNKNOWN:
                assert self.wanted.hold is not None
                return (self._unknown(self.wanted.hold),)
            case NodeKnowledge.RENDERED:
                unmet = self._unmet()
                gate = self.node.when(self.work.scope)
                if gate is not True:
                    self.work.held.add(self.node.id)
                return tuple(self._item(item, unmet, gate) for item in self.wanted.items)
            case NodeKnowledge.NOT_YET:
                raise AssertionError(f"{self.node.id} has not been rendered")
            case _:
                assert_never(self.wanted.knowledge)

    # --- the node as a whole ----------------------------------------------------------------------------------

    def _whole(
        self,
        state: NodeState,
        reason: str,
        message: str,
        *,
        waits_for: tuple[str, ...] = (),
        counts: bool = True,
        place: Place = NOWHERE,
    ) -> Observation:
        node = self.node
        title = node.title or f"{node.kind.kind} {node.id}"
        external = node.policy is ApplyPolicy.NEVER
        return Observation(
            node.id,
            state,
            reason,
            message,
            waits_for=waits_for,
            counts=counts,
            place=place,
            title=title,
            is_external=external,
        )

    def _why_excluded(self) -> str:
        by = self.wanted.excluded_by
        return f"{by}, on which it depends, is not wanted" if by else "it is not wanted"

    def _unknown(self, hold: Hold) -> Observation:
        if self.node.kind in self.work.observed.missing_kinds:
            return self._whole(NodeState.MISSING_KIND, "MissingKind", _not_served(self.node.kind))
        place = hold.place if hold.place != NOWHERE else self.node.place
        if hold.cause is HoldCause.DENIED:
            return self._whole(NodeState.DENIED, "NotAgreed", hold.message, place=place)
        if hold.cause is not HoldCause.MISSING:
            reason = "LimitExceeded" if hold.cause is HoldCause.LIMIT else "ExpressionFailed"
            return self._whole(NodeState.ERROR, reason, hold.message, place=place)
        if unmet := self._unmet():
            return self._whole(
                NodeState.WAITING,
                "WaitingForDependency",
                self._told(unmet),
                waits_for=_targets(unmet),
                counts=self._counts(unmet),
            )
        return self._whole(NodeState.WAITING, "ValueMissing", hold.message, place=place)

    # --- what it waits for ------------------------------------------------------------------------------------

    def _unmet(self) -> tuple[tuple[Edge, Observation], ...]:
        """Return the dependencies that keep the graph node from being written.

        Each comes with the first object of the dependency that has not reached the required state.
        """
        found = []
        for edge in self.wanted.edges:
            items = self.work.observations[edge.to]
            blocking = next((item for item in items if not self._is_met(edge, item)), None)
            if blocking is not None:
                found.append((edge, blocking))
        return tuple(found)

    def _is_met(self, edge: Edge, target: Observation) -> bool:
        match target.state:
            case NodeState.READY | NodeState.LEFT:
                return True
            case NodeState.PENDING:
                by_apply = self.work.graph.nodes[edge.to].policy is ApplyPolicy.ALWAYS
                return edge.until is Until.APPLIED and by_apply
            case NodeState.CONFLICT:
                return target.holds_ready
            case _:
                return edge.until is not Until.READY and target.state in _IN_PLACE

    def _told(self, unmet: tuple[tuple[Edge, Observation], ...]) -> str:
        names = dict.fromkeys(f"{one.name} ({one.state})" for _, one in unmet)  # `dependsOn` may repeat what it reads
        return f"it waits for {listed(list(names), _MOST_NAMES)}"

    def _counts(self, unmet: tuple[tuple[Edge, Observation], ...]) -> bool:
        """Report whether the graph node affects the owner's readiness.

        It does not if all `unmet` dependencies are on nodes that do not affect the readiness either.
        """
        return any(one.counts for _, one in unmet)

    def _after(self) -> frozenset[ObjectRef]:
        """Return the objects that must be written before those of this node: objects of its dependencies that are
        written now.
        """
        return frozenset(
            one.ref
            for edge in self.wanted.edges
            for one in self.work.observations[edge.to]
            if one.state is NodeState.PENDING and one.ref is not None
        )

    # --- one item -----------------------------------------------------------------------------------------------

    def _item(self, item: WantedItem, unmet: tuple[tuple[Edge, Observation], ...], gate: bool | Hold) -> Observation:
        """Return the state of the object of one item, and record the write that the object needs. The first check that
        applies decides.

        `unmet` are the dependencies that the item waits for; `gate` is the result of the node's `when`.
        """
        node, work = self.node, self.work
        if node.kind in work.observed.missing_kinds:
            return self._of(item, NodeState.MISSING_KIND, "MissingKind", _not_served(node.kind))
        if item.problem:
            return self._of(item, NodeState.ERROR, "InvalidObject", item.problem, place=node.place)
        if isinstance(gate, Hold) and gate.cause in (HoldCause.FAULT, HoldCause.LIMIT):
            return self._of(item, NodeState.ERROR, "ExpressionFailed", gate.message, place=gate.place)
        theirs = item.live if item.is_foreign else None
        if theirs is not None:
            work.taken.append(item.ref)
            message = _foreign_owner_message(item.ref, theirs, work.owner)
            return self._of(item, NodeState.FOREIGN, "NameTaken", message)
        if item.live is not None and metadata(item.live).get("deletionTimestamp"):
            return self._leaving(item, item.live)
        if unmet:
            waiting = self._of(item, NodeState.WAITING, "WaitingForDependency", self._told(unmet))
            return attrs.evolve(waiting, waits_for=_targets(unmet), counts=self._counts(unmet))
        if gate is not True:
            return self._held(item, gate)
        match node.policy:
            case ApplyPolicy.ALWAYS:
                return self._refused(item) or self._applied(item)
            case ApplyPolicy.IF_ABSENT:
                return self._health(item, item.live) if item.live is not None else self._created(item)
            case ApplyPolicy.ONCE:
                return self._once(item)
            case ApplyPolicy.NEVER:
                return self._external(item)
            case _:
                assert_never(node.policy)

    def _of(
        self, item: WantedItem, state: NodeState, reason: str, message: str = "", *, place: Place = NOWHERE
    ) -> Observation:
        external, live = self.node.policy is ApplyPolicy.NEVER, None if item.is_foreign else item.live
        return Observation(
            self.node.id, state, reason, message, item.item.key, item.ref, live, place=place, is_external=external
        )

    def _leaving(self, item: WantedItem, live: Manifest) -> Observation:
        if self.node.policy is ApplyPolicy.ONCE:
            self._record(item, live)
        return self._of(item, NodeState.LEAVING, "Terminating", deletion_state(live))

    def _held(self, item: WantedItem, gate: bool | Hold) -> Observation:
        message, place = (gate.message, gate.place) if isinstance(gate, Hold) else ("", NOWHERE)
        held = self._of(item, NodeState.HELD, "GateClosed", message or "its gate is closed", place=place)
        return attrs.evolve(held, counts=not self.node.is_choice)

    def _refused(self, item: WantedItem) -> Observation | None:
        """Return the state of the item's object after a write of it was refused in this pass. Return None if no write
        was refused, or if the refusal is outdated.
        """
        failure = self.work.failures.get(item.ref)
        if failure is None or (isinstance(failure.error, AlreadyExists) and item.live is not None):
            return None
        if is_own_history(failure, self.work.owner.manager):
            self._apply(item, force=True)
            return self._of(item, NodeState.PENDING, "Applying")
        if self.node.on_immutable is OnImmutable.RECREATE and failure.verb == "apply" and is_immutable(failure):
            return self._recreated(item, failure)
        met = setback(failure, self.work.owner.manager)
        self.work.requeues.append(met.requeue)
        place = self.node.place if isinstance(failure.error, Invalid) else NOWHERE
        observation = self._of(item, met.state, met.reason, met.message, place=place)
        return attrs.evolve(observation, holds_ready=self._holds_ready(item)) if met.state is _CONFLICT else observation

    def _holds_ready(self, item: WantedItem) -> bool:
        """Report whether the object is healthy and was last applied as desired, even if others have
        changed it since.
        """
        if item.live is None:
            return False
        applied = ("metadata", "annotations", self.work.owner.marks.applied_hash)
        if get_path(item.live, *applied) != get_path(item.manifest, *applied):
            return False
        return self._health(item, item.live).state is NodeState.READY

    def _recreated(self, item: WantedItem, failure: Failure) -> Observation | None:
        """Delete an object whose immutable field has to change, so that it is created again; return its state.

        The delete names the observed uid. Return None if the object is gone or was replaced by another.
        """
        if item.live is None:
            return None
        uid = metadata(item.live)["uid"]
        if failure.live is not None and metadata(failure.live).get("uid") != uid:
            return None
        self.work.deletes.append(Delete(item.ref, uid))
        return self._of(item, NodeState.LEAVING, "Recreating", "a field cannot be changed: it is made again")

    def _applied(self, item: WantedItem) -> Observation:
        """Apply the item's manifest if its live object differs (PH-2), and return the object's state."""
        if not needs_apply(item.manifest, item.live, _schema_of(self.node), drops_empty=_is_native(self.node.kind)):
            assert item.live is not None
            return self._health(item, item.live)
        self._apply(item)
        return self._of(item, NodeState.PENDING, "Applying")

    def _apply(self, item: WantedItem, *, force: bool = False) -> None:
        self.work.applies.append(Apply(self.node.kind, item.manifest, force=force, after=self._after()))

    def _created(self, item: WantedItem, *, once: bool = False) -> Observation:
        refused = self._refused(item)
        if refused is not None:
            return refused
        manifest = locked(item.manifest) if once else item.manifest
        self.work.creates.append(Create(self.node.kind, manifest, tuple(self.node.generate), self._after()))
        return self._of(item, NodeState.PENDING, "Creating")

    def _external(self, item: WantedItem) -> Observation:
        if item.live is None:
            return self._of(item, NodeState.WAITING, "NotFound", "it does not exist")
        return self._health(item, item.live)

    def _health(self, item: WantedItem, live: Manifest) -> Observation:
        """Return the state of the live object by the readiness rule of its graph node or kind, then by the node's
        `ready` condition.
        """
        rule = self.node.readiness
        health = rule(live) if rule is not None else readiness(live, self.node.schema)
        match health.state:
            case State.FAILED:
                return self._of(item, NodeState.FAILED, health.reason, health.message)
            case State.PROGRESSING | State.UNKNOWN:
                return self._of(item, NodeState.PROGRESSING, health.reason, health.message)
            case State.READY:
                return self._asked(item, live, health)
            case _:
                assert_never(health.state)

    def _asked(self, item: WantedItem, live: Manifest, health: Readiness) -> Observation:
        answer = self.node.ready(self.work.scope, item.item, live)
        if answer is True:
            return self._of(item, NodeState.READY, health.reason)
        if not isinstance(answer, Hold):
            return self._of(item, NodeState.PROGRESSING, "NotReady", "its readiness condition does not hold yet")
        failed = answer.cause in (HoldCause.FAULT, HoldCause.LIMIT)
        state, reason = (NodeState.ERROR, "ExpressionFailed") if failed else (NodeState.PROGRESSING, "NotReady")
        return self._of(item, state, reason, answer.message, place=answer.place)

    # --- created once -------------------------------------------------------------------------------------------

    def _once(self, item: WantedItem) -> Observation:
        """Take the next step of creating an object that is created only once, and return the object's state.

        The steps are: record the intent, create, record the uid, remove the finalizer `UNRECORDED`. Each record must be
        stored on the owner before the next step.
        """
        if item.live is not None:
            self._record(item, item.live)
            return self._health(item, item.live)
        if item.record is None:
            self._remember(item, "")
            self.work.requeues.append(Requeue.at_latest(0.0))
            return self._of(item, NodeState.PENDING, "Recording", "it is created once the owner's status says so")
        if item.record.uid:
            return attrs.evolve(self._of(item, NodeState.LEFT, "CreatedOnce", "it has gone"), counts=False)
        return self._created(item, once=True)

    def _remember(self, item: WantedItem, uid: str) -> None:
        ref, key = item.ref, item.item.key
        self.work.records[self.node.id, key] = CreateRecord(self.node.id, ref.name, ref.namespace or "", key, uid)

    def _record(self, item: WantedItem, live: Manifest) -> None:
        """Record the object's uid for the owner. Once the owner has this record, remove the finalizer `UNRECORDED`."""
        uid = str(metadata(live)["uid"])
        self._remember(item, uid)
        if not is_locked(live):
            return
        failure = self.work.failures.get(item.ref)
        if item.record is None or item.record.uid != uid:
            self.work.requeues.append(Requeue.at_latest(0.0))
        elif failure is None:
            self.work.patches.append(unlocking(item.ref, live))
        else:
            self.work.requeues.append(setback(failure, self.work.owner.manager).requeue)


def _targets(unmet: tuple[tuple[Edge, Observation], ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(edge.to for edge, _ in unmet))


def _not_served(kind: Kind) -> str:
    name = kind.crd_name if kind.group else kind.plural
    return f"{name} ({kind.version}) is not installed in this cluster"


def deletion_state(live: Manifest) -> str:
    """Return a phrase that says when the deletion of the object was requested, and which finalizers keep it."""
    meta = metadata(live)
    finalizers = meta.get("finalizers")
    held = f", held by {', '.join(map(str, finalizers))}" if isinstance(finalizers, list) and finalizers else ""
    return f"deleted at {meta.get('deletionTimestamp')}, not gone yet{held}"


def _foreign_owner_message(ref: ObjectRef, live: Manifest, owner: Owner) -> str:
    """Return the message that the object `live` belongs to another owner, and what the user can do.

    The message names the controller in the object's ownerReferences, if there is one. `owner` is the graph's own owner.
    """
    controller = controller_of(live)
    if controller is not None:
        return controlled_by_another(controller)
    place, label = kubectl_name(ref), f"{owner.marks.owner_uid}={owner.label}"
    if get_path(live, "metadata", "labels", owner.marks.owner_uid) is not None:
        label += " --overwrite"  # it was made for a former owner, and kubectl refuses to change a label without this
    return (
        f"an object of this name exists and was not made for this {owner.kind.kind}. If nobody needs it, "
        f"delete it. To let it be taken over: kubectl label {place} {label}"
    )


def _schema_of(node: GraphNode) -> "Schema | None":
    from purekube.schema.builtin import built_in_schema  # the schemas are slow to import, and few commands judge

    return node.schema if node.schema is not None else built_in_schema(node.kind.api_version, node.kind.kind)


def _is_native(kind: Kind) -> bool:
    """Report whether the kind is built into the API server (which omits empty fields), not defined by a CRD."""
    return "." not in kind.group or kind.group.endswith(".k8s.io")
