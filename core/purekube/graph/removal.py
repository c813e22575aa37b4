"""Removal of an owner's objects in waves (a wave is a depth in the graph). The highest recorded wave is removed first,
and the next one once that one is gone (PH-3).

Prune and teardown use it. It needs neither the graph nor its expressions, which may be unreadable by then: the labels
and annotations of the objects suffice. Each object is deleted by its uid.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Final, TypeAlias

import attrs

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, is_terminating, metadata
from purekube.controller.decision import Decision, Delete, MergePatch, Snapshot
from purekube.controller.ownership import is_locked, unlocking
from purekube.graph.judge import deletion_state
from purekube.graph.owner import Owner
from purekube.graph.states import NodeState, Observation, Setback, earliest_requeue, setback

BeforeDelete: TypeAlias = Callable[[ObjectRef, Manifest], MergePatch | None]
"""A function that returns the patch a live object needs before it is deleted, or (usually) None.

An example is the patch that resumes a suspended HelmRelease. It must follow from the kind and the object alone, since
the graph may be unknown by then.
"""

Held: TypeAlias = Sequence[tuple[ObjectRef, Manifest]]
"""Live objects that belong to an owner, each with its reference."""


_UNINSTALLING: Final = frozenset(
    {("helm.toolkit.fluxcd.io", "HelmRelease"), ("kustomize.toolkit.fluxcd.io", "Kustomization")}
)
"""The kinds whose controller removes what they deployed when they are deleted, except while they are suspended."""


def resuming(ref: ObjectRef, live: Manifest) -> MergePatch | None:
    """Return the patch that resumes a suspended object of Flux, or None if none is needed. It is the default
    `BeforeDelete`.

    Flux does not remove what a suspended HelmRelease or Kustomization has deployed (helm-controller: reconcileDelete;
    kustomize-controller: finalize), and nothing would own it afterwards. A patch is needed because an object that is
    to be deleted is no longer applied.
    """
    if (ref.kind.group, ref.kind.kind) not in _UNINSTALLING or get_path(live, "spec", "suspend") is not True:
        return None
    return MergePatch(
        ref, {"metadata": {"resourceVersion": metadata(live)["resourceVersion"]}, "spec": {"suspend": None}}
    )


@attrs.frozen
class PruneCandidate:
    """An object to remove. Objects with the highest `wave` (depth in the graph) are removed first."""

    ref: ObjectRef
    live: Manifest
    wave: int = 0

    @property
    def is_going(self) -> bool:
        """Report whether the object's deletion has already been requested."""
        return is_terminating(self.live)


def next_wave(prune_candidates: Iterable[PruneCandidate]) -> tuple[PruneCandidate, ...]:
    """Return those of `prune_candidates` that have the highest wave (depth in the graph): they are removed first."""
    found = tuple(prune_candidates)
    highest = max((prune_candidate.wave for prune_candidate in found), default=0)
    return tuple(prune_candidate for prune_candidate in found if prune_candidate.wave == highest)


def teardown_writes(
    step: Iterable[PruneCandidate], failed: Container[ObjectRef], before_delete: BeforeDelete
) -> Decision:
    """Return the deletes of the objects in `step`, by their observed uids, and the patches that must precede the
    deletes.

    `before_delete` returns the patch for an object, None if it needs none. Objects in `failed`, whose deletion was
    refused in this pass, are left out.
    """
    writable = tuple(prune_candidate for prune_candidate in step if prune_candidate.ref not in failed)
    patches = tuple(
        patch
        for prune_candidate in writable
        if (patch := before_delete(prune_candidate.ref, prune_candidate.live)) is not None
    )
    deletes = tuple(
        Delete(prune_candidate.ref, metadata(prune_candidate.live)["uid"])
        for prune_candidate in writable
        if not prune_candidate.is_going
    )
    return Decision(patches=patches, deletes=deletes)


@attrs.frozen
class RemovalStep:
    """The next step of removing an owner's objects: its writes, and the state of each object that is being removed."""

    effects: Decision
    going: tuple[Observation, ...] = ()


def removal_step(owner: Owner, held: Held, observed: Snapshot, before_delete: BeforeDelete) -> RemovalStep:
    """Return the next step of removing the objects in `held`.

    The step orphans all objects that are marked to be orphaned. Of the other objects it deletes those of the highest
    wave (depth in the graph). `observed` tells which writes were refused in this pass. `before_delete` returns the
    patch that an object needs before it is deleted.
    """
    failures = {failure.ref: setback(failure, owner.manager) for failure in observed.failures}
    orphans = [(ref, live) for ref, live in held if owner.is_orphaned(live) and not is_terminating(live)]
    kept = {ref for ref, _ in orphans}
    prune_candidates = tuple(PruneCandidate(ref, live, owner.wave_of(live)) for ref, live in held if ref not in kept)
    step = next_wave(prune_candidates)

    def before(ref: ObjectRef, live: Manifest) -> MergePatch | None:
        # The lock is the last to go: it keeps the object until what its deletion needs is done.
        return before_delete(ref, live) or (unlocking(ref, live) if is_locked(live) else None)

    effects = teardown_writes(step, failures, before)
    disowned = tuple(owner.disowning(ref, live) for ref, live in orphans if ref not in failures)
    effects = attrs.evolve(
        effects,
        patches=(*disowned, *effects.patches),
        requeue=earliest_requeue(failures[ref].requeue for ref, _ in held if ref in failures),
    )
    now = (*orphans, *((prune_candidate.ref, prune_candidate.live) for prune_candidate in step))
    behind = {prune_candidate.ref for prune_candidate in prune_candidates} - {
        prune_candidate.ref for prune_candidate in step
    }
    going = [_observation(owner, ref, live, failures.get(ref)) for ref, live in now]
    going.extend(
        _observed(owner, prune_candidate.ref, prune_candidate.live, NodeState.WAITING, "Behind", "others go first")
        for prune_candidate in prune_candidates
        if prune_candidate.ref in behind
    )
    return RemovalStep(effects, tuple(going))


def _observation(owner: Owner, ref: ObjectRef, live: Manifest, met: Setback | None) -> Observation:
    """Return the state of an object that the current step removes.

    `met` is the state that a refused write of the object gives to it; None if no write was refused.
    """
    if met is not None:
        return _observed(owner, ref, live, met.state, met.reason, met.message)
    if is_terminating(live):
        return _observed(owner, ref, live, NodeState.LEAVING, "Terminating", deletion_state(live))
    return _observed(owner, ref, live, NodeState.PENDING, "Deleting", "it is deleted")


def _observed(owner: Owner, ref: ObjectRef, live: Manifest, state: NodeState, reason: str, message: str) -> Observation:
    return Observation(owner.node_of(live), state, reason, message, ref=ref, live=live)
