"""The connection of one replica to the API server, with latency and injected faults, and its clock.

A replica is a simulated process. A request takes a few milliseconds of virtual time. A `Disturbance` is a fault that is
scheduled for the next matching request of a process. No request of a killed process arrives.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from enum import StrEnum
from random import Random
from types import TracebackType
from typing import Final, Protocol, Self, assert_never

import attrs

from kubelab.model.failure import expired
from kubelab.storage.watch_stream import WatchStream
from purekube.apimachinery.errors import OperatorError, Stale, Unavailable
from purekube.apimachinery.manifest import Manifest, metadata
from purekube.ports import KubeApi, KubeRequest, KubeVerb, Send, Watch, WatchEvent, WatchEventType
from purekube_run.simulation.faults import Crash, Fault, Schedule, WatchFaults

_SLOWNESS: Final = 60.0
"""The factor by which the latency of requests grows on a slow network."""
_GIVES_UP: Final = 10.0
"""The seconds after which a request without a response fails."""


class Trouble(StrEnum):
    """The kinds of faults that a request to the API server may have, such as a lost response or a crash."""

    CRASH_BEFORE = "crash before the write"
    CRASH_AFTER = "crash after the write"
    UNAVAILABLE = "500"
    LOST_ANSWER = "lost answer"
    TOO_MANY = "429"
    STALE = "409"
    SLOW = "slow answer"
    GARBAGE = "garbage of a proxy"


class WatchTrouble(StrEnum):
    """The kinds of faults that a watch may have, such as the end of its stream or late events."""

    CUT = "cut"
    EXPIRED = "410"
    HALF_OPEN = "half open"
    LATE = "late"
    REPEATED = "repeated"
    REORDERED = "reordered"


_CRASHES: Final = (Trouble.CRASH_BEFORE, Trouble.CRASH_AFTER)
_GUARDED: Final = (KubeVerb.APPLY, KubeVerb.PATCH, KubeVerb.UPDATE)


class SlowAnswer(BaseException):
    """The error in a `Fault` that only delays the response. It marks such a fault, and is never raised."""


def _fault_of(trouble: Trouble) -> Fault:
    """Return a new fault of the kind `trouble`.

    Faults are not shared, since the traceback of a raised error keeps all objects of its simulated cluster alive.
    """
    match trouble:
        case Trouble.CRASH_BEFORE | Trouble.CRASH_AFTER:
            return Fault(Crash(trouble.value), after=trouble is Trouble.CRASH_AFTER)
        case Trouble.UNAVAILABLE:
            return Fault(Unavailable("Internal error occurred: etcdserver: leader changed", status=500))
        case Trouble.LOST_ANSWER:
            return Fault(Unavailable("no answer"), after=True)
        case Trouble.TOO_MANY:
            return Fault(Unavailable("too many requests", status=429, retry_after=3.0, may_have_happened=False))
        case Trouble.STALE:
            return Fault(Stale("Operation cannot be fulfilled: the object has been modified"))
        case Trouble.SLOW:
            return Fault(SlowAnswer(), after=True)
        case Trouble.GARBAGE:
            return Fault(Unavailable("the answer is not the JSON of an API server"))
        case _:
            assert_never(trouble)


@attrs.define
class Disturbance:
    """A scheduled fault of a process's requests: it disturbs one request for which `only` returns True.

    `trouble` is the kind of the fault. `skip` is the number of such requests that succeed before the disturbed one.
    `happened` is called with the request when the fault occurs.
    """

    trouble: Trouble
    happened: Callable[[KubeRequest], None]
    skip: int = 0
    only: Callable[[KubeRequest], bool] = lambda request: True

    def concerns(self, request: KubeRequest) -> bool:
        """Report whether the fault may disturb a request.

        A conflict disturbs only an apply, patch or update; a crash disturbs only a write.
        """
        if self.trouble is Trouble.STALE:
            return request.verb in _GUARDED and self.only(request)
        return (request.writes or self.trouble not in _CRASHES) and self.only(request)


@attrs.frozen
class ObservedWrite:
    """A write that reached the API server: its time, the replica (simulated process) that sent it, and the response or
    the error.

    `version` is the version of the API server's store before the write. `sent` is the time at which the replica was
    permitted to send it.
    """

    at: float
    replica: str
    request: KubeRequest
    answer: Manifest | None
    error: OperatorError | None
    version: int
    sent: float


@attrs.define(eq=False)
class _OpenWatch:
    """An open watch of a replica, with its present faults.

    If `silent`, events are dropped. If `repeats`, the next one arrives twice. Until the time `late_until`, they arrive
    late. Until `reordered_until`, each is followed by the event before it of the same object, as from an API server
    whose cache lags. `former` has the last event of each object, by namespace and name.
    """

    request: KubeRequest
    stream: WatchStream
    silent: bool = False
    repeats: bool = False
    late_until: float = 0.0
    reordered_until: float = 0.0
    former: dict[tuple[str, str], WatchEvent] = attrs.field(factory=dict)

    def deliveries(self, event: WatchEvent, now: float) -> tuple[WatchEvent, ...]:
        """Return the events that arrive when the API server sends `event` at the time `now`, with those that a fault
        adds.
        """
        if event.type is WatchEventType.BOOKMARK:
            return (event,)
        meta = metadata(event.object)
        key = (str(meta.get("namespace")), str(meta.get("name")))
        twice = (event,) if self.repeats else ()
        earlier = self.former.get(key) if now < self.reordered_until else None
        self.former[key], self.repeats = event, False
        return (event, *twice) if earlier is None else (event, *twice, earlier)


class Troubled(Protocol):
    """The interface of a simulated process whose requests and watches can have faults."""

    name: str
    most_items: int
    disturbances: list[Disturbance]
    schedule: Schedule
    streams: WatchFaults

    def kill(self, reason: str) -> None:
        """Kill the process. `reason` says why, for the trace (the record of what happens in the run)."""
        ...


@attrs.define(eq=False)
class Link:
    """The simulated network between one process and the API server, with latency and faults.

    All connections of the process share it, and it lives as long as the process. `latency` is the minimum and maximum
    duration of a request in seconds. None means no latency.
    """

    process: Troubled
    random: Random
    now: Callable[[], float]
    latency: tuple[float, float] | None
    dead: bool = False
    cut_until: float = 0.0
    """The time, as `now` returns it, at which a partition from the API server ends."""
    paused_until: float = 0.0
    """The time, as `now` returns it, at which a pause of the process ends."""
    refused_until: float = 0.0
    """The time, as `now` returns it, at which an API server that was stopped accepts connections again."""
    slow_until: float = 0.0
    """The time, as `now` returns it, from which the network is no longer slow."""
    watches: list[_OpenWatch] = attrs.field(factory=list)

    @property
    def is_disturbed(self) -> bool:
        """True while the process is dead, paused, slow or cut off, or one of its watches does not deliver at once."""
        now = self.now()
        until = max(self.cut_until, self.paused_until, self.refused_until, self.slow_until)
        return self.dead or now < until or any(watch.silent or now < watch.late_until for watch in self.watches)

    def must_live(self) -> None:
        """Raise CancelledError if the process is dead, so that none of its requests reaches the API server."""
        if self.dead:
            raise asyncio.CancelledError

    async def crash(self, reason: str) -> None:
        """Kill the simulated process, of which the caller is a part. `reason` says why.

        The call never returns: it waits until it is cancelled with the process.
        """
        self.process.kill(reason)
        await asyncio.Event().wait()

    async def travel(self, distance: tuple[float, float] | None) -> None:
        """Wait for the network latency: a random time between the two numbers of seconds in `distance`; None means no
        wait.
        """
        self.must_live()
        if distance is not None:
            times = _SLOWNESS if self.now() < self.slow_until else 1.0
            await asyncio.sleep(times * self.random.uniform(*distance))
            self.must_live()

    async def pass_pause(self) -> None:
        """Wait until the process is no longer paused."""
        while (left := self.paused_until - self.now()) > 0:
            await asyncio.sleep(left)
        self.must_live()

    def heal(self) -> None:
        """End all faults of this network, and drop the faults that are scheduled for the process's requests."""
        self.process.disturbances.clear()
        self.process.most_items = 0
        self.cut_until = self.paused_until = self.slow_until = 0.0

    async def suffer(self, fault: Fault) -> None:
        """Apply a fault to the current request: raise its error, delay the response, or kill the process."""
        match fault.error:
            case Crash() as crash:
                await self.crash(str(crash) or "crash")
            case SlowAnswer():
                await self.travel((1.0, _GIVES_UP))
            case error:
                raise error

    def opened(self, request: KubeRequest, stream: WatchStream) -> None:
        """Record `stream`, the events of a watch that `request` opened, so that faults of the network can be applied to
        it.
        """
        self.watches.append(_OpenWatch(request, stream))

    async def pass_partition(self) -> None:
        """Wait until a network partition has ended.

        Raises Unavailable if it lasts longer than a client would wait, or if the API server refuses connections.
        """
        if self.now() < self.refused_until:
            raise Unavailable("connection refused", may_have_happened=False)
        if (left := self.cut_until - self.now()) > 0:
            await asyncio.sleep(min(left, _GIVES_UP))
            self.must_live()
            if self.now() < self.cut_until:
                raise Unavailable("the API server does not answer", may_have_happened=False)

    def take(self, request: KubeRequest) -> Fault | None:
        """Return the fault for a request, or None if the request is to succeed.

        If one of the process's scheduled `disturbances` is due for the request, it is removed from them and applied.
        Otherwise the process's `schedule` decides.
        """
        for at, ordered in enumerate(self.process.disturbances):
            if not ordered.concerns(request):
                continue
            if ordered.skip > 0:
                ordered.skip -= 1
                continue
            del self.process.disturbances[at]
            ordered.happened(request)
            return _fault_of(ordered.trouble)
        return self.process.schedule(request)

    def partition(self, seconds: float) -> None:
        """Disconnect the process from the API server for a time.

        Requests get no response, and open watches get no events.
        """
        self.cut_until = self.now() + seconds
        for watch in self.watches:
            watch.silent = True

    def expire_watches(self, resource: str) -> None:
        """End all watches of the kinds with this resource, with the answer that their history is gone."""
        for watch in self.watches:
            if watch.request.kind.plural == resource:
                watch.stream.fail(expired("too old resource version"))

    def disturb_watch(self, trouble: WatchTrouble, choice: float, seconds: float) -> str:
        """Apply the fault `trouble` to one open watch, and return the name of the watch's kind.

        `choice`, a number in [0, 1), selects the watch. The faults LATE and REORDERED last for `seconds`; other
        faults ignore `seconds`. Return "" if no watch is open.
        """
        if not self.watches:
            return ""
        watch = self.watches[int(choice * len(self.watches))]
        match trouble:
            case WatchTrouble.CUT:
                watch.stream.end()
            case WatchTrouble.EXPIRED:
                watch.stream.fail(expired("too old resource version"))
            case WatchTrouble.HALF_OPEN:
                watch.silent = True
            case WatchTrouble.LATE:
                watch.late_until = self.now() + seconds
            case WatchTrouble.REPEATED:
                watch.repeats = True
            case WatchTrouble.REORDERED:
                watch.reordered_until = self.now() + seconds
        return watch.request.kind.kind


