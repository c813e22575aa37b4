"""Exponential backoff with jitter, and types that state machines share: retry states, the event that time has passed,
and notes for the log.
"""

import hashlib
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import attrs

from purekube.apimachinery.timestamps import has_come, shifted


@attrs.frozen
class Backoff:
    """An exponential backoff: delays between `base` and `cap` seconds that double with every attempt.

    The delay after attempt n lies between `base * 2**n / 2` and `base * 2**n`, clamped to `base` and `cap`. `jitter`,
    from 0 to 1, selects the point in that range, so that clients that failed together retry at different times.
    """

    base: float = 1.0
    cap: float = 300.0

    def delay(self, attempt: int, jitter: float) -> float:
        """Return the seconds to wait after failure number `attempt`, counted from 1. `jitter` is from 0 to 1."""
        ceiling = min(self.cap, self.base * 2.0 ** min(attempt, 64))
        floor = min(self.cap, max(self.base, ceiling / 2))
        return floor + jitter * (ceiling - floor)

    def full_jitter(self, attempt: int, jitter: float) -> float:
        """Return `jitter` times `base * 2**(attempt - 1)` seconds, but at least `base` and at most `cap`.

        `attempt` counts failures from 1, and `jitter` is a number from 0 to 1. The power of two grows no further than
        1024.
        """
        return min(self.cap, max(self.base, self.base * 2.0 ** min(attempt - 1, 10) * jitter))


def jitter_of(key: object, attempt: int) -> float:
    """Return a number in [0, 1) that spreads retries of different keys and attempts.

    It is computed from the arguments alone, and so is equal in every process.
    """
    digest = hashlib.blake2b(f"{key}#{attempt}".encode(), digest_size=6).digest()
    return int.from_bytes(digest) / 2**48


LONGEST_RETRY: Final = 60.0
"""The longest delay between two tries of a step of a state machine, in seconds."""


@attrs.frozen
class Tick:
    """The event that time has passed, so that a state machine checks which retries and deadlines are due. It carries no
    data.
    """


class LogLevel(StrEnum):
    """The severity of a `LogNote`."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def number(self) -> int:
        """The corresponding level of Python's `logging`."""
        return {LogLevel.INFO: 20, LogLevel.WARNING: 30, LogLevel.ERROR: 40}[self]


@attrs.frozen
class LogNote:
    """A note for the administrator who reads the operator's log.

    `job_id` is the id of the control plane's job (a unit of work that a server sends) that the note is about; it is
    empty for other notes.
    """

    level: LogLevel
    message: str
    job_id: str = ""


@attrs.frozen
class Retry:
    """The retry state of a step of a state machine, such as a request that is sent until it succeeds.

    It has the number of consecutive failures, and the time `at` of the next try (None if no retry is pending). The next
    try was scheduled `wait` before that time. `why` is the message of the last failure, if one was given.
    """

    failures: int = 0
    at: datetime | None = None
    wait: timedelta = attrs.field(default=timedelta.max, eq=False)
    why: str = ""

    def is_due(self, now: datetime) -> bool:
        """Report whether a retry is pending and its time has come, even if the clock was set back meanwhile."""
        return self.at is not None and has_come(self.at, now, self.wait)

    def failed(self, seconds: float, now: datetime, why: str = "") -> "Retry":
        """Return the state after one more failure, with a retry `seconds` after `now`. `why` is its message."""
        wait = timedelta(seconds=seconds)
        return Retry(self.failures + 1, shifted(now, wait), wait, why)

    def started(self) -> "Retry":
        """Return the state while the step is being tried: no retry is pending, and the failure count is unchanged."""
        return Retry(self.failures, why=self.why)
