"""The state of the connection to the control plane, which all queues of messages to it share (PULL-5).

The control plane is the server that offers jobs to the operator. The state includes the settings, and the switch that
holds a queue of messages during an outage.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

import attrs
import structlog

from purekube.apimachinery.errors import Forbidden, Invalid, JobClosed, NotFound, OperatorError, Unavailable
from purekube.apimachinery.secret_material import redact
from purekube.apimachinery.timestamps import Instant
from purekube.ports import Clock
from vworkspace_core.control_plane.connection import ConnectionState, Connectivity
from vworkspace_core.control_plane.outbox import CAPACITY
from vworkspace_core.jobs.payload_security import Signatures


@attrs.frozen
class AgentSettings:
    """The settings of a job agent. `parallel` limits its concurrent requests to the Kubernetes API.

    A job agent pulls jobs from the control plane (a server) and reports on them. After an outage the queues of messages
    are released in order: snapshot (the state of all objects) and job statuses, job results, events. A queue is
    released when the queue before it is empty or fails, but at most `head_start_seconds` after that queue (PULL-5).
    `most_events` limits the events that wait; a snapshot replaces those that were dropped.
    `signatures` determines which jobs must be signed; the Cluster object can require further signatures.
    """

    wait_seconds: int = 30
    grace: timedelta = timedelta(minutes=5)
    heartbeat_seconds: float = 60.0
    batch_seconds: float = 1.0
    idle_seconds: float = 1.0
    head_start_seconds: float = 5.0
    parallel: int = 8
    most_events: int = CAPACITY
    signatures: Signatures = Signatures.AUTO


class OutageHold:
    """A switch that permits or stops the sending of one queue of messages to the control plane.

    Normally the queue sends without limit. In an outage the queue is held: each attempt to send needs a permission
    (`allow_one`). If the control plane answers an attempt, the next attempt is permitted, because other requests may
    succeed while polls fail. `wake` is called when the queue may send again.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._one_allowed = False
        self.is_held = True

    @property
    def is_open(self) -> bool:
        """Report whether a message of the queue may be sent now: it is not held, or one attempt is permitted."""
        return not self.is_held or self._one_allowed

    def hold(self) -> None:
        """Hold the queue of messages: from now on each attempt to send needs a permission by `allow_one`."""
        self.is_held, self._one_allowed = True, False

    def release(self) -> None:
        """End the hold of the queue, so that its messages are sent without limit, and call `wake`."""
        self.is_held = False
        self._wake()

    def allow_one(self) -> None:
        """Permit one attempt to send a message although the queue is held."""
        self._one_allowed = True
        self._wake()

    def began(self) -> None:
        """Record that an attempt to send has begun.

        While the queue is held, the next attempt needs a new permission.
        """
        self._one_allowed = False

    def succeeded(self) -> None:
        """Record that the control plane answered an attempt. While the queue is held, this permits another attempt."""
        self._one_allowed = self.is_held


T = TypeVar("T")
log = structlog.get_logger("vworkspace.agent")


class Connection:
    """The connection to the control plane, and its state: unknown, connected, unreachable or rejected.

    Only polls change the state. `on_change` is called at each change of the state, `on_lost` when a poll fails after a
    success, and `on_sign_of_life` when another request succeeds while polls fail. `reread` reads the credential again
    and returns whether it changed. It is called after a rejection, but only once until the control plane answers a
    request.
    """

    def __init__(
        self,
        clock: Clock,
        reread: Callable[[], Awaitable[bool]] | None = None,
        *,
        on_change: Callable[[], None] = lambda: None,
        on_lost: Callable[[], None] = lambda: None,
        on_sign_of_life: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock = clock
        self._reread = reread
        self._reread_done = False
        self.state = ConnectionState()
        self._on_change = on_change
        self._on_lost = on_lost
        self._on_sign_of_life = on_sign_of_life

    @property
    def is_up(self) -> bool:
        """Report whether the last poll of the control plane succeeded."""
        return self.state.connectivity is Connectivity.CONNECTED

    async def poll(self, request: Callable[[], Awaitable[T]]) -> T:
        """Call `request`, which polls the control plane, and return its answer.

        The outcome sets the state of the connection. Raises an OperatorError if the poll fails, and no other error.
        """
        try:
            answer = await self.call(request)
        except OperatorError as error:
            now = self._now()
            throttled = isinstance(error, Unavailable) and error.status == 429
            self._change_state(self.state.succeeded(now) if throttled else self.state.failed(error, now))
            raise
        self._change_state(self.state.succeeded(self._now()))
        return answer

    async def call(self, request: Callable[[], Awaitable[T]]) -> T:
        """Call `request`, which sends a request to the control plane, and return its answer.

        If the control plane rejects the credential, and a new one is found when it is read again, `request` is called
        once more. Raises OperatorErrors; any other exception of `request` is raised as Unavailable.
        """
        try:
            return await self._once(request)
        except Forbidden:
            if not await self._has_new_credential():
                raise
        return await self._once(request)

    async def _once(self, request: Callable[[], Awaitable[T]]) -> T:
        try:
            answer = await request()
        except (NotFound, Invalid, JobClosed):
            self._answered()
            raise
        except OperatorError:
            raise
        except Exception as error:
            # A defect of an adapter must not stop the loop; its traceback is logged.
            log.exception("the control plane adapter failed")
            raise Unavailable(f"unexpected {type(error).__name__}") from error
        self._answered()
        return answer

    def _answered(self) -> None:
        self._reread_done = False
        self.state = self.state.seen(self._now())
        if self.state.connectivity in (Connectivity.UNREACHABLE, Connectivity.REJECTED):
            self._on_sign_of_life()

    def _now(self) -> Instant:
        return Instant(self._clock.now(), self._clock.monotonic())

    async def _has_new_credential(self) -> bool:
        if self._reread is None or self._reread_done:
            return False
        self._reread_done = True
        try:
            return await self._reread()
        except Exception as error:
            # A Secret or file that cannot be read now is read at the next rejection; it must not end the loop.
            log.warning("the credential cannot be read again", error=str(redact(str(error))))
            return False

    def _change_state(self, state: ConnectionState) -> None:
        before, self.state = self.state, state
        if before.connectivity is state.connectivity:
            return
        if before.connectivity is Connectivity.CONNECTED:
            self._on_lost()
        match state.connectivity:
            case Connectivity.CONNECTED:
                log.info("connected to the control plane", away_seconds=_seconds_of(before, self._now()))
            case Connectivity.UNREACHABLE:
                log.warning("the control plane is unreachable; trying again with backoff", error=state.error)
            case Connectivity.REJECTED:
                log.error("the control plane rejects the credential; trying again slowly", error=state.error)
            case Connectivity.UNKNOWN:
                pass
        self._on_change()


def _seconds_of(state: ConnectionState, now: Instant) -> int:
    """Return for how many seconds the connection has been in `state`, or 0 before the first answer."""
    return 0 if state.since is None else round(now.since(state.since))
