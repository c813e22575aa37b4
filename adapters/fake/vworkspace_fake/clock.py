"""Time that tests and simulations own: a clock set by hand, and an event loop whose time jumps (RUN-10)."""

import asyncio
import selectors
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import attrs

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""When virtual time begins, unless told otherwise."""


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


class _JumpingSelector(selectors.SelectSelector):
    """A selector that does not wait: it passes the time it was told to wait on to the loop."""

    jump: Callable[[float], None]

    def select(self, timeout: float | None = None) -> Any:
        """Descriptors that are ready now; otherwise time jumps by `timeout`."""
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise StuckError("nothing is scheduled: every task waits for something that will not come")
        self.jump(timeout)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop in which waiting takes no time: `time()` jumps to the next timer when nothing is ready.

    Runs are deterministic as long as nothing outside takes part: no threads, no sockets.
    """

    def __init__(self, start: datetime = START) -> None:
        self._elapsed = 0.0
        self._start = start
        selector = _JumpingSelector()
        selector.jump = self._jump
        super().__init__(selector)
        # Timers that are due within the resolution fire together; a jump lands on them up to a rounding error.
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._elapsed

    def now(self) -> datetime:
        """Virtual wall time."""
        return self._start + timedelta(seconds=self._elapsed)

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
