"""The graph engine: the writes that bring a graph's objects into existence and make them ready (PH-1, PH-2, PH-3).

A node of the graph is a resource with its child objects, which exist for the graph's owner.

Expected flow
    evaluate all nodes → judge the state of each → prune. The results are the writes, the state of each object, and the
    records of objects that are created only once, which the caller stores on the owner.
Guarantees
    Pure. Once all objects are as desired, the next decision writes nothing. Objects of a node that cannot be evaluated
    are not deleted. Only objects of the owner with this uid are written or deleted, and these by their own uid.
"""

from collections.abc import Iterator, Mapping

import attrs

from purekube.apimachinery.manifest import ObjectRef, is_terminating, metadata
from purekube.controller.decision import Decision, Delete, Snapshot
from purekube.graph.judge import NodeEvaluation
from purekube.graph.node import NodeKnowledge, PruneTime, Scope
from purekube.graph.node_order import Graph
from purekube.graph.owner import CreateRecord, Owner, label_text, stored_identity
from purekube.graph.removal import BeforeDelete, Held, RemovalStep, removal_step, resuming
from purekube.graph.required_objects import WantedNode, evaluate
from purekube.graph.states import NodeState, Observation, earliest_requeue


@attrs.frozen
class Plan:
    """The result of planning: the state of each object of a graph, and the writes that are needed now.

    `observations` maps node ids to the states of the node's objects, in graph order. `effects` has the writes and the
    time of the next pass, but not the owner's finalizer, status and Events, which the caller adds. `records` are the
    owner's records of objects that are created only once. If they differ from `Owner.records`, the caller must store
    them on the owner before it creates any object. `scope` has the objects of all nodes, for expressions of the status.
    """

    observations: Mapping[str, tuple[Observation, ...]]
    effects: Decision
    scope: Scope
    records: tuple[CreateRecord, ...] = ()
    going: tuple[Observation, ...] = ()
    """The states of objects that are no longer wanted and are being removed."""
    unwanted: tuple[Delete, ...] = ()
    """The deletes of all objects that are no longer wanted, including those that wait until the rest is ready."""

    @property
    def former(self) -> tuple[ObjectRef, ...]:
        """The objects that are no longer wanted, but are not being removed before the rest is ready."""
        going = {one.ref for one in self.going}
        return tuple(delete.ref for delete in self.unwanted if delete.ref not in going)

    @property
    def is_ready(self) -> bool:
        """Report whether each object of the graph is ready, or does not count for the owner (`Observation.counts`)."""
        return all(observation.is_ready for observation in self.everything)

    @property
    def everything(self) -> Iterator[Observation]:
        """Yield the states of all objects of the graph, in graph order."""
        return (item for items in self.observations.values() for item in items)


def plan(graph: Graph, owner: Owner, observed: Snapshot, scope: Scope, before_delete: BeforeDelete = resuming) -> Plan:
    """Return the state of each object of a graph, and the writes, given the observed objects.

    `owner` is the object for which the graph's objects exist. `scope` holds the caller's values for the nodes'
    functions. `observed.objects` must have every object with the owner's label, and every object that the graph writes
    or reads. `before_delete` returns the patch that an object needs before it is deleted.
    """
    held = tuple(owner.held(observed))
    whole, desired = evaluate(graph, owner, observed, scope, held)
    work = NodeEvaluation(graph, owner, observed, whole)
    for node in desired.values():
        work.judge(node)
    unwanted = _unwanted(work, held, desired)
    prune_candidates = _prune_candidates(work, unwanted, desired)
    removal = (
        removal_step(owner, prune_candidates, observed, before_delete) if prune_candidates else RemovalStep(Decision())
    )
    stays = [ref for ref, live in unwanted if owner.is_orphaned(live) or is_terminating(live)]
    deletes = (Delete(ref, metadata(live)["uid"]) for ref, live in unwanted if ref not in stays)
    return attrs.evolve(_planned(work, removal), unwanted=tuple(deletes))


def plan_without_prune(graph: Graph, owner: Owner, observed: Snapshot, scope: Scope) -> Plan:
    """Return the plan for a graph that has only a part of the owner's objects, so that nothing is pruned."""
    whole, desired = evaluate(graph, owner, observed, scope, tuple(owner.held(observed)))
    work = NodeEvaluation(graph, owner, observed, whole)
    for node in desired.values():
        work.judge(node)
    return _planned(work, RemovalStep(Decision()))


def _planned(work: NodeEvaluation, removal: RemovalStep) -> Plan:
    patches = (*work.patches, *removal.effects.patches)
    deletes = (*work.deletes, *removal.effects.deletes)
    effects = Decision(
        patches=patches,
        applies=tuple(work.applies),
        creates=tuple(work.creates),
        deletes=deletes,
        requeue=earliest_requeue((*work.requeues, removal.effects.requeue)),
        only_if_current=bool(patches or work.applies or work.creates or deletes),
        awaits=tuple(work.taken),
    )
    return Plan(work.observations, effects, work.scope, tuple(work.records.values()), removal.going)


# --- what is not wanted any more ------------------------------------------------------------------------------------


def _unwanted(work: NodeEvaluation, held: Held, desired: Mapping[str, WantedNode]) -> Held:
    """Return the existing objects in `held` that no graph node requires, according to the evaluated nodes `desired`.

    Objects of a node that could not be evaluated or has a closed gate are left out.
    """
    items = [item for node in desired.values() for item in node.items]
    refs = {item.ref for item in items}
    rest = [(ref, live) for ref, live in held if ref not in refs]
    if not rest:
        return []
    places = {_place(ref) for ref in refs}
    wanted = {stored_identity(item.ref, item.live) for item in items if item.live is not None}
    unknown = {label_text(node_id) for node_id, node in desired.items() if node.knowledge is NodeKnowledge.UNKNOWN}
    unknown |= {label_text(node_id) for node_id in work.held}
    return [
        (ref, live)
        for ref, live in rest
        if _place(ref) not in places
        and stored_identity(ref, live) not in wanted
        and _is_known(work.owner.node_of(live), unknown)
    ]


def _place(ref: ObjectRef) -> tuple[str | None, ...]:
    """Return the identity of an object without its version, since all versions of a kind show the same object."""
    return ref.kind.group, ref.kind.plural, ref.namespace, ref.name


def _prune_candidates(work: NodeEvaluation, unwanted: Held, desired: Mapping[str, WantedNode]) -> Held:
    """Return the objects in `unwanted` that may be pruned now.

    Once everything is ready, all of them may be pruned. Before that, only objects of graph nodes that prune at once.
    """
    owner, observations = work.owner, work.observations
    if all(item.is_ready for items in observations.values() for item in items):
        return unwanted
    by_label = {label_text(node_id): node for node_id, node in desired.items()}
    return [
        (ref, live)
        for ref, live in unwanted
        if (node := by_label.get(owner.node_of(live))) is not None
        and node.node.prune is PruneTime.AT_ONCE
        and not any(one.state is NodeState.WAITING for one in observations[node.node.id])
    ]


def _is_known(label: str, unknown: set[str]) -> bool:
    """Report whether an object with the label value `label` certainly belongs to none of the `unknown` graph nodes."""
    return label not in unknown and (bool(label) or not unknown)
