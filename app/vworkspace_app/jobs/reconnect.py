"""The order in which queues are released once the control plane is back, and single tries until then (PULL-5)."""

from collections.abc import Awaitable, Callable

import anyio

from vworkspace_app.control_plane.event_sender import EventSender
from vworkspace_app.jobs.delivery_queue import DeliveryQueue


class Reconnect:
    """Holds every queue while the poll fails, and releases them in order when it works.

    The order is that of PULL-5: snapshot and statuses, then acks and results, then events. Each begins when the one
    before is done, has failed, or has had its head start of so many seconds: a status that the server cannot process
    must not keep a result waiting.
    """

    def __init__(self, statuses: DeliveryQueue, urgent: DeliveryQueue, events: EventSender, head_start: float) -> None:
        self._statuses = statuses
        self._urgent = urgent
        self._events = events
        self._head_start = head_start
        self._rounds = 0

    def hold(self) -> None:
        """Hold the queues, since the poll fails: from now on one try per round."""
        for queue in (self._statuses, self._urgent, self._events):
            queue.outage_hold.hold()

    def try_one(self) -> None:
        """Try a delivery after another failed poll, to find out whether only the poll fails.

        An ack or result each time, a status or a batch of events in turn.
        """
        self._rounds += 1
        self._urgent.try_one()
        others = (self._statuses, self._events) if self._rounds % 2 else (self._events, self._statuses)
        any(queue.try_one() for queue in others)

    async def catch_up(self) -> None:
        """Send the waiting messages in order, since the poll works again; at the end every queue is free."""
        self._events.release_snapshot()
        self._statuses.release()
        await self._give_head_start(self._events.drain)
        await self._give_head_start(self._statuses.drain)
        self._urgent.release()
        await self._give_head_start(self._urgent.drain)
        self._events.release()
        await self._give_head_start(self._events.drain)

    async def _give_head_start(self, drain: Callable[[], Awaitable[None]]) -> None:
        with anyio.move_on_after(self._head_start):
            await drain()
