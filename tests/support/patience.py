"""How long a test waits for what it expects (RUN-10): long enough for any machine, however busy.

A test that passes never waits so long. Whoever measures time measures it in `bench/`, or under virtual time.
"""

import time
from collections.abc import Callable

PATIENCE = 240.0
"""Seconds for one thing to come about; less than the longest poll, so that nobody takes its end for an answer."""

TIMEOUT = 1800.0
"""Seconds for a whole test, after which it is taken for one that hangs."""


def pause_after(waited: float, least: float = 0.02) -> float:
    """Return the seconds before another look at what is waited for: a look costs what many others could use.

    A twentieth of the time waited so far, so that a wait becomes a twentieth longer at most.
    """
    return min(1.0, max(least, waited / 20))


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until that holds. Raises AssertionError with `what` when it does not."""
    limit = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < limit, f"not within {PATIENCE} s: {what}"
        time.sleep(0.1)
