"""Time that tests own: jumps instead of waiting, the same in every run (RUN-10)."""

import asyncio
import threading
from datetime import timedelta

import pytest

from kubelab.clock import START, BusyError, ManualClock, StuckError, VirtualClock, VirtualTimeLoop, virtual_loop


def run(main: object) -> object:
    with asyncio.Runner(loop_factory=virtual_loop()) as runner:
        return runner.run(main)  # type: ignore[arg-type]


def test_an_hour_takes_no_time() -> None:
    async def main() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    assert run(main()) == pytest.approx(3600)


def test_timers_fire_in_their_order_and_ties_in_the_order_they_were_set() -> None:
    fired: list[str] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        fired.append(f"{name}@{asyncio.get_running_loop().time():.1f}")

    async def main() -> None:
        await asyncio.gather(sleeper("c", 2), sleeper("a", 0.5), sleeper("b", 0.5), sleeper("d", 86_400 * 3))

    run(main())

    assert fired == ["a@0.5", "b@0.5", "c@2.0", "d@259200.0"]


def test_timers_of_one_moment_fire_as_they_were_set_whatever_else_is_scheduled_SIM_3() -> None:
    fired: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number in range(20):
            loop.call_at(5.0, fired.append, number)
            loop.call_at(number / 10, fired.append, 100 + number)  # a heap moves equal timers when it loses others
        await asyncio.sleep(6)

    run(main())

    assert fired == [*range(100, 120), *range(20)]


def test_timers_that_are_cancelled_in_great_numbers_leave_the_others_in_order() -> None:
    fired: list[int] = []
    loop = VirtualTimeLoop()

    timers = [loop.call_at(1000 - number, fired.append, number) for number in range(1000)]
    for number, timer in enumerate(timers):
        if number % 50:
            timer.cancel()
    loop.run_until_complete(asyncio.sleep(2000))

    loop.close()
    assert fired == list(range(950, -1, -50))


def test_the_wall_clock_follows_the_loop() -> None:
    clock = VirtualClock()

    async def main() -> None:
        await clock.sleep(90)
        assert clock.now() - START == timedelta(seconds=90)
        assert clock.monotonic() == pytest.approx(90)

    run(main())


def test_a_virtual_clock_outside_a_virtual_loop_says_so() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="VirtualTimeLoop"):
            VirtualClock().now()

    asyncio.run(main())


def test_waiting_for_what_will_not_come_is_an_error_and_not_a_hang() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    loop = VirtualTimeLoop()
    task = loop.create_task(main())
    try:
        with pytest.raises(StuckError):
            loop.run_until_complete(task)
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.close()


def test_a_manual_clock_moves_when_told() -> None:
    clock = ManualClock()

    clock.advance(5)
    clock.step_wall(timedelta(hours=-1))
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)
    with pytest.raises(StopIteration):
        clock.sleep(2.5).send(None)

    assert clock.monotonic() == 7.5
    assert clock.now() == START + timedelta(hours=-1, seconds=7.5)


def test_time_stands_still_while_a_thread_works() -> None:
    loop = VirtualTimeLoop()

    async def main() -> float:
        slow = asyncio.ensure_future(asyncio.to_thread(threading.Event().wait, 0.02))
        late = asyncio.ensure_future(asyncio.sleep(60))
        await asyncio.wait({slow, late}, return_when=asyncio.FIRST_COMPLETED)
        late.cancel()
        return loop.time()

    try:
        assert loop.run_until_complete(main()) == 0
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def test_before_time_jumps_the_owner_of_the_loop_is_asked() -> None:
    loop = VirtualTimeLoop()
    seen: list[float] = []

    def at_rest() -> bool:
        seen.append(loop.time())
        return False

    loop.at_rest = at_rest
    loop.run_until_complete(asyncio.sleep(3))
    loop.close()

    assert seen == [0.0]


def test_a_loop_whose_tasks_never_let_time_pass_says_so() -> None:
    loop = VirtualTimeLoop(most_rounds=100)

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.sleep(10)

    loop.run_until_complete(main())
    task = loop.create_task(spin())
    with pytest.raises(BusyError, match="100 rounds"):
        loop.run_until_complete(main())
    task.cancel()
    for left in asyncio.all_tasks(loop):
        left.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
