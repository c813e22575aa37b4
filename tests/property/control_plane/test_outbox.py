"""The queue of outgoing events: what is sent, what is lost, and what replaces it (PULL-5, PULL-6, PULL-7)."""

from typing import Any

import pytest

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.errors import Forbidden, OperatorError, Unauthorized, Unavailable
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.meta import ConditionStatus
from purekube.apimachinery.problems import Problem
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER
from vworkspace_core.api.reasons import ClusterConditionType, ClusterReason
from vworkspace_core.control_plane.connection import RetryPace
from vworkspace_core.control_plane.outbox import BATCH, CAPACITY, Outbox, generation_in, object_key
from vworkspace_core.control_plane.untrusted_json import DEEPEST, flaws

REF = ObjectRef(APPLICATION_INSTANCE, "ns", "a")


def event(number: int, kind: str = "Status") -> dict[str, Any]:
    return {"kind": kind, "number": number}


EVENTS = [event(number) for number in range(9)]


def test_the_oldest_events_are_dropped_and_counted() -> None:
    full = Outbox(capacity=3).put(EVENTS[:3])
    over = full.put(EVENTS[3:5])

    assert (len(full), full.dropped, full.owes_snapshot) == (3, 0, False)
    assert (over.events, over.dropped, over.owes_snapshot) == (tuple(EVENTS[2:5]), 2, True)
    assert (Outbox().capacity, CAPACITY, BATCH) == (1000, 1000, 100)


def test_a_heartbeat_replaces_the_former_one_and_nothing_else() -> None:
    first, second = event(1, "ClusterHeartbeat"), event(2, "ClusterHeartbeat")
    box = Outbox().put([first, EVENTS[0]])

    assert box.put([EVENTS[1]]).events == (first, EVENTS[0], EVENTS[1])
    assert box.put([second]).events == (EVENTS[0], second)


def test_a_snapshot_goes_before_the_events_and_makes_up_for_what_was_dropped() -> None:
    box = Outbox(capacity=2, suspect=4).put(EVENTS[:5])
    part, rest = [event(10)], [event(11)]

    told = box.with_snapshot(part, goes_on=True)
    assert (told.batch(), len(told), told.owes_snapshot, told.suspect) == (tuple(part), 3, False, 0)
    whole = told.continued(rest, goes_on=False)
    assert (whole.batch(), whole.goes_on) == ((*part, *rest), False)
    sent = whole.sent(whole.batch())
    assert (sent.batch(), sent.dropped, sent.made_up) == (tuple(EVENTS[3:5]), 3, 3)
    empty = sent.sent(sent.batch())
    assert (len(empty), empty.dropped, empty.made_up) == (0, 0, 0)


def test_nothing_is_forgotten_of_what_was_dropped_before_a_snapshot_is_through() -> None:
    owing = Outbox(capacity=1).put(EVENTS[:2])
    alone = owing.sent(owing.batch())
    assert (len(alone), alone.dropped) == (0, 1), "it still owes a snapshot"
    halfway = alone.with_snapshot([], goes_on=True)
    assert halfway.dropped == 1, "there are further parts"
    assert halfway.continued([], goes_on=False).dropped == 0
    assert alone.with_snapshot([]).dropped == 0


def test_a_malformed_event_is_found_by_halves() -> None:
    box = Outbox().put(EVENTS[:5])

    halves, found = box.refused(box.batch())
    assert (found, halves.suspect, halves.batch()) == (None, 5, tuple(EVENTS[:3]))
    smaller, found = halves.refused(halves.batch())
    assert (found, smaller.batch()) == (None, tuple(EVENTS[:2]))
    accepted = smaller.sent(smaller.batch())
    assert (accepted.suspect, accepted.batch()) == (1, (EVENTS[2],))
    left, found = accepted.refused(accepted.batch())
    assert (found, left.suspect, left.batch()) == (EVENTS[2], 0, tuple(EVENTS[3:5]))
    assert left.refused(()) == (left, None)
    pair, found = left.refused(left.batch())
    assert (found, pair.suspect, pair.batch()) == (None, 2, (EVENTS[3],))
    assert smaller.sent(EVENTS[:5]).suspect == 0


def test_a_batch_has_at_most_a_hundred_events() -> None:
    box = Outbox().put([event(number) for number in range(101)])

    assert len(box.batch()) == 100
    assert len(box.sent(box.batch()).batch()) == 1


def test_equal_events_are_told_apart() -> None:
    one, same = event(1), event(1)

    assert Outbox().put([one, same]).sent([one]).events == (same,)


