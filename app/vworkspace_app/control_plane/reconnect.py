"""The order in which what waited goes out once the control plane is back, and single tries until it is (PULL-5)."""

from collections.abc import Awaitable, Callable

import anyio

from vworkspace_app.control_plane.event_sender import EventSender
from vworkspace_app.jobs.delivery_queue import DeliveryQueue


class Reconnect:
    """Holds every lane while the poll fails, and lets them go in order when it works.

    The order is that of PULL-5: snapshot and statuses, then acks and results, then events. Each begins when the one
    before is done, has failed, or has had its head start of so many seconds: a status that the server chokes on
    must not keep a result waiting.
    """

    def __init__(self, statuses: DeliveryQueue, urgent: DeliveryQueue, telling: EventSender, head_start: float) -> None:
        self._statuses = statuses
        self._urgent = urgent
        self._telling = telling
        self._head_start = head_start
        self._rounds = 0

    def hold(self) -> None:
        """The poll fails: from now on one try a round."""
        for lane in (self._statuses, self._urgent, self._telling):
            lane.gate.hold()

    def try_one(self) -> None:
        """The poll failed once more: a delivery may find out whether that is the poll's own trouble.

        An ack or result each time, a status or a batch of events in turn.
        """
        self._rounds += 1
        self._urgent.try_one()
        others = (self._statuses, self._telling) if self._rounds % 2 else (self._telling, self._statuses)
        any(lane.try_one() for lane in others)

    async def catch_up(self) -> None:
        """The poll works: send what waited, in order; at the end every lane is free."""
        self._telling.release_snapshot()
        self._statuses.release()
        await self._give(self._telling.quiet)
        await self._give(self._statuses.quiet)
        self._urgent.release()
        await self._give(self._urgent.quiet)
        self._telling.release()
        await self._give(self._telling.quiet)

    async def _give(self, quiet: Callable[[], Awaitable[None]]) -> None:
        with anyio.move_on_after(self._head_start):
            await quiet()
