"""RUN-3: writes that the cache has yet to show, hot loops, and echoes of a pass, at each of their limits."""

from typing import Any

import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.controller.queue.own_writes import (
    EventOrigin,
    HotLoopDetector,
    HotLoopEvidence,
    ObjectEvent,
    OwnWrites,
    PendingWrites,
    fingerprint,
)
from purekube.controller.queue.workqueue import Priority

A, B = (ObjectRef(CONFIG_MAP, "ns", name) for name in "ab")


def status(*conditions: dict[str, Any]) -> dict[str, Any]:
    return {"status": {"conditions": list(conditions)}}


READY = {"type": "Ready", "status": "True", "reason": "Fine"}


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"message": "m", "lastTransitionTime": "2026-06-01T12:00:00Z"}, True),
        ({"type": "Stalled"}, False),
        ({"status": "False"}, False),
        ({"reason": "Bad"}, False),
    ],
)
def test_a_status_is_known_by_its_conditions_without_times_and_messages(change: dict[str, str], same: bool) -> None:
    assert (fingerprint(status({**READY, **change})) == fingerprint(status(READY))) is same
    assert fingerprint(status(READY, READY)) != fingerprint(status(READY))


@pytest.mark.parametrize("odd", [{}, {"status": {}}, status()])
def test_a_status_without_conditions_is_one_of_its_own(odd: dict[str, Any]) -> None:
    assert fingerprint(odd) == fingerprint(status()) != fingerprint(status(READY))


def loops(*writes: tuple[float, str], generation: int = 0, **limits: Any) -> list[HotLoopEvidence | None]:
    detector: HotLoopDetector[str] = HotLoopDetector(**limits)
    return [detector.record("key", at, text, generation) for at, text in writes]


def test_a_loop_is_the_fifth_repeat_and_is_told_once() -> None:
    writes = [(float(second), "ab"[second % 2]) for second in range(14)]
    found = loops(*writes)

    assert [at for at, evidence in enumerate(found) if evidence] == [6, 13]
    assert found[6] == found[13] == HotLoopEvidence(7, 5, 60.0)


def test_thirty_writes_are_a_loop_whatever_they_say() -> None:
    found = loops(*((float(second), f"{second}") for second in range(31)))

    assert [evidence for evidence in found if evidence] == [found[29]] == [HotLoopEvidence(30, 0, 60.0)]


@pytest.mark.parametrize(("last", "found"), [(10.0, HotLoopEvidence(3, 2, 10.0)), (10.1, None)])
def test_a_write_counts_as_long_as_the_window(last: float, found: HotLoopEvidence | None) -> None:
    assert loops((0.0, "a"), (5.0, "a"), (last, "a"), window=10.0, repeats=2)[-1] == found


def test_a_new_generation_begins_to_count_again() -> None:
    detector: HotLoopDetector[str] = HotLoopDetector(repeats=2)
    told = [detector.record("key", float(at), "a", generation) for at, generation in enumerate([1, 1, 2, 2, 2])]

    assert [bool(evidence) for evidence in told] == [False, False, False, False, True]
    assert told[-1] == HotLoopEvidence(3, 2, 60.0)


def test_each_key_has_its_own_count_and_one_that_goes_on_is_kept() -> None:
    detector: HotLoopDetector[str] = HotLoopDetector(window=10.0, repeats=2)
    for at, key in ((0.0, "a"), (1.0, "b"), (8.0, "a")):
        assert detector.record(key, at, "x") is None

    assert detector.record("b", 11.5, "x") is None, "its first write was before the window"
    assert detector.record("a", 12.0, "x") is None
    assert detector.record("a", 12.5, "x") == HotLoopEvidence(3, 2, 10.0)


class Cache:
    """What the cache has seen, and what it was asked."""

    def __init__(self) -> None:
        self.has: set[tuple[ObjectRef, str]] = set()
        self.asked: list[tuple[ObjectRef, str]] = []

    def seen(self, ref: ObjectRef, version: str) -> bool:
        self.asked.append((ref, version))
        return (ref, version) in self.has


