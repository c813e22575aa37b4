"""The counts of objects by condition, and the longest time for which an object has had each condition.

Both are updated at each change of an object, so that a scrape decodes no object. Times are kept only for conditions
that block something, so that a healthy object needs none.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Any, Final, TypeAlias

import attrs

from purekube.apimachinery.conditions import conditions_of
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.timestamps import time_or_none
from purekube.boxes.rollouts.reasons import CONDITIONS as BOX_CONDITIONS
from purekube.boxes.rollouts.reasons import BoxReason, RolloutPhase
from purekube.composites.decisions import NO_ACCOUNT, NOT_SELECTED
from purekube.composites.parent import STANDARD
from purekube.controller.informer.changes import CacheChange, ChangeType
from purekube.controller.reconcile_error import RETRYING, ReconcileErrorCause
from purekube.graph.account import GraphReason
from vworkspace_core.api.labels import MANAGED_BY, MANAGED_BY_VALUE
from vworkspace_core.api.reasons import (
    InstanceConditionType,
    InstanceReason,
    OperationConditionType,
    OperationReason,
)

ConditionLabels: TypeAlias = tuple[str, str, str]
"""The type, status and reason of a condition."""

_OTHER: Final = "other"
_STATUSES: Final = frozenset(("True", "False", "Unknown"))
_READY: Final = "Ready"
_SPARE: Final = 64
"""The number by which outdated entries of a heap may exceed its valid ones before the heap is rebuilt."""

_IN_THE_WAY: Final = frozenset(
    [
        (_READY, "False"),
        (_READY, "Unknown"),
        *(
            (kind, "True")
            for kind in ("Reconciling", "Stalled", "Degraded", "Suspended", "Blocked", "Deleting", "Running")
        ),
        *((kind, "False") for kind in ("Accepted", *BOX_CONDITIONS)),
    ]
)
"""The conditions that users want to end, by type and status: times are kept for these."""

_PARENT_REASONS: Final = frozenset([*GraphReason, *ReconcileErrorCause, RETRYING, NOT_SELECTED, NO_ACCOUNT])

_ROLLOUT_STATES: Final = ("total", "moved", "waiting", "pinned", "ready", "failed")

_Entry: TypeAlias = tuple[float, str, str, ObjectRef]
"""An entry of a heap of objects by the start time of a condition.

