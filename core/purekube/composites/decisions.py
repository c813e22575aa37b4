"""The decisions about a parent: reconcile its children, tear them down, or orphan them (PH-1 to PH-3).

Expected flow
    The parent is being deleted → run the hooks (resources that run before any deletion), delete the children wave by
    wave (a wave is a depth in the graph of children), then remove the finalizer; its namespace is not selected → report
    that; otherwise → add the finalizer, write what the graph requires now, and report the progress as status.
Guarantees
    Pure. Once a decision is carried out, the next one, on the resulting objects, is empty. Prune and teardown read
    labels and annotations only. The kinds of the children are recorded on the parent before a child is created.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

import attrs

from purekube.apimachinery.conditions import (
    DELETING,
    READY,
    RECONCILING,
    STALLED,
    DesiredCondition,
    Transition,
    stalled,
)
from purekube.apimachinery.manifest import Kind, get_path
from purekube.apimachinery.meta import Condition, ConditionStatus, condition_json, is_abandoned
from purekube.apimachinery.timestamps import parse_time, time_or_none
from purekube.composites.composite import Composite
from purekube.composites.observe import selects
from purekube.composites.parent import Parent, created_annotation, kinds_annotation
from purekube.composites.rights import hidden_message, with_remedies
from purekube.controller.decision import REFUSED_SECONDS, Decision, Finalizer, Requeue, Snapshot
from purekube.controller.status import LiveStatus, Minor, event_of, status_change
from purekube.graph.account import GraphReason, conditions_of_teardown
from purekube.graph.owner import CreateRecord
from purekube.graph.plan import Plan
from purekube.graph.teardown import Hooks, Teardown, TeardownStep, teardown
from purekube.ports import KubernetesEvent

NOT_SELECTED: Final = "NamespaceNotSelected"
NO_ACCOUNT: Final = "NoServiceAccount"
T = TypeVar("T", bound=Condition | DesiredCondition)
_TOLD: Final = (READY, STALLED, DELETING)
"""Conditions whose changes are reported by an Event; mere progress is only in the status."""
_COMMENTARY_SECONDS: Final = 10.0
"""The time in seconds after a transition during which minor status changes are not written yet.

