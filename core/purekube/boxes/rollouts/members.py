"""The parents of an applied box as its roll-out sees them: revision, health, and wave (PH-10).

A wave is a group of parents that move together.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import attrs

from purekube.apimachinery.conditions import READY, STALLED
from purekube.apimachinery.definitions import PIN
from purekube.apimachinery.durations import seconds_of
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, metadata, ref_of
from purekube.apimachinery.meta import Condition, ConditionStatus, ObjectMeta
from purekube.apimachinery.structuring import read_meta, read_own_conditions
from purekube.apimachinery.timestamps import time_or_none
from purekube.boxes.rollout_policy import BoxRollout
from purekube.boxes.rollouts.revisions import CONDITION, Assignments, BroughtTo
from purekube.boxes.rollouts.rollout import Health, RolloutMember
from purekube.composites.decisions import NOT_SELECTED
from purekube.composites.observe import selects


@attrs.frozen
class BoxParent:
    """A parent (object of a box's kind) with its revision and health.

    It counts as failed if it is not Ready by the time `due`.
    """

    ref: ObjectRef
    metadata: ObjectMeta
    revision: str
    health: Health
    is_pinned: bool
    ready: Condition | None
    due: datetime | None = None

    @property
    def is_going(self) -> bool:
        """Report whether the parent's deletion has been requested."""
        return self.metadata.deletion_timestamp is not None

    @property
    def is_mispinned(self) -> bool:
        """Report whether the parent (object of the box's kind) is pinned to a revision that the box does not have."""
        return self.is_pinned and not self.is_going and self.metadata.annotations[PIN] != self.revision

    @property
    def takes_part(self) -> bool:
        """Report whether the rollout moves the parent (object of the box's kind).

        It does not if the parent is pinned to a revision, is being deleted, or is in a namespace that the box does not
        select.
        """
        is_outside = self.ready is not None and self.ready.reason == NOT_SELECTED
        return not (self.is_pinned or self.is_going or is_outside)

    @property
    def obstacle(self) -> str:
        """The reason why the parent (object of the box's kind) is not Ready, from its status, as text for people."""
        if self.ready is None:
            return "it has no status yet"
        return f"{self.ready.reason}: {self.ready.message}".rstrip(": ")


@attrs.frozen
class ParentReading:
    """The parts of a parent (object of a box's kind) that a rollout reads: its metadata and its conditions by type.

    `brought_to` is the parsed annotation that names the parent's revision.
    """

    ref: ObjectRef
    metadata: ObjectMeta
    conditions: Mapping[str, Condition]
    brought_to: BroughtTo

    @property
    def ready(self) -> Condition | None:
        """The parent's status condition Ready; None if its status has none."""
        return self.conditions.get(READY)

    def is_judged_by(self, revision: str) -> bool:
        """Report whether the parent's present status was decided by the box's revision named `revision`."""
        condition = self.conditions.get(CONDITION)
        return condition is not None and condition.message.partition(",")[0] == revision

    @classmethod
    def of(cls, manifest: Manifest, kind: Kind) -> "ParentReading":
        """Read a parent (object of the box's kind) from its manifest. Never raises."""
        meta = read_meta(manifest)
        conditions = {each.type: each for each in read_own_conditions(manifest, (READY, STALLED, CONDITION))}
        return cls(ref_of(manifest, kind), meta, conditions, BroughtTo.of(meta))


class ParentReadings:
    """A cache of the readings of a box's parents (objects of the box's kind).

    A parent is read again once its uid or resourceVersion has changed.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], ParentReading] = {}

    def __len__(self) -> int:
        return len(self._known)

    def all_of(self, manifests: Iterable[Manifest], kind: Kind) -> tuple[ParentReading, ...]:
        """Return the readings of these parents (objects of the box's kind), and forget those of all others."""
        known = self._known
        self._known = {}
        return tuple(self._read(manifest, kind, known) for manifest in manifests)

    def _read(self, manifest: Manifest, kind: Kind, known: Mapping[tuple[str, str], ParentReading]) -> ParentReading:
        meta = metadata(manifest)
        key = str(meta.get("uid", "")), str(meta.get("resourceVersion", ""))
        reading = known.get(key) if all(key) else None
        self._known[key] = reading or ParentReading.of(manifest, kind)
        return self._known[key]


def parent_of(reading: ParentReading, assignments: Assignments, policy: BoxRollout, now: datetime) -> BoxParent:
    """Return a parent (object of the box's kind) with its revision and its health at the time `now`.

    `assignments` gives the revision. `policy` gives the time after which a parent that is not Ready counts as failed.
    """
    meta = reading.metadata
    revision = assignments.of(meta)
    due, health = _due(reading, revision, policy), _health(reading, revision)
    if health is Health.PROGRESSING and due is not None and due <= now:
        health = Health.FAILED
    return BoxParent(reading.ref, meta, revision, health, PIN in meta.annotations, reading.ready, due)


def _health(reading: ParentReading, revision: str) -> Health:
    """Return the health of a parent (object of the box's kind) as its status shows it.

    The health is PROGRESSING if the status is about another revision or generation.
    """
    ready, stalled, generation = reading.ready, reading.conditions.get(STALLED), reading.metadata.generation
    if not reading.is_judged_by(revision) or ready is None or ready.observed_generation != generation:
        return Health.PROGRESSING
    if ready.status is ConditionStatus.TRUE:
        return Health.READY
    is_stalled = stalled is not None and stalled.status is ConditionStatus.TRUE
    return Health.FAILED if is_stalled else Health.PROGRESSING


def _due(reading: ParentReading, revision: str, policy: BoxRollout) -> datetime | None:
    """Return the time at which a parent that progresses to `revision` counts as failed; None if it has no time limit.

    A parent is an object of the box's kind. If its spec changed after its last status, it has no time limit until its
    controller has written a new status.
    """
    since, ready = reading.brought_to.since, reading.ready
    if reading.is_judged_by(revision) and ready is not None:
        if ready.status is ConditionStatus.TRUE or ready.observed_generation != reading.metadata.generation:
            return None
        changed = time_or_none(ready.last_transition_time)
        since = changed if since is None or (changed is not None and changed > since) else since
    return None if since is None else since + timedelta(seconds=seconds_of(policy.progress_deadline))


def members_of(
    parents: Sequence[BoxParent], policy: BoxRollout, namespaces: Mapping[str, Manifest]
) -> Iterator[RolloutMember]:
    """Yield the parents (objects of the box's kind) that the rollout may move, each with the number of its wave.

    Waves are groups of parents that move one after the other. `policy` says which parents belong to which wave.
    `namespaces` maps names to Namespace objects, whose labels `policy` may test.
    """
    for parent in parents:
        if parent.takes_part:
            wave = _wave(parent.metadata, policy, namespaces.get(parent.metadata.namespace))
            created = parent.metadata.creation_timestamp
            yield RolloutMember(parent.ref, created, parent.revision, parent.health, wave, parent.obstacle)


def _wave(meta: ObjectMeta, policy: BoxRollout, namespace: Manifest | None) -> int:
    """Return the index of the first wave (group of objects in a rollout) that selects the object.

    Return the number of waves if none selects it. `namespace` is the Namespace of the object.
    """
    labelled: dict[str, Any] = {"metadata": {"labels": dict(meta.labels)}}
    for number, wave in enumerate(policy.waves):
        if selects(wave.objects, labelled) and selects(wave.namespaces, namespace):
            return number
    return len(policy.waves)


def seconds_until_due(parents: Sequence[BoxParent], now: datetime) -> float | None:
    """Return the seconds until the first of the `parents` that are progressing counts as failed, because it is not
    Ready by then.

    The parents are objects of the box's kind. The result is 0 if that time has passed. Return None if no parent that is
    progressing has a time limit.
    """
    dues = [parent.due for parent in parents if parent.due is not None and parent.health is Health.PROGRESSING]
    return max(0.0, (min(dues) - now).total_seconds()) if dues else None
