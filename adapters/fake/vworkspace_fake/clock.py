"""Time that tests and simulations own: a clock set by hand, and an event loop whose time jumps (RUN-10)."""

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

import attrs

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""When virtual time begins, unless told otherwise."""
_TURN: Final = 0.05
"""Real seconds that a look at threads takes at the most."""


@attrs.define
class ManualClock:
    """A `Clock` that moves when it is told to. `sleep` moves it at once and never suspends."""

    started: datetime = START
    elapsed: float = 0.0

    def now(self) -> datetime:
        """Wall time."""
        return self.started + timedelta(seconds=self.elapsed)

    def monotonic(self) -> float:
        """Seconds since the start; `step_wall` does not move them."""
        return self.elapsed

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass."""
        if seconds < 0:
            raise ValueError("time does not run backwards; step_wall moves the wall clock")
        self.elapsed += seconds

    def step_wall(self, by: timedelta) -> None:
        """Set the wall clock forward or back, as an administrator or NTP would."""
        self.started += by

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""
        self.advance(max(0.0, seconds))


class StuckError(RuntimeError):
    """Every task of a virtual loop waits for something that no timer and no descriptor will bring."""


class BusyError(RuntimeError):
    """The tasks of a virtual loop go on for ever at one moment: time never comes to pass."""


class _JumpingSelector(selectors.SelectSelector):
    """A selector that does not wait: it passes the time it was told to wait on to the loop."""

    jump: Callable[[float], None]
    at_rest: Callable[[], bool]
    works_elsewhere: Callable[[], bool]
    rounds: int = 0
    most_rounds: int | None = None

    def select(self, timeout: float | None = None) -> Any:
        """Descriptors that are ready now; otherwise time jumps by `timeout`."""
        ready = super().select(0)
        self.rounds += 1
        if self.most_rounds is not None and self.rounds > self.most_rounds:
            self.rounds = 0
            raise BusyError(f"{self.most_rounds} rounds of the loop, and no time has passed")
        if ready or timeout == 0:
            return ready
        if self.works_elsewhere():
            self.rounds = 0
            return super().select(_TURN)
        if self.at_rest():
            return ready
        if timeout is None:
            raise StuckError("nothing is scheduled: every task waits for something that will not come")
        self.rounds = 0
        self.jump(timeout)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop in which waiting takes no time: `time()` jumps to the next timer when nothing is ready.

    Runs are deterministic as long as nothing outside takes part: no sockets. Time stands still while a thread of
    `run_in_executor` works. `at_rest` is called when nothing is left to do at this moment, before time jumps; it says
    whether it has made something to do, or stopped the loop. After `most_rounds` of the loop without a jump, BusyError
    is raised: something asks to be called again at once, again and again.
    """

    def __init__(self, start: datetime = START, *, most_rounds: int | None = None) -> None:
        self._elapsed = 0.0
        self._start = start
        self._in_threads = 0
        self.at_rest: Callable[[], bool] = lambda: False
        selector = _JumpingSelector()
        selector.jump = self._jump
        selector.most_rounds = most_rounds
        selector.at_rest = lambda: self.at_rest()
        selector.works_elsewhere = lambda: self._in_threads > 0
        super().__init__(selector)
        # Timers that are due within the resolution fire together; a jump lands on them up to a rounding error.
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._elapsed

    def now(self) -> datetime:
        """Virtual wall time."""
        return self._start + timedelta(seconds=self._elapsed)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> "asyncio.Future[T]":
        """As every loop; virtual time waits for it."""
        future = super().run_in_executor(executor, func, *args)
        self._in_threads += 1
        future.add_done_callback(self._back)
        return future

    async def shutdown_default_executor(self, *args: Any) -> None:
        """As every loop, which does it in a thread."""
        self._in_threads += 1
        try:
            await super().shutdown_default_executor(*args)
        finally:
            self._in_threads -= 1

    def _back(self, _: Any) -> None:
        self._in_threads -= 1

    def _jump(self, seconds: float) -> None:
        self._elapsed += seconds


def virtual_loop(start: datetime = START) -> Callable[[], VirtualTimeLoop]:
    """A loop factory: `anyio.run(main, backend_options={"loop_factory": virtual_loop()})`."""
    return lambda: VirtualTimeLoop(start)


class VirtualClock:
    """A `Clock` of the running virtual loop. Made anywhere, used inside the loop only."""

    def now(self) -> datetime:
        """Virtual wall time."""
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualTimeLoop):
            raise RuntimeError("VirtualClock needs a VirtualTimeLoop")
        return loop.now()

    def monotonic(self) -> float:
        """Virtual seconds."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Suspend for virtual `seconds`."""
        await asyncio.sleep(max(0.0, seconds))
