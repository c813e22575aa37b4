"""The engine: what to do so that everything in a graph exists and is ready (PH-1, PH-2, PH-3).

Expected flow
    evaluate all nodes → judge each by the table of states → prune → writes, observations, records for the status.
Guarantees
    Pure. On a settled cluster the next decision writes nothing. A node that cannot be evaluated deletes nothing. Only
    objects that this incarnation of the owner made are written or deleted, by their uid.
"""

from collections.abc import Iterator, Mapping

import attrs

from purekube.controller.decision import Decision, Snapshot
from purekube.graph.build import Graph
from purekube.graph.evaluate import WantedNode, evaluate
from purekube.graph.judge import Judgement
from purekube.graph.node import PruneTime
from purekube.graph.once import CreateRecord
from purekube.graph.owner import Owner, label_text
from purekube.graph.removal import BeforeDelete, Held, RemovalStep, nothing_before, removal_step
from purekube.graph.scope import Knowledge, Scope
from purekube.graph.setbacks import soonest
from purekube.graph.states import NodeState, Observation


@attrs.frozen
class Plan:
    """The observations of a graph, and the writes that follow from them.

    `observations` has an entry for each item, by node id, in graph order. `effects` are all writes and the requeue;
    finalizer, status and events are the caller's. `records` of objects created once go into the owner's status: if they
    differ from `Owner.records`, it must be written before anything is created. `scope` is complete: expressions of the
    status are evaluated in it.
    """

    observations: Mapping[str, tuple[Observation, ...]]
    effects: Decision
    scope: Scope
    records: tuple[CreateRecord, ...] = ()
    going: tuple[Observation, ...] = ()
    """Objects that are no longer wanted and are being removed."""

    @property
    def is_ready(self) -> bool:
        """Report whether everything that is wanted is ready."""
        return all(one.is_ready for one in self.everything)

    @property
    def everything(self) -> Iterator[Observation]:
        """All observations, in graph order."""
        return (one for items in self.observations.values() for one in items)


def plan(
    graph: Graph, owner: Owner, observed: Snapshot, scope: Scope, before_delete: BeforeDelete = nothing_before
) -> Plan:
    """Decide what to do now.

    `observed.objects` holds every object with the owner's label, and every object whose name the graph wants or reads.
    """
    held = tuple(owner.held(observed))
    whole, wanted = evaluate(graph, owner, observed, scope, held)
    work = Judgement(graph, owner, observed, whole)
    for node in wanted.values():
        work.judge(node)
    doomed = _doomed(work, held, wanted)
    removal = removal_step(owner, doomed, observed, before_delete) if doomed else RemovalStep(Decision())
    return _planned(work, removal)


def plan_without_prune(graph: Graph, owner: Owner, observed: Snapshot, scope: Scope) -> Plan:
    """Decide the same for a graph that is only a part of what the owner has: nothing is pruned."""
    whole, wanted = evaluate(graph, owner, observed, scope, tuple(owner.held(observed)))
    work = Judgement(graph, owner, observed, whole)
    for node in wanted.values():
        work.judge(node)
    return _planned(work, RemovalStep(Decision()))


def _planned(work: Judgement, removal: RemovalStep) -> Plan:
    patches = (*work.patches, *removal.effects.patches)
    deletes = (*work.deletes, *removal.effects.deletes)
    effects = Decision(
        patches=patches,
        applies=tuple(work.applies),
        creates=tuple(work.creates),
        deletes=deletes,
        requeue=soonest((*work.requeues, removal.effects.requeue)),
        only_if_current=bool(patches or work.applies or work.creates or deletes),
        awaits=tuple(work.taken),
    )
    return Plan(work.observations, effects, work.scope, tuple(work.records.values()), removal.going)


# --- what is not wanted any more ------------------------------------------------------------------------------------


def _doomed(work: Judgement, held: Held, wanted: Mapping[str, WantedNode]) -> Held:
    """Return the owner's objects that no node wants, without those of nodes that are unknown or whose gate is closed.

    Until everything is ready, these are only objects of nodes that prune at once.
    """
    owner, observations = work.owner, work.observations
    refs = {item.ref for node in wanted.values() for item in node.items}
    unknown = {label_text(node_id) for node_id, node in wanted.items() if node.knowledge is Knowledge.UNKNOWN}
    unknown |= {label_text(node_id) for node_id in work.held}
    unwanted = [(ref, live) for ref, live in held if ref not in refs and _is_known(owner.node_of(live), unknown)]
    if not unwanted or all(one.is_ready for items in observations.values() for one in items):
        return unwanted
    by_label = {label_text(node_id): node for node_id, node in wanted.items()}
    return [
        (ref, live)
        for ref, live in unwanted
        if (node := by_label.get(owner.node_of(live))) is not None
        and node.node.prune is PruneTime.AT_ONCE
        and not any(one.state is NodeState.WAITING for one in observations[node.node.id])
    ]


def _is_known(label: str, unknown: set[str]) -> bool:
    """Report whether certainly no node wants an object with this label: without one it may be of any unknown node."""
    return label not in unknown and (bool(label) or not unknown)
