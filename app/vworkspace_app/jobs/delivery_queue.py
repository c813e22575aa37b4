"""The queues of messages about jobs to the control plane: acks, statuses and results (PULL-3, PULL-5).

The control plane is the server that offers jobs to the operator. A message is repeated until it is answered, and a
failed message does not block the others.
"""

from collections.abc import Awaitable, Callable, Iterator

import anyio
import attrs
import structlog

from purekube.apimachinery.errors import (
    Forbidden,
    Invalid,
    JobClosed,
    NotFound,
    OperatorError,
    Permanent,
    Unauthorized,
    Unavailable,
)
from purekube.ports import Clock
from vworkspace_app.control_plane.connection import Connection, OutageHold
from vworkspace_app.control_plane.event_sender import EventSender
from vworkspace_app.jobs.job_decision import JobDecision
from vworkspace_core.control_plane.connection import RetryPace
from vworkspace_core.control_plane.port import ControlPlane
from vworkspace_core.jobs import messages as m

log = structlog.get_logger("vworkspace.agent")


@attrs.frozen
class Delivery:
    """A request to the control plane that is repeated until it is answered, with its callbacks.

    `send` sends the request, and `key` identifies it in the queue. `final` lists the errors after which the request is
    not repeated. `answered` is called with None after success, or with such an error. After any other error, `lost` is
    called and the request is repeated. `dropped` is called if the delivery is dropped before it has succeeded.
    """

    key: str
    send: Callable[[], Awaitable[None]] = attrs.field(repr=False)
    answered: Callable[[OperatorError | None], None] = attrs.field(repr=False)
    lost: Callable[[OperatorError], None] = attrs.field(default=lambda _: None, repr=False)
    dropped: Callable[[], None] = attrs.field(default=lambda: None, repr=False)
    final: tuple[type[OperatorError], ...] = attrs.field(kw_only=True)
    decision: JobDecision | None = attrs.field(default=None, kw_only=True)
    """The decision that the request follows, for observers."""


@attrs.define
class _Waiting:
    delivery: Delivery
    pace: RetryPace = attrs.field(factory=RetryPace)
    not_before: float = 0.0


