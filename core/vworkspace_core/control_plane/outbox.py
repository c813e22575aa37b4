"""Events on their way out: bounded, in order, batched, and never blocked by one bad event (PULL-5, PULL-6)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from vworkspace_core.api.reasons import ClusterConditionType, ClusterReason
from vworkspace_core.apimachinery.conditions import Wanted
from vworkspace_core.apimachinery.meta import ConditionStatus

Event = Mapping[str, Any]

CAPACITY: Final = 1000
BATCH: Final = 100


@attrs.frozen
class Outbox:
    """Events that wait, oldest first. `dropped` counts those lost to a full buffer since it was last drained.

    `ahead` is the next part of a snapshot that makes up for what was dropped: it goes before the events and does not
    count against `capacity`. It `goes_on` where there is more of it than is here: whole it would be as large as what is
    owned. `made_up` is how many of `dropped` a snapshot stands for, and
    `suspect` how many of the next to be sent were last refused together: one of them at least is bad.
    """

    events: tuple[Event, ...] = ()
    dropped: int = 0
    suspect: int = 0
    capacity: int = CAPACITY
    ahead: tuple[Event, ...] = ()
    made_up: int = 0
    goes_on: bool = False

    def __len__(self) -> int:
        return len(self.ahead) + len(self.events)

    @property
    def owes_snapshot(self) -> bool:
        """Whether something was dropped that no snapshot makes up for yet."""
        return self.dropped > self.made_up

    def put(self, events: Sequence[Event]) -> "Outbox":
        """Take events; the oldest make room when there is none. A heartbeat replaces the one before it."""
        fresh = [event for event in events if event.get("kind") == "ClusterHeartbeat"]
        older_events = [old for old in self.events if not fresh or old.get("kind") != "ClusterHeartbeat"]
        queued = (*older_events, *events)
        over = max(0, len(queued) - self.capacity)
        return attrs.evolve(self, events=queued[over:], dropped=self.dropped + over)

    def with_snapshot(self, events: Iterable[Event], *, goes_on: bool = False) -> "Outbox":
        """Send the conditions as they are now first; they stand for everything dropped so far."""
        return attrs.evolve(self, ahead=tuple(events), made_up=self.dropped, suspect=0, goes_on=goes_on)._drained()

    def continued(self, events: Iterable[Event], *, goes_on: bool) -> "Outbox":
        """With the next part of the snapshot. Of one that goes on there is always some here."""
        return attrs.evolve(self, ahead=(*self.ahead, *events), goes_on=goes_on)._drained()

    def batch(self) -> tuple[Event, ...]:
        """What to send next, half of what is suspect; empty when there is nothing, which is never sent."""
        return (self.ahead or self.events)[: (self.suspect + 1) // 2 or BATCH]

    def sent(self, batch: Sequence[Event]) -> "Outbox":
        """After `batch` was accepted; its events may have been pushed out by newer ones meanwhile."""
        return attrs.evolve(self._without(batch), suspect=max(0, self.suspect - len(batch)))._drained()

    def refused(self, batch: Sequence[Event]) -> tuple["Outbox", Event | None]:
        """After `batch` was refused as malformed: half of it next, or the one bad event found and dropped."""
        if len(batch) > 1:
            return attrs.evolve(self, suspect=len(batch)), None
        return attrs.evolve(self._without(batch), suspect=0)._drained(), (batch[0] if batch else None)

    def condition(self) -> Wanted:
        """BufferOverflow, as the Cluster's status has it."""
        if not self.dropped:
            return Wanted(ClusterConditionType.BUFFER_OVERFLOW, ConditionStatus.FALSE, ClusterReason.BUFFER_DRAINED)
        message = f"{self.dropped} events were dropped, oldest first; {len(self.events)} wait"
        return Wanted(
            ClusterConditionType.BUFFER_OVERFLOW, ConditionStatus.TRUE, ClusterReason.EVENT_BUFFER_FULL, message
        )

    def _drained(self) -> "Outbox":
        """The count starts anew once nothing waits and everything dropped was made up for."""
        return self if self or self.goes_on or self.owes_snapshot else attrs.evolve(self, dropped=0, made_up=0)

    def _without(self, batch: Sequence[Event]) -> "Outbox":
        gone = {id(event) for event in batch}
        ahead, events = ([event for event in queue if id(event) not in gone] for queue in (self.ahead, self.events))
        return attrs.evolve(self, ahead=tuple(ahead), events=tuple(events))
