"""Faults of the API server, as a controller meets them: before or after a call's effect, or the end of the process."""

from collections.abc import AsyncIterator, Callable
from random import Random
from typing import TypeAlias

import attrs

from purekube.apimachinery.errors import OperatorError, Stale, Unavailable
from purekube.apimachinery.manifest import Kind, Manifest
from purekube.ports import KubeApi, KubeRequest, KubeVerb, Send, Watch, WatchEvent


class Crash(BaseException):
    """The end of the process at this point: the product must not catch this."""


@attrs.frozen
class Fault:
    """The fault of one call: an error or the end of the process, before or `after` its effect."""

    error: BaseException
    after: bool = False


Schedule: TypeAlias = Callable[[KubeRequest], Fault | None]
"""A function that returns the fault of the next call."""


def calm(request: KubeRequest) -> Fault | None:
    """Return no fault."""
    return None


@attrs.define
class WatchFaults:
    """The faults of watches: `through` waits until an event may pass, and returns whether it does.

    It raises Expired if events were lost meanwhile, so that the watcher has to list again.
    """

    async def through(self, kind: Kind, event: WatchEvent) -> bool:
        """Let the event pass at once."""
        return True


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


def interruption(*, after: bool, crash: bool) -> Fault:
    """Return the fault of a call without an answer, before or after its effect, or the end of the process there."""
    return Fault(Crash() if crash else Unavailable("no answer"), after)


def at_random(random: Random, often: float) -> Schedule:
    """Return a schedule in which some calls fail: no answer before or after the effect, a stale copy, or a crash."""

    def schedule(request: KubeRequest) -> Fault | None:
        if random.random() >= often:
            return None
        kind = random.choice(("unavailable", "lost answer", "stale", "killed before", "killed after"))
        match kind:
            case "unavailable" | "lost answer":
                return interruption(after=kind == "lost answer", crash=False)
            case "stale" if request.verb is KubeVerb.APPLY or request.action == KubeVerb.PATCH:
                return Fault(Stale("the object has been modified"))
            case "killed before" | "killed after":
                return interruption(after=kind == "killed after", crash=True)
            case _:
                return None

    return schedule


def away(request: KubeRequest) -> Fault | None:
    """Return the fault of an API server that does not answer at all."""
    return Fault(Unavailable("the API server does not answer"))
