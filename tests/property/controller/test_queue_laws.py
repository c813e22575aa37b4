"""RUN-2: the laws of the work queue, attacked with arbitrary histories."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.controller.backoff import Backoff, jitter_of
from purekube.controller.decision import Requeue, RequeuePace
from purekube.controller.queue.workqueue import Priority, WorkQueue

Key: TypeAlias = tuple[str, str]


@attrs.frozen
class Add:
    key: Key
    priority: Priority = Priority.LIVE
    after: float = 0.0


@attrs.frozen
class Wake:
    key: Key


@attrs.frozen
class Take:
    pass


@attrs.frozen
class Done:
    """Finish the running key of this place, counted round."""

    place: int
    requeue: Requeue


@attrs.frozen
class Pass:
    seconds: float


Action: TypeAlias = Add | Wake | Take | Done | Pass

SECONDS = st.one_of(st.sampled_from([0.0, 0.1, 1.0, 30.0, 300.0]), st.floats(0, 1000, allow_nan=False))
KEYS = st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from(["1", "2", "3"]))
AFTER = st.one_of(st.none(), SECONDS)
REQUEUES = st.one_of(
    st.builds(Requeue, st.sampled_from([RequeuePace.NONE, RequeuePace.SLOW]), AFTER),
    st.builds(Requeue, st.sampled_from([RequeuePace.BACKOFF, RequeuePace.REFUSED]), AFTER, SECONDS),
    st.builds(Requeue, st.just(RequeuePace.UNDECIDED), SECONDS),
)
ACTIONS = st.lists(
    st.one_of(
        st.builds(Add, KEYS, st.sampled_from(Priority), SECONDS),
        st.builds(Wake, KEYS),
        st.just(Take()),
        st.builds(Done, st.integers(0, 9), REQUEUES),
        st.builds(Pass, SECONDS),
    ),
    max_size=60,
)

BASE, CAP = 1.0, 300.0


class Bench:
    """A queue, and a ledger of what it owes: kept naively, so that it can be believed."""

    def __init__(self, exclusion_key: Callable[[Key], str | None] = lambda key: None) -> None:
        self.queue: WorkQueue[Key] = WorkQueue(
            group_of=lambda key: key[0], exclusion_key=exclusion_key, backoff=Backoff(BASE, CAP)
        )
        self.exclusion_key = exclusion_key
        self.now = 1000.0
        self.due: dict[Key, float] = {}
        self.running: list[Key] = []
        self.failures: dict[Key, int] = {}
        self.taken: list[tuple[float, Key]] = []

    def run(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case Add(key, priority, after):
                    assert self.queue.add(key, self.now, priority=priority, after=after)
                    self.owe(key, self.now + after)
                case Wake(key):
                    self.queue.wake(key, self.now)
                    if key in self.due:
                        self.owe(key, self.now)
                case Take():
                    self.take()
                case Done(place, requeue) if self.running:
                    self.done(self.running[place % len(self.running)], requeue)
                case Done():
                    pass
                case Pass(seconds):
                    self.now += seconds

    def owe(self, key: Key, due: float) -> None:
        self.due[key] = min(due, self.due.get(key, due))

    def take(self) -> Key | None:
        ready = {key for key, due in self.due.items() if due <= self.now + 1e-6 and key not in self.running}
        ready = {key for key in ready if self.exclusion_key(key) not in self.exclusions}
        key = self.queue.take(self.now)

        assert (key in ready) if key is not None else not ready
        if key is not None:
            processing = self.queue.processing(key)
            assert processing is not None
            assert processing.waited == pytest.approx(max(0.0, self.now - self.due[key]), abs=1e-5), "ready until taken"
            assert processing.taken_at == self.now
            del self.due[key]
            self.running.append(key)
            self.taken.append((self.now, key))
        return key

    @property
    def exclusions(self) -> set[str]:
        """The exclusion keys of what is processed at this moment."""
        return {exclusion for key in self.running if (exclusion := self.exclusion_key(key)) is not None}

    def done(self, key: Key, requeue: Requeue) -> None:
        self.running.remove(key)
        self.queue.done(key, self.now, requeue)
        if requeue.after is not None:
            self.owe(key, self.now + requeue.after)
        match requeue.pace:
            case RequeuePace.NONE:
                self.failures.pop(key, None)
            case RequeuePace.SLOW:
                self.failures.pop(key, None)
                self.owe(key, self.now + 60.0)
            case RequeuePace.BACKOFF:
                self.owe(key, self.now + max(requeue.not_before, self.backoff(key)))
            case RequeuePace.REFUSED:
                self.owe(key, self.now + max(requeue.not_before, min(30.0, self.backoff(key))))
            case RequeuePace.UNDECIDED:
                pass
            case RequeuePace.IMMEDIATE:
                raise AssertionError("has a test of its own")

    def backoff(self, key: Key) -> float:
        self.failures[key] = attempt = self.failures.get(key, 0) + 1
        return Backoff(BASE, CAP).delay(attempt, jitter_of(key, attempt))


def drain(bench: Bench) -> None:
    """Let every running key end and take what is owed until nothing is, however late."""
    for key in list(bench.running):
        bench.done(key, Requeue.NO)
    while (wait := bench.queue.next_wakeup(bench.now)) is not None:
        bench.now += wait
        taken = bench.take()
        assert taken is not None, "next_wakeup promised a key"
        bench.done(taken, Requeue.NO)


@given(ACTIONS)
def test_what_is_taken_is_exactly_what_is_due_and_not_being_processed(actions: list[Action]) -> None:
    """No event lost, nothing early, earliest wins, one worker per key: the ledger agrees at every take."""
    Bench().run(actions)


@given(ACTIONS)
@example([Add(("a", "1")), Take(), Add(("a", "1")), Done(0, Requeue.NO)])
@example([Add(("a", "1"), after=300.0), Add(("a", "1"), Priority.BACKGROUND), Take(), Done(0, Requeue.BACKOFF)])
def test_every_added_key_is_taken_in_the_end(actions: list[Action]) -> None:
    bench = Bench()
    bench.run(actions)

    drain(bench)

    assert bench.due == {}
    assert bench.queue.next_wakeup(bench.now) is None


def alone(key: Key) -> str | None:
    """Keys ending in 1 are worked on alone whatever their namespace, those in 2 alone in theirs, others not."""
    return {"1": "one", "2": f"{key[0]}/two"}.get(key[1])


@given(ACTIONS)
@example([Add(("a", "1")), Add(("b", "1")), Take(), Take(), Done(0, Requeue.NO), Take()])
def test_of_keys_with_one_exclusion_key_one_is_processed_and_each_in_its_turn_OPS_5(actions: list[Action]) -> None:
    bench = Bench(alone)
    bench.run(actions)

    drain(bench)

    assert bench.due == {}
    assert bench.queue.next_wakeup(bench.now) is None


def test_what_waited_for_another_one_comes_before_it_is_done_again_OPS_5() -> None:
    queue: WorkQueue[Key] = WorkQueue(exclusion_key=alone)
    queue.add(("a", "1"), 0.0)
    queue.add(("b", "1"), 0.0)
    assert queue.take(0.0) == ("a", "1")
    assert queue.take(0.0) is None
    assert queue.next_wakeup(0.0) is None, "nothing to wait for but a done"
    queue.add(("a", "1"), 0.0)

    queue.done(("a", "1"), 0.0, Requeue.NO)

    assert queue.take(0.0) == ("b", "1")


@given(ACTIONS, st.booleans())
def test_a_shutdown_drains_what_waits_for_another_one_too_OPS_5(actions: list[Action], drains: bool) -> None:
    check_shutdown(Bench(alone), actions, drains)


@given(ACTIONS)
def test_equal_histories_give_equal_takes(actions: list[Action]) -> None:
    benches = Bench(), Bench()
    for bench in benches:
        bench.run(actions)

    assert benches[0].taken == benches[1].taken
    assert benches[0].queue.stats == benches[1].queue.stats


@given(ACTIONS, st.booleans())
@example([Add(("a", "1"), after=0.1), Pass(0.1)], True)
def test_after_shutdown_what_is_being_processed_ends_and_nothing_new_begins(
    actions: list[Action], drains: bool
) -> None:
    check_shutdown(Bench(), actions, drains)


def check_shutdown(bench: Bench, actions: list[Action], drains: bool) -> None:
    bench.run(actions)
    ready = {key for key, due in bench.due.items() if due <= bench.now and key not in bench.running}
    bench.queue.shutdown(bench.now, drain=drains)

    assert not bench.queue.add(("new", "1"), bench.now)
    for key in bench.running:
        bench.queue.done(key, bench.now, Requeue.BACKOFF)
    left = set()
    while (taken := bench.queue.take(bench.now + 1e6)) is not None:
        left.add(taken)
        bench.queue.done(taken, bench.now + 1e6, Requeue.BACKOFF)
    assert bench.queue.drained
    assert left >= ready if drains else not left


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 50).map(str)), unique=True, min_size=1))
def test_namespaces_take_turns(keys: list[Key]) -> None:
    """Between two keys of one namespace every other namespace that has keys is served."""
    queue: WorkQueue[Key] = WorkQueue(group_of=lambda key: key[0])
    for key in keys:
        queue.add(key, 0.0)

    taken: list[Key] = []
    while (key_taken := queue.take(0.0)) is not None:
        taken.append(key_taken)

    assert sorted(taken) == sorted(keys)
    for place, (group, _) in enumerate(taken):
        later = [other for other, _ in taken[place + 1 :]]
        if group in later:
            assert set(later[: later.index(group)]) == set(later) - {group}


@given(st.integers(1, 200))
def test_a_live_event_overtakes_the_whole_initial_list(size: int) -> None:
    queue: WorkQueue[Key] = WorkQueue(group_of=lambda key: key[0])
    for number in range(size):
        queue.add(("old", str(number)), 0.0, priority=Priority.BACKGROUND)
    queue.add(("new", "1"), 1.0)

    assert queue.take(1.0) == ("new", "1")


@given(st.integers(1, 30), st.integers(1, 8))
def test_ageing_lets_the_background_through_a_flood_of_live_events(backlog: int, groups: int) -> None:
    """Of four takes one goes to what has waited for 30 s, so a backlog of n ends within 4n takes (and no sooner is
    a live event kept waiting for more than one of them)."""
    queue: WorkQueue[Key] = WorkQueue(group_of=lambda key: key[0], ageing=30.0)
    waiting = {(f"old{number % groups}", str(number)) for number in range(backlog)}
    for key in waiting:
        queue.add(key, 0.0, priority=Priority.BACKGROUND)

    live = 0
    for turn in range(4 * backlog):
        queue.add(("flood", str(turn)), 30.0)
        taken = queue.take(30.0)
        assert taken is not None
        live += taken[0] == "flood"
        waiting.discard(taken)

    assert not waiting
    assert live == 3 * backlog


def test_a_young_background_key_does_not_hold_up_live_ones() -> None:
    queue: WorkQueue[Key] = WorkQueue(ageing=30.0)
    queue.add(("a", "old"), 0.0, priority=Priority.BACKGROUND)
    for number in range(20):
        queue.add(("a", str(number)), 1.0)

    taken = [queue.take(29.0) for _ in range(21)]

    assert taken[-1] == ("a", "old")


@given(st.integers(1, 200), st.floats(0, 1, exclude_max=True), st.floats(0.1, 5), st.floats(5, 600))
def test_backoff_stays_between_base_and_cap_and_grows(attempt: int, jitter: float, base: float, cap: float) -> None:
    backoff = Backoff(base, cap)

    delay = backoff.delay(attempt, jitter)

    assert base <= delay <= cap
    assert backoff.delay(attempt + 1, jitter) >= delay


def test_failures_wait_from_one_second_to_five_minutes_and_start_anew_after_a_success() -> None:
    queue: WorkQueue[Key] = WorkQueue()
    key, now, waits = ("a", "1"), 0.0, []
    queue.add(key, now)
    for _ in range(12):
        assert queue.take(now) == key
        queue.done(key, now, Requeue.BACKOFF)
        waits.append(queue.next_wakeup(now) or 0.0)
        now += waits[-1]
    assert queue.take(now) == key
    queue.done(key, now, Requeue.NO)
    queue.add(key, now)
    queue.take(now)
    queue.done(key, now, Requeue.BACKOFF)

    assert 1.0 <= waits[0] <= 2.0
    assert 150.0 <= waits[-1] <= 300.0
    assert waits[:8] == sorted(waits[:8])
    assert queue.next_wakeup(now) == pytest.approx(waits[0])


def test_different_keys_that_fail_together_come_back_apart() -> None:
    delays = {Backoff().delay(3, jitter_of(f"key-{number}", 3)) for number in range(100)}

    assert len(delays) == 100
    assert min(delays) < 5.0 < 7.0 < max(delays)


def test_an_overtaken_decision_is_taken_up_at_once_but_not_for_ever_REC_6() -> None:
    queue: WorkQueue[Key] = WorkQueue()
    key, now, waits = ("a", "1"), 0.0, []
    queue.add(key, now)
    for _ in range(10):
        assert queue.take(now) == key
        queue.done(key, now, Requeue.IMMEDIATE)
        waits.append(queue.next_wakeup(now) or 0.0)
        now += waits[-1]

    assert waits[0] == 0.0
    assert 0.05 <= waits[1] <= 0.1
    assert waits[-1] >= 5.0


def test_an_overtaken_decision_waits_as_long_as_the_server_asked_for_with_another_answer_RUN_2() -> None:
    queue: WorkQueue[Key] = WorkQueue()
    queue.add(("a", "1"), 0.0)
    queue.take(0.0)
    queue.done(("a", "1"), 0.0, Requeue(RequeuePace.IMMEDIATE, not_before=20.0))

    assert queue.next_wakeup(0.0) == 20.0


def test_postponing_does_not_count_as_failure_or_success() -> None:
    queue: WorkQueue[Key] = WorkQueue()
    queue.add(("a", "1"), 0.0)
    for now, requeue in (
        (0.0, Requeue.BACKOFF),
        (1e3, Requeue(RequeuePace.UNDECIDED, 0.0)),
        (1e3, Requeue(RequeuePace.UNDECIDED, 0.0)),
    ):
        queue.take(now)
        queue.done(("a", "1"), now, requeue)

    assert queue.failures(("a", "1")) == 1


def test_memory_stays_bounded_when_long_delays_are_overtaken_all_the_time() -> None:
    queue: WorkQueue[Key] = WorkQueue()
    queue.add(("b", "1"), 0.0, after=1e6)  # due before all of them, so that they are not simply on top
    for number in range(10_000):
        queue.add(("a", "1"), float(number))
        queue.take(float(number))
        queue.done(("a", "1"), float(number), Requeue.at_latest(1e9))

    assert len(queue._delays) < 100


def test_giving_back_a_key_that_is_not_being_processed_is_an_error() -> None:
    with pytest.raises(KeyError):
        WorkQueue[Key]().done(("a", "1"), 0.0, Requeue.NO)


@given(st.integers(0, 300), st.integers(1, 20), st.integers(1, 5), st.floats(0, 40))
def test_a_verdict_waits_for_what_is_begun_and_not_for_the_queue_RUN_2(
    new: int, begun: int, namespaces: int, step: float
) -> None:
    """However many keys are new, however long a pass takes: of four passes at most one goes to a key that has aged."""
    queue: WorkQueue[Key] = WorkQueue(group_of=lambda key: key[0])
    for at in range(new):
        queue.add((f"n-{at % namespaces}", f"new-{at}"), 0.0)
    for at in range(begun):
        queue.add(("n-0", f"begun-{at}"), 0.0, priority=Priority.VERDICT)

    now, taken, waiting = 0.0, 0, begun
    while waiting:
        key = queue.take(now)
        assert key is not None
        taken, waiting = taken + 1, waiting - key[1].startswith("begun")
        now += step
        queue.done(key, now, Requeue.NO)

    assert taken <= begun + begun // 3 + 1


@given(st.integers(1, 30), st.floats(0.1, 40))
def test_verdicts_without_end_starve_nobody_RUN_2(new: int, step: float) -> None:
    queue: WorkQueue[Key] = WorkQueue(group_of=lambda key: key[0], ageing=30.0)
    for at in range(new):
        queue.add(("n", f"new-{at}"), 0.0)

    now, left, takes_when_aged = 0.0, new, 0
    while left:
        queue.add(("n", "begun"), now, priority=Priority.VERDICT)
        key = queue.take(now)
        assert key is not None
        takes_when_aged += now >= 30.0
        left -= key[1] != "begun"
        now += step
        queue.done(key, now, Requeue.NO)

    assert takes_when_aged <= 4 * new + 4


def test_a_new_key_that_gets_a_verdict_moves_up_RUN_2() -> None:
    queue: WorkQueue[Key] = WorkQueue()
    for name in ("a", "b"):
        queue.add(("n", name), 0.0)
    queue.add(("n", "b"), 0.0, priority=Priority.VERDICT)

    assert queue.take(0.0) == ("n", "b")
