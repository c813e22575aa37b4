"""The ports (interfaces that adapters implement) for time, random text and Kubernetes Events (RUN-5)."""

from datetime import datetime
from typing import Protocol

import attrs

from purekube.apimachinery.manifest import ObjectRef


class Clock(Protocol):
    """The port for time, which is real in production and virtual in simulations."""

    def now(self) -> datetime:
        """Return the wall time, timezone-aware UTC."""
        ...

    def monotonic(self) -> float:
        """Return the seconds of a monotonic clock, which never goes backwards."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task for `seconds`."""
        ...


class Entropy(Protocol):
    """A source of random text, good enough for passwords."""

    def text(self, length: int, alphabet: str) -> str:
        """Return `length` characters, each drawn from `alphabet` with equal probability. Never raises."""
        ...


@attrs.frozen
class KubernetesEvent:
    """A Kubernetes Event to write: the object that it is about, what happened, and the operator's action (RUN-5).

    `is_progress` says that the Event reports only unfinished work. A later Event about the end of that work
    replaces it.
    """

    regarding: ObjectRef
    regarding_uid: str
    type: str
    reason: str
    action: str
    note: str
    is_progress: bool = False


class EventSink(Protocol):
    """A receiver of Kubernetes Events, which never raises: an Event that cannot be written is counted and dropped."""

    async def emit(self, event: KubernetesEvent) -> None:
        """Publish one Event."""
        ...
