"""When a failed call is made again: policies as values, which know attempts and jitter and nothing else (PH-7)."""

import math
from typing import Final, Protocol

import attrs

from vworkspace_core.controller.backoff import Backoff


class RetryPolicy(Protocol):
    """How long to wait after a failure."""

    def delay(self, attempt: int, jitter: float) -> float | None:
        """Seconds after the failure numbered `attempt`, counted from 1; None: not again. `jitter` is in [0, 1)."""
        ...


@attrs.frozen
class Constant:
    """The same delay each time."""

    seconds: float = 10.0

    def delay(self, attempt: int, jitter: float) -> float | None:
        """So many seconds."""
        return self.seconds


@attrs.frozen
class Never:
    """Not again by itself: the next change, resync or restart comes back to it."""

    def delay(self, attempt: int, jitter: float) -> float | None:
        """None."""
        return None


EXPONENTIAL: Final = Backoff()
"""From one second to five minutes, doubling, with jitter."""


def delay_of(policy: RetryPolicy, attempt: int, jitter: float) -> float | None:
    """What the policy says; the default's delay where that is no delay, or it raises. A retry is not lost by it."""
    try:
        seconds = policy.delay(attempt, jitter)
    except Exception:
        return EXPONENTIAL.delay(attempt, jitter)
    if seconds is None:
        return None
    if not isinstance(seconds, int | float) or not math.isfinite(seconds) or seconds < 0:
        return EXPONENTIAL.delay(attempt, jitter)
    return float(seconds)
