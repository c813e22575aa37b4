"""Time under the control of tests and simulations: a manual clock, and an event loop whose time jumps (RUN-10)."""

import asyncio
import heapq
import itertools
import selectors
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextvars import Context
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

import attrs

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""The wall time at which virtual time starts by default."""
_TURN: Final = 0.05
"""The real seconds of one wait for functions that run in threads."""
# asyncio: base_events.py, _run_once runs timers that are due within the clock's resolution, too.
_RESOLUTION: Final = 1e-9
# asyncio: base_events.py, _run_once keeps cancelled timers, too, until they are due or are many
# (_MIN_SCHEDULED_TIMER_HANDLES).
_MANY: Final = 100
"""The number of timers up to which the loop keeps cancelled ones in its list until they are due."""


@attrs.define
class ManualClock:
    """A `Clock` for tests, whose time changes only by calls of `advance`, `step_wall` and `sleep`.

    `sleep` advances the time immediately and never suspends.
    """

    started: datetime = START
    elapsed: float = 0.0

    def now(self) -> datetime:
        """Return the wall time."""
        return self.started + timedelta(seconds=self.elapsed)

    def monotonic(self) -> float:
        """Return the seconds since the start. `step_wall` does not change them."""
        return self.elapsed

    def advance(self, seconds: float) -> None:
        """Advance the time by `seconds`."""
        if seconds < 0:
            raise ValueError("time does not run backwards; step_wall moves the wall clock")
        self.elapsed += seconds

    def step_wall(self, by: timedelta) -> None:
        """Set the wall clock forward or back by `by`, as an administrator or NTP would. `monotonic` does not change."""
        self.started += by

    async def sleep(self, seconds: float) -> None:
        """Advance the time by `seconds`, without suspending."""
        self.advance(max(0.0, seconds))


class StuckError(RuntimeError):
    """The error of a VirtualTimeLoop in which every task waits, and no timer or file descriptor will wake any task."""


class BusyError(RuntimeError):
    """The error of a VirtualTimeLoop whose tasks run forever without waiting, so that its virtual time cannot pass."""


class _NumberedTask(asyncio.Task[Any]):
    """A task whose hash is its number, so that sets of tasks have the same order in every process (SIM-3)."""

    def __init__(self, *args: Any, number: int, **named: Any) -> None:
        self._number = number
        super().__init__(*args, **named)

    def __hash__(self) -> int:
        return self._number


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop in which waiting takes no time: when nothing is ready, `time()` jumps to the next timer.

    Runs are deterministic if they use nothing outside, such as sockets. Time does not pass while a thread of
    `run_in_executor` works. When no task is ready, the loop calls `at_rest` before time jumps. `at_rest` returns True
    if it made a task ready or stopped the loop; then time does not jump. BusyError is raised after `most_rounds` rounds
    of the loop without a jump.
    """

    _ready: deque[asyncio.Handle]
    _stopping: bool
    _selector: selectors.BaseSelector
    _process_events: Callable[[list[Any]], None]
    _check_closed: Callable[[], None]

    def __init__(self, start: datetime = START, *, most_rounds: int | None = None) -> None:
        self._elapsed = 0.0
        self._now: datetime | None = start
        """The virtual wall time, once it was asked for; None after a jump."""
        self.start = start
        """The wall time at which the loop was created."""
        self._in_threads = 0
        self._most_rounds = float("inf") if most_rounds is None else most_rounds
        self._rounds = 0
        self.at_rest: Callable[[], bool] = lambda: False
        super().__init__(selectors.SelectSelector())
        self._files = self._selector.get_map()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._most_timers = _MANY
        self._timer_numbers = itertools.count()
        numbers = itertools.count()
        self.set_task_factory(lambda loop, work, **named: _NumberedTask(work, number=next(numbers), loop=loop, **named))

    def time(self) -> float:
        """Return the virtual seconds since the loop was created: the sum of all jumps to timers."""
        return self._elapsed

    def now(self) -> datetime:
        """Return the virtual wall time: the time at which the loop started, plus its virtual seconds."""
        if self._now is None:
            self._now = self.start + timedelta(seconds=self._elapsed)
        return self._now

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call `callback` with `args` in the next round of the loop, and return its handle.

        This replaces asyncio's method, which also looks for calls from other threads in its debug mode.
        """
        self._check_closed()
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Set a timer that calls `callback` with `args` at the virtual time `when`, and return its handle.

        Timers for the same time fire in the order in which they were set.
        """
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._timer_numbers), timer))
        if len(self._timers) > self._most_timers:
            self._timers = sorted(each for each in self._timers if not each[2].cancelled())
            self._most_timers = max(_MANY, 2 * len(self._timers))
        return timer

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> "asyncio.Future[T]":
        """Run `func` with `args` in a thread of `executor`, and return the future of its result.

        If `executor` is None, the loop's default executor is used. Virtual time does not pass until `func` ends.
        """
        future = super().run_in_executor(executor, func, *args)
        self._in_threads += 1
        # Time must not jump while a thread works, or the timeout of that work would fire at once.
        future.add_done_callback(self._back)
        return future

    async def shutdown_default_executor(self, *args: Any) -> None:
        """Shut down the loop's default executor in a thread. Virtual time does not pass until that is done."""
        self._in_threads += 1
        try:
            await super().shutdown_default_executor(*args)
        finally:
            self._in_threads -= 1

    def _back(self, _: Any) -> None:
        self._in_threads -= 1

    def _run_once(self) -> None:
        """Run the callbacks that are ready. If there are none, let time pass until the next timer first.

        This replaces asyncio's method, which takes several times as long: in each round it asks a selector and the
        time, and it compares timers in Python.
        """
        self._rounds += 1
        if self._rounds > self._most_rounds:
            self._rounds = 0
            raise BusyError(f"{self._most_rounds} rounds of the loop, and no time has passed")
        if len(self._files) > 1:  # one is the loop's own pipe
            self._process_events(self._selector.select(0))
        if not (self._ready or self._stopping):
            self._pass_time()
        self._ready.extend(self._due_timers())
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _pass_time(self) -> None:
        """Let time jump to the next timer, unless that is due, a thread works, or `at_rest` returns True."""
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        if self._timers and self._timers[0][0] <= self._elapsed:
            return
        if self._in_threads:
            self._rounds = 0
            self._process_events(self._selector.select(_TURN))
        elif not self.at_rest():
            if not self._timers:
                raise StuckError("nothing is scheduled: every task waits for something that will not come")
            self._rounds = 0
            # The sum may miss the timer by a rounding error, which `_due_timers` allows for.
            self._elapsed += self._timers[0][0] - self._elapsed
            self._now = None

    def _due_timers(self) -> Iterator[asyncio.TimerHandle]:
        """Remove and yield the timers that are due.

        Those within the resolution are due too: a jump reaches them except for a rounding error.
        """
        while self._timers and self._timers[0][0] < self._elapsed + _RESOLUTION:
            yield heapq.heappop(self._timers)[2]


def virtual_loop(start: datetime = START) -> Callable[[], VirtualTimeLoop]:
    """Return a factory of loops with virtual time, in which waiting takes no time. Their wall time begins at `start`.

    Use it as in `anyio.run(main, backend_options={"loop_factory": virtual_loop()})`.
    """
    return lambda: VirtualTimeLoop(start)


class VirtualClock:
    """A `Clock` that shows the time of the running VirtualTimeLoop, an event loop in which waiting takes no time.

    The clock can be created anywhere, but used only inside such a loop.
    """

    def now(self) -> datetime:
        """Return the wall time of the running VirtualTimeLoop."""
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualTimeLoop):
            raise RuntimeError("VirtualClock needs a VirtualTimeLoop")
        return loop.now()

    def monotonic(self) -> float:
        """Return the virtual seconds since the running VirtualTimeLoop was created."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Suspend for `seconds` of virtual time, which take no real time."""
        await asyncio.sleep(max(0.0, seconds))