It has the start time, the name and namespace (which break ties), and the object.
"""


@attrs.frozen
class ConditionSample:
    """The number of objects with a condition, and the longest time in seconds for which one of them has had it.

    The time is None for a condition whose times are not kept.
    """

    labels: ConditionLabels
    count: int
    oldest: float | None = None


@attrs.frozen
class Unready:
    """An object that is not Ready, with the reason, and for how many seconds it has not been Ready."""

    ref: ObjectRef
    reason: str
    seconds: float


@attrs.define
class _Longest:
    """The objects that have one condition, with a heap that finds those that have had it longest.

    An object whose condition ended is removed from `since` only. Its entry stays in `heap` until it comes first.
    """

    since: dict[ObjectRef, float] = attrs.field(factory=dict)
    heap: list[_Entry] = attrs.field(factory=list)

    def add(self, ref: ObjectRef, since: float) -> None:
        if self.since.get(ref) == since:
            return
        self.since[ref] = since
        heappush(self.heap, _entry(ref, since))
        if len(self.heap) > 2 * len(self.since) + _SPARE:
            self.heap = [_entry(*item) for item in self.since.items()]
            heapify(self.heap)

    def remove(self, ref: ObjectRef) -> None:
        self.since.pop(ref, None)

    def first(self, most: int) -> list[_Entry]:
        """Return the heap entries of the `most` objects that have had the condition longest."""
        entries: list[_Entry] = []
        while self.heap and len(entries) < most:
            entry = heappop(self.heap)
            if self.since.get(entry[3]) == entry[0] and (not entries or entries[-1] != entry):
                entries.append(entry)
        for entry in entries:
            heappush(self.heap, entry)
        return entries


def _entry(ref: ObjectRef, since: float) -> _Entry:
    return since, ref.name, ref.namespace or "", ref


@attrs.define
class ConditionCounts:
    """A counter of the objects of one kind by condition, for metrics.

    A reason that is not in `reasons`, such as a reason of Flux, is counted as `other`.
    """

    types: frozenset[str]
    reasons: frozenset[str]
    managed: bool = True
    """True to count only objects with the operator's managed-by label."""
    _by_object: dict[ObjectRef, tuple[ConditionLabels, ...]] = attrs.field(factory=dict, init=False)
    _counts: Counter[ConditionLabels] = attrs.field(factory=Counter, init=False)
    _longest: defaultdict[ConditionLabels, _Longest] = attrs.field(factory=lambda: defaultdict(_Longest), init=False)
    _known: dict[ConditionLabels, ConditionLabels] = attrs.field(factory=dict, init=False)
    """The tuples of all known conditions, each of which all objects with that condition share to save memory."""

    def count(self, change: CacheChange) -> None:
        """Update the counts by a change that an informer reported."""
        now = {} if change.type is ChangeType.DELETED else dict(self._conditions(change.object))
        for labels in self._by_object.pop(change.ref, ()):
            self._counts[labels] -= 1
            if labels not in now and labels in self._longest:
                self._longest[labels].remove(change.ref)
        for labels, since in now.items():
            self._counts[labels] += 1
            if since is not None:
                self._longest[labels].add(change.ref, since)
        if now:
            self._by_object[change.ref] = tuple(now)

    def forget(self) -> None:
        """Forget all objects, so that the count of every known condition is 0."""
        self._by_object.clear()
        self._longest.clear()
        self._counts = Counter(dict.fromkeys(self._counts, 0))

    def samples(self, now: float) -> tuple[ConditionSample, ...]:
        """Return the number of objects with each condition. `now` is in seconds since the epoch.

        A condition that no object has any longer is reported with 0, since the end of a series would look like an
        outage.
        """
        return tuple(
            ConditionSample(labels, count, self._oldest(labels, now)) for labels, count in sorted(self._counts.items())
        )

    def unready(self, most: int, now: float) -> list[Unready]:
        """Return at most `most` objects, the ones that have not been Ready for the longest time.

        `now` is in seconds since the epoch.
        """
        entries = [
            (entry, labels[2])
            for labels, longest in self._longest.items()
            if labels[0] == _READY
            for entry in longest.first(most)
        ]
        return [Unready(entry[3], reason, max(0.0, now - entry[0])) for entry, reason in sorted(entries)[:most]]

    def _oldest(self, labels: ConditionLabels, now: float) -> float | None:
        if labels[:2] not in _IN_THE_WAY:
            return None
        first = self._longest[labels].first(1)
        return max(0.0, now - first[0][0]) if first else 0.0

    def _conditions(self, manifest: Manifest) -> Iterator[tuple[ConditionLabels, float | None]]:
        if self.managed and get_path(manifest, "metadata", "labels", MANAGED_BY) != MANAGED_BY_VALUE:
            return
        for condition in conditions_of(manifest):
            kind, status, reason = (str(condition.get(field)) for field in ("type", "status", "reason"))
            if kind in self.types and status in _STATUSES:
                labels = (kind, status, reason if reason in self.reasons else _OTHER)
                yield self._known.setdefault(labels, labels), _since(condition) if labels[:2] in _IN_THE_WAY else None


def _since(condition: Mapping[str, Any]) -> float | None:
    """Return a condition's lastTransitionTime in seconds since the epoch; None if it is missing or malformed."""
    began = time_or_none(condition.get("lastTransitionTime"))
    return None if began is None else began.timestamp()


def instance_conditions() -> ConditionCounts:
    """Return the counter for the conditions of ApplicationInstances."""
    return ConditionCounts(frozenset(InstanceConditionType), frozenset(InstanceReason))


def operation_conditions() -> ConditionCounts:
    """Return the counter for the conditions of Operations."""
    return ConditionCounts(frozenset(OperationConditionType), frozenset(OperationReason))


def box_conditions() -> ConditionCounts:
    """Return the counter for the conditions of OperatorBoxes."""
    reasons = frozenset([*BoxReason, *RolloutPhase, *ReconcileErrorCause, RETRYING])
    return ConditionCounts(frozenset(BOX_CONDITIONS), reasons, managed=False)


@attrs.define
class RolloutProgress:
    """The progress of the roll-outs of applied boxes, which are operators that users apply as OperatorBoxes.

    By the name of the box, it has the number of objects in each state of the roll-out, such as `moved`, `waiting` or
    `failed`. The numbers are those in the OperatorBox's status.
    """

    counts: dict[str, Mapping[str, int]] = attrs.field(factory=dict)

    def count(self, change: CacheChange) -> None:
        """Copy the numbers of parents from `status.rollout` of a changed OperatorBox into `counts`.

        `change` is the informer's report of that OperatorBox. If it is deleted or has no roll-out, its counts go.
        """
        rollout = get_path(change.object, "status", "rollout")
        if change.type is ChangeType.DELETED or not isinstance(rollout, Mapping):
            self.counts.pop(change.ref.name, None)
            return
        found = ((state, rollout.get(state)) for state in _ROLLOUT_STATES)
        self.counts[change.ref.name] = {state: count for state, count in found if isinstance(count, int)}


def parent_conditions() -> ConditionCounts:
    """Return a counter for the conditions of one kind whose objects a box or a pure reconciler reconciles."""
    return ConditionCounts(frozenset(STANDARD), _PARENT_REASONS, managed=False)
