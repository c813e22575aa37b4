"""What each call of the work queue answers and leaves, one history at a time (RUN-2, OPS-5, OPS-12)."""

from random import Random
from typing import Any

import pytest

from purekube.controller.backoff import Backoff
from purekube.controller.decision import REFUSED_SECONDS, SLOW_SECONDS, Requeue, RequeuePace
from purekube.controller.queue.workqueue import Priority, Processing, QueueStats, WorkQueue

NEVER = Requeue()
P = RequeuePace


def queue(**options: Any) -> WorkQueue[str]:
    return WorkQueue(group_of=lambda key: key[0], **options)


def taken(found: WorkQueue[str], now: float) -> list[str]:
    """Everything that can be taken now, in order."""
    keys = []
    while (key := found.take(now)) is not None:
        keys.append(key)
    return keys


def history() -> WorkQueue[str]:
    """One key of each state: being processed, set aside for it, ready, added again meanwhile, delayed."""
    found = queue(exclusion_key=lambda key: key.partition("/")[2] or None)
    found.add("a/x", 10.0)
    found.add("z", 10.0)
    assert (found.take(11.0), found.take(11.0)) == ("a/x", "z")
    found.add("b/x", 12.0, priority=Priority.URGENT)
    found.add("c", 12.0, priority=Priority.BACKGROUND)
    found.add("z", 13.0, after=5.0)
    found.add("d", 13.0, after=7.0)
    return found


def test_every_key_is_told_with_its_state_and_time() -> None:
    found = history()

    assert list(found.entries()) == [
        ("a/x", "processing", 11.0),
        ("z", "processing", 11.0),
        ("b/x", "ready", 12.0),
        ("c", "ready", 12.0),
        ("d", "waiting", 20.0),
    ]
    assert found.next_wakeup(14.0) == 0.0, "which sets aside what is excluded"
    assert [entry for entry in found.entries() if entry[0] == "b/x"] == [("b/x", "waiting", 12.0)]


def test_the_counts_are_those_of_the_states() -> None:
    found = history()
    ready = {Priority.URGENT: 1, Priority.VERDICT: 0, Priority.LIVE: 0, Priority.BACKGROUND: 1}

    assert found.stats == QueueStats(ready, delayed=1, processing=2, adds=6, retries=0)
    assert list(found.stats.ready) == sorted(Priority, reverse=True)
    assert found.is_backlogged
    assert found.next_wakeup(14.0) == 0.0
    assert found.stats == QueueStats({**ready, Priority.URGENT: 0}, delayed=2, processing=2, adds=6, retries=0)
    assert not found.is_backlogged, "the background is no backlog"


def test_a_key_being_processed_is_told_with_its_priority_and_how_long_it_was_ready() -> None:
    found = queue()
    assert (found.oldest_taken, found.unfinished(5.0), found.processing("a")) == (None, 0, None)
    found.add("a", 1.0, priority=Priority.VERDICT, after=2.0)
    assert taken(found, 4.5) == ["a"]
    found.add("b", 5.0)
    assert taken(found, 6.0) == ["b"]

    assert found.processing("a") == Processing(Priority.VERDICT, 4.5, 1.5)
    assert found.processing("b") == Processing(Priority.LIVE, 6.0, 1.0)
    assert (found.oldest_taken, found.unfinished(8.0)) == (4.5, 5.5)
    found.done("a", 9.0, NEVER)
    assert (found.oldest_taken, found.processing("a")) == (6.0, None)


def test_a_key_is_ready_at_the_earliest_of_its_times_and_with_the_highest_of_its_priorities() -> None:
    found = queue()
    assert found.due_in("a", 0.0) is None
    assert found.add("a", 0.0, after=9.0)
    assert found.add("a", 1.0, after=3.0, priority=Priority.URGENT)
    assert found.add("a", 1.0, after=20.0, priority=Priority.BACKGROUND)
    assert found.add("b", 1.0, after=3.0)

    assert (found.due_in("a", 1.0), found.due_in("a", 9.0)) == (3.0, 0.0)
    assert found.next_wakeup(1.5) == 2.5
    assert taken(found, 3.9) == []
    assert found.next_wakeup(5.0) == 0.0
    assert taken(found, 4.0) == ["a", "b"]
    assert found.next_wakeup(30.0) is None


