"""The long poll, which requests jobs (units of work) from the control plane repeatedly (PULL-1, PULL-7).

Its pace spares an overloaded server.
"""

from collections.abc import Callable, Iterable
from typing import Any

import anyio

from purekube.apimachinery.errors import OperatorError
from purekube.ports import Clock
from vworkspace_app.control_plane.connection import AgentSettings, Connection
from vworkspace_app.jobs.delivery_queue import Reconnect
from vworkspace_core.control_plane.connection import SOONEST, Connectivity, RetryPace
from vworkspace_core.control_plane.port import ControlPlane, Fetched
from vworkspace_core.jobs import messages as m


class LongPoll:
    """The loop that polls the control plane for jobs until it is stopped. A failed poll does not end the loop.

    `random` returns numbers in [0, 1) for jitter. `feed` gets the control plane's clock time in each answer, as a
    ServerTime event. `offered` gets the jobs of each answer, and returns True if one of them is new: then the next poll
    follows without a pause.
    """

    def __init__(
        self,
        control: ControlPlane,
        cluster_id: str,
        connection: Connection,
        reconnect: Reconnect,
        *,
        clock: Clock,
        random: Callable[[], float],
        settings: AgentSettings,
        feed: Callable[[m.JobEvent], None],
        offered: Callable[[Iterable[Any]], bool],
    ) -> None:
        self._control = control
        self._cluster_id = cluster_id
        self._connection = connection
        self._reconnect = reconnect
        self._clock = clock
        self._random = random
        self._settings = settings
        self._feed = feed
        self._offered = offered
        self._run_scope = anyio.CancelScope()
        self._poll_scope = anyio.CancelScope()
        self._wake_up = anyio.Event()

    def stop(self) -> None:
        """End the loop, and cancel the poll that is waiting."""
        self._run_scope.cancel()

    def retry_now(self) -> None:
        """Cancel the waiting poll and send another, because the credential or the server has changed."""
        self._poll_scope.cancel()
        self.wake()

    def wake(self) -> None:
        """End the pause after a failed poll, so that the next poll is sent immediately."""
        self._wake_up.set()

    async def run(self) -> None:
        """Poll repeatedly until `stop` is called."""
        with self._run_scope:
            pace = RetryPace()
            while True:
                pace = await self._round(pace)

    async def _round(self, pace: RetryPace) -> RetryPace:
        """Poll once, handle the answer, and wait until the next poll is due.

        Return the retry state for the next poll.
        """
        began, was_up = self._clock.monotonic(), self._connection.is_up
        # Until the first answer the poll does not wait for jobs: an answer proves at once that all is well.
        wait = self._settings.wait_seconds if was_up and not pace.failures else 0
        try:
            fetched = await self._fetch(wait)
        except OperatorError as error:
            pace, delay = pace.failed(error, self._random())
            await self._after_failure(was_up)
            await self._wait_out(delay)
            return pace
        if fetched is None:
            return pace
        if fetched.server_time is not None:
            self._feed(m.ServerTime(fetched.server_time))
        if not was_up:
            await self._reconnect.catch_up()
        if not self._offered(fetched.jobs):
            # Nothing new at once: a server that does not hold the poll, or jobs whose acks are in flight.
            await self._clock.sleep(max(0.0, self._settings.idle_seconds - (self._clock.monotonic() - began)))
        return pace.succeeded()

    async def _fetch(self, wait: int) -> Fetched | None:
        """Send one poll, which the server may hold for `wait` seconds, and return the answer.

        Return None if `retry_now` cancelled the poll. The jobs in an answer that is lost are offered again.
        """
        with anyio.CancelScope() as self._poll_scope:
            return await self._connection.poll(lambda: self._control.fetch(self._cluster_id, wait))
        return None

    async def _after_failure(self, was_up: bool) -> None:
        """Let the delivery queues send after a failed poll, as far as the error of the poll permits.

        A 429 proves that the server is reachable: all queues are released unless the connection was up before
        (`was_up`). If the server is unreachable, one attempt is permitted. A rejected credential affects all requests,
        so nothing is permitted.
        """
        match self._connection.state.connectivity:
            case Connectivity.CONNECTED if not was_up:
                await self._reconnect.catch_up()
            case Connectivity.UNREACHABLE:
                self._reconnect.try_one()
            case _:
                pass

    async def _wait_out(self, seconds: float) -> None:
        """Sleep for `seconds` after a failed poll. `wake` ends the sleep early, but not within the first second
        (PULL-7).
        """
        self._wake_up = anyio.Event()
        await self._clock.sleep(min(seconds, SOONEST))
        with anyio.move_on_after(seconds - SOONEST):
            await self._wake_up.wait()
