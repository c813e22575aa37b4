"""RES-4: a transition is a change of status or reason, and the time of a condition moves with its status alone."""

from datetime import datetime

import attrs
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.conditions import DesiredCondition, merge_conditions, same_but_times, transitions
from purekube.apimachinery.meta import Condition, ConditionStatus, condition_json
from tests.support.strategies import conditions, times

OLD = conditions("ApplicationInstance")
WANTED = st.lists(
    st.builds(
        DesiredCondition,
        type=st.sampled_from(["Ready", "Reconciling", "Degraded"]),
        status=st.sampled_from(ConditionStatus),
        reason=st.sampled_from(["Installing", "Stable"]),
        message=st.sampled_from(["", "one", "two"]),
        observed_generation=st.none() | st.integers(1, 5),
    ),
    max_size=3,
    unique_by=lambda want: want.type,
)


@given(OLD, WANTED, st.integers(1, 50), times())
def test_conditions_say_what_is_wanted_in_that_order(
    old: tuple[Condition, ...], wanted: list[DesiredCondition], generation: int, now: str
) -> None:
    merged = merge_conditions(old, wanted, generation=generation, now=now)

    assert [(c.type, c.status, c.reason, c.message) for c in merged] == [
        (w.type, w.status, w.reason, w.message) for w in wanted
    ]
    assert [c.observed_generation for c in merged] == [
        generation if w.observed_generation is None else w.observed_generation for w in wanted
    ]


@given(OLD, WANTED, st.integers(1, 50), times())
def test_the_time_moves_with_the_status_and_with_nothing_else(
    old: tuple[Condition, ...], wanted: list[DesiredCondition], generation: int, now: str
) -> None:
    before = {condition.type: condition for condition in old}

    for condition in merge_conditions(old, wanted, generation=generation, now=now):
        previous = before.get(condition.type)
        if previous is not None and previous.status == condition.status:
            assert condition.last_transition_time == previous.last_transition_time
        else:
            assert condition.last_transition_time == now


@given(OLD, WANTED, st.integers(1, 50), times(), times())
def test_merging_the_same_again_later_changes_nothing_REC_6(
    old: tuple[Condition, ...], wanted: list[DesiredCondition], generation: int, now: str, later: str
) -> None:
    once = merge_conditions(old, wanted, generation=generation, now=now)

    assert merge_conditions(once, wanted, generation=generation, now=later) == once
    assert transitions(once, once) == ()
    assert same_but_times(once, once)


@given(OLD, OLD)
def test_transitions_are_the_new_ones_and_those_with_another_status_or_reason(
    before: tuple[Condition, ...], after: tuple[Condition, ...]
) -> None:
    said = {(condition.type, condition.status, condition.reason) for condition in before}

    found = transitions(before, after)

    assert [transition.condition for transition in found] == [
        condition for condition in after if (condition.type, condition.status, condition.reason) not in said
    ]
    for transition in found:
        assert transition.previous is None or transition.previous.type == transition.condition.type
        assert (transition.previous is None) == (transition.condition.type not in {c.type for c in before})


@given(OLD, times())
def test_times_and_order_say_nothing(old: tuple[Condition, ...], now: str) -> None:
    moved = tuple(attrs.evolve(condition, last_transition_time=now) for condition in reversed(old))

    assert same_but_times(old, moved)


@given(OLD.filter(bool), st.text(min_size=1, max_size=3))
def test_messages_count_unless_told_otherwise(old: tuple[Condition, ...], more: str) -> None:
    reworded = (attrs.evolve(old[0], message=old[0].message + more), *old[1:])

    assert not same_but_times(old, reworded)
    assert same_but_times(old, reworded, but_messages_of={old[0].type})
    assert not same_but_times(old, old[1:])


@given(st.lists(st.tuples(st.sampled_from(ConditionStatus), st.sampled_from("AB"), times()), min_size=1, max_size=12))
@example([(ConditionStatus.FALSE, reason, "2026-01-01T00:00:00Z") for reason in "ABAB"])
@example([(status, "A", "2026-01-01T00:00:00Z") for status in (*ConditionStatus, *ConditionStatus)])
def test_no_two_transitions_of_a_condition_have_the_same_moment_whatever_the_clock_does(
    states: list[tuple[ConditionStatus, str, str]],
) -> None:
    now: tuple[Condition, ...] = ()
    moments: list[datetime] = []
    for status, reason, at in states:
        desired = [DesiredCondition("Ready", status, reason)]
        after = merge_conditions(now, desired, generation=1, now=at)
        if transitions(now, after):
            (one,) = after
            moments.append(datetime.fromisoformat(one.reason_transition_time or one.last_transition_time))
        else:
            assert after == now
        now = after

    assert moments == sorted(set(moments)), "each later than the one before"


def test_the_time_of_the_reason_stands_only_where_that_of_the_status_does_not_tell_it() -> None:
    first = merge_conditions((), [DesiredCondition("Ready", ConditionStatus.FALSE, "A")], generation=1, now=T(0))
    same = merge_conditions(first, [DesiredCondition("Ready", ConditionStatus.FALSE, "B")], generation=1, now=T(5))
    other = merge_conditions(same, [DesiredCondition("Ready", ConditionStatus.TRUE, "C")], generation=1, now=T(9))

    told = [(one.last_transition_time, one.reason_transition_time) for (one,) in (first, same, other)]
    assert told == [(T(0), None), (T(0), T(5)), (T(9), None)]
    assert "reasonTransitionTime" not in condition_json(first[0])
    assert condition_json(same[0])["reasonTransitionTime"] == T(5)


def T(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}Z"