class DeliveryQueue:
    """A queue of requests to the control plane about jobs. At most `width` are sent at a time, or one after a failure.

    At first the queue is held: nothing is sent before the control plane has answered a poll.
    """

    def __init__(
        self, name: str, connection: Connection, clock: Clock, random: Callable[[], float], *, width: int
    ) -> None:
        self._name = name
        self._connection = connection
        self._clock = clock
        self._random = random
        self._width = width
        self._waiting: dict[str, _Waiting] = {}
        self._in_flight: set[str] = set()
        self._dropped: set[str] = set()
        self._pace = RetryPace()
        self._not_before = 0.0
        self._is_failing = False
        self._changed = anyio.Event()
        self._ended = anyio.Event()
        self.outage_hold = OutageHold(self._wake)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._in_flight)

    def put(self, delivery: Delivery) -> None:
        """Queue a delivery. It replaces a waiting delivery with the same key, such as an older status of a job."""
        present = self._waiting.get(delivery.key)
        if present is None:
            self._waiting[delivery.key] = _Waiting(delivery)
        else:
            present.delivery = delivery
        self._wake()

    def drop(self, key: str) -> None:
        """Remove the delivery with this `key` from the queue. If it is being sent now, it is not repeated."""
        waiting = self._waiting.pop(key, None)
        if key in self._in_flight:
            self._dropped.add(key)
        if waiting is not None:
            waiting.delivery.dropped()
        self._signal_end()

    def retry_now(self) -> None:
        """Retry failed deliveries immediately, because the credential changed or the control plane answers again."""
        self._pace, self._not_before = RetryPace(), 0.0
        for waiting in self._waiting.values():
            waiting.not_before = 0.0
        self._wake()

    def release(self) -> None:
        """End the hold, during which nothing is sent because polls fail, and deliver everything that waits."""
        self.retry_now()
        self.outage_hold.release()

    def try_one(self) -> bool:
        """Permit one delivery although the queue is held, and return True. Return False if no delivery is due."""
        if not self._due():
            return False
        self.outage_hold.allow_one()
        return True

    async def drain(self) -> None:
        """Wait until every request in the queue is answered, or until one fails.

        Requests that were refused before, and wait for their retry, are not waited for.
        """
        while (self._in_flight or any(self._all_due())) and self._pace.failures == 0:
            await self._ended.wait()

    async def run(self) -> None:
        """Deliver the queued requests until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                chosen = self._pick()
                if chosen is None:
                    await self._pause()
                else:
                    self._in_flight.add(chosen.delivery.key)
                    self.outage_hold.began()
                    tasks.start_soon(self._deliver, self._waiting.pop(chosen.delivery.key))

    def _pick(self) -> _Waiting | None:
        width = self._width if self._pace.failures == 0 and not self.outage_hold.is_held else 1
        return self._due() if self.outage_hold.is_open and len(self._in_flight) < width else None

    def _due(self) -> _Waiting | None:
        if self._clock.monotonic() < self._not_before:
            return None
        return next(self._all_due(), None)

    def _all_due(self) -> Iterator[_Waiting]:
        now = self._clock.monotonic()
        waiting = (entry for key, entry in self._waiting.items() if key not in self._in_flight)
        return (entry for entry in waiting if entry.not_before <= now)

    async def _pause(self) -> None:
        self._changed = anyio.Event()
        times = [waiting.not_before for key, waiting in self._waiting.items() if key not in self._in_flight]
        if not times or not self.outage_hold.is_open:
            await self._changed.wait()
            return
        seconds = max(self._not_before, min(times)) - self._clock.monotonic()
        # If `width` deliveries run, the next can begin only when one of them ends, whatever the time.
        with anyio.move_on_after(seconds if seconds > 0 else None):
            await self._changed.wait()

    async def _deliver(self, waiting: _Waiting) -> None:
        delivery = waiting.delivery
        if delivery.decision is not None:
            delivery.decision.enter()
        try:
            await self._connection.call(delivery.send)
        except OperatorError as error:
            # While the poll fails as well, a refusal is about the whole API and not about this job.
            about_all = self.outage_hold.is_held and isinstance(error, NotFound | Permanent | Invalid)
            if isinstance(error, delivery.final) and not about_all:
                self._succeeded()
                delivery.answered(error)
            else:
                self._failed(waiting, error)
                delivery.lost(error)
        else:
            self._succeeded()
            delivery.answered(None)
        finally:
            self._in_flight.discard(delivery.key)
            self._dropped.discard(delivery.key)
            self._signal_end()
            self._wake()

    def _succeeded(self) -> None:
        if self._is_failing:
            self._is_failing = False
            log.info("deliveries to the control plane work again", lane=self._name)
        self._pace, self._not_before = self._pace.succeeded(), 0.0
        self.outage_hold.succeeded()

    def _failed(self, waiting: _Waiting, error: OperatorError) -> None:
        now = self._clock.monotonic()
        waiting.pace, own = waiting.pace.failed(error, self._random())
        waiting.not_before = now + own
        if waiting.delivery.key in self._dropped:
            waiting.delivery.dropped()
        else:
            # Unless a newer delivery of the key has come meanwhile, which replaces this one.
            self._waiting.setdefault(waiting.delivery.key, waiting)
        if self.outage_hold.is_held:
            # The poll, which fails too, sets the pace, unless the server named a time.
            waiting.not_before = now + _asked_wait(error)
        if self._is_about_one(error):
            fields = {"error": error.message, "request_id": error.request_id}
            log.error("a delivery was refused; trying it again slowly", key=waiting.delivery.key, **fields)
            self._not_before = now + 1.0
            return
        if not self._is_failing:
            self._is_failing = True
            log.warning("deliveries to the control plane fail; they wait", lane=self._name, error=error.message)
        self._pace, delay = self._pace.failed(error, self._random())
        self._not_before = now + (_asked_wait(error) if self.outage_hold.is_held else delay)

    def _is_about_one(self, error: OperatorError) -> bool:
        """Report whether the server refused one request, so that the others need not wait.

        A 403 is about the job if polls are answered with the same credential, and about the credential otherwise.
        """
        if isinstance(error, Forbidden):
            return not (self.outage_hold.is_held or isinstance(error, Unauthorized))
        return isinstance(error, Permanent | NotFound | Invalid)

    def _wake(self) -> None:
        self._changed.set()

    def _signal_end(self) -> None:
        self._ended.set()
        self._ended = anyio.Event()


def _asked_wait(error: OperatorError) -> float:
    """Return for how many seconds the server asked to wait before the next request, or 0."""
    return (error.retry_after or 0.0) if isinstance(error, Unavailable) else 0.0


def ack(control: ControlPlane, job_id: str, feed: Callable[[m.JobEvent], None]) -> Delivery:
    """Return the delivery that acknowledges a job.

    `feed` is called with an event for the outcome: the job is acked, it is already closed, the server does not know it,
    or there was no answer and the ack may have arrived.
    """

    def answered(error: OperatorError | None) -> None:
        match error:
            case JobClosed():
                feed(m.JobAlreadyClosed(job_id))
            case NotFound():
                feed(m.JobGone(job_id))
            case _:
                feed(m.Acked(job_id))

    def lost(error: OperatorError) -> None:
        if isinstance(error, Unavailable) and error.may_have_happened:
            feed(m.AckLost(job_id))

    return Delivery(f"ack/{job_id}", lambda: control.ack(job_id), answered, lost, final=(NotFound, JobClosed))


def result(control: ControlPlane, effect: m.PostResult, accepted: Callable[[], None]) -> Delivery:
    """Return the delivery of a job's result, which `effect` has.

    It is repeated even after a refusal, because no other copy of the result exists (PULL-4). `accepted` is called at
    the end, when the control plane has accepted the result or does not know the job.
    """
    job_id, body = effect.job_id, effect.body

    def answered(error: OperatorError | None) -> None:
        if error is not None:
            log.warning("the control plane has no use for a result any more", job_id=job_id, error=error.message)
        accepted()

    return Delivery(f"result/{job_id}", lambda: control.result(job_id, body), answered, final=(NotFound,))


def status(control: ControlPlane, effect: m.PostStatus, untold: Callable[[], None]) -> Delivery:
    """Return the delivery of a job's status. While it waits in the queue, a newer status of the job replaces it.

    It is not repeated after a refusal: the job may have ended meanwhile, and a retry would get the same answer.
    `untold` is called if the control plane did not take the status, and will not get it any more.
    """
    job_id, body = effect.job_id, effect.body

    def answered(error: OperatorError | None) -> None:
        if error is not None:
            log.debug("a status came too late or was refused", job_id=job_id, error=error.message)
            untold()

    final = (NotFound, Invalid, JobClosed, Permanent)
    return Delivery(status_key(job_id), lambda: control.status(job_id, body), answered, dropped=untold, final=final)


def status_key(job_id: str) -> str:
    """Return the key that all statuses of a job share in the delivery queue, so that a newer replaces an older one."""
    return f"status/{job_id}"


class Reconnect:
    """The coordinator of an outage: it holds all queues while polls fail, and releases them in order afterwards.

    The order is that of PULL-5: snapshot and statuses, then acks and results (`urgent`), then events. A queue is
    released when the queue before it is empty or has failed, but not later than `head_start` seconds after that queue.
    Thus a status that the server cannot process does not delay results.
    """

    def __init__(self, statuses: DeliveryQueue, urgent: DeliveryQueue, events: EventSender, head_start: float) -> None:
        self._statuses = statuses
        self._urgent = urgent
        self._events = events
        self._head_start = head_start
        self._rounds = 0

    def hold(self) -> None:
        """Hold all queues: they send nothing, because polls fail.

        After each further failed poll, `try_one` permits a few messages.
        """
        for queue in (self._statuses, self._urgent, self._events):
            queue.outage_hold.hold()

    def try_one(self) -> None:
        """Permit two messages after another failed poll, because other requests may succeed although polls fail.

        The first is an ack or result, the second a status or a batch of events. Statuses and events take precedence in
        turn.
        """
        self._rounds += 1
        self._urgent.try_one()
        others = (self._statuses, self._events) if self._rounds % 2 else (self._events, self._statuses)
        any(queue.try_one() for queue in others)

    async def catch_up(self) -> None:
        """Release the queues one after the other, because a poll has succeeded. Afterwards no queue is held."""
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
