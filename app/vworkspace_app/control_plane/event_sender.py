"""The sender of events to the control plane that belong to no open job (PULL-5, PULL-6).

The control plane is the server that offers jobs to the operator. An event reports, for example, that a
condition of an object changed. The events wait in a bounded queue, and are sent in order and in batches.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any

import anyio
import attrs
import structlog

from purekube.apimachinery.errors import Invalid, OperatorError
from purekube.apimachinery.manifest import Manifest, ObjectRef, metadata
from purekube.ports import Clock
from vworkspace_app.control_plane.connection import AgentSettings, Connection, OutageHold
from vworkspace_core.control_plane.connection import RetryPace
from vworkspace_core.control_plane.outbox import BATCH, Outbox
from vworkspace_core.control_plane.port import ControlPlane
from vworkspace_core.jobs.events import (
    ReportedConditions,
    condition_events,
    credential_rotated,
    heartbeat,
    phase_events,
    phase_in,
    reported_conditions,
    unreported_since,
)

log = structlog.get_logger("vworkspace.agent")


@attrs.frozen
class _Reported:
    """The conditions and the phase of an object that were queued for the control plane last.

    Both are None for an object that is new.
    """

    uid: str
    conditions: ReportedConditions | None
    phase: str | None


_NEVER_REPORTED = _Reported("", None, None)


class EventSender:
    """The sender of events to the control plane, with a bounded queue (`outbox`) and the last reported state of each
    object.

    An event reports a change of an object's conditions or phase, a heartbeat or a new credential. If events had to be
    dropped, a snapshot replaces them: the state of every object that `objects` yields. `find` returns one of these, or
    None. `cluster` returns the Cluster object that reports on this operator, or None if there is none. Nothing is sent
    before a poll has succeeded.
    `on_overflow` is called when the sender begins to drop events, and when it stops dropping them.
    """

    def __init__(
        self,
        control: ControlPlane,
        connection: Connection,
        clock: Clock,
        random: Callable[[], float],
        settings: AgentSettings,
        objects: Callable[[], Iterable[Manifest]],
        find: Callable[[ObjectRef], Manifest | None],
        cluster: Callable[[], Manifest | None] = lambda: None,
        on_overflow: Callable[[], None] = lambda: None,
    ) -> None:
        self._control = control
        self._connection = connection
        self._clock = clock
        self._random = random
        self._settings = settings
        self._objects = objects
        self._find = find
        self._cluster = cluster
        self._reported: dict[ObjectRef, _Reported] = {}
        self._changed = anyio.Event()
        self._retry_now = anyio.Event()
        self._ended = anyio.Event()
        self._pace = RetryPace()
        self._not_before = 0.0
        self._first_waits_since = 0.0
        self._rest: Iterator[Mapping[str, Any]] = iter(())
        self._snapshot_only = False
        self._has_sent_snapshot = False
        self._unreported_since: datetime | None = None
        self.outage_hold = OutageHold(self._wake)
        self._on_overflow = on_overflow
        self.outbox = Outbox(capacity=settings.most_events)

    def object_changed(self, ref: ObjectRef, live: Manifest | None, *, belongs_to_job: bool) -> None:
        """Record the state of a changed object, and queue an event for each transition of its conditions and phase.

        No events are queued if an open job reports on the object (`belongs_to_job`). `live` is None for a deleted
        object.
        """
        if live is None:
            self._reported.pop(ref, None)
            return
        uid = str(metadata(live).get("uid", ""))
        known = self._reported.get(ref)
        before = known if known is not None and known.uid == uid else _NEVER_REPORTED
        self._reported[ref] = _Reported(uid, reported_conditions(live), phase_in(live))
        if not belongs_to_job:
            now = self._clock.now()
            self.put((*condition_events(before.conditions, live, now), *phase_events(before.phase, live, now)))

    def known(self, ref: ObjectRef, live: Manifest) -> None:
        """Record the state of an object that existed before this process started.

        No event is queued, since the first snapshot (events with the state of every object) reports the object.
        """
        self._reported[ref] = _Reported(str(metadata(live).get("uid", "")), reported_conditions(live), phase_in(live))

    def tell(self, ref: ObjectRef) -> None:
        """Queue an event for each present condition of the object, because a status with them was not delivered."""
        if (live := self._find(ref)) is not None:
            self.put(condition_events({}, live, self._clock.now()))

    def put(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Queue events. If the queue is full, the oldest events are dropped, and a snapshot replaces them later.

        A snapshot consists of events with the present state of every object.
        """
        batch = tuple(events)
        if not batch:
            return
        if not self.outbox:
            self._first_waits_since = self._clock.monotonic()
        before = self.outbox.dropped
        self.outbox = self.outbox.put(batch)
        if self.outbox.dropped and not before:
            log.error("the event buffer is full: the oldest events are dropped", capacity=self.outbox.capacity)
            self._on_overflow()
        self._wake()

    def credential_rotated(self, cluster_id: str, request: str) -> None:
        """Queue the event which reports that the cluster's credential was replaced by a new one (PULL-6).

        `request` is the id of the request for a new credential that this completed.
        """
        self.put([credential_rotated(cluster_id, self._cluster(), request, self._clock.now())])

    def retry_now(self) -> None:
        """Retry a failed batch of events now, because the credential changed or the control plane answers again."""
        self._pace, self._not_before = RetryPace(), 0.0
        self._retry_now.set()
        self._wake()

    def release_snapshot(self) -> None:
        """Permit the snapshot to be sent after an outage, but no other events yet.

        A snapshot consists of events with the present state of every object. There is one if events were dropped. At
        the first call there is one in any case, because an earlier process may have failed to send events (PULL-5).
        """
        self._snapshot_only = True
        if self.outbox.owes_snapshot or not self._has_sent_snapshot:
            self._snapshot()
        self._has_sent_snapshot = True
        self.retry_now()
        self.outage_hold.release()

    def release(self) -> None:
        """Permit all queued events to be sent after an outage, without waiting for a full batch."""
        self._snapshot_only = False
        self._first_waits_since = float("-inf")
        self.retry_now()
        self.outage_hold.release()

    def try_one(self) -> bool:
        """Permit one batch of events to be sent although the queue is held during an outage, and return True.

        Return False if no event waits, or if it is too early for the next retry.
        """
        if not self.outbox or self._clock.monotonic() < self._not_before:
            return False
        self.outage_hold.allow_one()
        return True

    async def drain(self) -> None:
        """Wait until all queued events are sent, or until a batch of them fails.

        If only the snapshot (the events with the state of every object) was released, wait for that alone.
        """
        while self._sendable() and self._pace.failures == 0:
            await self._ended.wait()

    async def run(self) -> None:
        """Send batches of events until cancelled."""
        self._unreported_since = unreported_since(self._cluster(), self._clock.now())
        while True:
            await self._gather()
            batch = self.outbox.batch()
            self.outage_hold.began()
            try:
                await self._connection.call(lambda batch=batch: self._control.events(batch))  # type: ignore[misc]
            except OperatorError as error:
                # While the poll fails as well, a refusal is about the whole API and not about an event.
                if isinstance(error, Invalid) and not self.outage_hold.is_held:
                    self._answered()
                    self._refused(batch, error)
                else:
                    await self._failed(error)
            else:
                self._answered()
                self._sent(batch)
            self._signal_end()

    async def send_heartbeats(self, cluster_id: str) -> None:
        """Queue a heartbeat every `heartbeat_seconds` (a setting of the agent) until cancelled.

        A heartbeat is an event with the conditions of this cluster's Cluster object.
        """
        while True:
            self.put([heartbeat(cluster_id, self._cluster(), self._clock.now())])
            await self._clock.sleep(self._settings.heartbeat_seconds)

    def _sendable(self) -> bool:
        return bool(self.outbox.ahead if self._snapshot_only else self.outbox)

    async def _gather(self) -> None:
        """Wait until the next batch may be sent: it is full, or its oldest event has waited `batch_seconds`."""
        while True:
            left = self._first_waits_since + self._settings.batch_seconds - self._clock.monotonic()
            may_send = self._sendable() and self.outage_hold.is_open
            if may_send and (len(self.outbox) >= BATCH or left <= 0):
                return
            with anyio.move_on_after(left if may_send else None):
                await self._wait_for_change()

    async def _wait_for_change(self) -> None:
        self._changed = anyio.Event()
        await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()

    def _signal_end(self) -> None:
        self._ended.set()
        self._ended = anyio.Event()

    def _answered(self) -> None:
        self._pace = self._pace.succeeded()
        self.outage_hold.succeeded()

    async def _failed(self, error: OperatorError) -> None:
        self._pace, delay = self._pace.failed(error, self._random())
        self._not_before = self._clock.monotonic() + delay
        self._signal_end()
        self._retry_now = anyio.Event()
        with anyio.move_on_after(delay):
            await self._retry_now.wait()

    def _sent(self, batch: tuple[Mapping[str, Any], ...]) -> None:
        lost, self.outbox = self.outbox.dropped, self.outbox.sent(batch)
        self._continue()
        if not self.outbox and self.outbox.owes_snapshot:
            self._snapshot()
        if lost and not self.outbox.dropped:
            log.warning("the event buffer is drained; a snapshot made up for what was dropped", dropped=lost)
            self._on_overflow()

    def _snapshot(self) -> None:
        """Begin a snapshot in the outbox, which replaces events that were dropped or not sent.

        It has all conditions of all owned objects, and transitions of Operations that may not have been reported.
        """
        self._rest = self._conditions_now()
        self.outbox = self.outbox.with_snapshot((), goes_on=True)
        self._continue()

    def _conditions_now(self) -> Iterator[Mapping[str, Any]]:
        """Yield the events of a snapshot one by one, since all together would need as much memory as the objects."""
        for live in self._objects():
            now = self._clock.now()
            yield from condition_events({}, live, now)
            yield from phase_events(None, live, now, self._unreported_since)

    def _continue(self) -> None:
        """Add the snapshot's next events to the outbox until they fill a batch."""
        desired = BATCH - len(self.outbox.ahead)
        if self.outbox.goes_on and desired > 0:
            part = tuple(islice(self._rest, desired))
            self.outbox = self.outbox.continued(part, goes_on=len(part) == desired)

    def _refused(self, batch: tuple[Mapping[str, Any], ...], error: Invalid) -> None:
        self.outbox, bad = self.outbox.refused(batch)
        self._continue()
        if bad is not None:
            fields = {"error": error.message, "request_id": error.request_id}
            log.error("an event was refused and is dropped", event_key=bad.get("eventKey"), **fields)
