"""REC-6 c, REC-7, RES-4: the one writer of statuses, for any conditions and any fields."""

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.conditions import DesiredCondition, Transition
from purekube.apimachinery.converters import FAST
from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.apimachinery.meta import Condition, ConditionStatus
from purekube.controller.decision import Decision
from purekube.controller.status import LiveStatus, Minor, StatusChange, event_of, status_change

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
REF = ObjectRef(Kind("example.org", "v1", "Widget", "widgets"), "ns", "w")
EMPTY = LiveStatus(REF, "7", 2, None, ())

words = st.text("ab", min_size=1, max_size=3)
wanted = st.lists(
    st.builds(DesiredCondition, words, st.sampled_from(ConditionStatus), words, st.text(max_size=4)),
    max_size=4,
    unique_by=lambda one: one.type,
)
fields = st.dictionaries(words, st.integers() | st.booleans() | st.text(max_size=3) | st.lists(words), max_size=3)


def stored(live: LiveStatus, change: StatusChange, not_fields: tuple[str, ...] = ()) -> LiveStatus:
    """What is there once `change` is written."""
    status = dict(change.manifest["status"])
    conditions = tuple(FAST.structure(one, Condition) for one in status.pop("conditions"))
    observed = status.pop("observedGeneration")
    rest = {name: value for name, value in status.items() if name not in not_fields}
    return attrs.evolve(live, observed_generation=observed, conditions=conditions, fields=rest)


def written(live: LiveStatus, wanted: list[DesiredCondition], fields: dict[str, Any], **more: Any) -> StatusChange:
    change = status_change(live, wanted, fields, NOW, **more)
    assert change is not None
    return change


@given(wanted, fields)
def test_a_status_is_written_once_whatever_it_says_REC_6(
    wanted: list[DesiredCondition], fields: dict[str, Any]
) -> None:
    change = written(EMPTY, wanted, fields, not_compared={"at": "noon"})
    assert change.manifest["metadata"] == {"name": "w", "namespace": "ns", "resourceVersion": "7"}
    assert [condition["type"] for condition in change.manifest["status"]["conditions"]] == [
        desired_condition.type for desired_condition in wanted
    ]
    assert len(change.transitions) == len(wanted)
    live = stored(EMPTY, change, ("at",))
    assert status_change(live, wanted, fields, LATER, not_compared={"at": "one"}) is None


@given(wanted, fields, fields)
def test_it_is_written_for_a_new_generation_and_for_other_fields_REC_6(
    wanted: list[DesiredCondition], fields: dict[str, Any], others: dict[str, Any]
) -> None:
    live = stored(EMPTY, written(EMPTY, wanted, fields))
    newer = written(attrs.evolve(live, generation=3), wanted, fields)
    assert newer.manifest["status"]["observedGeneration"] == 3
    assert newer.transitions == ()
    change = status_change(live, wanted, others, LATER)
    same = [(type(value), value) for _, value in sorted(fields.items())]
    is_same = fields.keys() == others.keys() and same == [(type(value), value) for _, value in sorted(others.items())]
    assert (change is None) is is_same


@given(wanted, fields, st.integers())
def test_only_what_is_called_minor_may_wait_REC_7(
    wanted: list[DesiredCondition], fields: dict[str, Any], number: int
) -> None:
    minor = Minor(
        messages_of=frozenset(desired_condition.type for desired_condition in wanted), fields=frozenset({"moving"})
    )
    live = stored(EMPTY, written(EMPTY, wanted, {**fields, "moving": number}))
    talk = [attrs.evolve(desired_condition, message=f"{desired_condition.message}!") for desired_condition in wanted]
    assert written(live, talk, {**fields, "moving": number + 1}, minor=minor).is_minor
    assert not written(live, talk, {**fields, "new": 1, "moving": number + 1}, minor=minor).is_minor
    flipped = [attrs.evolve(desired_condition, reason=f"{desired_condition.reason}c") for desired_condition in wanted]
    if flipped:
        change = written(live, flipped, fields, minor=minor)
        assert not change.is_minor
        assert [transition.condition.reason for transition in change.transitions] == [one.reason for one in flipped]


def test_a_condition_stands_for_itself_RES_4() -> None:
    """What nothing is known about goes on as it is, with its times and its generation."""
    condition = Condition("Old", ConditionStatus.TRUE, "R", "m", "2020-01-01T00:00:00Z", 1)
    live = attrs.evolve(EMPTY, observed_generation=2, conditions=(condition,))
    assert status_change(live, [condition], {}, NOW) is None


@pytest.mark.parametrize(
    ("type_", "status", "is_trouble"),
    [
        ("Blocked", ConditionStatus.TRUE, True),
        ("Blocked", ConditionStatus.FALSE, False),
        ("Accepted", ConditionStatus.FALSE, True),
        ("Accepted", ConditionStatus.UNKNOWN, False),
        ("Ready", ConditionStatus.FALSE, False),
    ],
)
def test_trouble_is_a_warning_unless_the_kind_says_otherwise(
    type_: str, status: ConditionStatus, is_trouble: bool
) -> None:
    change = Transition(None, Condition(type_, status, "R"))
    assert (event_of(change, EMPTY).type == "Warning") is is_trouble
    assert event_of(change, EMPTY, warning=not is_trouble).type == ("Normal" if is_trouble else "Warning")


def test_an_event_tells_the_condition_REC_1() -> None:
    change = Transition(None, Condition("Ready", ConditionStatus.TRUE, "Done"))
    event = event_of(change, attrs.evolve(EMPTY, uid="u"), warning=False)
    assert (event.type, event.reason, event.action, event.note) == ("Normal", "Done", "Reconcile", "Ready is True")
    kubernetes_event = event_of(change, attrs.evolve(EMPTY, uid="u"), warning=True, reason="Other", action="Report")
    assert (kubernetes_event.type, kubernetes_event.reason, kubernetes_event.action) == ("Warning", "Other", "Report")


@pytest.mark.parametrize("reconciling", ConditionStatus)
def test_while_reconciling_is_true_all_events_but_warnings_report_progress_RUN_5(reconciling: ConditionStatus) -> None:
    own = event_of(Transition(None, Condition("Ready", ConditionStatus.FALSE, "Own")), EMPTY)
    news = [
        DesiredCondition("Reconciling", reconciling, "R", ""),
        DesiredCondition("Stalled", ConditionStatus.TRUE, "R", ""),
    ]
    change = written(EMPTY, news, {})

    told = change.added_to(Decision(events=(own,)), [event_of(each, EMPTY) for each in change.transitions])
    events = told.events

    assert (told.status, told.transitions) == (change.manifest, change.transitions)
    assert [event.reason for event in events] == ["Own", "R", "R"]
    assert [(event.type, event.is_progress) for event in events] == [
        ("Normal", False),
        ("Normal", reconciling is ConditionStatus.TRUE),
        ("Warning", False),
    ]
