"""The time of the next call after a failure: policies as values, which know attempts and jitter only (PH-7)."""

import math
from typing import Final, Protocol

import attrs

from purekube.controller.backoff import Backoff


class RetryPolicy(Protocol):
    """The delay after a failure."""

    def delay(self, attempt: int, jitter: float) -> float | None:
        """Return the seconds to wait after failure number `attempt`, counted from 1; None: do not retry.

        `jitter` is in [0, 1).
        """
        ...


@attrs.frozen
class Constant:
    """The same delay each time."""

    seconds: float = 10.0

    def delay(self, attempt: int, jitter: float) -> float | None:
        """Return the constant number of seconds."""
        return self.seconds


@attrs.frozen
class Never:
    """No retry: the next change, resync or restart reconciles the object again."""

    def delay(self, attempt: int, jitter: float) -> float | None:
        """Return None."""
        return None


EXPONENTIAL: Final = Backoff()
"""From one second to five minutes, doubling, with jitter."""


def delay_of(policy: RetryPolicy, attempt: int, jitter: float) -> float | None:
    """Return the policy's delay; the default's if that is invalid or raises, so that no retry is lost."""
    try:
        seconds = policy.delay(attempt, jitter)
    except Exception:
        return EXPONENTIAL.delay(attempt, jitter)
    if seconds is None:
        return None
    if not isinstance(seconds, int | float) or not math.isfinite(seconds) or seconds < 0:
        return EXPONENTIAL.delay(attempt, jitter)
    return float(seconds)