def test_an_overflow_is_a_condition_with_its_counts() -> None:
    kind = ClusterConditionType.BUFFER_OVERFLOW

    assert Outbox().put(EVENTS).condition() == DesiredCondition(
        kind, ConditionStatus.FALSE, ClusterReason.BUFFER_DRAINED
    )
    message = "7 events were dropped, oldest first; 2 wait"
    assert Outbox(capacity=2).put(EVENTS).condition() == DesiredCondition(
        kind, ConditionStatus.TRUE, ClusterReason.EVENT_BUFFER_FULL, message
    )


@pytest.mark.parametrize(
    ("key", "generation"),
    [
        ("ApplicationInstance/ns/a@7", 7),
        ("applicationinstance/NS/A@7", 7),
        ("ApplicationInstance/ns/a@0", None),
        ("ApplicationInstance/ns/a@07", None),
        ("ApplicationInstance/ns/a@-1", None),
        (f"ApplicationInstance/ns/a@{'9' * 18}", 10**18 - 1),
        (f"ApplicationInstance/ns/a@{'9' * 19}", None),
        ("ApplicationInstance/ns/a@7 ", None),
        ("ApplicationInstance/ns/b@7", None),
        ("ApplicationInstance/ns/a", None),
        ("a hash", None),
    ],
)
def test_a_key_names_the_generation_of_its_object_only(key: str, generation: int | None) -> None:
    assert generation_in(key, REF) == generation
    assert object_key(REF) == "ApplicationInstance/ns/a"
    assert object_key(ObjectRef(CLUSTER, None, "c")) == "Cluster//c"


@pytest.mark.parametrize(
    ("error", "failures", "jitter", "seconds"),
    [
        (Unavailable("x"), 0, 0.0, 1.0),
        (Unavailable("x"), 2, 0.5, 2.0),
        (Unavailable("x"), 9, 0.99, 60.0),
        (Unavailable("x", retry_after=0.5), 0, 0.9, 1.0),
        (Unavailable("x", retry_after=90), 0, 0.9, 90.0),
        (Unavailable("x", retry_after=9999.0), 0, 0.9, 3600.0),
        (Forbidden("x"), 0, 0.5, 450.0),
        (Unauthorized("x"), 7, 0.0, 300.0),
        (OperatorError("x"), 7, 0.5, 90.0),
    ],
)
def test_each_failure_has_its_pace_PULL_5(error: OperatorError, failures: int, jitter: float, seconds: float) -> None:
    pace, wait = RetryPace(failures).failed(error, jitter)

    assert pace == RetryPace(failures + 1)
    assert wait == pytest.approx(seconds)
    assert pace.succeeded() == RetryPace()


def nested(levels: int, value: Any = 1) -> Any:
    for _ in range(levels):
        value = [value]
    return value


DEEP = f"is nested more than {DEEPEST} levels deep"
NO_TEXT, LONG = "is not text: it has half of a surrogate pair", "is an integer of more than 64 bits"


@pytest.mark.parametrize(
    ("value", "problems"),
    [
        ({"a": [1, True, None, "x", "ä", 1.5, {}, (), -(2**63), 2**64 - 1]}, []),
        ({"a": -(2**63) - 1, "b": 2**64}, [("a", LONG), ("b", LONG)]),
        ({"a": {"b": [0, float("nan")]}}, [("a.b[1]", "is not a finite number")]),
        ([float("inf")], [("[0]", "is not a finite number")]),
        ({"a": "\ud800"}, [("a", NO_TEXT)]),
        ({"a": {"\ud800": 1}}, [("a", "has a name that is not text")]),
        ({"a": {5: "\ud800"}}, [("a", "has a name that is not text"), ("a", NO_TEXT)]),
        ({"a": b"x"}, [("a", "is not JSON: bytes")]),
        ("\ud800", [("", NO_TEXT)]),
        (5, []),
        (nested(DEEPEST), []),
        (nested(DEEPEST + 1), [("[0]" * 12, DEEP)]),
        (nested(DEEPEST + 1, float("nan")), [("[0]" * 12, DEEP)]),
        (True, []),
        (None, []),
    ],
)
def test_what_some_parsers_refuse_is_named_with_its_path_PULL_7(value: Any, problems: list[tuple[str, str]]) -> None:
    assert flaws(value) == tuple(Problem(*problem) for problem in problems)


def test_below_what_is_nested_too_deeply_nothing_more_is_looked_for() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]

    found = flaws({"beside": {"number": float("inf")}, "deep": deep})
    assert [str(problem).partition(":")[0] for problem in found] == ["beside.number", f"deep{'[0]' * 11}"]


def test_ten_flaws_are_enough() -> None:
    assert len(flaws([float("nan")] * 11)) == 10
