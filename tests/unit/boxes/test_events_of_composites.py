"""REC-1, PH-2: which changes of a parent's conditions are told in an Event."""

import pytest

from purekube.apimachinery.conditions import Transition
from purekube.apimachinery.meta import Condition, ConditionStatus, ObjectMeta
from purekube.boxes.decision.decide import composite_of
from purekube.composites.decisions import _events
from purekube.controller.status import LiveStatus
from tests.support.boxes import box_of, config


def line(kind: str, status: str) -> Condition:
    return Condition(kind, ConditionStatus(status), "Why", "because", "2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("kind", "before", "after", "told"),
    [
        ("Ready", None, "True", "Normal"),
        ("Ready", None, "False", None),
        ("Ready", "True", "False", "Normal"),
        ("Ready", "False", "True", "Normal"),
        ("Stalled", None, "True", "Warning"),
        ("Stalled", None, "False", None),
        ("Stalled", "True", "False", "Normal"),
        ("Reconciling", "False", "True", None),
        ("Reconciling", "True", "False", None),
    ],
)
def test_a_change_is_told_and_a_first_no_is_not(kind: str, before: str | None, after: str, told: str | None) -> None:
    composite = composite_of(box_of(config("a")))
    live = LiveStatus.of(composite.kind, ObjectMeta("s", "n", "u-1", "1", 1), None, (), {})
    change = Transition(None if before is None else line(kind, before), line(kind, after))

    events = list(_events(live, [change]))

    assert [event.type for event in events] == ([] if told is None else [told])
    for event in events:
        assert (event.regarding.name, event.regarding_uid, event.reason) == ("s", "u-1", "Why")
        assert event.note == f"{kind} is {after}: because"
