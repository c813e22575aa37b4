"""Small parts that the machines of jobs and of the credential share: time, notes for the log, when to try again."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import attrs

from vworkspace_core.apimachinery.timestamps import shifted

LONGEST_RETRY: Final = 60.0
"""Seconds between two tries of a step at most."""


@attrs.frozen
class Tick:
    """Time passed."""


class LogLevel(StrEnum):
    """How urgent a note is."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def number(self) -> int:
        """The level's number in `logging`."""
        return {LogLevel.INFO: 20, LogLevel.WARNING: 30, LogLevel.ERROR: 40}[self]


@attrs.frozen
class LogNote:
    """Something that an operator of the operator should read in the log. `job_id` is empty where it is of no job."""

    level: LogLevel
    message: str
    job_id: str = ""


@attrs.frozen
class Retry:
    """How often a step failed in a row, and when it is tried again; `at` is None while nothing waits for that."""

    failures: int = 0
    at: datetime | None = None

    def is_due(self, now: datetime) -> bool:
        """Whether the step is to be tried now."""
        return self.at is not None and self.at <= now

    def failed(self, seconds: float, now: datetime) -> "Retry":
        """After one more failure: the step is tried again in so many seconds."""
        return Retry(self.failures + 1, shifted(now, timedelta(seconds=seconds)))

    def started(self) -> "Retry":
        """While a try is under way: nothing waits, the failures still count."""
        return Retry(self.failures)