@pytest.mark.parametrize(("closed", "left"), [(False, ["a"]), (True, [])])
def test_waking_makes_a_delayed_key_due_and_nothing_else(closed: bool, left: list[str]) -> None:
    found = queue()
    found.wake("a", 0.0)
    assert taken(found, 0.0) == []
    found.add("a", 0.0, after=9.0, priority=Priority.URGENT)
    if closed:
        found.shutdown(0.0, drain=True)
    found.wake("a", 1.0)

    assert taken(found, 1.0) == left
    if left:
        assert found.processing("a") == Processing(Priority.URGENT, 1.0, 0.0)


def test_a_shutdown_that_drains_hands_out_what_is_ready_set_aside_or_added_again() -> None:
    found = history()
    assert found.take(14.0) == "c"

    found.shutdown(14.0, drain=True)

    assert found.add("e", 14.0) is False
    assert taken(found, 30.0) == []
    assert not found.drained
    found.done("a/x", 30.0, NEVER)
    assert taken(found, 30.0) == ["b/x"], "it was only set aside"
    found.done("z", 30.0, Requeue(P.NONE, 0.0))
    assert taken(found, 30.0) == ["z"], "it was added again while it was being processed"
    for key in ("b/x", "z", "c"):
        assert not found.drained
        found.done(key, 31.0, Requeue(P.BACKOFF))
    assert found.drained
    assert list(found.entries()) == []
    assert found.stats.adds == 6


def test_a_shutdown_that_does_not_drain_hands_out_nothing_more() -> None:
    found = history()
    assert found.take(14.0) == "c"

    found.shutdown(14.0)

    assert taken(found, 99.0) == []
    assert [entry[0] for entry in found.entries()] == ["a/x", "z", "c"]
    assert found.next_wakeup(99.0) is None
    for key in ("a/x", "z", "c"):
        assert not found.drained
        found.done(key, 99.0, Requeue(P.NONE, 0.0))
    assert found.drained
    assert taken(found, 99.0) == []


def test_a_shutdown_drops_what_is_ready_unless_it_drains() -> None:
    for drains in (False, True):
        found = queue()
        found.add("a", 0.0)
        found.shutdown(0.0, drain=drains)
        assert found.drained is not drains
        assert taken(found, 0.0) == ["a"] * drains


def test_after_a_shutdown_nothing_is_made_due_sooner() -> None:
    found = history()
    found.shutdown(14.0, drain=True)

    found.wake("z", 15.0)
    found.done("z", 16.0, NEVER)

    assert taken(found, 99.0) == ["c"]


def test_a_key_that_is_added_again_while_it_is_processed_is_neither_ready_nor_delayed() -> None:
    found = queue()
    for key in "abc":
        found.add(key, 0.0)
    assert len(taken(found, 0.0)) == 3
    found.add("a", 0.0)

    assert found.stats == QueueStats(dict.fromkeys(Priority, 0), delayed=0, processing=3, adds=4, retries=0)


def test_a_key_that_nobody_took_is_not_put_back_with_its_deadline_OPS_12() -> None:
    found = queue()

    with pytest.raises(KeyError):
        found.done("a", 0.0, Requeue(P.BACKOFF, 3.0))

    assert list(found.entries()) == []


def test_a_shutdown_takes_up_first_what_is_due_by_then() -> None:
    found = queue()
    found.add("a", 0.0, after=5.0)
    found.add("b", 0.0, after=5.1)

    found.shutdown(5.0, drain=True)

    assert taken(found, 9.0) == ["a"]


def test_nothing_is_drained_before_the_shutdown() -> None:
    found = queue()
    assert not found.drained
    found.shutdown(0.0)
    assert found.drained


BACKOFF = Backoff(1.0, 300.0)


