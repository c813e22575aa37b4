"""The tree of an object whose operator is a box: the state of each node, and what it waits for (SEE-1, PH-2).

A box is a YAML file that describes an operator for one kind; a node is a resource that the box declares. The tree is
computed from current objects by the code that reconciles the object. If the box's file is not at hand, the tree has
all objects whose labels name the object as their parent.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.names import bounded_name
from purekube.boxes.box import MARKS as BOXES
from purekube.composites.parent import MARKS as CONTROLLERS
from purekube.composites.parent import Parent
from purekube.controller.decision import Snapshot
from purekube.controller.managed_fields import is_held_by_others
from purekube.graph.account import GraphReason
from purekube.graph.states import NodeState, Observation
from vworkspace_core.overview.remedy import commands_in
from vworkspace_core.overview.summary import FORMER, OverviewState, Summary, summary_of, summary_of_child
from vworkspace_core.overview.tree import Branch

if TYPE_CHECKING:
    from purekube.boxes.box import Box

_STATES: Final[Mapping[NodeState, OverviewState]] = {
    NodeState.MISSING_KIND: OverviewState.WAITING,
    NodeState.ERROR: OverviewState.STALLED,
    NodeState.WAITING: OverviewState.WAITING,
    NodeState.EXCLUDED: OverviewState.EXCLUDED,
    NodeState.FOREIGN: OverviewState.STALLED,
    NodeState.LEAVING: OverviewState.DELETING,
    NodeState.HELD: OverviewState.WAITING,
    NodeState.LEFT: OverviewState.EXCLUDED,
    NodeState.CONFLICT: OverviewState.STALLED,
    NodeState.REFUSED: OverviewState.STALLED,
    NodeState.DENIED: OverviewState.WAITING,
    NodeState.RETRYING: OverviewState.WAITING,
    NodeState.PENDING: OverviewState.PROGRESSING,
    NodeState.FAILED: OverviewState.FAILED,
    NodeState.PROGRESSING: OverviewState.PROGRESSING,
    NodeState.READY: OverviewState.READY,
}
MARKS_OF_PARENTS: Final = (BOXES, CONTROLLERS)
"""The labels by which the children of an object are found: the labels of boxes, and of reconcilers in Python.

A box is a YAML file that describes an operator for one kind.
"""
_WITH_COMMAND: Final = frozenset({NodeState.FOREIGN, NodeState.HELD, NodeState.CONFLICT, NodeState.DENIED})
"""The node states whose messages the operator composes, with a command that helps."""
_PLAIN: Final = frozenset({NodeState.READY, NodeState.PROGRESSING, NodeState.FAILED})
"""The node states that are not shown as a reason, since the state in the overview already says the same."""

_DIFFERS: Final = (
    "it differs from what the file of --box says: if the file is newer than the box at work, apply its OperatorBox, or "
    "start `box run` with it"
)


def tree_of_box(box: "Box", manifest: Manifest, observed: Snapshot, now: datetime, *, is_given: bool = False) -> Branch:
    """Return the tree of `manifest`, an object of the box's kind, with a branch for every resource in the box.

    A resource has a branch even if its object does not exist. While `manifest` is being deleted, the tree has only the
    child objects that are left. `observed` has the objects in the cluster, as seen at the time `now`. `is_given` says
    that the user gave the box as a file, and that the operator may use another version of it. If it is True and
    `manifest` is Ready, the branch of each object that the given box would write says that the object differs from the
    file.
    """
    from purekube.boxes.decision.decide import composite_of, explanation_of  # only for a box: it is half of the start

    if metadata(manifest).get("deletionTimestamp"):
        return tree_of_marked(box.kind, manifest, observed.objects)
    parent = composite_of(box).read(manifest)
    found = explanation_of(box, parent, observed, now).plan
    applies = {apply.ref: apply.manifest for apply in found.effects.applies}
    seen = (_with_conflict(box, parent, observation, applies) for observation in (*found.everything, *found.going))
    summary = summary_of(box.kind, manifest)
    is_other = is_given and summary.state is OverviewState.READY
    shown = map(_as_differing, seen) if is_other else seen
    former = (_former_branch(ref, observed.objects[ref]) for ref in found.former)
    return Branch(summary, (*(_branch(box, parent, observation) for observation in shown), *former))


def tree_of_marked(kind: Kind, manifest: Manifest, objects: Mapping[ObjectRef, Manifest]) -> Branch:
    """Return the tree of the parent `manifest`: the objects in `objects` whose labels name its uid as their parent's.

    `kind` is the parent's kind. Each branch has the name of the node (the resource in a box, or in a reconciler in
    Python) for which its object was created.
    """
    uid = bounded_name(str(metadata(manifest).get("uid") or ""))
    children = [
        Branch(summary_of_child(ref.kind, live), node=_named(_label(live, marks.node), _label(live, marks.item)))
        for marks in MARKS_OF_PARENTS
        for ref, live in sorted(objects.items())
        if uid and _label(live, marks.owner_uid) == uid
    ]
    return Branch(summary_of(kind, manifest), tuple(children))


def _with_conflict(box: "Box", parent: Parent, one: Observation, applies: Mapping[ObjectRef, Manifest]) -> Observation:
    """Return `one`, the observed state of a node of the box.

    Its state is changed to a conflict if other field managers own fields that the node's apply in `applies` sets.
    """
    apply = None if one.ref is None else applies.get(one.ref)
    if apply is None or one.live is None or not is_held_by_others(apply, one.live, box.field_manager):
        return one
    said = (condition.message for condition in parent.conditions if condition.message.startswith(f"{one.name}: "))
    message = next(said, "").removeprefix(f"{one.name}: ") or "another field manager holds a field of it"
    return attrs.evolve(one, state=NodeState.CONFLICT, reason=GraphReason.FIELD_CONFLICT, message=message)


def _as_differing(one: Observation) -> Observation:
    """Return `one`, the observed state of a node. If the given box would write the object, the state says that the
    object differs from the file, since no operator writes it.
    """
    return attrs.evolve(one, state=NodeState.HELD, reason="Differs", message=_DIFFERS) if one.is_written else one


def _branch(box: "Box", parent: Parent, observation: Observation) -> Branch:
    ref = observation.ref or ObjectRef(_kind(box, observation), parent.namespace, "")
    reason = observation.reason or ("" if observation.state in _PLAIN else observation.state.value)
    since = None if observation.live is None else summary_of_child(ref.kind, observation.live).since
    told = Summary(ref, _STATES[observation.state], reason, _message(observation), since)
    # Other messages quote the object or the API server: no text of theirs is offered as a command.
    commands = commands_in(observation.message) if observation.state in _WITH_COMMAND else ()
    return Branch(
        attrs.evolve(told, remedies=commands),
        node=_named(observation.node, observation.key),
        waits_for=observation.waits_for,
    )


def _former_branch(ref: ObjectRef, live: Manifest) -> Branch:
    told = attrs.evolve(summary_of_child(ref.kind, live), reason="Former", message=FORMER)
    return Branch(told, node=_named(_label(live, BOXES.node), _label(live, BOXES.item)))


def _kind(box: "Box", observation: Observation) -> Kind:
    node = box.node(observation.node)
    return node.kind if node is not None else next(each.kind for each in box.externals if each.id == observation.node)


def _message(observation: Observation) -> str:
    place = f" ({observation.place})" if observation.message and str(observation.place) else ""
    return f"{observation.message}{place}"


def _named(node: str, item: str) -> str:
    return f"{node}[{item}]" if item else node


def _label(manifest: Manifest, name: str) -> str:
    return str(get_path(manifest, "metadata", "labels", name) or "")
