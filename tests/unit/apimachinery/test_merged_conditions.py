"""Conditions that are merged and compared (RES-4, REC-6): which time each gets, and which facts count."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.conditions import (
    DesiredCondition,
    conditions_equal,
    merge_conditions,
    same_but_times,
    transitions,
)
from purekube.apimachinery.meta import Condition, ConditionStatus, condition_json

TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE
THEN, NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z", "2026-01-01T00:00:09Z"
READY = Condition("Ready", TRUE, "Done", "m", THEN, 3)


def wanted(**changes: Any) -> DesiredCondition:
    return attrs.evolve(DesiredCondition("Ready", TRUE, "Done", "m"), **changes)


@pytest.mark.parametrize(
    ("old", "want", "times"),
    [
        (None, wanted(), (NOW, None)),
        (READY, wanted(), (THEN, None)),
        (READY, wanted(message="other"), (THEN, None)),
        (READY, wanted(reason="Other"), (THEN, NOW)),
        (READY, wanted(status=FALSE), (NOW, None)),
        (READY, wanted(status=FALSE, reason="Other"), (NOW, None)),
        (attrs.evolve(READY, last_transition_time=NOW), wanted(status=FALSE), (NOW, "2026-01-01T00:00:05.000001Z")),
        (attrs.evolve(READY, last_transition_time=NOW), wanted(reason="Other"), (NOW, "2026-01-01T00:00:05.000001Z")),
        (
            attrs.evolve(READY, last_transition_time=LATER),
            wanted(reason="Other"),
            (LATER, "2026-01-01T00:00:09.000001Z"),
        ),
        (
            attrs.evolve(READY, reason_transition_time=LATER),
            wanted(reason="Other"),
            (THEN, "2026-01-01T00:00:09.000001Z"),
        ),
        (attrs.evolve(READY, reason_transition_time=LATER), wanted(), (THEN, LATER)),
        (attrs.evolve(READY, reason_transition_time="2026-01-01T00:00:02Z"), wanted(reason="Other"), (THEN, NOW)),
        (attrs.evolve(READY, last_transition_time="soon"), wanted(reason="Other"), ("soon", NOW)),
        (attrs.evolve(READY, last_transition_time="soon"), wanted(status=FALSE), (NOW, None)),
        (attrs.evolve(READY, last_transition_time=""), wanted(), (NOW, None)),
    ],
)
def test_a_merged_condition_has_these_times(
    old: Condition | None, want: DesiredCondition, times: tuple[str, str | None]
) -> None:
    (merged,) = merge_conditions([] if old is None else [old], [want], generation=7, now=NOW)

    assert (merged.last_transition_time, merged.reason_transition_time) == times
    assert (merged.type, merged.status, merged.reason, merged.message) == (
        "Ready",
        want.status,
        want.reason,
        want.message,
    )
    assert merged.observed_generation == 7


def test_a_merge_keeps_the_order_and_what_is_a_condition_already() -> None:
    other = Condition("Other", FALSE, "X")
    merged = merge_conditions([READY], [other, wanted(observed_generation=2)], generation=7, now=NOW)

    assert merged[0] is other
    assert (merged[1].observed_generation, merged[1].type, len(merged)) == (2, "Ready", 2)
    assert merge_conditions([READY], [], generation=7, now=NOW) == ()


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"last_transition_time": LATER}, True),
        ({"reason_transition_time": LATER}, True),
        ({"message": "x"}, False),
        ({"reason": "x"}, False),
        ({"status": FALSE}, False),
        ({"observed_generation": 4}, False),
        ({"type": "x"}, False),
    ],
)
def test_conditions_are_the_same_but_for_their_times(change: dict[str, Any], same: bool) -> None:
    changed = attrs.evolve(READY, **change)

    assert same_but_times([READY], [changed]) is same
    assert same_but_times([READY], [changed], but_messages_of=["Ready"]) is (same or "message" in change)
    assert conditions_equal([wanted(observed_generation=3)], [changed], generation=9) is same
    assert conditions_equal([wanted()], [changed], generation=3) is same
    assert conditions_equal([READY], [changed], generation=9) is same
    assert not conditions_equal([wanted()], [READY], generation=4)
    assert not same_but_times([READY], [])


def test_a_transition_is_a_change_of_status_or_reason() -> None:
    def after(**changes: Any) -> list[tuple[Condition | None, Condition]]:
        changed = [attrs.evolve(READY, **changes)]
        return [(one.previous, one.condition) for one in transitions([READY], changed)]

    assert after() == after(message="x") == after(observed_generation=4) == []
    assert after(reason="x") == [(READY, attrs.evolve(READY, reason="x"))]
    assert after(status=FALSE) == [(READY, attrs.evolve(READY, status=FALSE))]
    assert after(type="New") == [(None, attrs.evolve(READY, type="New"))]
    assert transitions([READY], []) == ()


def test_a_condition_is_written_with_all_its_fields() -> None:
    body = {
        "type": "Ready",
        "status": "True",
        "reason": "Done",
        "message": "m",
        "lastTransitionTime": THEN,
        "observedGeneration": 3,
    }

    assert condition_json(READY) == body
    assert condition_json(attrs.evolve(READY, reason_transition_time=NOW)) == {**body, "reasonTransitionTime": NOW}