@pytest.mark.parametrize(
    ("requeue", "failed", "delays"),
    [
        (NEVER, 0, (None, None)),
        (Requeue(P.NONE, 7.0), 0, (7.0, 7.0)),
        (Requeue(P.SLOW), 0, (SLOW_SECONDS, SLOW_SECONDS)),
        (Requeue(P.SLOW, 7.0), 0, (7.0, 7.0)),
        (Requeue(P.SLOW, 9 * SLOW_SECONDS), 0, (SLOW_SECONDS, SLOW_SECONDS)),
        (Requeue(P.BACKOFF), 6, (16.0, 32.0)),
        (Requeue(P.BACKOFF, None, 50.0), 6, (50.0, 50.0)),
        (Requeue(P.BACKOFF, 3.0), 6, (3.0, 3.0)),
        (Requeue(P.BACKOFF, 99.0), 6, (16.0, 32.0)),
        (Requeue(P.REFUSED), 6, (min(16.0, REFUSED_SECONDS), REFUSED_SECONDS)),
        (Requeue(P.REFUSED, None, 50.0), 6, (50.0, 50.0)),
        (Requeue(P.REFUSED, 2.0), 6, (2.0, 2.0)),
        (Requeue(P.IMMEDIATE), 6, (0.8, 1.6)),
        (Requeue(P.TOLD, 7.0), 6, (7.0, 7.0)),
        (Requeue(P.UNDECIDED, 7.0), 5, (7.0, 7.0)),
    ],
)
def test_each_pace_has_its_delay_and_counts_failures_in_its_way(requeue: Requeue, failed: int, delays: Any) -> None:
    """The key has failed five times before, and its backoff lies between 16 and 32 seconds at the next time."""
    found = queue(backoff=BACKOFF if requeue.pace is not P.BACKOFF else Backoff(0.5, 300.0))
    found.add("a", 0.0)
    for _ in range(5):
        assert found.take(1000.0) == "a"
        found.done("a", 0.0, Requeue(P.TOLD, 0.0))
    assert found.take(1000.0) == "a"

    found.done("a", 1000.0, requeue)

    assert found.failures("a") == failed
    assert found.stats.retries == max(5, failed)
    due = found.due_in("a", 1000.0)
    if delays[0] is None:
        assert due is None
    else:
        assert due is not None
        assert delays[0] <= due <= delays[1]


def test_the_first_overtaken_pass_is_repeated_at_once() -> None:
    found = queue()
    found.add("a", 0.0)
    assert found.take(0.0) == "a"
    found.done("a", 0.0, Requeue(P.IMMEDIATE))
    assert found.due_in("a", 0.0) == 0.0
    assert found.take(0.0) == "a"
    found.done("a", 0.0, Requeue(P.IMMEDIATE))
    assert 0.05 <= (found.due_in("a", 0.0) or 0.0) <= 0.1


def test_a_key_that_comes_again_keeps_its_priority_unless_it_was_raised_meanwhile() -> None:
    found = queue()
    found.add("a", 0.0, priority=Priority.BACKGROUND)
    found.add("b", 0.0, priority=Priority.URGENT)
    assert taken(found, 0.0) == ["b", "a"]
    found.add("a", 0.0, priority=Priority.VERDICT, after=50.0)
    found.done("a", 0.0, Requeue(P.NONE, 5.0))
    found.done("b", 0.0, Requeue(P.NONE, 5.0))

    assert taken(found, 5.0) == ["b", "a"]

    assert [found.processing(key) for key in "ab"] == [
        Processing(Priority.VERDICT, 5.0, 0.0),
        Processing(Priority.URGENT, 5.0, 0.0),
    ]


@pytest.mark.parametrize(("ageing", "waited", "turns"), [(10.0, 9.9, "bbbbbbbb"), (10.0, 10.0, "bbbabbba")])
def test_an_aged_level_has_every_fourth_turn(ageing: float, waited: float, turns: str) -> None:
    found = queue(ageing=ageing)
    for number in range(9):
        found.add(f"a{number}", 0.0, priority=Priority.BACKGROUND)
        found.add(f"b{number}", waited)

    assert "".join((found.take(waited) or "-")[0] for _ in range(8)) == turns


def test_of_two_aged_levels_the_one_with_the_older_key_has_the_turn() -> None:
    found = queue(ageing=10.0)
    found.add("older", 0.0, priority=Priority.BACKGROUND)
    found.add("younger", 1.0, priority=Priority.LIVE)
    for number in range(4):
        found.add(f"u{number}", 2.0, priority=Priority.URGENT)

    assert [found.take(11.0) for _ in range(6)] == ["u0", "u1", "u2", "older", "u3", "younger"]


