"""The calls of an API, each with its fault from a schedule, for tests without an event loop of their own."""

from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Manifest
from purekube.ports import KubeApi, KubeRequest, Send, Watch, WatchEvent
from purekube_run.simulation.faults import Fault, Schedule, WatchFaults, calm

Told: TypeAlias = Callable[[KubeRequest, Manifest | None, BaseException | None], None]
"""A callback for each write: with the answer, or the error that came back."""


class FaultyKube(KubeApi):
    """The calls of `api`, each with its fault from the schedule; `count` is the number of calls except watches.

    A callback gets every write that reached the server.
    """

    def __init__(
        self,
        api: KubeApi,
        schedule: Schedule = calm,
        *,
        streams: WatchFaults | None = None,
        told: Told = lambda request, answer, error: None,
    ) -> None:
        super().__init__(api.through(self._befall, self._through).transport)
        self.schedule = schedule
        self.count = 0
        self._streams = WatchFaults() if streams is None else streams
        self._told = told

    def strike_at(self, number: int, fault: Fault) -> None:
        """Let `fault` occur at the call of that number from now on, counted from 1."""
        last = self.count + number
        self.schedule = lambda request: fault if self.count == last else None

    async def _befall(self, request: KubeRequest, proceed: Send) -> Manifest:
        self.count += 1
        fault = self.schedule(request)
        if fault is not None and not fault.after:
            raise fault.error
        answer = await self._reported(request, proceed)
        if fault is not None:
            raise fault.error
        return answer

    async def _through(self, request: KubeRequest, proceed: Watch) -> AsyncIterator[WatchEvent]:
        """Yield one watch stream, as far as its faults let events through."""
        async for event in proceed(request):
            if await self._streams.through(request.kind, event):
                yield event

    async def _reported(self, request: KubeRequest, proceed: Send) -> Manifest:
        if not request.writes:
            return await proceed(request)
        try:
            answer = await proceed(request)
        except OperatorError as error:
            self._told(request, None, error)
            raise
        self._told(request, answer, None)
        return answer
