"""Events on their way out: bounded, in order, batched, and never blocked by one bad event (PULL-5, PULL-6)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

__all__ = ["Outbox"]

Event = Mapping[str, Any]

CAPACITY: Final = 1000
BATCH: Final = 100


@attrs.frozen
class Outbox:
    """Events that wait, oldest first. `dropped` counts those lost to a full buffer since it was last drained.

    `narrowed` is how many to send at once while a batch that was refused is searched for its bad event.
    """

    events: tuple[Event, ...] = ()
    dropped: int = 0
    narrowed: int = BATCH
    capacity: int = CAPACITY

    def put(self, events: Sequence[Event]) -> "Outbox":
        """Take events; the oldest make room when there is none. A heartbeat replaces the one before it."""
        fresh = [event for event in events if event.get("kind") == "ClusterHeartbeat"]
        kept = [old for old in self.events if not fresh or old.get("kind") != "ClusterHeartbeat"]
        queued = (*kept, *events)
        over = max(0, len(queued) - self.capacity)
        return attrs.evolve(self, events=queued[over:], dropped=self.dropped + over)

    def batch(self) -> tuple[Event, ...]:
        """What to send next; empty when there is nothing, which is never sent."""
        return self.events[: self.narrowed]

    def sent(self, batch: Sequence[Event]) -> "Outbox":
        """After `batch` was accepted; its events may have been pushed out by newer ones meanwhile."""
        drained = self._without(batch)
        return attrs.evolve(drained, narrowed=BATCH, dropped=self.dropped if drained.events else 0)

    def refused(self, batch: Sequence[Event]) -> tuple["Outbox", Event | None]:
        """After `batch` was refused as malformed: half of it next, or the one bad event found and dropped."""
        if len(batch) > 1:
            return attrs.evolve(self, narrowed=(len(batch) + 1) // 2), None
        return attrs.evolve(self._without(batch), narrowed=BATCH), (batch[0] if batch else None)

    def _without(self, batch: Sequence[Event]) -> "Outbox":
        gone = {id(event) for event in batch}
        return attrs.evolve(self, events=tuple(event for event in self.events if id(event) not in gone))