A change is minor if it only gives details of the obstacle that already keeps the parent from being Ready.
"""


def is_in_scope(composite: Composite, observed: Snapshot) -> bool:
    """Report whether the controller reconciles the parents in the namespace that `observed` has: the composite's
    selector `namespaces` matches the labels of that namespace, or is None.
    """
    return selects(composite.namespaces, observed.namespace)


def reconcile_children(composite: Composite, parent: Parent, observed: Snapshot, plan: Plan) -> Decision:
    """Return the decision that carries out `plan` (the graph engine's result for the parent's children), without a
    status.

    Its writes are those of the plan, of the parent's finalizer, and of the annotations in which the parent records its
    children.
    """
    guarded = composite.finalizer in parent.metadata.finalizers
    return attrs.evolve(
        plan.effects,
        finalizer=None if guarded else Finalizer.ADD,
        annotations=_annotations(composite, parent, _kinds(composite, parent, observed), plan.records),
        only_if_current=plan.effects.writes_downstream and guarded,
    )


def _kinds(composite: Composite, parent: Parent, observed: Snapshot) -> tuple[Kind, ...]:
    """Return the kinds to record on the parent: the present child kinds, then kinds of earlier definitions.

    A kind of an earlier definition is kept while the parent still has live children of the kind, and while the kind
    cannot be listed. It is not kept if it is another version of a present kind that is served, since that shows the
    same children.
    """
    if composite.record(parent, composite.kinds_annotation) == kinds_annotation(composite.child_kinds):
        return composite.child_kinds
    uid = parent.metadata.uid
    label = composite.marks.owner_uid
    left = {ref.kind for ref, live in observed.objects.items() if get_path(live, "metadata", "labels", label) == uid}
    recorded = composite.recorded_kinds(parent)
    unseen = observed.missing_kinds | observed.hidden_kinds.keys()
    shown = {(kind.group, kind.plural) for kind in composite.child_kinds if kind not in observed.missing_kinds}
    former = (kind for kind in recorded if (kind in left or kind in unseen) and (kind.group, kind.plural) not in shown)
    return tuple(dict.fromkeys((*composite.child_kinds, *former)))


def _annotations(
    composite: Composite, parent: Parent, kinds: tuple[Kind, ...], records: tuple[CreateRecord, ...]
) -> Mapping[str, str | None]:
    """Return the changes to the parent's annotations that record child kinds and objects created once; usually none.

    If another field manager wrote an equal text, the annotation is removed first (None). Otherwise the write would
    change nothing, and the annotation would stay with that manager.
    """
    desired = {
        composite.kinds_annotation: kinds_annotation(kinds) or None,
        composite.created_annotation: created_annotation(records) if records else None,
    }
    said = parent.metadata.annotations
    stale = {name: value for name, value in desired.items() if (composite.record(parent, name) or None) != value}
    return {name: None if said.get(name) == value else value for name, value in stale.items()}


def out_of_scope(composite: Composite, parent: Parent, now: datetime) -> Decision:
    """Return a decision (the writes to make) that only reports that the parent is out of scope: the composite's
    selector `namespaces` does not match its namespace. `now` is the time of the conditions.
    """
    name = parent.metadata.namespace
    message = f"the {composite.title} does not look after namespace {name}: spec.namespaces asks for other labels"
    return unchanged(composite, parent, NOT_SELECTED, message, {}, now)


def missing_account(composite: Composite, parent: Parent, text: str, now: datetime) -> Decision:
    """Return a decision (the writes to make) that only reports that the parent names no ServiceAccount.

    `text` is the expression that should give the account.
    """
    message = (
        f"the {composite.title} works as the ServiceAccount that its spec.serviceAccountName names, "
        f"and {text} gives no name of one: until it does, nothing is made, changed or removed"
    )
    return unchanged(composite, parent, NO_ACCOUNT, message, present_fields(composite, parent), now)


def unchanged(
    composite: Composite, parent: Parent, reason: str, message: str, fields: Mapping[str, Any], now: datetime
) -> Decision:
    """Return a decision (the writes to make) that only reports why no child of the parent is changed.

    In the parent's status, Ready becomes False and Stalled True, both with `reason` and `message`. `fields` are the
    other fields of the status.
    """
    return with_status(Decision(), composite, parent, Snapshot(), stalled(reason, message), fields, now)


# --- deletion --------------------------------------------------------------------------------------------------------


def tear_down(
    composite: Composite,
    parent: Parent,
    observed: Snapshot,
    hooks: Hooks | None,
    now: datetime,
    due: Callable[[], float | None] = lambda: None,
) -> Decision:
    """Return the decision (the writes to make) with the next step of deleting a parent and its children.

    `hooks` are graph nodes (resources) that run before any deletion; None if there are none. `due` is called after
    their evaluation and returns the seconds until one of them may continue, or None.
    """
    owner = composite.owner_of(parent)
    if not _has_begun(parent) and owner.lost_references(observed):
        # The finalizer that asked for it came and went while no process of the operator ran.
        observed = attrs.evolve(observed, is_orphaning=True)
    step = teardown(owner, observed, hooks)
    if step.is_done and not observed.hidden_kinds:
        return Decision(finalizer=Finalizer.REMOVE, row="nothing is left")
    annotations = _annotations(composite, parent, _kinds(composite, parent, observed), step.records)
    decision = attrs.evolve(step.effects, annotations=annotations, requeue=step.effects.requeue.no_later_than(due()))
    desired = _hidden_teardown(composite, observed) if step.is_done else conditions_of_teardown(step)
    return with_status(decision, composite, parent, observed, desired, present_fields(composite, parent), now)


def _has_begun(parent: Parent) -> bool:
    """Report whether the status says that children of the parent are being deleted.

    From then on a missing owner reference is one that a user removed, to keep only that child.
    """
    return any(each.type == DELETING and each.status is ConditionStatus.TRUE for each in parent.conditions)


def _hidden_teardown(composite: Composite, observed: Snapshot) -> tuple[DesiredCondition, ...]:
    """Return the conditions of a parent whose deletion cannot be finished because of a missing right.

    The operator may not list some child kinds, and objects of these kinds may still exist.
    """
    message = hidden_message(composite, observed.hidden_kinds)
    return conditions_of_teardown(Teardown(TeardownStep.WAITING, message, Decision()))


def orphans_children(parent: Parent) -> bool:
    """Report whether the parent's annotation `vworkspace.io/abandon` is "true": the user wants the children to stay
    when the parent is deleted.
    """
    return is_abandoned(parent.metadata)


def orphan_children(composite: Composite, parent: Parent, observed: Snapshot, now: datetime) -> Decision:
    """Return the decision (the writes to make) that orphans all children of a parent that is being deleted.

    The children's owner references are removed before the parent's finalizer, so that the garbage collector does not
    delete the children.
    """
    owner = composite.owner_of(parent)
    owned = tuple(owner.held(observed))
    failed = {failure.ref for failure in observed.failures}
    if not owned and observed.hidden_kinds:
        desired, fields = _hidden_teardown(composite, observed), present_fields(composite, parent)
        return with_status(Decision(), composite, parent, observed, desired, fields, now)
    if not owned:
        return Decision(finalizer=Finalizer.REMOVE, row="nothing is left")
    patches = tuple(owner.disowning(ref, live) for ref, live in owned if ref not in failed)
    return Decision(patches=patches, requeue=Requeue.BACKOFF if failed else Requeue.NO, only_if_current=True)


# --- status ----------------------------------------------------------------------------------------------------------


def present_fields(composite: Composite, parent: Parent) -> Mapping[str, Any]:
    """Return those fields of the parent's present status that `composite.fields` names."""
    status = parent.manifest.get("status")
    return {name: status[name] for name in composite.fields if name in status} if isinstance(status, Mapping) else {}


