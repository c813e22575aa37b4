"""The laws (required properties) of roll-outs: how the objects of a box get a changed definition (PH-10).

An object moves when the annotation by which it records its revision changes from one revision to another. A new object
gets its first revision without a move.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubelab.model.records import Record
from purekube.apimachinery.conditions import READY, condition_of
from purekube.apimachinery.definitions import OPERATOR_BOX
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.structuring import read_meta
from purekube.boxes.box import MARKS, Box
from purekube.boxes.model import ApplyMode
from purekube.boxes.rollout_policy import RolloutFailure
from purekube.boxes.rollouts.applied import AppliedBox
from purekube.boxes.rollouts.judgement import Foresight, foresight_of
from purekube.boxes.rollouts.reasons import ROLLED_OUT, BoxReason, RolloutPhase
from purekube.boxes.rollouts.revisions import CONDITION, CONTROLLER_REVISION, BroughtTo, Revision, read_revisions
from purekube.graph.owner import label_text
from purekube_run.simulation.extensions.extension_world import ExtensionLaws, ExtensionWorld
from purekube_run.simulation.extensions.runnables import kind_of
from purekube_run.simulation.laws import Unsettled, condition_text

DEFINITION: Final = "example.com/definition"
"""The annotation by which each definition that users apply marks the children that it makes."""
_ENDS: Final = (RolloutPhase.COMPLETE, RolloutPhase.STOPPED, RolloutPhase.REFUSED, BoxReason.UNDONE)


class RolloutLaws(ExtensionLaws):
    """The laws of a box that is applied as the OperatorBox `box`, in addition to those of its objects and children.

    At most `budget` objects that moved may be not Ready at a time.
    """

    settles = (
        *ExtensionLaws.settles,
        ("PH-10", "a roll-out ends"),
        ("PH-10", "a roll-out that fails is undone if the box says so"),
        ("PH-10", "every object has the revision that is rolled out"),
        ("PH-10", "children are what the definition makes"),
    )

    def __init__(self, world: ExtensionWorld, box: ObjectRef, budget: int) -> None:
        super().__init__(world)
        (runnable,) = world.runnables
        self._kind = kind_of(runnable)
        nodes = runnable.nodes if isinstance(runnable, Box) else ()
        self._kept_up = {label_text(node.id) for node in nodes if node.apply is ApplyMode.ALWAYS}
        self._box, self._budget = box, budget
        self._moved: dict[str, str] = {}
        """The revision to which each object has moved that has not been Ready since, by its uid."""
        self._sound: set[str] = set()
        """The revisions that dry runs have found to be sound at some time."""
        self._marks: dict[str, str] = {}
        """The mark of the children that each revision makes."""
        self._recorded: defaultdict[str, set[str]] = defaultdict(set)
        """The revisions that each object has ever recorded, by its uid."""
        self.observe(OPERATOR_BOX, self._judged)
        self.observe(CONTROLLER_REVISION, self._stored)
        for kind in world.child_kinds:
            self.observe(kind, self._changed_child)
        self.observe(self._kind, self._changed_parent)

    # --- every change -------------------------------------------------------------------------------------------------

    def _judged(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if after is not None:
            revision = str(get_path(after.shared(), "status", "judgement", "revision") or "")
            if foresight_of(after.shared(), revision) is Foresight.SOUND:
                self._sound.add(revision)

    def _stored(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if after is not None:
            self._marks[ref.name] = mark_of(get_path(after.shared(), "data", "spec") or {})

    def _changed_child(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        """Check that a definition makes or changes children only of objects that were moved to it."""
        mark, former = (
            str(get_path(each.shared(), "metadata", "annotations", DEFINITION) or "") if each is not None else ""
            for each in (after, before)
        )
        if after is None or mark in ("", former) or self.is_restored_now:
            return
        recorded = self._recorded[after.labels.get(MARKS.owner_uid, "")]
        told = f"it is of definition {mark}, its object was at {', '.join(sorted(recorded)) or 'no revision'}"
        is_known = mark in {self._marks.get(revision) for revision in recorded}
        self.check("PH-10", "a definition changes what it was rolled out to", ref, is_known, told)

    def _changed_parent(self, ref: ObjectRef, before: Record | None, after: Record | None) -> None:
        if self.is_restored_now:
            self._moved.clear()
        if after is None:
            self._moved.pop("" if before is None else before.uid, None)
            return
        meta = read_meta(after.shared())
        former = BroughtTo.of(read_meta(before.shared())).revision if before is not None else ""
        revision = BroughtTo.of(meta).revision
        self._recorded[meta.uid].add(revision)
        if former and revision != former and not self.is_just_restored(self.world.seconds):
            self._moved[meta.uid] = revision
            self._check_move(ref, meta, former, revision)
        if meta.deletion_timestamp is not None or _is_ready_at(after.shared(), revision):
            self._moved.pop(meta.uid, None)

    def _check_move(self, ref: ObjectRef, meta: ObjectMeta, former: str, revision: str) -> None:
        """Check that the object `ref` may move from the revision `former` to `revision` now."""
        given_up = next((each.given_up for each in self._revisions() if each.name == former), "")
        is_sound = next((each.is_sound for each in self._revisions() if each.name == revision), False)
        if given_up:
            self.check("PH-10", "objects return to a sound revision", ref, is_sound, f"{revision} is not")
            return
        told = f"{revision} was never judged to be sound"
        self.check("PH-10", "a revision is judged before objects move to it", ref, revision in self._sound, told)
        early = [str(each.name) for each in self._older(meta) if BroughtTo.of(each).revision not in ("", revision)]
        told = f"older, and not at {revision}: {', '.join(sorted(early))}"
        self.check("PH-10", "objects move in their order", ref, not early, told)
        late = sum(moved == revision for moved in self._moved.values())
        told = f"{late} have moved and are not Ready, of which {self._budget} may be"
        self.check("PH-10", "at most maxUnavailable moved objects are not Ready", ref, late <= self._budget, told)

    def _older(self, meta: ObjectMeta) -> Iterator[ObjectMeta]:
        """Yield the metadata of each object that takes part in the roll-out and was created before this one."""
        for live in self.world.objects(self._kind):
            other = read_meta(live)
            if other.deletion_timestamp is None and other.creation_timestamp < meta.creation_timestamp:
                yield other

    def _revisions(self) -> tuple[Revision, ...]:
        return read_revisions(self.world.objects(CONTROLLER_REVISION))

    # --- at rest ------------------------------------------------------------------------------------------------------

    def unsettled(self) -> Iterator[Unsettled]:
        """Yield each law (required property) that must hold at rest and does not hold yet."""
        yield from super().unsettled()
        live = self.world.get(self._box)
        rolled_out = condition_of(live, ROLLED_OUT)
        is_current = rolled_out.get("observedGeneration") == get_path(live, "metadata", "generation")
        reason = str(rolled_out.get("reason"))
        if live is None or not is_current or reason not in _ENDS:
            yield Unsettled("PH-10", "a roll-out ends", str(self._box), condition_text(live or {}))
            return
        asked = AppliedBox.read(live).revision
        ways_back = [each.name for each in self._revisions() if each.is_sound and each.name != asked]
        if reason == RolloutPhase.STOPPED and ways_back and live["spec"]["rollout"]["onFailure"] == RolloutFailure.UNDO:
            law = "a roll-out that fails is undone if the box says so"
            yield Unsettled("PH-10", law, str(self._box), condition_text(live))
            return
        parents = self.world.objects(self._kind)
        records = {str(ref_of(each, self._kind)): BroughtTo.of(read_meta(each)).revision for each in parents}
        wrong = [name for name, revision in sorted(records.items()) if self._is_wrong(reason, revision, asked)]
        if wrong:
            law, told = "every object has the revision that is rolled out", f"{records[wrong[0]]}, {reason} {asked}"
            yield Unsettled("PH-10", law, wrong[0], told)
            return
        if reason == RolloutPhase.COMPLETE:
            yield from self._children_of_another(asked)

    def _is_wrong(self, reason: str, revision: str, asked: str) -> bool:
        """Report whether an object has a `revision` that contradicts the reason for which a roll-out has ended."""
        match reason:
            case RolloutPhase.COMPLETE:
                return revision != asked
            case BoxReason.UNDONE:
                return revision == asked
            case _:
                return False

    def _children_of_another(self, revision: str) -> Iterator[Unsettled]:
        """Yield the children that a definition other than that of `revision` made, although the latter keeps them up to
        date.
        """
        definition = next((each.definition for each in self._revisions() if each.name == revision), {})
        expected = mark_of(definition)
        for ref, live, _ in self._extensions.children():
            found = get_path(live, "metadata", "annotations", DEFINITION)
            if get_path(live, "metadata", "labels", MARKS.node) in self._kept_up and found != expected:
                told = f"of definition {found}, not {expected}"
                yield Unsettled("PH-10", "children are what the definition makes", str(ref), told)


def mark_of(definition: Mapping[str, Any]) -> str:
    """Return the mark that a definition gives to all the children that it makes; "" if it makes none."""
    marks = (get_path(each, "template", "metadata", "annotations", DEFINITION) for each in resources_of(definition))
    return str(next(marks, ""))


def resources_of(definition: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the resources of a box's definition, those of its phases too."""
    yield from definition.get("resources") or ()
    for phase in definition.get("phases") or ():
        yield from phase.get("resources") or ()


def _is_ready_at(live: Manifest, revision: str) -> bool:
    """Report whether the status of an object, decided by this revision, says that it is Ready."""
    decided_by = str(condition_of(live, CONDITION).get("message") or "").partition(",")[0]
    ready = condition_of(live, READY)
    is_current = ready.get("observedGeneration") in (None, get_path(live, "metadata", "generation"))
    return decided_by == revision and is_current and ready.get("status") == "True"