def test_a_write_that_the_cache_has_shown_is_not_asked_for_again() -> None:
    cache = Cache()
    pending: PendingWrites[str] = PendingWrites(cache.seen)
    pending.record("key", 0.0, [(A, "1"), (B, "2")])
    assert pending.unseen("key") == (A, B)
    cache.has.add((A, "1"))
    assert pending.unseen("key") == (B,)
    cache.asked.clear()

    assert pending.unseen("key") == (B,)
    assert cache.asked == [(B, "2")]
    cache.has.add((B, "2"))
    assert pending.unseen("key") == ()
    cache.asked.clear()
    assert (pending.unseen("key"), cache.asked) == ((), [])
    assert not pending.is_waiting("key")


def test_the_cache_is_looked_at_more_and_more_rarely_until_the_time_is_over() -> None:
    pending: PendingWrites[str] = PendingWrites(Cache().seen, timeout=5.0)
    pending.record("key", 10.0, [(A, "1")])
    assert not pending.is_waiting("key")

    waits = [pending.next_check("key", 14.9) for _ in range(7)]
    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 0.8, 0.8]
    assert pending.is_waiting("key")
    assert not pending.is_waiting("other")
    assert pending.next_check("key", 15.0) is None
    assert pending.unseen("key") == (A,)
    pending.forget("key")
    assert (pending.unseen("key"), pending.is_waiting("key")) == ((), False)
    pending.forget("key")


def test_the_time_begins_again_with_each_write_and_nothing_written_is_nothing_to_wait_for() -> None:
    pending: PendingWrites[str] = PendingWrites(Cache().seen, timeout=5.0)
    pending.record("key", 0.0, [])
    assert pending.unseen("key") == ()
    pending.record("key", 0.0, [(A, "1")])
    pending.next_check("key", 0.0)
    pending.record("key", 3.0, [])
    assert pending.next_check("key", 5.0) is None
    pending.record("key", 4.0, [(A, "3"), (B, "2")])
    assert pending.next_check("key", 8.9) == 0.05
    assert pending.unseen("key") == (A, B)


def test_a_check_of_what_is_partly_seen_goes_on_with_its_waits() -> None:
    cache = Cache()
    pending: PendingWrites[str] = PendingWrites(cache.seen)
    pending.record("key", 0.0, [(A, "1"), (B, "2")])
    pending.next_check("key", 0.0)
    cache.has.add((A, "1"))

    assert pending.unseen("key") == (B,)
    assert pending.is_waiting("key")
    assert pending.next_check("key", 0.0) == 0.1


def test_an_event_is_live_and_at_once_unless_it_says_otherwise() -> None:
    assert ObjectEvent(A, "1") == ObjectEvent(A, "1", Priority.LIVE, 0.0)


def test_a_pass_begins_without_the_writes_of_the_last() -> None:
    own: OwnWrites[str] = OwnWrites()
    own.begin("key")
    own.record("key", (A, "1"))
    assert own.end("key") == ()
    assert len(own) == 1
    own.begin("key")

    assert own.end("key") == ()
    assert len(own) == 0
    assert own.origin_of("key", ObjectEvent(A, "1")) is EventOrigin.FOREIGN


def test_of_several_writes_of_a_pass_each_is_known_once() -> None:
    own: OwnWrites[str] = OwnWrites()
    own.begin("key")
    own.record("key", (A, "1"))
    own.record("key", (B, "2"))
    own.end("key")

    assert own.origin_of("key", ObjectEvent(A, "1")) is EventOrigin.OWN
    assert len(own) == 1
    assert own.origin_of("key", ObjectEvent(A, "1")) is EventOrigin.FOREIGN
    assert own.origin_of("key", ObjectEvent(B, "2")) is EventOrigin.OWN
    assert len(own) == 0


def test_a_pass_that_is_under_way_is_remembered_with_its_events() -> None:
    own: OwnWrites[str] = OwnWrites()
    own.begin("key")
    own.record("other", (A, "1"))
    assert len(own) == 1
    events = [ObjectEvent(A, "1"), ObjectEvent(A, None), ObjectEvent(B, "2")]
    assert [own.origin_of("key", event) for event in events] == [EventOrigin.DEFERRED] * 3
    own.record("key", (A, "1"))

    own.disown("key")
    own.record("key", (B, "2"))

    assert own.end("key") == tuple(events[:2]), "another pass is needed anyway; the report at its end is no reason"
    assert len(own) == 0
