"""Letting virtual time pass for simulated controllers, doing everything that is due on the way."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

_LONGEST: Final = timedelta(hours=1)


class Clock(Protocol):
    """A clock that tests turn."""

    def now(self) -> datetime: ...

    def advance(self, seconds: float) -> Any: ...


class Simulator(Protocol):
    """Simulated controllers that are told the time."""

    @property
    def errors(self) -> Any: ...

    def tick(self, now: datetime) -> Any: ...

    def next_work(self) -> datetime | None: ...

    def next_wake_up(self) -> datetime | None: ...


def settle(clock: Clock, simulator: Simulator, horizon: float) -> None:
    """Let time pass until nothing is left to do but intervals; AssertionError after `horizon` seconds."""
    limit = clock.now() + timedelta(seconds=horizon)
    simulator.tick(clock.now())
    while (following := simulator.next_work()) is not None:
        assert following <= limit, f"still busy: {simulator.errors}"
        _go_to(clock, simulator, following)


def go_on(clock: Clock, simulator: Simulator, seconds: float) -> None:
    """Let `seconds` pass."""
    end = clock.now() + timedelta(seconds=seconds)
    simulator.tick(clock.now())
    while (following := simulator.next_wake_up()) is not None and following <= end:
        _go_to(clock, simulator, following)
    _go_to(clock, simulator, end)


def go_until(clock: Clock, simulator: Simulator, holds: Callable[[], bool], shown: Callable[[], object]) -> None:
    """Let time pass until `holds`. AssertionError with what is `shown` after an hour, or when nothing more happens."""
    limit = clock.now() + _LONGEST
    simulator.tick(clock.now())
    while not holds():
        following = simulator.next_wake_up()
        assert following is not None, f"nothing more happens: {shown()} {simulator.errors}"
        assert following <= limit, f"not within {_LONGEST}: {shown()} {simulator.errors}"
        _go_to(clock, simulator, following)


def _go_to(clock: Clock, simulator: Simulator, moment: datetime) -> None:
    clock.advance(max(0.0, (moment - clock.now()).total_seconds()))
    simulator.tick(clock.now())
