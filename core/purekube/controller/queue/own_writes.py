"""Suppression of watch events that only show a key its own writes (RUN-3).

A pass takes the server's answer to each of its writes into its snapshot. So when it ends at the fixed point, the watch
events of exactly these resourceVersions bring nothing new. Every other event does, even a later version of the same
object.

Guarantees
    A change that is not an answer to one of the key's own writes always wakes the key, whether it comes before,
    during or after the pass.
    The event of a write may come before its answer: events during a pass are judged when the pass ends.
    Of each key only the writes of its last pass and the events during it are remembered.
"""

from collections.abc import Hashable
from enum import Enum
from typing import Generic, TypeVar

import attrs

from purekube.apimachinery.manifest import ObjectRef
from purekube.controller.queue.read_your_writes import ObjectVersion
from purekube.controller.queue.workqueue import Priority

K = TypeVar("K", bound=Hashable)


class EventOrigin(Enum):
    """The writer of the change that a watch event shows, from the view of one key."""

    FOREIGN = "somebody else's: look at the key"
    OWN = "that of the key's last pass: it knows the answer already"
    DEFERRED = "the key is being processed: decided when the pass ends"


@attrs.frozen
class ObjectEvent:
    """One change for one key: an object's version (None for a deletion), its priority, and the longest delay."""

    ref: ObjectRef
    version: str | None
    priority: Priority = Priority.LIVE
    after: float = 0.0


class OwnWrites(Generic[K]):
    """The writes of each key's last pass, and the events that came while a key is being processed."""

    def __init__(self) -> None:
        self._own: dict[K, set[tuple[ObjectRef, str | None]]] = {}
        self._deferred: dict[K, list[ObjectEvent]] = {}

    def __len__(self) -> int:
        """Return the number of remembered keys."""
        return len(self._own.keys() | self._deferred.keys())

    def begin(self, key: K) -> None:
        """Record that a pass begins, on caches that have seen every write of the one before."""
        self._own.pop(key, None)
        self._deferred[key] = []

    def record(self, key: K, written: ObjectVersion) -> None:
        """Record a write that the pass over the key made."""
        if key in self._deferred:
            self._own.setdefault(key, set()).add(written)

    def origin_of(self, key: K, event: ObjectEvent) -> EventOrigin:
        """Return the writer of the change in an event; the event is kept while the key is being processed."""
        if (deferred := self._deferred.get(key)) is not None:
            deferred.append(event)
            return EventOrigin.DEFERRED
        return EventOrigin.OWN if self._is_own(key, event) else EventOrigin.FOREIGN

    def end(self, key: K, *, at_fixed_point: bool) -> tuple[ObjectEvent, ...]:
        """End the pass; return the events during it that wake the key: all if the pass left something to do."""
        deferred = self._deferred.pop(key)
        if not at_fixed_point:
            self._own.pop(key, None)
        return tuple(event for event in deferred if not self._is_own(key, event))

    def _is_own(self, key: K, event: ObjectEvent) -> bool:
        own, written = self._own.get(key), (event.ref, event.version)
        if own is None or written not in own:
            return False
        own.remove(written)
        if not own:
            del self._own[key]
        return True
