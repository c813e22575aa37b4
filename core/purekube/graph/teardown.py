"""Removal of all objects of an owner, found by labels and annotations alone (PH-3).

Expected flow: hooks (nodes to run before any deletion) run to completion → the objects of the highest recorded wave
(depth in the graph) are deleted → they are gone → the next wave → … → the objects that the hooks created → done. Each
step follows from the observed state, so it continues after a restart at any point. Objects that shall outlive their
owner are orphaned first.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import attrs

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.problems import listed
from purekube.controller.decision import Decision, Snapshot
from purekube.controller.ownership import is_locked, is_orphaning, unlocking
from purekube.graph.node import ApplyPolicy, GraphNode, Scope
from purekube.graph.node_order import Graph
from purekube.graph.owner import CreateRecord, Owner, label_text
from purekube.graph.plan import Plan, plan_without_prune
from purekube.graph.removal import BeforeDelete, Held, removal_step, resuming
from purekube.graph.states import NodeState, Observation, earliest_requeue, setback

MOST_NAMES: Final = 8


@attrs.frozen
class Hooks:
    """Graph nodes that must run to completion before any object of their owner is deleted. Use `of` to make them."""

    graph: Graph
    scope: Scope

    @classmethod
    def of(cls, nodes: Iterable[GraphNode], scope: Scope) -> "Hooks":
        """Make hooks of `nodes`. Each of their objects is created once, and the owner keeps a record of that.

        `scope` holds the values that the functions of the nodes read. Raises GraphError for an id that is used twice,
        an unknown dependency, or a cycle.
        """
        once = (
            attrs.evolve(node, policy=ApplyPolicy.ONCE) if node.policy is not ApplyPolicy.NEVER else node
            for node in nodes
        )
        return cls(Graph.of(once), scope)


class TeardownStep(StrEnum):
    """The current step of removing an owner's objects: hooks run, objects are deleted, their deletion is under way, or
    all is done. The value is also the reason of the condition Deleting.
    """

    DRAINING = "Draining"
    DELETING = "DeletingResources"
    WAITING = "WaitingForRemoval"
    DONE = "Done"
    """No object of the owner is left: the finalizer may be removed."""


@attrs.frozen
class Teardown:
    """One step of removing an owner's objects: the writes to make now, and the objects that are left.

    `message` names the remaining objects, and since when they are being deleted. `effects` has the writes and the time
    of the next pass. `records` are the owner's records of objects that are created only once, which the caller must
    store on the owner. `left` are the objects that are left.
    """

    step: TeardownStep
    message: str
    effects: Decision
    records: tuple[CreateRecord, ...] = ()
    left: tuple[ObjectRef, ...] = ()
    is_stalled: bool = False
    """True if the step can end only with help from outside, for example because a hook has failed."""

    @property
    def is_done(self) -> bool:
        """Report whether the removal has nothing left to do, so that the owner's finalizer may be removed."""
        return self.step is TeardownStep.DONE


def teardown(
    owner: Owner, observed: Snapshot, hooks: Hooks | None = None, before_delete: BeforeDelete = resuming
) -> Teardown:
    """Return the next step of removing the owner's objects.

    Without `hooks` (nodes to run first), for example because the file that declares them can no longer be read, nothing
    runs before the deletions. `before_delete` returns the patch that an object needs before it is deleted.
    """
    if observed.is_orphaning or is_orphaning(owner.meta):
        return _leaving_all(owner, observed)
    held = tuple(owner.held(observed))
    records = owner.records
    if hooks is not None:
        run = plan_without_prune(hooks.graph, owner, observed, hooks.scope)
        records = run.records
        if not run.is_ready:
            return _draining(run, held)
        of_hooks = {label_text(node_id) for node_id in hooks.graph.nodes}
        held = tuple(one for one in held if owner.node_of(one[1]) not in of_hooks) or held
    if not held:
        return Teardown(TeardownStep.DONE, "nothing is left", Decision(), records)
    return _removing(owner, held, observed, before_delete, records)


def _leaving_all(owner: Owner, observed: Snapshot) -> Teardown:
    """Return the step that leaves all objects as they are, except that it unlocks those that are created once.

    Their finalizer waits for a record of the owner, and without the owner nothing would ever remove it. The garbage
    collector may have removed their owner references already.
    """
    locked = {ref: live for ref, live in observed.objects.items() if owner.is_ours(live) and is_locked(live)}
    if not locked:
        return Teardown(TeardownStep.DONE, "its objects stay, as was asked for", Decision(), owner.records)
    failures = {failure.ref: setback(failure, owner.manager) for failure in observed.failures}
    effects = Decision(
        patches=tuple(unlocking(ref, live) for ref, live in locked.items() if ref not in failures),
        requeue=earliest_requeue(failures[ref].requeue for ref in locked if ref in failures),
        only_if_current=True,
    )
    message = f"its objects stay, as was asked for; first unlocked: {listed([str(ref) for ref in locked], MOST_NAMES)}"
    return Teardown(TeardownStep.WAITING, message, effects, owner.records, tuple(locked))


def _draining(run: Plan, held: Held) -> Teardown:
    # What a node waits for comes before it in the order of the graph, and is not ready either.
    obstacle = next(observation for observation in run.everything if not observation.is_ready)
    told = f"{obstacle.name}: {obstacle.message or obstacle.state}"
    place = f" ({obstacle.place})" if str(obstacle.place) else ""
    left = tuple(ref for ref, _ in held)
    return Teardown(TeardownStep.DRAINING, told + place, run.effects, run.records, left, is_stalled=obstacle.is_stalled)


def _removing(
    owner: Owner, held: Held, observed: Snapshot, before_delete: BeforeDelete, records: tuple[CreateRecord, ...]
) -> Teardown:
    step = removal_step(owner, held, observed, before_delete)
    effects = attrs.evolve(step.effects, only_if_current=step.effects.writes_downstream)
    is_busy = any(observation.state not in (NodeState.LEAVING, NodeState.WAITING) for observation in step.going)
    name = TeardownStep.DELETING if is_busy else TeardownStep.WAITING
    return Teardown(
        name,
        _remaining_text(step.going),
        effects,
        records,
        tuple(observation.ref for observation in step.going if observation.ref),
    )


def _remaining_text(going: tuple[Observation, ...]) -> str:
    """Return a text about the remaining objects `going`. Objects that block the deletion of others come first."""
    now = [observation for observation in going if observation.state is not NodeState.WAITING]
    behind = [observation.name for observation in going if observation.state is NodeState.WAITING]
    return messages_of(now) + (f"; then {listed(behind, MOST_NAMES)}" if behind else "")


def messages_of(observations: Sequence[Observation]) -> str:
    """Return the names and messages of the first few of the objects, and how many more there are, as text."""
    return listed([f"{observation.name}: {observation.message}" for observation in observations], MOST_NAMES, "; ")
