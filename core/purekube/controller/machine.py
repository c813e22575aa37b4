"""Parts shared by the machines of jobs and of the credential: time, log notes, retries."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import attrs

from purekube.apimachinery.timestamps import shifted

LONGEST_RETRY: Final = 60.0
"""The longest delay between two tries of a step, in seconds."""


@attrs.frozen
class Tick:
    """Time passed."""


class LogLevel(StrEnum):
    """The urgency of a note."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def number(self) -> int:
        """The level's number in `logging`."""
        return {LogLevel.INFO: 20, LogLevel.WARNING: 30, LogLevel.ERROR: 40}[self]


@attrs.frozen
class LogNote:
    """A note for the administrator who reads the operator's log. `job_id` is empty if it concerns no job."""

    level: LogLevel
    message: str
    job_id: str = ""


@attrs.frozen
class Retry:
    """The consecutive failures of a step, and when it is tried again; `at` is None while no retry is pending."""

    failures: int = 0
    at: datetime | None = None

    def is_due(self, now: datetime) -> bool:
        """Report whether the step is to be tried now."""
        return self.at is not None and self.at <= now

    def failed(self, seconds: float, now: datetime) -> "Retry":
        """Return the state after one more failure, to be tried again in `seconds`."""
        return Retry(self.failures + 1, shifted(now, timedelta(seconds=seconds)))

    def started(self) -> "Retry":
        """Return the state while a try is under way: none is pending, the failures still count."""
        return Retry(self.failures)
