"""The roll-out of a box's revision over its parents: which of them move now, and what delays the others (PH-10).

A revision is one stored definition of a box. Parents are the objects of the box's kind. A parent moves when it gets the
new revision, by which it is reconciled from then on.

Guarantees
    Pure. Parents move in a fixed order, by wave and age. At most `maxUnavailable` of them are not Ready. No parent
    moves before dry runs have tried the revision on all of them, or while it would be refused for one of them. A parent
    that fails stops the roll-out, which continues when that parent is Ready or gone. Parents leave a revision at once
    when it is given up.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import assert_never

import attrs

from purekube.apimachinery.manifest import ObjectRef
from purekube.boxes.rollout_policy import BoxRollout, RolloutOrder
from purekube.boxes.rollouts.judgement import Foresight
from purekube.boxes.rollouts.reasons import RolloutPhase


class Health(Enum):
    """The state of a parent (object of a box's kind) since it got its revision: Ready, progressing or failed."""

    READY = "ready"
    PROGRESSING = "on its way"
    FAILED = "stalled, or not Ready in time"


@attrs.frozen
class RolloutMember:
    """A parent (object of a box's kind) that takes part in a rollout.

    Pinned parents and parents being deleted do not take part. `wave` is the number of the group with which the parent
    moves; the group 0 moves first.
    """

    ref: ObjectRef
    created: str
    revision: str
    health: Health
    wave: int = 0
    obstacle: str = ""
    """The reason why the parent is not Ready, from its condition Ready, as text for people."""


@attrs.frozen
class RolloutCounts:
    """The numbers of parents (objects of a box's kind) in a rollout.

    `moved`, `ready` and `failed` count only parents at the target revision.
    """

    total: int = 0
    moved: int = 0
    ready: int = 0
    failed: int = 0
    pinned: int = 0

    @property
    def waiting(self) -> int:
        """The number of parents (objects of the box's kind) that have not moved yet."""
        return self.total - self.moved

    @property
    def scope(self) -> Mapping[str, int]:
        """The value of the variable `rollout` in the expressions of `rollout.when`."""
        return {**attrs.asdict(self), "waiting": self.waiting}


@attrs.frozen
class RolloutStep:
    """The next step of a rollout: the parents (objects of a box's kind) to move to the target revision now (`moves`).

    `phase` is the state of the rollout, and `counts` has the numbers of parents in it. `failed` are the parents that
    failed at the target revision.
    """

    phase: RolloutPhase
    counts: RolloutCounts
    moves: tuple[ObjectRef, ...] = ()
    failed: tuple[RolloutMember, ...] = ()


Gate = Callable[[RolloutCounts], bool]
"""A function that reports whether the expressions of `rollout.when` are all true for these counts."""


def next_step(
    policy: BoxRollout,
    target: str,
    members: Sequence[RolloutMember],
    *,
    gate: Gate = lambda counts: True,
    foresight: Foresight = Foresight.SOUND,
    given_up: Collection[str] = (),
    pinned: int = 0,
) -> RolloutStep:
    """Return the next step of the rollout of the revision `target` over the parents in `members`.

    `gate` reports, from the counts so far, whether the user's conditions permit further moves. `foresight` is the
    result of the dry run of `target`. Parents at a revision in `given_up` are moved away from it immediately, whatever
    `gate` and `foresight` say. `pinned` is the number of pinned parents, for the counts.
    """
    moved = [member for member in members if member.revision == target]
    counts = RolloutCounts(
        len(members),
        len(moved),
        sum(member.health is Health.READY for member in moved),
        sum(member.health is Health.FAILED for member in moved),
        pinned,
    )
    returning = tuple(member.ref for member in members if member.revision != target and member.revision in given_up)
    phase = RolloutPhase.PROGRESSING if returning else _phase(policy, counts, gate, foresight)
    failed = tuple(member for member in moved if member.health is Health.FAILED)
    match phase:
        case RolloutPhase.PROGRESSING:
            return RolloutStep(phase, counts, returning or _moves(policy, target, members, counts), failed)
        case (
            RolloutPhase.COMPLETE
            | RolloutPhase.STOPPED
            | RolloutPhase.JUDGING
            | RolloutPhase.REFUSED
            | RolloutPhase.PAUSED
            | RolloutPhase.GATED
        ):
            return RolloutStep(phase, counts, (), failed)
        case _:
            assert_never(phase)


def _phase(policy: BoxRollout, counts: RolloutCounts, gate: Gate, foresight: Foresight) -> RolloutPhase:
    """Return the phase of a rollout whose target revision was not given up."""
    if counts.ready == counts.total:
        return RolloutPhase.COMPLETE
    if counts.failed:
        return RolloutPhase.STOPPED
    if not counts.waiting:
        return RolloutPhase.PROGRESSING
    if foresight is not Foresight.SOUND:
        return RolloutPhase.JUDGING if foresight is Foresight.PENDING else RolloutPhase.REFUSED
    if policy.pause:
        return RolloutPhase.PAUSED
    return RolloutPhase.PROGRESSING if gate(counts) else RolloutPhase.GATED


def _moves(
    policy: BoxRollout, target: str, members: Sequence[RolloutMember], counts: RolloutCounts
) -> tuple[ObjectRef, ...]:
    """Return the next parents (objects of the box's kind) to move, in order.

    Their number is limited by the rollout's wave, its batch, and the number of parents that may be not Ready.
    """
    waiting = in_order(policy.order, (member for member in members if member.revision != target))
    if not waiting:
        return ()
    wave = waiting[0].wave
    if any(member.wave < wave for member in members if member.revision == target and member.health is not Health.READY):
        return ()
    unready = counts.moved - counts.ready
    budget = policy.unavailable_of(counts.total) - unready
    batch = policy.room_in_batch(counts.moved, all_ready=not unready)
    room = max(0, budget if batch is None else min(budget, batch))
    return tuple(member.ref for member in waiting[:room] if member.wave == wave)


def in_order(order: RolloutOrder, members: Iterable[RolloutMember]) -> list[RolloutMember]:
    """Return the parents (objects of the box's kind) in the order in which the rollout moves them.

    That is by wave, then by age (oldest or newest first, as `order` says), then by namespace and name.
    """
    by_name = sorted(members, key=lambda member: (member.ref.namespace or "", member.ref.name))
    by_age = sorted(by_name, key=lambda member: member.created, reverse=order is RolloutOrder.NEWEST_FIRST)
    return sorted(by_age, key=lambda member: member.wave)
