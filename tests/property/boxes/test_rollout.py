"""Laws of a roll-out: which parents move, in any history of health, at any pace (PH-10)."""

from collections.abc import Sequence
from typing import Final

import attrs
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.boxes.rollout_policy import ALL, BoxRollout, RolloutOrder
from purekube.boxes.rollouts.judgement import Foresight
from purekube.boxes.rollouts.reasons import RolloutPhase
from purekube.boxes.rollouts.rollout import Health, RolloutMember, in_order, next_step

SHOP: Final = Kind("example.com", "v1", "Shop", "shops")
OLD, NEW = "web-old", "web-new"
PACES = st.one_of(
    st.just(ALL),
    st.builds("{}({})".format, st.sampled_from(["linear", "exponential"]), st.integers(1, 5)),
)
POLICIES = st.builds(
    BoxRollout,
    pace=PACES,
    max_unavailable=st.one_of(st.integers(1, 5), st.sampled_from(["1%", "10%", "50%", "100%"])),
    order=st.sampled_from(RolloutOrder),
)
MEMBERS = st.lists(st.tuples(st.sampled_from("0123"), st.integers(0, 2)), max_size=12).map(
    lambda drawn: [
        RolloutMember(ObjectRef(SHOP, "team", f"shop-{number}"), age, OLD, Health.READY, wave)
        for number, (age, wave) in enumerate(drawn)
    ]
)
HEALTH = st.sampled_from([Health.READY, Health.READY, Health.PROGRESSING, Health.FAILED])


def moved_by(members: Sequence[RolloutMember], moves: Sequence[ObjectRef], target: str = NEW) -> list[RolloutMember]:
    """The members after the moves: a moved one is on its way until something says otherwise."""
    return [
        attrs.evolve(member, revision=target, health=Health.PROGRESSING) if member.ref in moves else member
        for member in members
    ]


def at(members: Sequence[RolloutMember], target: str) -> list[RolloutMember]:
    return [member for member in members if member.revision == target]


def unready(members: Sequence[RolloutMember]) -> int:
    return sum(member.health is not Health.READY for member in at(members, NEW))


@given(POLICIES, MEMBERS, st.data())
def test_moved_parents_are_a_prefix_that_the_budget_allows_PH_10(
    policy: BoxRollout, members: list[RolloutMember], data: st.DataObject
) -> None:
    order = [member.ref for member in in_order(policy.order, members)]
    for _ in range(2 * len(members) + 1):
        was_stopped = any(member.health is Health.FAILED for member in at(members, NEW))
        step = next_step(policy, NEW, members)
        assert not (was_stopped and step.moves)
        members = moved_by(members, step.moves)
        assert {member.ref for member in at(members, NEW)} == set(order[: len(at(members, NEW))])
        if step.moves:
            assert unready(members) <= policy.unavailable_of(len(members))
        members = [
            attrs.evolve(member, health=data.draw(HEALTH)) if member.revision == NEW else member for member in members
        ]


@given(POLICIES, MEMBERS)
@example(BoxRollout(pace="exponential(1)", max_unavailable=1), [])
def test_roll_out_reaches_every_parent_while_all_become_ready_PH_10(
    policy: BoxRollout, members: list[RolloutMember]
) -> None:
    for _ in range(len(members)):
        step = next_step(policy, NEW, members)
        assert step.moves or not step.counts.waiting
        members = [attrs.evolve(member, health=Health.READY) for member in moved_by(members, step.moves)]
    assert next_step(policy, NEW, members).phase is RolloutPhase.COMPLETE


@given(POLICIES, MEMBERS, st.data())
def test_a_wave_moves_once_the_waves_before_it_are_ready_PH_10(
    policy: BoxRollout, members: list[RolloutMember], data: st.DataObject
) -> None:
    for _ in range(len(members) + 1):
        step = next_step(policy, NEW, members)
        moving = {member.wave for member in members if member.ref in step.moves}
        assert len(moving) <= 1
        for member in members:
            assert not moving or member.wave >= min(moving) or (member.revision, member.health) == (NEW, Health.READY)
        members = [
            attrs.evolve(member, health=data.draw(HEALTH)) if member.revision == NEW else member
            for member in moved_by(members, step.moves)
        ]


@given(POLICIES, MEMBERS, st.integers(0, 12))
def test_every_parent_of_a_revision_that_was_given_up_returns_at_once_PH_10(
    policy: BoxRollout, members: list[RolloutMember], reached: int
) -> None:
    order = in_order(policy.order, members)
    held = moved_by(members, [member.ref for member in order[:reached]])

    step = next_step(policy, OLD, held, given_up=(NEW,))

    assert set(step.moves) == {member.ref for member in order[:reached]}
    assert [member.revision for member in moved_by(held, step.moves, OLD)] == [OLD] * len(members)


@given(POLICIES, MEMBERS, st.integers(0, 12), st.sampled_from((Foresight.PENDING, Foresight.REFUSED)))
def test_no_parent_moves_to_a_revision_that_is_not_judged_or_would_be_refused_PH_10(
    policy: BoxRollout, members: list[RolloutMember], reached: int, foresight: Foresight
) -> None:
    order = in_order(policy.order, members)
    members = moved_by(members, [member.ref for member in order[:reached]])

    step = next_step(policy, NEW, members, foresight=foresight)

    assert not step.moves
    expected = RolloutPhase.JUDGING if foresight is Foresight.PENDING else RolloutPhase.REFUSED
    assert (step.phase is expected) is (len(order) > reached)


@given(MEMBERS)
def test_pause_and_a_closed_gate_hold_every_parent_PH_10(members: list[RolloutMember]) -> None:
    paused = next_step(BoxRollout(pause=True), NEW, members)
    gated = next_step(BoxRollout(), NEW, members, gate=lambda counts: counts.moved > 0)

    expected = (RolloutPhase.PAUSED, RolloutPhase.GATED) if members else (RolloutPhase.COMPLETE,) * 2
    assert (paused.phase, gated.phase) == expected
    assert not paused.moves
    assert not gated.moves


@given(st.integers(1, 4), st.integers(0, 40))
def test_batches_of_a_pace_have_their_sizes_PH_10(size: int, moved: int) -> None:
    linear, doubling = (BoxRollout(pace=f"{pace}({size})") for pace in ("linear", "exponential"))

    assert linear.room_in_batch(moved, all_ready=True) == size - moved % size
    ends = {size * (2**number - 1) for number in range(8)}
    assert doubling.room_in_batch(moved, all_ready=True) == min(end for end in ends if end > moved) - moved
    assert (doubling.room_in_batch(moved, all_ready=False) == 0) is (moved in ends)