class KubeConnection(KubeApi):
    """A connection of a simulated process to `api`, through the network `link`, which has latency and faults.

    `before_write` is called before each write, and raises if the process may not write. `on_write` is called with every
    write that reached the API server. `version` returns the version of the API server's store.
    """

    def __init__(
        self,
        api: KubeApi,
        link: Link,
        before_write: Callable[[], None],
        on_write: Callable[[ObservedWrite], None],
        version: Callable[[], int] = lambda: 0,
    ) -> None:
        super().__init__(api.through(self._send, self._watch).transport)
        self._link = link
        self._before_write = before_write
        self._on_write = on_write
        self._version = version

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def _send(self, request: KubeRequest, proceed: Send) -> Manifest:
        link = self._link
        request = _in_pages(request, link.process.most_items)
        await link.pass_pause()
        if request.writes:
            self._before_write()
        sent = link.now()
        await link.travel(link.latency)
        await link.pass_partition()
        fault = link.take(request)
        if fault is not None and not fault.after:
            await link.suffer(fault)
        answer = await (self._recorded(request, proceed, sent) if request.writes else proceed(request))
        if fault is not None and fault.after:
            await link.suffer(fault)
        return answer

    async def _recorded(self, request: KubeRequest, proceed: Send, sent: float) -> Manifest:
        version, now, name = self._version(), self._link.now(), self._link.process.name
        try:
            answer = await proceed(request)
        except OperatorError as error:
            self._on_write(ObservedWrite(now, name, request, None, error, version, sent))
            raise
        self._on_write(ObservedWrite(now, name, request, answer, None, version, sent))
        return answer

    # --- watches -----------------------------------------------------------------------------------------------------

    async def _watch(self, request: KubeRequest, proceed: Watch) -> AsyncIterator[WatchEvent]:
        """Yield the events of one watch, with the faults of `link`: some are dropped, delayed or repeated."""
        link = self._link
        await link.travel(link.latency)
        await link.pass_partition()
        watches = link.watches
        watch: _OpenWatch | None = None
        try:
            async for event in proceed(request):
                watch = watch or next((each for each in watches if each.request is request), None)
                for each in (event,) if watch is None else watch.deliveries(event, link.now()):
                    if await link.process.streams.through(request.kind, each) and await self._arrives(watch):
                        yield each
        finally:
            watches[:] = [each for each in watches if each.request is not request]

    async def _arrives(self, watch: _OpenWatch | None) -> bool:
        """Wait until an event of the watch may be delivered. Return True, or False if a fault drops the event."""
        if watch is None:
            self._link.must_live()
            return True
        if (delay := watch.late_until - self._link.now()) > 0:
            await asyncio.sleep(delay)
        await self._link.pass_pause()
        return not (watch.silent or self._link.now() < self._link.cut_until)


