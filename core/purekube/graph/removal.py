"""Removal in steps: the highest recorded wave first, each object by its uid, the next when that is gone (PH-3).

Prune and teardown use it. It reads labels and annotations only: neither the graph nor its expressions need to be
readable any more.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from typing import TypeAlias

import attrs

from purekube.apimachinery.manifest import Manifest, ObjectRef, metadata
from purekube.controller.decision import Decision, Delete, MergePatch, Snapshot
from purekube.graph.judge import leaving
from purekube.graph.once import is_locked, unlocking
from purekube.graph.owner import Owner
from purekube.graph.setbacks import Setback, setback, soonest
from purekube.graph.states import NodeState, Observation

BeforeDelete: TypeAlias = Callable[[ObjectRef, Manifest], MergePatch | None]
"""The patch that a live object needs before it is deleted, such as resuming a suspended HelmRelease; usually None.

It depends on the kind and the object alone: the graph may be unknown by then.
"""

Held: TypeAlias = Sequence[tuple[ObjectRef, Manifest]]
"""Objects that an owner has."""


def nothing_before(ref: ObjectRef, live: Manifest) -> MergePatch | None:
    """Return None: no patch is needed before the deletion."""
    return None


@attrs.frozen
class Doomed:
    """An object that is to be removed. The highest wave goes first."""

    ref: ObjectRef
    live: Manifest
    wave: int = 0

    @property
    def is_going(self) -> bool:
        """Report whether the object's deletion has been requested."""
        return is_going(self.live)


def next_wave(doomed: Iterable[Doomed]) -> tuple[Doomed, ...]:
    """Return the objects of the highest wave; the others wait until these are gone."""
    found = tuple(doomed)
    highest = max((one.wave for one in found), default=0)
    return tuple(one for one in found if one.wave == highest)


def taking_down(step: Iterable[Doomed], failed: Container[ObjectRef], before_delete: BeforeDelete) -> Decision:
    """Return the writes that remove the objects, by their observed uids; none for one refused in this pass."""
    writable = tuple(one for one in step if one.ref not in failed)
    patches = tuple(patch for one in writable if (patch := before_delete(one.ref, one.live)) is not None)
    deletes = tuple(Delete(one.ref, metadata(one.live)["uid"]) for one in writable if not one.is_going)
    return Decision(patches=patches, deletes=deletes)


@attrs.frozen
class RemovalStep:
    """The next step of a removal: its writes, and the state of each object that is to be removed."""

    effects: Decision
    going: tuple[Observation, ...] = ()


def removal_step(owner: Owner, held: Held, observed: Snapshot, before_delete: BeforeDelete) -> RemovalStep:
    """Orphan the objects marked for it, and delete the highest recorded wave of the rest."""
    failures = {failure.ref: setback(failure, owner.manager) for failure in observed.failures}
    orphans = [(ref, live) for ref, live in held if owner.is_orphaned(live) and not is_going(live)]
    kept = {ref for ref, _ in orphans}
    doomed = tuple(Doomed(ref, live, owner.wave_of(live)) for ref, live in held if ref not in kept)
    step = next_wave(doomed)

    def before(ref: ObjectRef, live: Manifest) -> MergePatch | None:
        return unlocking(ref, live) if is_locked(live) else before_delete(ref, live)

    effects = taking_down(step, failures, before)
    disowned = tuple(owner.disowning(ref, live) for ref, live in orphans if ref not in failures)
    effects = attrs.evolve(
        effects,
        patches=(*disowned, *effects.patches),
        requeue=soonest(failures[ref].requeue for ref, _ in held if ref in failures),
    )
    now = (*orphans, *((one.ref, one.live) for one in step))
    behind = {one.ref for one in doomed} - {one.ref for one in step}
    going = [_stands(owner, ref, live, failures.get(ref)) for ref, live in now]
    going.extend(
        _observed(owner, one.ref, one.live, NodeState.WAITING, "Behind", "others go first")
        for one in doomed
        if one.ref in behind
    )
    return RemovalStep(effects, tuple(going))


def is_going(live: Manifest) -> bool:
    """Report whether the object's deletion has been requested."""
    return bool(metadata(live).get("deletionTimestamp"))


def _stands(owner: Owner, ref: ObjectRef, live: Manifest, met: Setback | None) -> Observation:
    """Return the observation of an object of the current step."""
    if met is not None:
        return _observed(owner, ref, live, met.state, met.reason, met.message)
    if is_going(live):
        return _observed(owner, ref, live, NodeState.LEAVING, "Terminating", leaving(live))
    return _observed(owner, ref, live, NodeState.PENDING, "Deleting", "it is deleted")


def _observed(owner: Owner, ref: ObjectRef, live: Manifest, state: NodeState, reason: str, message: str) -> Observation:
    return Observation(owner.node_of(live), state, reason, message, ref=ref, live=live)
