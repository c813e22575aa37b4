"""Objects that go, in steps: highest recorded wave first, each by its uid, the next when that is gone (PH-3).

Prune and teardown go by this. It reads labels and annotations only: neither the graph nor an expression has to be known
any more.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import attrs

from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, metadata
from vworkspace_core.controller.decision import Decision, Delete, MergePatch, Snapshot
from vworkspace_core.graph.judge import leaving
from vworkspace_core.graph.once import is_locked, unlocking
from vworkspace_core.graph.owner import Owner
from vworkspace_core.graph.setbacks import setback, soonest
from vworkspace_core.graph.states import NodeState, Observation

BeforeDelete: TypeAlias = Callable[[ObjectRef, Manifest], MergePatch | None]
"""What has to be written on a live object before it is deleted, as a suspended HelmRelease is resumed; as a rule None.
It goes by the kind and the object alone: the graph may not be known any more.
"""

Held: TypeAlias = Sequence[tuple[ObjectRef, Manifest]]
"""Objects that an owner has."""


def nothing_before(ref: ObjectRef, live: Manifest) -> MergePatch | None:
    """Nothing has to be written before."""
    return None


@attrs.frozen
class RemovalStep:
    """The next step: its writes, and how each object that is to go stands."""

    effects: Decision
    going: tuple[Observation, ...] = ()


def removal_step(owner: Owner, doomed: Held, observed: Snapshot, before_delete: BeforeDelete) -> RemovalStep:
    """Let go of what is to be orphaned, and take down the highest wave of the rest."""
    failures = {failure.ref: setback(failure, owner.manager) for failure in observed.failures}
    orphans = [(ref, live) for ref, live in doomed if owner.is_orphaned(live) and not is_going(live)]
    rest = [(ref, live) for ref, live in doomed if not owner.is_orphaned(live) or is_going(live)]
    highest = max((owner.wave_of(live) for _, live in rest), default=0)
    step = [(ref, live) for ref, live in rest if owner.wave_of(live) == highest]
    behind = [(ref, live) for ref, live in rest if owner.wave_of(live) != highest]
    patches = [owner.disowning(ref, live) for ref, live in orphans if ref not in failures]
    for ref, live in step:
        if ref not in failures:
            patches.extend(_before(ref, live, before_delete))
    doomed_now = [(ref, live) for ref, live in step if not is_going(live)]
    deletes = tuple(Delete(ref, metadata(live)["uid"]) for ref, live in doomed_now if ref not in failures)
    going = []
    for ref, live in (*orphans, *step):
        if ref in failures:
            met = failures[ref]
            going.append(_observed(owner, ref, live, met.state, met.reason, met.message))
        elif is_going(live):
            going.append(_observed(owner, ref, live, NodeState.LEAVING, "Terminating", leaving(live)))
        else:
            going.append(_observed(owner, ref, live, NodeState.PENDING, "Deleting", "it is deleted"))
    going.extend(_observed(owner, ref, live, NodeState.WAITING, "Behind", "others go first") for ref, live in behind)
    requeue = soonest(failures[ref].requeue for ref, _ in doomed if ref in failures)
    return RemovalStep(Decision(patches=tuple(patches), deletes=deletes, requeue=requeue), tuple(going))


def is_going(live: Manifest) -> bool:
    """Whether somebody has asked for its deletion."""
    return bool(metadata(live).get("deletionTimestamp"))


def _before(ref: ObjectRef, live: Manifest, before_delete: BeforeDelete) -> Iterable[MergePatch]:
    if is_locked(live):
        yield unlocking(ref, live)
    elif (patch := before_delete(ref, live)) is not None:
        yield patch


def _observed(owner: Owner, ref: ObjectRef, live: Manifest, state: NodeState, reason: str, message: str) -> Observation:
    return Observation(owner.node_of(live), state, reason, message, ref=ref, live=live)
