"""The decision about an applied box, an OperatorBox object in the cluster: its revision, roll-out and removal (PH-10).

Expected flow
    A reconcile pass does what is due, in this order: add the finalizer; store the definition as a ControllerRevision;
    apply the CRD; once the process serves the revision, try it by dry runs on the parents (objects of the box's kind);
    move parents to it; record on the revision that a parent was Ready at it, or that it is given up; write the status.
Guarantees
    Pure. No part of a definition is written unless the definition is accepted and permitted. A parent moves by one
    write, which fails if the parent has changed since it was read. All durable state is on the objects: a process that
    starts in the middle of a roll-out continues where the last one stopped.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from functools import cached_property
from typing import Any, Final, assert_never

import attrs

from purekube.apimachinery.definitions import BOX_DOMAIN
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, content_hash, get_path
from purekube.apimachinery.meta import APPLIED_HASH, Condition, ObjectMeta
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from purekube.apimachinery.structuring import read_meta, read_own_conditions
from purekube.boxes.box import Box, finalizer_named
from purekube.boxes.definition import crd_of
from purekube.boxes.read import BoxProblem
from purekube.boxes.rollout_policy import BoxRollout, DeletionPolicy, RolloutFailure
from purekube.boxes.rollouts.judgement import AGAIN_SECONDS, Foresight, Judgement, first_refusal, foresight_of
from purekube.boxes.rollouts.members import (
    BoxParent,
    ParentReading,
    ParentReadings,
    members_of,
    parent_of,
    seconds_until_due,
)
from purekube.boxes.rollouts.reasons import CONDITIONS, RolloutPhase
from purekube.boxes.rollouts.revisions import (
    CONTROLLER_REVISION,
    Assignments,
    Revision,
    assignments_of,
    definition_of,
    move,
    read_revisions,
    revision_manifest,
    revision_name,
    superfluous,
)
from purekube.boxes.rollouts.rollout import Health, RolloutStep, next_step
from purekube.boxes.webhooks.conversion_webhook import ConversionWebhook
from purekube.boxes.webhooks.kind_webhooks import WebhookDuties
from purekube.cel import CelError, Program
from purekube.controller.decision import (
    REFUSED_SECONDS,
    Apply,
    Create,
    Decision,
    Delete,
    Finalizer,
    MergePatch,
    Requeue,
    Snapshot,
)

MANAGER: Final = "vworkspace-boxes"
"""The field manager of applied boxes, their CRDs and ControllerRevisions."""
FINALIZER: Final = f"{BOX_DOMAIN}/objects"
"""The finalizer that keeps an applied box until the objects of its kind are deleted, or have lost this finalizer."""
_STARTING_SECONDS: Final = 0.5
_OBSTACLE_SECONDS: Final = 1.0
"""The delay before another attempt at a dry run that an obstacle prevented, such as a lost connection."""
_CURED_SECONDS: Final = 10.0
"""The delay before a box with problems is examined again: another object, such as a policy, may have solved them."""
_AT_ONCE: Final = 50
"""The largest number of parents (objects of the box's kind) from which one pass removes the box's finalizer."""


@attrs.frozen
class AppliedBox:
    """An OperatorBox object in the cluster, whose spec may be unreadable."""

    metadata: ObjectMeta
    manifest: Manifest
    conditions: tuple[Condition, ...] = ()

    @classmethod
    def read(cls, manifest: Manifest) -> "AppliedBox":
        """Read an OperatorBox from its manifest. Fields that cannot be read count as absent; never raises."""
        return cls(read_meta(manifest), manifest, read_own_conditions(manifest, CONDITIONS))

    @property
    def spec(self) -> Mapping[str, Any]:
        """The spec as it was applied, without validation; empty if the object's spec is not a JSON object."""
        spec = self.manifest.get("spec")
        return spec if isinstance(spec, Mapping) else {}

    @property
    def deletion_policy(self) -> DeletionPolicy:
        """The deletion policy. A policy that is absent or cannot be read counts as `Refuse`, which keeps everything."""
        text = self.spec.get("deletionPolicy")
        return DeletionPolicy(text) if text in tuple(DeletionPolicy) else DeletionPolicy.REFUSE

    @cached_property
    def revision(self) -> str:
        """The name of the revision (ControllerRevision) for the box's present definition, whether that is stored yet or
        not.
        """
        return revision_name(self.metadata.name, definition_of(self.spec))


@attrs.frozen
class BoxSnapshot(Snapshot):
    """The observed state of an applied box and of its parents (objects of the box's kind): the input of a decision.

    `box` is the compiled definition, None if it has `problems`. `gates` are the compiled expressions of `rollout.when`.
    `lacking` is a message about missing rights, `unserved` a message about any other reason why parents cannot be
    reconciled. `filling` counts the seconds for which the parents' controller has been filling its caches; None once
    they are full. `serving` names the revisions that the parents' controller runs. `kind` is the kind of the parents,
    if known; `is_anothers` says that another box has that kind. `judgement` is the result of this process's dry run
    over the parents that would move to the newest revision. `readings` caches the parents that earlier snapshots have
    read. `webhook` is the conversion webhook that this installation serves; None if it serves none, or if the box has
    no versions to convert.
    """

    box: Box | None = None
    problems: tuple[BoxProblem, ...] = ()
    gates: tuple[Program, ...] = ()
    lacking: str = ""
    unserved: str = ""
    filling: float | None = None
    serving: frozenset[str] = frozenset()
    kind: Kind | None = None
    is_anothers: bool = False
    judgement: Judgement | None = None
    readings: ParentReadings = attrs.field(factory=ParentReadings, eq=False, repr=False)
    webhook: ConversionWebhook | None = None


class AppliedBoxState(Enum):
    """The states of an applied box, from its deletion to its roll-out, in the order in which they are tested.

    The first state that applies selects the decision about the box.
    """

    GOING = "it is being deleted"
    UNGUARDED = "it has no finalizer yet"
    REFUSED = "its definition has problems"
    FORBIDDEN = "rights are missing"
    UNRECORDED = "its definition is not the newest ControllerRevision yet"
    UNSERVED = "its parents' controller does not know the definition yet"
    SERVED = "its parents may move"


@attrs.frozen
class BoxState:
    """An OperatorBox object and everything observed about it at the time `now`: its decision and its status follow from
    this.

    `namespace` is the namespace that holds the box's revisions.
    """

    applied: AppliedBox
    observed: BoxSnapshot
    now: datetime
    namespace: str

    @cached_property
    def history(self) -> tuple[Revision, ...]:
        """The stored revisions of the box, oldest first."""
        return read_revisions(
            manifest for ref, manifest in self.observed.objects.items() if ref.kind == CONTROLLER_REVISION
        )

    @cached_property
    def policy(self) -> BoxRollout:
        """The rollout policy of the box; the default policy while the box's definition is invalid."""
        return BoxRollout() if self.observed.box is None else self.observed.box.model.spec.rollout

    @cached_property
    def present(self) -> Revision | None:
        """The stored revision of the present definition; None if that definition is not stored yet."""
        return next((each for each in self.history if each.name == self.applied.revision), None)

    @cached_property
    def target(self) -> str:
        """The name of the revision to which the rollout moves parents (objects of the box's kind).

        It is the present revision. If the rollout gave that one up because a parent failed at it, it is the newest
        revision that was neither given up nor refused.
        """
        sound = [each.name for each in self.history if each.is_sound or (each == self.present and not each.given_up)]
        return sound[-1] if sound else self.applied.revision

    @cached_property
    def in_use(self) -> frozenset[str]:
        """The names of the revisions that are recorded on parents (objects of the box's kind)."""
        return frozenset(reading.brought_to.revision for reading in self._readings)

    @cached_property
    def assignments(self) -> Assignments:
        """The revisions that parents (objects of the box's kind) may have, and the revision that new parents get."""
        return assignments_of(self.history, self.in_use, self.target)

    @cached_property
    def _readings(self) -> tuple[ParentReading, ...]:
        kind, objects = self.observed.kind, self.observed.objects
        if kind is None:
            return ()
        return self.observed.readings.all_of((manifest for ref, manifest in objects.items() if ref.kind == kind), kind)

    @cached_property
    def parents(self) -> tuple[BoxParent, ...]:
        """The parents (objects of the box's kind), whatever revision they have."""
        return tuple(parent_of(each, self.assignments, self.policy, self.now) for each in self._readings)

    @cached_property
    def waiting(self) -> tuple[BoxParent, ...]:
        """The parents (objects of the box's kind) that the rollout has not moved yet."""
        return tuple(parent for parent in self.parents if parent.takes_part and parent.revision != self.target)

    @cached_property
    def foresight(self) -> Foresight:
        """The recorded result of a dry run of the target revision over the parents (objects of the box's kind).

        Parents move to that revision only if the result is SOUND: no write for any of them would be refused.
        """
        return foresight_of(self.applied.manifest, self.target)

    @property
    def needs_judgement(self) -> bool:
        """Report whether the rollout can only continue after a dry run over the parents (objects of the box's kind)."""
        if self.phase is not AppliedBoxState.SERVED or self.foresight is Foresight.SOUND:
            return False
        return self.foresight is Foresight.REFUSED or bool(self.waiting)

    @cached_property
    def step(self) -> RolloutStep:
        """The next step of the rollout: which parents (objects of the box's kind) move now, and which have failed."""
        namespaces = {ref.name: manifest for ref, manifest in self.observed.objects.items() if ref.kind == NAMESPACE}
        return next_step(
            self.policy,
            self.target,
            tuple(members_of(self.parents, self.policy, namespaces)),
            gate=lambda counts: all(_holds(gate, counts.scope) for gate in self.observed.gates),
            foresight=self.foresight,
            given_up=[each.name for each in self.history if each.given_up],
            pinned=sum(parent.is_pinned for parent in self.parents),
        )

    @cached_property
    def phase(self) -> AppliedBoxState:
        """The present state of the box, such as "rights are missing", which selects the decision to make about it."""
        applied, observed = self.applied, self.observed
        if applied.metadata.deletion_timestamp is not None:
            return AppliedBoxState.GOING
        if FINALIZER not in applied.metadata.finalizers:
            return AppliedBoxState.UNGUARDED
        if observed.box is None:
            return AppliedBoxState.REFUSED
        if observed.lacking:
            return AppliedBoxState.FORBIDDEN
        if self.present is None or self.present != self.history[-1]:
            return AppliedBoxState.UNRECORDED
        return AppliedBoxState.SERVED if self.target in observed.serving else AppliedBoxState.UNSERVED


def _holds(gate: Program, counts: Mapping[str, int]) -> bool:
    try:
        return gate.evaluate({"rollout": counts}) is True
    except CelError:
        return False


def decide_applied(state: BoxState) -> Decision:
    """Return the decision (the writes to make) about an OperatorBox, without its status."""
    match state.phase:
        case AppliedBoxState.GOING:
            return _removal(state)
        case AppliedBoxState.UNGUARDED:
            return Decision(finalizer=Finalizer.ADD)
        case AppliedBoxState.REFUSED:
            return Decision(requeue=Requeue.at_latest(_CURED_SECONDS))
        case AppliedBoxState.FORBIDDEN:
            return Decision(requeue=Requeue.at_latest(REFUSED_SECONDS))
        case AppliedBoxState.UNRECORDED:
            return _recorded(state)
        case AppliedBoxState.UNSERVED:
            wait = _STARTING_SECONDS if state.observed.unserved else 0.0
            return Decision(applies=tuple(_definition(state)), requeue=Requeue.at_latest(wait))
        case AppliedBoxState.SERVED:
            return _rolled_out(state)
        case _:
            assert_never(state.phase)


def _recorded(state: BoxState) -> Decision:
    """Return the decision (the writes to make) that stores the box's present definition as its newest revision.

    If an older revision already has this definition, that revision gets the highest number instead.
    """
    number = state.history[-1].number + 1 if state.history else 1
    if state.present is not None:
        again = state.present.annotated(given_up=None, refused=None)
        return Decision(patches=(MergePatch(state.present.ref, {**again, "revision": number}),))
    manifest = revision_manifest(state.applied.metadata, state.namespace, definition_of(state.applied.spec), number)
    return Decision(creates=(Create(CONTROLLER_REVISION, manifest),))


def _definition(state: BoxState) -> Iterator[Apply]:
    """Yield the apply of the CRD that the box defines, unless the live CRD was made from the same definition."""
    box = state.observed.box
    if box is None or box.model.spec.crd.spec is None:
        return
    manifest, webhook = crd_of(box), state.observed.webhook
    if webhook is not None and WebhookDuties.of(box).versions:
        manifest = webhook.registered_in(manifest)
    stamp = content_hash(manifest)
    apply = Apply(CUSTOM_RESOURCE_DEFINITION, _annotated(manifest, stamp))
    live = state.observed.objects.get(apply.ref)
    if get_path(live, "metadata", "annotations", APPLIED_HASH) != stamp:
        yield apply


def _annotated(manifest: Manifest, stamp: str) -> Manifest:
    meta = manifest["metadata"]
    return {**manifest, "metadata": {**meta, "annotations": {**(meta.get("annotations") or {}), APPLIED_HASH: stamp}}}


# --- roll-out ---------------------------------------------------------------------------------------------------------


def _rolled_out(state: BoxState) -> Decision:
    learned = tuple(_learned(state))
    due = seconds_until_due(state.parents, state.now)
    if learned:  # the next decision of this pass goes on from it
        return Decision(patches=learned, requeue=Requeue.at_latest(due))
    kept = {*state.in_use, state.target, state.applied.revision, state.assignments.newcomers}
    left = (Delete(each.ref, each.uid, each.resource_version) for each in superfluous(state.history, kept))
    return Decision(
        applies=tuple(_definition(state)),
        patches=tuple(_moves(state)),
        deletes=tuple(left),
        requeue=Requeue.at_latest(due).no_later_than(_seconds_until_judged(state)),
    )


def _seconds_until_judged(state: BoxState) -> float | None:
    """Return the seconds until the next dry run over the parents (objects of the box's kind).

    Return None if the last dry run is complete and refused no parent.
    """
    judgement = state.observed.judgement
    if state.step.phase is RolloutPhase.JUDGING:
        return _OBSTACLE_SECONDS if judgement is not None and judgement.obstacle else 0.0
    return AGAIN_SECONDS if state.foresight is Foresight.REFUSED else None


def _moves(state: BoxState) -> Iterator[MergePatch]:
    """Yield the patches that move parents (objects of the box's kind) to the target revision.

    Each patch waits for the one before it, so that parents move strictly in the rollout's order (PH-10).
    """
    by_ref = {parent.ref: parent for parent in state.parents}
    former: frozenset[ObjectRef] = frozenset()
    for ref in state.step.moves:
        patch = move(ref, by_ref[ref].metadata, state.target, state.now)
        yield attrs.evolve(patch, after=former)
        former = frozenset((ref,))


def _learned(state: BoxState) -> Iterator[MergePatch]:
    """Yield the patches that record on revisions what happened to them.

    A parent (object of the box's kind) became Ready at the revision, or the revision was refused or given up.
    """
    ready = {parent.revision for parent in state.parents if parent.health is Health.READY and not parent.is_going}
    is_refused = state.foresight is Foresight.REFUSED
    told = first_refusal(get_path(state.applied.manifest, "status", "judgement")) if is_refused else ""
    for revision in state.history:
        learned: dict[str, str | None] = {}
        if not revision.is_proven and revision.name in ready:
            learned["proven"] = "true"
        if revision.name == state.target and bool(revision.refused) != bool(told):
            learned["refused"] = told or None
        if learned:
            yield MergePatch(revision.ref, revision.annotated(**learned))
    failed, present = state.step.failed, state.present
    gives_up = state.policy.on_failure is RolloutFailure.UNDO and failed and _former(state)
    if gives_up and present is not None and present.name == state.target:
        yield MergePatch(present.ref, present.annotated(given_up=f"{failed[0].ref}: {failed[0].obstacle}"))


def _former(state: BoxState) -> bool:
    """Report whether parents (objects of the box's kind) can return to a revision other than the target."""
    return any(each.is_sound and each.name != state.target for each in state.history)


# --- removal ----------------------------------------------------------------------------------------------------------


def _removal(state: BoxState) -> Decision:
    if FINALIZER not in state.applied.metadata.finalizers:
        return Decision()
    if not _has_had_parents(state):
        return Decision(finalizer=Finalizer.REMOVE)
    if state.observed.kind is None and state.history:
        return Decision(requeue=Requeue.SLOW)  # no definition compiles: whether objects are left is not known
    policy = state.applied.deletion_policy
    match policy:
        case DeletionPolicy.REFUSE:
            return Decision() if state.parents else Decision(finalizer=Finalizer.REMOVE)
        case DeletionPolicy.DELETE:
            going = [parent for parent in state.parents if not parent.is_going]
            deletes = tuple(Delete(each.ref, each.metadata.uid) for each in going)
            return Decision(deletes=deletes) if state.parents else Decision(finalizer=Finalizer.REMOVE)
        case DeletionPolicy.ORPHAN:
            return _orphaned(state)
        case _:
            assert_never(policy)


def _has_had_parents(state: BoxState) -> bool:
    """Report whether the objects of the kind are this box's to delete or to wait for.

    They are not if another box has the kind, or if no revision of this box was ever accepted. A user who deletes the
    box's revisions by hand thus leaves the box's finalizer on the objects.
    """
    name = finalizer_named(state.applied.metadata.name)
    is_accepted = bool(state.history) or any(name in parent.metadata.finalizers for parent in state.parents)
    return is_accepted and not state.observed.is_anothers


def _orphaned(state: BoxState) -> Decision:
    """Return the decision (the writes to make) for a deleted box whose parents stay.

    It removes the box's finalizer from the parents (objects of the box's kind), and from the box itself when no parent
    has it any longer. The decision is empty while a controller still serves the parents.
    """
    name = finalizer_named(state.applied.metadata.name)
    held = [parent for parent in state.parents if name in parent.metadata.finalizers]
    if state.observed.serving:
        return Decision()
    if not held:
        return Decision(finalizer=Finalizer.REMOVE)
    return Decision(patches=tuple(_released(parent, name) for parent in held[:_AT_ONCE]))


def _released(parent: BoxParent, name: str) -> MergePatch:
    meta = parent.metadata
    left: Sequence[str] = [each for each in meta.finalizers if each != name]
    return MergePatch(parent.ref, {"metadata": {"resourceVersion": meta.resource_version, "finalizers": left}})
