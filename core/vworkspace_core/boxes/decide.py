"""What is done for one object of a box's kind: the decision, whole (PH-1 to PH-6).

Expected flow
    in a namespace that the box does not look after → told; being deleted → its drains, then wave by wave, then the
    finalizer; otherwise the finalizer, what the graph wants now, and the status that says how far it has come.
Guarantees
    Pure: the same input gives the same output, byte for byte. Carried out and decided again on what came of it, the
    decision is empty. Prune and teardown read labels and annotations only: what an expression has no value for is held.
    What is taken down was recorded before it was made: the kinds of the children stand on the parent.
Assumptions
    `observed` was read no earlier than the last write for this object. It holds every object that carries the uid of
    the parent, of the kinds of the box and of those recorded on the parent, and every external.
"""

from collections.abc import Mapping
from datetime import datetime

import attrs

from vworkspace_core.api.labels import is_abandoned
from vworkspace_core.apimachinery.conditions import Wanted
from vworkspace_core.apimachinery.manifest import Kind, get_path
from vworkspace_core.apimachinery.meta import ConditionStatus
from vworkspace_core.boxes.box import Box
from vworkspace_core.boxes.box_object import (
    READY,
    RECONCILING,
    STALLED,
    BoxObject,
    child_kinds,
    created_annotation,
    kinds_annotation,
    recorded_kinds,
    records_of,
)
from vworkspace_core.boxes.evaluation import Evaluation
from vworkspace_core.boxes.labels import CREATED, KINDS, MARKS, child_labels, finalizer
from vworkspace_core.boxes.nodes import drains_of, graph_of
from vworkspace_core.boxes.selection import selects
from vworkspace_core.boxes.status import report, with_faults, with_status
from vworkspace_core.controller.decision import Decision, Finalizer, Snapshot
from vworkspace_core.controller.requeue import Requeue
from vworkspace_core.graph import (
    CreateRecord,
    Hooks,
    Owner,
    conditions_of,
    conditions_of_teardown,
    plan,
    teardown,
)

_NOT_SELECTED = "NamespaceNotSelected"


@attrs.frozen
class BoxContext:
    """What a decision needs beside what was observed."""

    now: datetime


def decide(box: Box, parent: BoxObject, observed: Snapshot, context: BoxContext) -> Decision:
    """What is to be done for `parent`, given what exists and the time."""
    if parent.metadata.deletion_timestamp is not None:
        return _going(box, parent, observed, context) if finalizer(box) in parent.metadata.finalizers else Decision()
    if not selects(box.namespaces, observed.namespace):
        return _not_selected(box, parent, observed, context)
    return _wanted(box, parent, observed, context)


def owner_of(box: Box, parent: BoxObject) -> Owner:
    """As whose objects everything is made."""
    return Owner(
        box.kind,
        parent.metadata,
        box.field_manager,
        MARKS,
        child_labels(box),
        records_of(parent),
        references=not box.strict_order,
    )


def _wanted(box: Box, parent: BoxObject, observed: Snapshot, context: BoxContext) -> Decision:
    evaluation = Evaluation(box, parent.manifest, context.now)
    found = plan(graph_of(box), owner_of(box, parent), observed, evaluation.scope())
    reported = report(box, evaluation, found.scope)
    guarded = finalizer(box) in parent.metadata.finalizers
    decision = attrs.evolve(
        found.effects,
        finalizer=None if guarded else Finalizer.ADD,
        annotations=_annotations(parent, _kinds(box, parent, observed), found.records),
        only_if_current=found.effects.writes_downstream and guarded,
        requeue=found.effects.requeue.no_later_than(_seconds_until(evaluation.due, context.now)),
    )
    wanted = with_faults((*conditions_of(found), *reported.conditions), reported.faults)
    return with_status(decision, box, parent, wanted, reported.fields, context.now)


def _seconds_until(due: datetime | None, now: datetime) -> float | None:
    return None if due is None else (due - now).total_seconds()


def _kinds(box: Box, parent: BoxObject, observed: Snapshot) -> tuple[Kind, ...]:
    """Those of the box, and those of an earlier one as long as something of them is left."""
    now = child_kinds(box)
    if parent.metadata.annotations.get(KINDS) == kinds_annotation(now):
        return now
    uid = parent.metadata.uid
    left = {
        ref.kind
        for ref, live in observed.objects.items()
        if get_path(live, "metadata", "labels", MARKS.owner_uid) == uid
    }
    former = (kind for kind in recorded_kinds(parent) if kind in left or kind in observed.missing_kinds)
    return tuple(dict.fromkeys((*now, *former)))


def _annotations(
    parent: BoxObject, kinds: tuple[Kind, ...], records: tuple[CreateRecord, ...]
) -> Mapping[str, str | None]:
    """What of the records on the parent has to be written; nothing as a rule."""
    wanted = {KINDS: kinds_annotation(kinds) or None, CREATED: created_annotation(records) if records else None}
    said = parent.metadata.annotations
    return {name: value for name, value in wanted.items() if said.get(name) != value}


def _not_selected(box: Box, parent: BoxObject, observed: Snapshot, context: BoxContext) -> Decision:
    """Nothing is touched there, and what exists stays as it is."""
    name = parent.metadata.namespace
    message = f"the box {box.name} does not look after namespace {name}: spec.namespaces asks for other labels"
    wanted = (
        Wanted(READY, ConditionStatus.FALSE, _NOT_SELECTED, message),
        Wanted(RECONCILING, ConditionStatus.FALSE, _NOT_SELECTED),
        Wanted(STALLED, ConditionStatus.TRUE, _NOT_SELECTED, message),
    )
    return with_status(Decision(), box, parent, wanted, {}, context.now)


# --- deletion --------------------------------------------------------------------------------------------------------


def _going(box: Box, parent: BoxObject, observed: Snapshot, context: BoxContext) -> Decision:
    if is_abandoned(parent.metadata):
        return _let_go(owner_of(box, parent), observed)
    evaluation = Evaluation(box, parent.manifest, context.now)
    hooks = Hooks(drains_of(box), evaluation.scope()) if box.drains else None
    step = teardown(owner_of(box, parent), observed, hooks)
    if step.is_done:
        return Decision(finalizer=Finalizer.REMOVE)
    annotations = _annotations(parent, _kinds(box, parent, observed), step.records)
    requeue = step.effects.requeue.no_later_than(_seconds_until(evaluation.due, context.now))
    decision = attrs.evolve(step.effects, annotations=annotations, requeue=requeue)
    return with_status(decision, box, parent, conditions_of_teardown(step), _as_they_stand(box, parent), context.now)


def _as_they_stand(box: Box, parent: BoxObject) -> Mapping[str, object]:
    status = parent.manifest.get("status")
    return {name: status[name] for name in box.status_fields if name in status} if isinstance(status, Mapping) else {}


def _let_go(owner: Owner, observed: Snapshot) -> Decision:
    """Everything stays and is nobody's: owner references come off first, or the garbage collector would delete it."""
    owned = tuple(owner.held(observed))
    failed = {failure.ref for failure in observed.failures}
    if not owned:
        return Decision(finalizer=Finalizer.REMOVE)
    patches = tuple(owner.disowning(ref, live) for ref, live in owned if ref not in failed)
    return Decision(patches=patches, requeue=Requeue.BACKOFF if failed else Requeue.NO, only_if_current=True)