def with_status(
    decision: Decision,
    composite: Composite,
    parent: Parent,
    observed: Snapshot,
    wanted: Iterable[DesiredCondition],
    fields: Mapping[str, Any],
    now: datetime,
) -> Decision:
    """Return the decision with the parent's whole status (the conditions `wanted`, and `fields`) and its Events.

    No status is added if the status is up to date. None is added either if its change may wait, such as a change of
    counts shortly after the last write; the parent is then requeued. The message for a missing right includes the
    command that grants it. A parent with kinds that the operator may not list is requeued too, since no watch reports
    that a right was granted.
    """
    live = _live(composite, parent)
    wanted = tuple(with_remedies(composite, parent, observed.hidden_kinds, (*wanted, *parent.notes)))
    if observed.hidden_kinds:
        decision = attrs.evolve(decision, requeue=decision.requeue.no_later_than(REFUSED_SECONDS))
    decision = attrs.evolve(decision, row=_row(wanted))
    minor = _minor(composite, live, wanted)
    change = status_change(live, wanted, fields, now, minor=minor, write_condition=condition_as_written)
    if change is None:
        return decision
    wait = _seconds_until_due(live, now) if change.is_minor else _seconds_of_grace(parent, live, wanted, now)
    if wait > 0:
        return attrs.evolve(decision, requeue=decision.requeue.no_later_than(wait))
    return change.added_to(decision, _events(live, change.transitions))


def _row(wanted: Iterable[DesiredCondition]) -> str:
    """Return the row of the decision table as text: the desired condition Ready, such as
    `Ready=False/ResourceNotReady`. Return "" if Ready is not among `wanted`.
    """
    return next((f"Ready={each.status}/{each.reason}" for each in wanted if each.type == "Ready"), "")


def _minor(composite: Composite, live: LiveStatus, desired: Sequence[DesiredCondition]) -> Minor:
    """Return the parts of the status whose change need not be written at once.

    These are Ready, Reconciling and the composite's fields, as long as the obstacle that keeps the parent from being
    Ready is the same as in the `live` status. Otherwise there are none.
    """
    before, now = (_obstacle(conditions) for conditions in (live.conditions, desired))
    if not now or before != now:
        return Minor()
    return Minor(frozenset((READY, RECONCILING)), frozenset(composite.fields))


def _obstacle(conditions: Iterable[Condition | DesiredCondition]) -> str:
    """Return what keeps the parent from being Ready: the message of the condition Ready up to its first colon. Return
    "" if Ready is True or absent.
    """
    ready = _ready_of(conditions)
    return "" if ready is None or ready.status is ConditionStatus.TRUE else ready.message.partition(": ")[0]


def _ready_of(conditions: Iterable[T]) -> T | None:
    return next((condition for condition in conditions if condition.type == READY), None)


def _seconds_until_due(live: LiveStatus, now: datetime) -> float:
    """Return the seconds until a minor change of the status may be written: changes within 10 s of a transition are
    written together.
    """
    try:
        latest = max(parse_time(condition.last_transition_time) for condition in live.conditions)
    except ValueError:  # no conditions, or a time that another writer made unreadable
        return 0.0
    return _COMMENTARY_SECONDS - (now - latest).total_seconds()


def _seconds_of_grace(parent: Parent, live: LiveStatus, desired: Iterable[DesiredCondition], now: datetime) -> float:
    """Return for how many more seconds a parent keeps the status Ready although a child is no longer ready.

    The result is 0 or less if the new status need not wait. The delay applies to a parent that became Ready a short
    time ago. Without it, a child that flaps would cause a status write and an Event each time.
    """
    was, becomes = _ready_of(live.conditions), _ready_of(desired)
    if was is None or becomes is None or parent.metadata.deletion_timestamp is not None:
        return 0.0
    settled = was.status is ConditionStatus.TRUE and live.observed_generation == live.generation
    if not settled or becomes.reason != GraphReason.RESOURCE_NOT_READY:
        return 0.0
    since = time_or_none(was.last_transition_time)  # another writer may have made it unreadable
    return 0.0 if since is None else _COMMENTARY_SECONDS - (now - since).total_seconds()


def condition_as_written(condition: Condition) -> Mapping[str, Any]:
    """Return the condition as JSON for a status, with only the standard fields, because CRDs of other authors declare
    no others.
    """
    return {key: value for key, value in condition_json(condition).items() if key != "reasonTransitionTime"}


def _live(composite: Composite, parent: Parent) -> LiveStatus:
    observed = get_path(parent.manifest, "status", "observedGeneration")
    fields = present_fields(composite, parent)
    return LiveStatus.of(composite.kind, parent.metadata, observed, parent.conditions, fields)


def _events(live: LiveStatus, changes: Iterable[Transition]) -> Iterator[KubernetesEvent]:
    for change in changes:
        condition = change.condition
        if condition.type in _TOLD and (change.previous is not None or condition.status is ConditionStatus.TRUE):
            yield event_of(change, live)
