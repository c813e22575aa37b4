"""An implementation of the `ControlPlane` port that calls the embedded control plane in process, without sockets.

The port is the interface through which the operator fetches its jobs and reports their results.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from purekube.apimachinery.errors import JobClosed, Permanent, Unavailable
from vworkspace_core.control_plane.port import Fetched, error_of
from vworkspace_fake.controlplane.faults import AgentCall, ScriptedFault
from vworkspace_fake.controlplane.refusals import ApiRefusal, Dropped
from vworkspace_fake.controlplane.server import ControlPlaneServer
from vworkspace_fake.controlplane.waiting import LongPolls

T = TypeVar("T")


class InProcessControlPlane:
    """A `ControlPlane` that calls `server` directly, with the credential `token`.

    Only a fetch that waits for a job, and a call that gets an injected fault with latency, wait on the running asyncio
    loop, which may be one with simulated time. All other calls return without suspending.
    """

    def __init__(self, server: ControlPlaneServer, token: str) -> None:
        self._server = server
        self._token = token
        self._polls = LongPolls(server)

    def __repr__(self) -> str:
        return "InProcessControlPlane()"

    def use_token(self, token: str) -> None:
        """Use the credential `token` for all calls from now on."""
        self._token = token

    async def fetch(self, cluster_id: str, wait_seconds: int) -> Fetched:
        """Return the jobs that the control plane offers to the cluster, and the control plane's present time.

        If there is no job, wait at most `wait_seconds` for one (long poll).
        """
        first = True

        def look() -> list[Any]:
            nonlocal first
            ask = self._server.fetch if first else self._server.poll
            first = False
            return ask(self._token, cluster_id)

        fault = await self._fault(AgentCall.FETCH)
        jobs = _perform(fault, look)
        if not jobs and wait_seconds > 0:
            jobs = await self._waited(look, cluster_id, wait_seconds)
        return Fetched(jobs, self._date())

    async def _waited(self, look: Callable[[], list[Any]], cluster_id: str, wait_seconds: int) -> list[Any]:
        try:
            return await self._polls.jobs(look, cluster_id, wait_seconds)
        except ApiRefusal as refusal:
            raise error_of(refusal.status, refusal.message, refusal.retry_after) from refusal

    async def ack(self, job_id: str) -> None:
        """Acknowledge a job, so that the control plane does not offer it again.

        Raises JobClosed if the job already has its result, and NotFound if it does not exist or was withdrawn.
        """
        try:
            await self._call(AgentCall.ACK, lambda: self._server.ack(self._token, job_id))
        except Permanent as error:
            if error.status == 409:
                raise JobClosed(error.message) from error
            raise

    async def status(self, job_id: str, body: Mapping[str, Any]) -> None:
        """Report progress of an open job, which has no final result yet.

        `body` has the phase of the work, a message for users, and conditions.
        """
        await self._call(AgentCall.STATUS, lambda: self._server.status(self._token, job_id, body))

    async def result(self, job_id: str, body: Mapping[str, Any]) -> None:
        """Report `body` as the final result of a job. If the job has a result already, nothing happens."""
        try:
            await self._call(AgentCall.RESULT, lambda: self._server.result(self._token, job_id, body))
        except Permanent as error:
            if error.status != 409:
                raise

    async def events(self, batch: Sequence[Mapping[str, Any]]) -> None:
        """Send the control plane a batch of events, each a JSON object.

        None of them belongs to an open job (a job without a final result).
        """
        await self._call(AgentCall.EVENTS, lambda: self._server.events(self._token, {"events": list(batch)}))

    async def register(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Exchange a one-time token for a long-lived token. Return the answer that contains the long-lived token.

        `body` has the one-time token as `registrationToken`, which is also sent as the bearer token.
        """
        token = body.get("registrationToken")
        bearer = token if isinstance(token, str) else None
        return await self._call(AgentCall.REGISTER, lambda: self._server.register(bearer, body))

    async def rotate(self) -> Mapping[str, Any]:
        """Request a new token for the cluster of the present one. Return the answer that contains the new token."""
        return await self._call(AgentCall.ROTATE, lambda: self._server.rotate(self._token))

    async def _call(self, call: AgentCall, effect: Callable[[], T]) -> T:
        return _perform(await self._fault(call), effect)

    async def _fault(self, call: AgentCall) -> ScriptedFault:
        fault = self._server.incoming(call)
        if fault.latency > 0:
            import asyncio

            await asyncio.sleep(fault.latency)
        return fault

    def _date(self) -> datetime:
        # A Date header has whole seconds only, and the agent has to cope with that.
        return self._server.now().replace(microsecond=0)


def _perform(fault: ScriptedFault, effect: Callable[[], T]) -> T:
    try:
        with fault.around():
            return effect()
    except ApiRefusal as refusal:
        if refusal.body is not None:
            raise Unavailable(f"answered {refusal.status} with a body that is not the expected JSON") from refusal
        raise error_of(refusal.status, refusal.message, refusal.retry_after) from refusal
    except Dropped as dropped:
        raise Unavailable("the connection ended without an answer") from dropped
