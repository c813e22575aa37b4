"""RUN-3: the reconcile driver, under virtual time."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import anyio
import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubelab.clock import VirtualClock
from purekube.apimachinery.errors import Invalid, KindMissing, Stale, Unavailable
from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.controller.decision import Decision, Requeue, requeue_for
from purekube.controller.execute import STATUS
from purekube.controller.informer.store import ObjectStore
from purekube.controller.queue.own_writes import HotLoopEvidence
from purekube.controller.queue.workqueue import Priority
from purekube.controller.reconcile import ReconcileResult, ResultLabel
from purekube.controller.reconcile_error import ReconcileError
from purekube_run.controller.observer import Reconciled
from purekube_run.controller.worker_pool import WorkerPool
from tests.support.virtual_time import run

KIND = Kind("t.example.com", "v1", "Thing", "things")
CLOCK = VirtualClock()


def ref(name: str, namespace: str = "n") -> ObjectRef:
    return ObjectRef(KIND, namespace, name)


@attrs.define
class Recorder:
    """An observer that keeps what it is told."""

    done: list[Reconciled] = attrs.field(factory=list)
    loops: list[tuple[ObjectRef, HotLoopEvidence]] = attrs.field(factory=list)

    def reconciled(self, done: Reconciled) -> None:
        self.done.append(done)

    def hot_loop_found(self, ref: ObjectRef, finding: HotLoopEvidence) -> None:
        self.loops.append((ref, finding))


@attrs.define
class Work:
    """A reconcile that records when it ran, and does what the test says."""

    act: Callable[[ObjectRef, int], Awaitable[ReconcileResult | None]]
    began: list[tuple[float, str]] = attrs.field(factory=list)
    running: set[ObjectRef] = attrs.field(factory=set)
    most_at_once: int = 0

    async def __call__(self, key: ObjectRef) -> ReconcileResult:
        assert key not in self.running, "one worker per key"
        self.running.add(key)
        self.began.append((CLOCK.monotonic(), key.name))
        self.most_at_once = max(self.most_at_once, len(self.running))
        try:
            return await self.act(key, self.times(key)) or ReconcileResult()
        finally:
            self.running.discard(key)

    def times(self, key: ObjectRef) -> int:
        return [name for _, name in self.began].count(key.name)

    def waits(self) -> list[float]:
        return [later - earlier for (earlier, _), (later, _) in zip(self.began, self.began[1:], strict=False)]


def returning(results: Iterable[ReconcileResult | Exception]) -> Work:
    """Gives or raises these in turn, then succeeds."""
    turns = iter(results)

    async def act(key: ObjectRef, times: int) -> ReconcileResult | None:
        turn = next(turns, None)
        if isinstance(turn, Exception):
            raise turn
        return turn

    return Work(act)


def taking(seconds: float) -> Work:
    async def act(key: ObjectRef, times: int) -> None:
        await anyio.sleep(seconds)

    return Work(act)


def drive(work: Work, keys: Iterable[ObjectRef], *, seconds: float, **settings: Any) -> tuple[WorkerPool, Recorder]:
    """Let a driver work on keys for so long."""
    recorder = Recorder()

    async def main() -> WorkerPool:
        driver = WorkerPool(work, clock=CLOCK, observer=recorder, **settings)
        async with anyio.create_task_group() as group:
            group.start_soon(driver.run)
            for key in keys:
                driver.enqueue(key)
            await anyio.sleep(seconds)
            driver.shutdown()
        return driver

    return run(main), recorder


def test_a_reconcile_that_raises_is_isolated_counted_and_retried_with_backoff() -> None:
    work = returning([ZeroDivisionError("a defect"), ZeroDivisionError("again")])

    driver, recorder = drive(work, [ref("a")], seconds=60)

    first, second = work.waits()
    assert 1.0 <= first <= 2.0 <= second <= 4.0
    assert driver.stats().crashes == 2
    assert driver.stats().results["error"] == 2
    assert driver.stats().results["success"] == 1
    assert [done.crashed for done in recorder.done] == [True, True, False]
    assert isinstance(recorder.done[0].error, ZeroDivisionError)


def test_a_deadline_holds_whatever_the_backoff_has_come_to_OPS_12() -> None:
    away = Unavailable("away")
    failing = [
        ReconcileResult(error=away, requeue=requeue_for(away).no_later_than(after))
        for after in (1000.0, 1000.0, 1000.0, 0.5)
    ]
    work = returning(failing)

    drive(work, [ref("a")], seconds=60)

    *backoff, last = work.waits()
    assert all(wait >= 1.0 for wait in backoff)
    assert last == pytest.approx(0.5)


def test_one_key_that_fails_for_ever_does_not_hold_up_the_others() -> None:
    async def act(key: ObjectRef, times: int) -> None:
        if key.name == "bad":
            raise RuntimeError("always")

    work = Work(act)
    keys = [ref("bad"), *(ref(f"good-{number}") for number in range(20))]

    drive(work, keys, seconds=10, workers=1)

    assert all(work.times(key) == 1 for key in keys[1:])
    assert 2 <= work.times(ref("bad")) <= 5


def test_a_reconcile_that_exceeds_its_time_limit_is_cancelled_and_tried_again() -> None:
    work = taking(1000.0)

    driver, recorder = drive(work, [ref("a")], seconds=15, time_limit=10.0)

    assert driver.stats().timeouts == 2
    assert recorder.done[0].timed_out
    assert recorder.done[0].seconds == 10.0
    assert isinstance(recorder.done[0].error, Unavailable)


@pytest.mark.parametrize("workers", [1, 3])
def test_concurrency_is_bounded(workers: int) -> None:
    work = taking(1.0)

    drive(work, [ref(str(number)) for number in range(9)], seconds=60, workers=workers)

    assert work.most_at_once == workers
    assert len(work.began) == 9


def test_a_key_added_while_it_is_worked_on_is_worked_on_once_more_afterwards() -> None:
    work = taking(1.0)
    recorder = Recorder()

    async def main() -> None:
        driver = WorkerPool(work, clock=CLOCK, observer=recorder)
        async with anyio.create_task_group() as group:
            group.start_soon(driver.run)
            driver.enqueue(ref("a"))
            await anyio.sleep(0.5)
            for _ in range(5):
                driver.enqueue(ref("a"))
            await anyio.sleep(10)
            driver.shutdown()

    run(main)

    assert [time for time, _ in work.began] == [0.0, 1.0]


def test_a_terminal_error_is_not_retried() -> None:
    work = returning([ReconcileResult(error=Invalid("spec.chart is refused"))])

    driver, recorder = drive(work, [ref("a")], seconds=3600)

    assert len(work.began) == 1
    assert driver.stats().results["terminal"] == 1
    assert recorder.done[0].label is ResultLabel.TERMINAL


def test_an_error_raised_or_returned_is_the_same() -> None:
    raised = returning([Invalid("no")])
    driver, _ = drive(raised, [ref("a")], seconds=60)

    assert driver.stats().results["terminal"] == 1
    assert driver.stats().crashes == 0


def test_a_server_that_asks_for_time_gets_it() -> None:
    work = returning([ReconcileResult(error=Unavailable("busy", retry_after=30.0))])

    drive(work, [ref("a")], seconds=60)

    assert work.waits() == [30.0]


def test_an_overtaken_decision_is_looked_at_again_at_once_REC_6() -> None:
    work = returning([ReconcileResult(error=Stale("moved on"))])

    drive(work, [ref("a")], seconds=60)

    assert work.waits() == [0.0]


def test_looking_again_after_a_while_starts_the_backoff_anew() -> None:
    again = ReconcileResult(requeue=Requeue.at_latest(7.0))
    work = returning([RuntimeError(), RuntimeError(), again, RuntimeError()])

    drive(work, [ref("a")], seconds=60)

    assert work.waits()[2] == pytest.approx(7.0)
    assert work.waits()[3] == pytest.approx(work.waits()[0])


def test_shutdown_finishes_what_is_being_processed_and_takes_nothing_more() -> None:
    work = taking(5.0)

    async def main() -> float:
        driver = WorkerPool(work, clock=CLOCK, workers=1)
        async with anyio.create_task_group() as group:
            group.start_soon(driver.run)
            for name in "abc":
                driver.enqueue(ref(name))
            await anyio.sleep(1)
            driver.shutdown()
            driver.enqueue(ref("late"))
        return CLOCK.monotonic()

    assert run(main) == 5.0
    assert [name for _, name in work.began] == ["a"]
    assert not work.running


def test_shutdown_can_drain_what_is_ready() -> None:
    work = taking(5.0)

    async def main() -> None:
        driver = WorkerPool(work, clock=CLOCK, workers=1)
        async with anyio.create_task_group() as group:
            group.start_soon(driver.run)
            for name in "abc":
                driver.enqueue(ref(name))
            driver.enqueue(ref("later"), after=100.0)
            await anyio.sleep(1)
            driver.shutdown(drain=True)

    run(main)

    assert [name for _, name in work.began] == ["a", "b", "c"]


def test_a_live_change_is_reconciled_before_the_initial_list() -> None:
    work = taking(1.0)

    async def main() -> None:
        driver = WorkerPool(work, clock=CLOCK, workers=1)
        for number in range(50):
            driver.enqueue(ref(f"old-{number}"), priority=Priority.BACKGROUND)
        async with anyio.create_task_group() as group:
            group.start_soon(driver.run)
            await anyio.sleep(3.5)
            driver.enqueue(ref("new"))
            await anyio.sleep(5)
            driver.shutdown()

    run(main)

    assert work.began[4] == (4.0, "new")


def test_a_verdict_is_reconciled_before_keys_that_are_new() -> None:
    work = taking(1.0)

    async def main() -> None:
        driver = WorkerPool(work, clock=CLOCK, workers=1)
        for number in range(50):
            driver.enqueue(ref(f"new-{number}"))
        async with anyio.create_task_group() as group:
            group.start_soon(driver.run)
            await anyio.sleep(3.5)
            driver.enqueue(ref("begun"), priority=Priority.VERDICT)
            await anyio.sleep(5)
            driver.shutdown()

    run(main)

    assert work.began[4] == (4.0, "begun")


def writing_once(version: str) -> Work:
    return returning([ReconcileResult(written=((ref("child"), version),))])


@pytest.mark.slow
@given(st.integers(1, 60), st.integers(1, 8), st.integers(1, 4), st.sampled_from([0.01, 0.5, 5.0]), st.floats(0, 20))
@example(60, 4, 1, 5.0, 0.0)  # 75 seconds of first passes: keys age while verdicts come
@example(25, 4, 1, 5.0, 16.0)  # four verdicts a pass come from before the first key aged, and three of them are taken
def test_what_is_begun_stays_bounded_and_its_verdict_waits_for_what_is_in_hand_RUN_2(
    new: int, workers: int, namespaces: int, seconds: float, flux: float
) -> None:
    """Each first pass begins something whose verdict comes `flux` seconds after it; one pass takes `seconds`.

    However many keys are new, no more than `workers` verdicts come at once; they find workers within two passes, of
    which the second is for a key that has aged. Of what was begun before the first key aged, one verdict in four more
    comes than is taken, so that these wait for each other for a third of that time. And every key gets both of its
    passes: nobody starves.
    """
    waits: list[float] = []

    async def main() -> Work:
        came: dict[ObjectRef, float] = {}

        async def act(key: ObjectRef, times: int) -> None:
            if times == 2:
                waits.append(CLOCK.monotonic() - came[key])
            await anyio.sleep(seconds)
            if times == 1:
                group.start_soon(verdict, key)

        async def verdict(key: ObjectRef) -> None:
            await anyio.sleep(flux)
            came[key] = CLOCK.monotonic()
            pool.enqueue(key, priority=Priority.VERDICT)

        work = Work(act)
        pool = WorkerPool(work, clock=CLOCK, workers=workers)
        async with anyio.create_task_group() as group:
            group.start_soon(pool.run)
            for number in range(new):
                pool.enqueue(ref(f"new-{number}", f"n-{number % namespaces}"))
            await anyio.sleep(2 * new * seconds + flux + 60)
            pool.shutdown()
        return work

    work = run(main)

    assert work.most_at_once <= workers
    assert len(waits) == new
    assert max(waits) <= 2 * seconds + min(flux, 30.0) / 3 + 1e-3


def test_after_a_write_a_key_is_not_decided_from_a_cache_that_has_not_seen_it() -> None:
    store = ObjectStore(KIND)
    store.advance("10")
    work = writing_once("11")
    recorder = Recorder()

    async def main() -> WorkerPool:
        driver = WorkerPool(work, clock=CLOCK, observer=recorder, has_seen=store.has_seen)
        async with anyio.create_task_group() as group:
            group.start_soon(driver.run)
            driver.enqueue(ref("a"))
            await anyio.sleep(1)
            driver.enqueue(ref("a"))
            driver.enqueue(ref("other"))
            await anyio.sleep(1)
            assert [name for _, name in work.began] == ["a", "other"], "a waits, another key does not"
            store.advance("11")
            await anyio.sleep(1)
            driver.shutdown()
        return driver

    driver = run(main)

    assert [name for _, name in work.began] == ["a", "other", "a"]
    assert 2.0 <= work.began[2][0] <= 2.8
    assert driver.stats().postponed > 0
    assert driver.stats().live_reads == 0
    assert driver.stats().results["success"] == 3


def test_a_cache_that_stays_behind_is_read_past_after_a_bounded_wait() -> None:
    store = ObjectStore(KIND)
    work = writing_once("11")
    read: list[tuple[float, ObjectRef]] = []

    async def refresh(key: ObjectRef) -> None:
        read.append((CLOCK.monotonic(), key))

    async def main() -> None:
        driver = WorkerPool(work, clock=CLOCK, has_seen=store.has_seen, refresh=refresh, cache_timeout=5.0)
        async with anyio.create_task_group() as group:
            group.start_soon(driver.run)
            driver.enqueue(ref("a"))
            await anyio.sleep(1)
            driver.enqueue(ref("a"))
            await anyio.sleep(60)
            driver.enqueue(ref("a"))
            await anyio.sleep(60)
            driver.shutdown()

    run(main)

    assert len(work.began) == 3
    assert read == [(work.began[1][0], ref("child"))]
    assert 5.0 <= work.began[1][0] <= 6.0


def test_while_the_live_read_fails_the_key_is_not_decided() -> None:
    store = ObjectStore(KIND)
    work = writing_once("11")
    tries = 0

    async def refresh(key: ObjectRef) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise Unavailable("no connection")

    async def main() -> WorkerPool:
        driver = WorkerPool(work, clock=CLOCK, has_seen=store.has_seen, refresh=refresh)
        async with anyio.create_task_group() as group:
            group.start_soon(driver.run)
            driver.enqueue(ref("a"))
            await anyio.sleep(6)
            driver.enqueue(ref("a"))
            await anyio.sleep(60)
            driver.shutdown()
        return driver

    driver = run(main)

    assert tries == 3
    assert len(work.began) == 2
    assert driver.stats().results["error"] == 2


@pytest.mark.slow
def test_a_write_noted_on_the_way_guards_even_a_reconcile_that_crashes() -> None:
    store = ObjectStore(KIND)
    drivers: list[WorkerPool] = []

    async def act(key: ObjectRef, times: int) -> None:
        if times == 1:
            drivers[0].record_write(key, (ref("child"), "11"))
            raise RuntimeError("after the write")

    work = Work(act)

    async def main() -> None:
        drivers.append(WorkerPool(work, clock=CLOCK, has_seen=store.has_seen))
        async with anyio.create_task_group() as group:
            group.start_soon(drivers[0].run)
            drivers[0].enqueue(ref("a"))
            await anyio.sleep(4)
            assert len(work.began) == 1
            store.advance("11")
            await anyio.sleep(4)
            drivers[0].shutdown()

    run(main)

    assert len(work.began) == 2


@attrs.define
class Watched:
    """A driver whose cache is fed by the test: what it writes comes back as the changes of a watch."""

    store: ObjectStore = attrs.field(factory=lambda: ObjectStore(KIND))
    driver: WorkerPool = attrs.field(init=False)

    def over(self, work: Work, **settings: Any) -> "Watched":
        self.driver = WorkerPool(work, clock=CLOCK, has_seen=self.store.has_seen, **settings)
        self.tell = self.driver.handler(lambda change: iter([ref("a")]))
        return self

    tell: Callable[[Any], None] = attrs.field(init=False)

    def came(self, version: int) -> None:
        """The watch delivers the child at a version."""
        meta = {"name": "child", "namespace": "n", "uid": "u", "resourceVersion": str(version)}
        for change in self.store.put({"metadata": meta}):
            self.tell(change)
        self.store.advance(str(version))


def passes_with_own_writes(*, at_fixed_point: bool, at: dict[float, int]) -> Work:
    """A first pass of a second that writes version 11, and the versions that the watch delivers at given times."""

    async def act(key: ObjectRef, times: int) -> ReconcileResult | None:
        if times > 1:
            return None
        await anyio.sleep(1.0)
        watched.driver.record_write(key, (ref("child"), "11"))
        return ReconcileResult(written=((ref("child"), "11"),), at_fixed_point=at_fixed_point)

    watched = Watched().over(work := Work(act))

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(watched.driver.run)
            watched.driver.enqueue(ref("a"))
            for when, version in at.items():
                await anyio.sleep(when - CLOCK.monotonic())
                watched.came(version)
            await anyio.sleep(30)
            watched.driver.shutdown()

    run(main)
    return work


@pytest.mark.parametrize("when", [0.5, 2.0], ids=["before its answer", "after the pass"])
def test_a_key_is_not_woken_by_its_own_write_RUN_3(when: float) -> None:
    assert len(passes_with_own_writes(at_fixed_point=True, at={when: 11}).began) == 1


@pytest.mark.parametrize("when", [0.5, 2.0])
def test_a_pass_that_left_something_to_do_is_woken_by_its_own_write(when: float) -> None:
    assert len(passes_with_own_writes(at_fixed_point=False, at={when: 11}).began) == 2


@pytest.mark.parametrize(
    ("at", "again"),
    [
        ({0.5: 10, 0.6: 11}, 1.0),
        ({0.5: 10, 2.0: 11}, 2.0),
        ({0.5: 11, 0.6: 12}, 1.0),
        ({2.0: 11, 3.0: 12}, 3.0),
        ({2.0: 12}, 2.0),
    ],
    ids=["before it", "before it, seen late", "after it, at once", "after it", "instead of it"],
)
def test_what_somebody_else_writes_wakes_the_key_as_soon_as_the_cache_is_up_to_date(
    at: dict[float, int], again: float
) -> None:
    work = passes_with_own_writes(at_fixed_point=True, at=at)

    assert [when for when, _ in work.began] == [0.0, pytest.approx(again, abs=0.051)]


@pytest.mark.parametrize("error", [RuntimeError("a defect"), Unavailable("away")])
def test_what_a_failing_pass_and_its_report_write_does_not_shorten_the_backoff(error: Exception) -> None:
    """A pass that writes something else each time, or a report whose text differs, would be repeated without end."""
    watched, version = Watched(), 10

    def write() -> None:
        nonlocal version
        version += 1
        watched.driver.record_write(ref("a"), (ref("child"), str(version)))
        watched.came(version)

    async def act(key: ObjectRef, times: int) -> ReconcileResult:
        if isinstance(error, Unavailable):
            return ReconcileResult(error=error, requeue=requeue_for(error))
        if times < 100:
            write()
        raise error

    async def report(key: ObjectRef, blocked: ReconcileError) -> None:
        if version < 200:
            write()

    watched.over(work := Work(act), report_blocked=report)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(watched.driver.run)
            watched.driver.enqueue(ref("a"))
            await anyio.sleep(60)
            watched.driver.shutdown()

    run(main)
    assert 3 < len(work.began) < 10


def saying(reason: str) -> ReconcileResult:
    """A pass that wrote a status, and looks again after a second."""
    decision = Decision(status={"status": {"conditions": [{"type": "Ready", "status": "False", "reason": reason}]}})
    return ReconcileResult(decision, requeue=Requeue.at_latest(1.0), executed=((STATUS, ref("a")),))


def test_an_object_whose_status_flaps_is_named() -> None:
    results = [saying("AB"[number % 2]) for number in range(8)]

    driver, recorder = drive(returning(results), [ref("a")], seconds=60)

    assert [found.name for found, _ in recorder.loops] == ["a"]
    assert recorder.loops[0][1].repeats == 5
    assert driver.stats().hot_loops == 1


def test_a_missing_kind_is_tried_again_REC_12() -> None:
    work = returning([ReconcileResult(error=KindMissing("no HelmRelease"))])

    drive(work, [ref("a")], seconds=60)

    assert len(work.began) == 2


def test_two_runs_are_the_same_to_the_last_digit() -> None:
    def once() -> list[tuple[float, str]]:
        async def act(key: ObjectRef, times: int) -> None:
            await anyio.sleep(0.1)
            if times < 4:
                raise RuntimeError("again")

        work = Work(act)
        drive(work, [ref(name, namespace) for name in "abc" for namespace in "nm"], seconds=600, workers=2)
        return work.began

    assert once() == once()