def test_groups_of_one_priority_take_turns_and_a_key_waits_behind_those_of_its_own() -> None:
    found = queue()
    for key in ("a1", "a2", "a3", "b1", "c1", "b2"):
        found.add(key, 0.0)

    assert taken(found, 0.0) == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_only_one_key_of_an_exclusion_is_processed_and_the_next_is_ready_at_once_OPS_5() -> None:
    found = queue(exclusion_key=lambda key: None if key == "free" else "lock")
    for key in ("a", "b", "free"):
        found.add(key, 0.0)

    assert taken(found, 0.0) == ["a", "free"]
    found.done("free", 1.0, NEVER)
    assert taken(found, 1.0) == [], "free held no lock"
    found.done("a", 2.0, Requeue(P.NONE, 0.0))
    assert taken(found, 2.0) == ["b"]
    assert found.processing("b") == Processing(Priority.LIVE, 2.0, 2.0)
    found.done("b", 3.0, NEVER)
    assert taken(found, 3.0) == ["a"]


def test_a_key_that_is_added_sooner_again_and_again_waits_once_and_is_not_lost() -> None:
    found, swept_at = queue(), 0
    for number in range(200):
        found.add("a", 0.0, after=1000.0 - number)
        found.add("b", 0.0, after=900.0 - number)
        swept_at = max(swept_at, len(found._delays))

    assert swept_at == 2 * 2 + 64, "RUN-11: what is outdated takes no more room than that"
    assert found.stats == QueueStats(dict.fromkeys(Priority, 0), 2, 0, 400, 0)
    assert found.next_wakeup(0.0) == 701.0
    assert taken(found, 700.9) == []
    assert taken(found, 701.0) == ["b"]
    assert found.next_wakeup(701.0) == 100.0
    assert taken(found, 801.0) == ["a"]
    assert found.next_wakeup(801.0) is None


def test_delayed_keys_come_in_the_order_of_their_times_however_often_these_changed() -> None:
    """A simpler queue: the least time of each key. The heap of the real one is swept when it is mostly outdated."""
    found, due, random = queue(), dict[str, float](), Random(1)
    for number in range(200):
        key, at = f"k{number % 20:02}", 10_000.0 - 100 * (number // 20) + random.randrange(100)
        found.add(key, 0.0, after=at)
        due[key] = min(due.get(key, at), at)
        assert found.next_wakeup(0.0) == min(due.values())

    for at in sorted(due.values()):
        assert found.next_wakeup(at) == 0.0
        taken_key = found.take(at)
        assert taken_key is not None
        assert due[taken_key] == at
        found.done(taken_key, at, NEVER)
    assert found.next_wakeup(9999.0) is None


def test_a_key_that_is_due_later_is_dropped_when_its_pass_ends_after_the_shutdown() -> None:
    found = queue()
    found.add("a", 0.0)
    found.add("b", 0.0)
    assert (found.take(0.0), found.take(0.0)) == ("a", "b")
    found.add("a", 0.0, after=5.0)
    found.add("b", 0.0)
    found.shutdown(1.0, drain=True)

    found.done("a", 1.0, NEVER)
    found.done("b", 1.0, Requeue.BACKOFF)

    assert [key for key, _, _ in found.entries()] == ["b"]
    assert taken(found, 1.0) == ["b"]
    found.done("b", 1.0, Requeue.BACKOFF)
    assert found.drained


def test_keys_of_one_time_come_in_the_order_in_which_they_were_added() -> None:
    found: WorkQueue[Any] = WorkQueue()
    keys = ["b", 1, "a", None]
    for key in keys:
        found.add(key, 0.0, after=5.0)

    assert [found.take(5.0) for _ in keys] == keys, "no two keys are compared"


def test_a_ready_key_whose_priority_is_raised_is_handed_out_once_and_first() -> None:
    found = queue()
    found.add("a", 0.0, priority=Priority.BACKGROUND)
    found.add("b", 0.0)
    found.add("a", 0.0, priority=Priority.URGENT)

    assert found.stats.ready == {**dict.fromkeys(Priority, 0), Priority.URGENT: 1, Priority.LIVE: 1}
    assert taken(found, 0.0) == ["a", "b"]
    assert found.stats.ready == dict.fromkeys(Priority, 0)
