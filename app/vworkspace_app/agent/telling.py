"""The events lane: what belongs to no open job, batched, in order, bounded (PULL-5, PULL-6)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import anyio
import structlog

from vworkspace_app.agent.connection import Connection
from vworkspace_app.agent.settings import AgentSettings
from vworkspace_core.agent.conditions import Told, condition_events, heartbeat, told_by
from vworkspace_core.agent.outbox import BATCH, Outbox
from vworkspace_core.agent.pace import Pace
from vworkspace_core.errors import Invalid, OperatorError
from vworkspace_core.manifest import Manifest, ObjectRef, metadata
from vworkspace_core.ports import Clock, ControlPlane

__all__ = ["Telling"]

log = structlog.get_logger("vworkspace.agent")


class Telling:
    """Owner of the outbox and of what was last told of each object.

    `objects` gives every owned object as it is now: the snapshot that makes up for events that were dropped.
    """

    def __init__(
        self,
        control: ControlPlane,
        connection: Connection,
        clock: Clock,
        random: Callable[[], float],
        settings: AgentSettings,
        objects: Callable[[], Iterable[Manifest]],
    ) -> None:
        self._control = control
        self._connection = connection
        self._clock = clock
        self._random = random
        self._settings = settings
        self._objects = objects
        self._told: dict[ObjectRef, tuple[str, Told]] = {}
        self._news = anyio.Event()
        self._hurry = anyio.Event()
        self._lost = 0
        self.outbox = Outbox()

    def saw(self, ref: ObjectRef, live: Manifest | None, *, belongs_to_job: bool) -> None:
        """An object changed: tell its transitions, unless an open job's status posts do."""
        if live is None:
            self._told.pop(ref, None)
            return
        uid = str(metadata(live).get("uid", ""))
        known = self._told.get(ref)
        before = known[1] if known is not None and known[0] == uid else None
        self._told[ref] = (uid, told_by(live))
        if not belongs_to_job:
            self.put(condition_events(before, live, self._clock.now()))

    def put(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Queue events."""
        batch = tuple(events)
        if not batch:
            return
        before = self.outbox.dropped
        self.outbox = self.outbox.put(batch)
        if self.outbox.dropped and not before:
            log.error("the event buffer is full: the oldest events are dropped", capacity=self.outbox.capacity)
        self._news.set()

    def hurry(self) -> None:
        """Try at once: the credential changed, or the control plane is back."""
        self._hurry.set()

    async def run(self) -> None:
        """Send batches until cancelled."""
        pace = Pace()
        while True:
            await self._gather()
            batch = self.outbox.batch()
            try:
                await self._connection.call(lambda batch=batch: self._control.events(batch))  # type: ignore[misc]
            except Invalid as error:
                self._refused(batch, error)
            except OperatorError as error:
                pace, delay = pace.failed(error, self._random())
                await self._wait(delay)
            else:
                pace = pace.succeeded()
                self._sent(batch)

    async def beat(self, cluster_id: str) -> None:
        """Queue a heartbeat every minute until cancelled."""
        while True:
            self.put([heartbeat(cluster_id, self._clock.now())])
            await self._clock.sleep(self._settings.heartbeat_seconds)

    async def _gather(self) -> None:
        """Wait for something to send, then a moment for more of it."""
        while not self.outbox.events:
            self._news = anyio.Event()
            await self._news.wait()
        until = self._clock.monotonic() + self._settings.batch_seconds
        while len(self.outbox.events) < BATCH and (left := until - self._clock.monotonic()) > 0:
            self._news = anyio.Event()
            with anyio.move_on_after(left):
                await self._news.wait()

    async def _wait(self, seconds: float) -> None:
        self._hurry = anyio.Event()
        with anyio.move_on_after(seconds):
            await self._hurry.wait()

    def _sent(self, batch: tuple[Mapping[str, Any], ...]) -> None:
        lost, self.outbox = self.outbox.dropped, self.outbox.sent(batch)
        if lost and not self.outbox.dropped:
            log.warning("the event buffer is drained; a snapshot makes up for what was dropped", dropped=lost)
            self._snapshot()

    def _snapshot(self) -> None:
        now = self._clock.now()
        for live in self._objects():
            self.put(condition_events({}, live, now))

    def _refused(self, batch: tuple[Mapping[str, Any], ...], error: Invalid) -> None:
        self.outbox, bad = self.outbox.refused(batch)
        if bad is not None:
            log.error("an event was refused and is dropped", event_key=bad.get("eventKey"), error=error.message)