def _in_pages(request: KubeRequest, most: int) -> KubeRequest:
    """Return the list request with a limit of at most `most` objects, if it is one in pages and `most` is not 0."""
    limit = request.params.get("limit")
    if not most or not limit:
        return request
    return attrs.evolve(request, params={**request.params, "limit": min(int(limit), most)})


@attrs.define
class ReplicaClock:
    """The clock of the simulated machine on which a replica (a simulated process) runs. Its wall time is wrong by
    `offset`.
    """

    time: Callable[[], datetime]
    loop: asyncio.AbstractEventLoop
    offset: timedelta = timedelta(0)
    slept: float = 0.0
    """The seconds for which the machine was suspended."""
    suspended_at: float = float("-inf")
    """The virtual time of the last suspension."""
    slept_last: float = 0.0
    """The seconds of the last suspension."""

    def suspend(self, seconds: float) -> None:
        """Suspend the machine now for a number of seconds, which pass at once."""
        self.slept, self.slept_last, self.suspended_at = self.slept + seconds, seconds, self.monotonic()

    def slept_until(self, at: float) -> float:
        """Return the seconds for which the machine was suspended before the virtual time `at`.

        Only the last suspension is known with its time, so `at` must be later than the one before it.
        """
        return self.slept - (self.slept_last if self.suspended_at >= at else 0.0)

    def now(self) -> datetime:
        """Return the wall time of the machine, which is wrong by `offset`."""
        return self.time() + self.offset

    def monotonic(self) -> float:
        """Return virtual seconds, without the seconds for which the machine was suspended."""
        return self.loop.time()

    def boottime(self) -> float:
        """Return virtual seconds, including the seconds for which the machine was suspended."""
        return self.monotonic() + self.slept

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds` of virtual time."""
        await asyncio.sleep(max(0.0, seconds))
