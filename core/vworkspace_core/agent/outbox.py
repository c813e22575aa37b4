"""Events on their way out: bounded, in order, batched, and never blocked by one bad event (PULL-5, PULL-6)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from vworkspace_core.kinds.meta import ConditionStatus
from vworkspace_core.kinds.reasons import ClusterConditionType, ClusterReason
from vworkspace_core.kinds.transitions import Wanted

__all__ = ["Outbox"]

Event = Mapping[str, Any]

CAPACITY: Final = 1000
BATCH: Final = 100


@attrs.frozen
class Outbox:
    """Events that wait, oldest first. `dropped` counts those lost to a full buffer since it was last drained.

    `suspect` is how many of the oldest were last refused together: one of them at least is bad.
    """

    events: tuple[Event, ...] = ()
    dropped: int = 0
    suspect: int = 0
    capacity: int = CAPACITY

    def put(self, events: Sequence[Event]) -> "Outbox":
        """Take events; the oldest make room when there is none. A heartbeat replaces the one before it."""
        fresh = [event for event in events if event.get("kind") == "ClusterHeartbeat"]
        kept = [old for old in self.events if not fresh or old.get("kind") != "ClusterHeartbeat"]
        queued = (*kept, *events)
        over = max(0, len(queued) - self.capacity)
        return attrs.evolve(self, events=queued[over:], dropped=self.dropped + over)

    def batch(self) -> tuple[Event, ...]:
        """What to send next, half of what is suspect; empty when there is nothing, which is never sent."""
        return self.events[: (self.suspect + 1) // 2 or BATCH]

    def sent(self, batch: Sequence[Event]) -> "Outbox":
        """After `batch` was accepted; its events may have been pushed out by newer ones meanwhile."""
        drained = self._without(batch)
        suspect = max(0, self.suspect - len(batch))
        return attrs.evolve(drained, suspect=suspect, dropped=self.dropped if drained.events else 0)

    def refused(self, batch: Sequence[Event]) -> tuple["Outbox", Event | None]:
        """After `batch` was refused as malformed: half of it next, or the one bad event found and dropped."""
        if len(batch) > 1:
            return attrs.evolve(self, suspect=len(batch)), None
        return attrs.evolve(self._without(batch), suspect=0), (batch[0] if batch else None)

    def condition(self) -> Wanted:
        """BufferOverflow, as the Cluster's status has it."""
        if not self.dropped:
            return Wanted(ClusterConditionType.BUFFER_OVERFLOW, ConditionStatus.FALSE, ClusterReason.BUFFER_DRAINED)
        message = f"{self.dropped} events were dropped"
        return Wanted(
            ClusterConditionType.BUFFER_OVERFLOW, ConditionStatus.TRUE, ClusterReason.EVENT_BUFFER_FULL, message
        )

    def _without(self, batch: Sequence[Event]) -> "Outbox":
        gone = {id(event) for event in batch}
        return attrs.evolve(self, events=tuple(event for event in self.events if id(event) not in gone))
