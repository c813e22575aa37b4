"""RUN-3: what an error makes of a key, and which objects are named because their status flaps."""

from itertools import cycle, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    KindMissing,
    NotFound,
    OperatorError,
    Permanent,
    Stale,
    Unavailable,
)
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import SECRET
from purekube.controller.decision import Decision, Requeue, RequeuePace
from purekube.controller.execute import STATUS
from purekube.controller.queue.own_writes import HotLoopDetector, HotLoopEvidence
from purekube.controller.reconcile import ReconcileResult, ResultLabel

SECONDS = st.floats(0, 1000)
MISSING = 'User "sa" cannot patch resource "helmreleases" in API group "helm.toolkit.fluxcd.io" in the namespace "n"'


def findings(fingerprints: list[str], *, apart: float) -> list[HotLoopEvidence]:
    detector: HotLoopDetector[str] = HotLoopDetector()
    found = [detector.record("key", number * apart, fingerprint) for number, fingerprint in enumerate(fingerprints)]
    return [one for one in found if one is not None]


def test_a_status_that_flaps_between_two_values_is_named_once_per_burst() -> None:
    assert findings(list(islice(cycle(["A", "B"]), 7)), apart=1.0) == [
        HotLoopEvidence(writes=7, repeats=5, window=60.0)
    ]


def test_writing_the_same_status_again_and_again_is_a_fight() -> None:
    assert findings(["A"] * 6, apart=1.0) == [HotLoopEvidence(writes=6, repeats=5, window=60.0)]


def test_a_status_that_holds_a_clock_is_named_though_no_value_comes_twice() -> None:
    assert findings([str(number) for number in range(30)], apart=1.0) == [
        HotLoopEvidence(writes=30, repeats=0, window=60.0)
    ]


@given(st.lists(st.integers(1, 4), max_size=40))
def test_an_object_that_people_keep_editing_is_no_loop(writes: list[int]) -> None:
    """Each edit is another generation, with the same few statuses again: five in a minute were a warning."""
    detector: HotLoopDetector[str] = HotLoopDetector()
    now = 0.0
    for generation, count in enumerate(writes):
        for number in range(count):
            now += 0.5
            assert detector.record("key", now, f"{number}", generation) is None


@given(st.lists(st.integers(0, 5).map(str), unique=True))
def test_progress_through_different_values_is_no_loop(fingerprints: list[str]) -> None:
    assert findings(fingerprints, apart=1.0) == []


@given(st.lists(st.sampled_from("AB"), max_size=50))
def test_a_slow_change_back_and_forth_is_no_loop(fingerprints: list[str]) -> None:
    assert findings(fingerprints, apart=20.0) == []


@given(st.lists(st.integers(0, 20), max_size=100))
def test_only_keys_that_wrote_within_the_window_are_remembered(keys: list[int]) -> None:
    detector: HotLoopDetector[int] = HotLoopDetector(window=10.0)
    for number, key in enumerate(keys):
        detector.record(key, float(number), f"{number}")

    assert set(detector._history) <= set(keys[-11:])


@pytest.mark.parametrize(
    ("error", "label", "requeue"),
    [
        (None, ResultLabel.SUCCESS, Requeue.NO),
        (Stale("moved on"), ResultLabel.REQUEUE, Requeue.IMMEDIATE),
        (Invalid("bad"), ResultLabel.TERMINAL, Requeue.NO),
        (Permanent("no"), ResultLabel.TERMINAL, Requeue.NO),
        (Forbidden("dying", namespace_terminating=True), ResultLabel.TERMINAL, Requeue.NO),
        (Forbidden("rbac"), ResultLabel.ERROR, Requeue.BACKOFF),
        (Forbidden(MISSING), ResultLabel.ERROR, Requeue.REFUSED),
        (Unavailable("busy", retry_after=9.0), ResultLabel.ERROR, Requeue(RequeuePace.BACKOFF, not_before=9.0)),
        (Unavailable("gone"), ResultLabel.ERROR, Requeue.BACKOFF),
        (Conflict("held", ()), ResultLabel.ERROR, Requeue.BACKOFF),
        (AlreadyExists("there"), ResultLabel.ERROR, Requeue.BACKOFF),
        (NotFound("namespace"), ResultLabel.ERROR, Requeue.BACKOFF),
        (KindMissing("crd"), ResultLabel.ERROR, Requeue.BACKOFF),
    ],
)
def test_what_an_error_asks_for_REC_13(error: OperatorError | None, label: ResultLabel, requeue: Requeue) -> None:
    result = ReconcileResult(error=error)

    assert (result.label, result.requeue) == (label, requeue)


@given(st.lists(st.sampled_from(["apply", "patch", STATUS]), max_size=4))
def test_a_status_counts_as_written_where_one_of_the_writes_was_its_own(verbs: list[str]) -> None:
    decision, ref = Decision(status={"status": {}}), ObjectRef(SECRET, "ns", "a")
    result = ReconcileResult(decision, executed=tuple((verb, ref) for verb in verbs))

    assert result.status == (decision.status if STATUS in verbs else None)
    assert result.writes == len(verbs)


def test_a_time_to_look_again_is_kept_for_success_and_for_a_terminal_error() -> None:
    later = Requeue.at_latest(7.0)

    assert ReconcileResult(requeue=later).label is ResultLabel.REQUEUE_AFTER
    assert ReconcileResult(error=Invalid("x"), requeue=later).label is ResultLabel.TERMINAL
    assert ReconcileResult(requeue=Requeue.SLOW).label is ResultLabel.REQUEUE_AFTER


@given(st.sampled_from(RequeuePace), st.one_of(st.none(), SECONDS), st.one_of(st.none(), SECONDS))
def test_the_earlier_of_two_times_counts_and_the_pace_stays(
    pace: RequeuePace, after: float | None, limit: float | None
) -> None:
    requeue = Requeue(pace, after).no_later_than(limit)

    assert requeue.pace is pace
    assert requeue.after == min((seconds for seconds in (after, limit) if seconds is not None), default=None)
