"""The bounded queue of events for the control plane, which are sent in batches and in order (PULL-5, PULL-6).

An event is a report of a change, such as a condition that became True. A malformed event does not block the other
events.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery.conditions import DesiredCondition
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.meta import ConditionStatus
from vworkspace_core.api.reasons import ClusterConditionType, ClusterReason

_VERSIONED: Final = re.compile(r"\A(?P<object>[^@]+)@(?P<generation>[1-9][0-9]{0,17})")


def object_key(ref: ObjectRef) -> str:
    """Return `<kind>/<namespace>/<name>`, which is the part before the generation in the idempotency key of a job."""
    return f"{ref.kind.kind}/{ref.namespace or ''}/{ref.name}"


def generation_in(key: str, ref: ObjectRef) -> int | None:
    """Return the generation in the idempotency key `key` of a control plane's job for the object `ref`.

    Return None if the key has a hash instead of a generation, or is about another object.
    """
    match = _VERSIONED.fullmatch(key)
    if match is None or match["object"].lower() != object_key(ref).lower():
        return None
    return int(match["generation"])


Event = Mapping[str, Any]

CAPACITY: Final = 1000
BATCH: Final = 100


@attrs.frozen
class Outbox:
    """A buffer of events (reports of changes) for the control plane, oldest first.

    Events that are lost when the buffer is full are replaced by a snapshot: events with the present conditions.
    `dropped` counts events lost since the buffer was last empty; `made_up` is how many of them a snapshot replaces.
    `ahead` is the part of the snapshot to send next, before the events; it does not count against `capacity`. `goes_on`
    says that the snapshot has further parts. `suspect` is the size of the last refused batch: at least one of that many
    next events is malformed.
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
        """True if events were dropped and no snapshot (events with the present conditions) has replaced them yet."""
        return self.dropped > self.made_up

    def put(self, events: Sequence[Event]) -> "Outbox":
        """Return the outbox with `events` added. The oldest events are dropped if there is no room.

        A heartbeat, the event that is sent every minute, replaces the heartbeat that still waits in the outbox.
        """
        fresh = [event for event in events if event.get("kind") == "ClusterHeartbeat"]
        older_events = [old for old in self.events if not fresh or old.get("kind") != "ClusterHeartbeat"]
        queued = (*older_events, *events)
        over = max(0, len(queued) - self.capacity)
        return attrs.evolve(self, events=queued[over:], dropped=self.dropped + over)

    def with_snapshot(self, events: Iterable[Event], *, goes_on: bool = False) -> "Outbox":
        """Return the outbox with a snapshot, which is sent before other events and replaces all events dropped so far.

        A snapshot consists of events that report the present conditions of all objects. `events` is the whole snapshot;
        if `goes_on` is true, it is only the first part, and `continued` adds further parts.
        """
        return attrs.evolve(self, ahead=tuple(events), made_up=self.dropped, suspect=0, goes_on=goes_on)._drained()

    def continued(self, events: Iterable[Event], *, goes_on: bool) -> "Outbox":
        """Return the outbox with `events` added as the next part of the snapshot that `with_snapshot` began.

        A snapshot consists of events that report the present conditions of all objects. It replaces events that were
        dropped. `goes_on` is true if further parts follow, and false if this is the last part.
        """
        return attrs.evolve(self, ahead=(*self.ahead, *events), goes_on=goes_on)._drained()

    def batch(self) -> tuple[Event, ...]:
        """Return the next events to send, at most one batch.

        The result is empty if no event waits. After a refused batch, the next events are half of that batch, to find
        the malformed event.
        """
        return (self.ahead or self.events)[: (self.suspect + 1) // 2 or BATCH]

    def sent(self, batch: Sequence[Event]) -> "Outbox":
        """Return the outbox without the events in `batch`, which the control plane has accepted.

        Events of the batch that are no longer in the outbox, because newer events displaced them meanwhile, are
        ignored.
        """
        return attrs.evolve(self._without(batch), suspect=max(0, self.suspect - len(batch)))._drained()

    def refused(self, batch: Sequence[Event]) -> tuple["Outbox", Event | None]:
        """Return a pair: the outbox after `batch` was refused as malformed, and the malformed event.

        If the batch has several events, none is removed, and the second item is None: half of the batch is sent next.
        If it has a single event, that event is the malformed one and is dropped.
        """
        if len(batch) > 1:
            return attrs.evolve(self, suspect=len(batch)), None
        return attrs.evolve(self._without(batch), suspect=0)._drained(), (batch[0] if batch else None)

    def condition(self) -> DesiredCondition:
        """Return the condition BufferOverflow for the Cluster's status.

        It is True if events were dropped since the buffer was last empty; the message says how many.
        """
        if not self.dropped:
            return DesiredCondition(
                ClusterConditionType.BUFFER_OVERFLOW, ConditionStatus.FALSE, ClusterReason.BUFFER_DRAINED
            )
        message = f"{self.dropped} events were dropped, oldest first; {len(self.events)} wait"
        return DesiredCondition(
            ClusterConditionType.BUFFER_OVERFLOW, ConditionStatus.TRUE, ClusterReason.EVENT_BUFFER_FULL, message
        )

    def _drained(self) -> "Outbox":
        """Return the outbox with `dropped` reset to 0, if it is empty and a snapshot has replaced what was dropped."""
        return self if self or self.goes_on or self.owes_snapshot else attrs.evolve(self, dropped=0, made_up=0)

    def _without(self, batch: Sequence[Event]) -> "Outbox":
        gone = {id(event) for event in batch}
        ahead, events = ([event for event in queue if id(event) not in gone] for queue in (self.ahead, self.events))
        return attrs.evolve(self, ahead=tuple(ahead), events=tuple(events))
