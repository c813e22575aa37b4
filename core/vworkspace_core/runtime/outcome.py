"""What is said to the queue about a key, and what the queue says about itself (RUN-2)."""

from enum import IntEnum
from typing import TypeAlias

import attrs

__all__ = ["Failed", "Outcome", "Outdated", "Postponed", "Priority", "QueueStats", "Running", "Succeeded"]


class Priority(IntEnum):
    """Higher goes first."""

    BACKGROUND = 0
    """Objects of the initial list, and resyncs: nobody is waiting."""
    LIVE = 1
    """A change that was just observed."""
    URGENT = 2
    """A person or a job asked for it."""


@attrs.frozen
class Succeeded:
    """Done; the count of failures starts anew. Look again after so many seconds, if at all."""

    look_again_after: float | None = None


@attrs.frozen
class Failed:
    """Try again after the key's backoff, of `at_most` so many seconds, and not before `retry_after` seconds."""

    retry_after: float = 0.0
    at_most: float = float("inf")


@attrs.frozen
class Outdated:
    """The decision was made on a copy that has been overtaken: look again at once, without backoff (REC-6).

    Only a second time in a row waits, from 50 ms on: the cache may need a moment.
    """


@attrs.frozen
class Postponed:
    """Nothing was decided: ask again in so many seconds. The count of failures stays as it is."""

    seconds: float


Outcome: TypeAlias = Succeeded | Failed | Outdated | Postponed


@attrs.frozen
class Running:
    """A key in hand: its priority, when it was taken, and the seconds it had been ready before."""

    priority: Priority
    taken_at: float
    waited: float


@attrs.frozen
class QueueStats:
    """Counts for metrics: keys ready per priority, delayed, in hand; adds and retries since the start."""

    ready: dict[Priority, int]
    delayed: int
    running: int
    adds: int
    retries: int
