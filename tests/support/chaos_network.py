"""The network between one operator process and both servers, and everything that can go wrong on it (PULL-7).

A `Fault` is ordered for the next matching exchange. Exchanges with the control plane are real HTTP messages, handed to
the embedded application without sockets; those with the API server are calls of the port.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from email.utils import format_datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

import attrs
import httpx2
import structlog

from kubelab.clock import VirtualTimeLoop
from purekube.apimachinery.errors import Unavailable
from purekube.apimachinery.manifest import Manifest
from purekube.ports import KubeApi, KubeRequest, KubeVerb, Layer, Send

T = TypeVar("T")
P = TypeVar("P", bound="Killed")


class Trouble(StrEnum):
    """What happens to one exchange."""

    LOST_REQUEST = "lost request"
    LOST_RESPONSE = "lost response"
    TWICE = "twice"
    SLOW = "slow"
    HALF_OPEN = "half open"
    HALF_OPEN_AFTER = "half open after"
    UNAUTHORIZED = "401"
    FORBIDDEN = "403"
    NO_SUCH_PAGE = "404"
    CONFLICT = "409"
    TOO_LARGE = "413"
    TOO_MANY = "429"
    TOO_MANY_UNTIL = "429 until"
    BROKEN = "500"
    BROKEN_AFTER = "502 after"
    HTML = "HTML"
    HTML_AFTER = "HTML after"
    TRUNCATED = "truncated"
    CRASH = "crash"
    CRASH_AFTER = "crash after"
    LATE = "late"


HTTP_FAULTS = tuple(found for found in Trouble if found is not Trouble.LATE)
KUBE_FAULTS = (
    Trouble.LOST_REQUEST,
    Trouble.LOST_RESPONSE,
    Trouble.SLOW,
    Trouble.TOO_MANY,
    Trouble.BROKEN,
    Trouble.BROKEN_AFTER,
    Trouble.LATE,
    Trouble.CRASH,
    Trouble.CRASH_AFTER,
)

_STATUS = {
    Trouble.UNAUTHORIZED: 401,
    Trouble.FORBIDDEN: 403,
    Trouble.CONFLICT: 409,
    Trouble.TOO_LARGE: 413,
    Trouble.TOO_MANY: 429,
    Trouble.TOO_MANY_UNTIL: 429,
    Trouble.BROKEN: 500,
}
_PAGE = b"<html><body>Bad gateway, please try again later</body></html>"


@attrs.frozen
class Fault:
    """`trouble` for the exchange after `skip` others whose name contains `where`."""

    trouble: Trouble
    where: str = ""
    skip: int = 0


@attrs.define
class Network:
    """What one process sees of the world. `die` ends that process; nothing of it reaches the servers afterwards."""

    now: Callable[[], Any]
    die: Callable[[], None]
    outage: Callable[[], Trouble | None]
    dead: bool = False
    faults: list[Fault] = attrs.field(factory=list)
    suffered: list[str] = attrs.field(factory=list)

    def take(self, name: str, possible: tuple[Trouble, ...]) -> Trouble | None:
        """The trouble of this exchange."""
        if self.dead:
            raise asyncio.CancelledError
        for at, fault in enumerate(self.faults):
            if fault.where in name and fault.trouble in possible:
                if fault.skip > 0:
                    self.faults[at] = attrs.evolve(fault, skip=fault.skip - 1)
                    continue
                del self.faults[at]
                self.suffered.append(f"{fault.trouble}: {name}")
                return fault.trouble
        return None

    async def end(self) -> None:
        """The process ends in the middle of an exchange."""
        self.die()
        await asyncio.Event().wait()


class FaultyTransport(httpx2.AsyncBaseTransport):
    """HTTP to the embedded control plane's application through `network`."""

    def __init__(self, app: Any, network: Network) -> None:
        self._inner = httpx2.ASGITransport(app, raise_app_exceptions=False)
        self._network = network

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:  # noqa: C901 - a row a trouble
        """One exchange."""
        trouble = self._network.take(f"{request.method} {request.url.path}", HTTP_FAULTS)
        trouble = trouble or self._network.outage()
        await asyncio.sleep(20.0 if trouble is Trouble.SLOW else 0.005)
        match trouble:
            case None | Trouble.SLOW:
                return await self._inner.handle_async_request(request)
            case Trouble.LOST_REQUEST:
                raise httpx2.ConnectError("refused")
            case Trouble.HALF_OPEN:
                return await self._silence(request)
            case Trouble.CRASH:
                await self._network.end()
            case Trouble.TWICE:
                await self._answered(request)
                return await self._inner.handle_async_request(_again(request))
            case Trouble.NO_SUCH_PAGE:
                return httpx2.Response(404, content=_PAGE, headers={"content-type": "text/html"})
            case Trouble.HTML:
                return httpx2.Response(200, content=_PAGE, headers={"content-type": "text/html"})
            case Trouble.CONFLICT if request.url.path.endswith("/ack"):
                # "It is closed" is no trouble of a network: only the control plane can say so, and then it is true.
                return await self._inner.handle_async_request(request)
            case _ if trouble in _STATUS:
                if trouble is Trouble.CONFLICT and request.url.path.endswith("/result"):
                    await self._answered(request)  # "it is there already" is true: it counts as accepted (PULL-4)
                return self._refusal(_STATUS[trouble], trouble)
        answer = await self._answered(request)
        match trouble:
            case Trouble.CRASH_AFTER:
                await self._network.end()
            case Trouble.HALF_OPEN_AFTER:
                return await self._silence(request)
            case Trouble.BROKEN_AFTER:
                return self._refusal(502, trouble)
            case Trouble.HTML_AFTER:
                return httpx2.Response(200, content=_PAGE, headers={"content-type": "text/html"})
            case Trouble.TRUNCATED:
                headers = {"content-type": answer.headers.get("content-type", "application/json")}
                return httpx2.Response(answer.status_code, content=(answer.content or b"{}")[:-1], headers=headers)
        raise httpx2.ReadError("reset")

    async def _answered(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._inner.handle_async_request(_again(request))
        await answer.aread()
        return answer

    async def _silence(self, request: httpx2.Request) -> httpx2.Response:
        await asyncio.sleep(request.extensions["timeout"]["read"])
        raise httpx2.ReadTimeout("nothing came")

    def _refusal(self, status: int, trouble: Trouble) -> httpx2.Response:
        now = self._network.now()
        headers = {"date": format_datetime(now, usegmt=True), "content-type": "application/json"}
        if trouble is Trouble.TOO_MANY:
            headers["retry-after"] = "7"
        if trouble is Trouble.TOO_MANY_UNTIL:
            headers["retry-after"] = format_datetime(now + timedelta(seconds=90), usegmt=True)
        return httpx2.Response(status, content=b'{"message":"no"}', headers=headers)


def _again(request: httpx2.Request) -> httpx2.Request:
    return httpx2.Request(
        request.method, request.url, headers=request.headers, content=request.content, extensions=request.extensions
    )


async def pass_on(request: KubeRequest, proceed: Send) -> Manifest:
    """Perform a request as it is."""
    return await proceed(request)


class SlowKube(KubeApi):
    """The `KubeApi` of one process, a few milliseconds away. `effect` performs a request and notes what it did.

    A request that was sent is performed even when the process that sent it has ended.
    """

    def __init__(self, api: KubeApi, network: Network, effect: Layer = pass_on) -> None:
        super().__init__(api.through(effect).through(self._exchange).transport)
        self._network = network

    async def _exchange(self, request: KubeRequest, proceed: Send) -> Manifest:
        trouble = self._network.take(f"kube {request.action}", KUBE_FAULTS)
        if trouble is Trouble.CRASH:
            await self._network.end()
        if trouble in (Trouble.LOST_REQUEST, Trouble.BROKEN, Trouble.TOO_MANY):
            await asyncio.sleep(0.003)
            wish = 3.0 if trouble is Trouble.TOO_MANY else None
            raise Unavailable("no answer", retry_after=wish, may_have_happened=False)
        # What would not be refused when it comes too late is given up by the network, not delivered late.
        late = 15.0 if trouble is Trouble.LATE and _is_guarded(request) else 0.003
        sent = asyncio.ensure_future(self._delivered(late, request, proceed))
        try:
            async with asyncio.timeout(10):
                found = await asyncio.shield(sent)
        except TimeoutError:
            raise Unavailable("no answer in time") from None
        if trouble is Trouble.CRASH_AFTER:
            await self._network.end()
        if trouble in (Trouble.LOST_RESPONSE, Trouble.BROKEN_AFTER):
            raise Unavailable("no answer")
        if trouble is Trouble.SLOW:
            await asyncio.sleep(8)
        return found

    async def _delivered(self, delay: float, request: KubeRequest, proceed: Send) -> Manifest:
        await asyncio.sleep(delay)
        return await proceed(request)


def _is_guarded(request: KubeRequest) -> bool:
    if request.action == "apply":
        return "uid" in request.body["metadata"]
    return request.verb in (KubeVerb.UPDATE, KubeVerb.DELETE)


class Killed:
    """One process on such a network, the leader while it runs. A subclass starts `main`."""

    network: Network
    main: "asyncio.Task[None]"

    def die(self) -> None:
        """SIGKILL: nothing of it runs any more. Another one starts a little later."""
        if not self.network.dead:
            self.network.dead = True
            self.main.cancel()

    async def gone(self) -> None:
        """Wait for its end."""
        with suppress(asyncio.CancelledError):
            await asyncio.wait([self.main])


class Restarted(Generic[P]):
    """Everything around one cluster, with one process at a time. Time passes only in `run`."""

    loop: VirtualTimeLoop
    process: P

    async def start(self) -> P:
        """A new process, which knows what is durable."""
        raise NotImplementedError

    def run(self, call: Awaitable[T]) -> T:
        """Let virtual time pass until `call` is done."""
        return self.loop.run_until_complete(call)

    async def pass_time(self, seconds: float) -> None:
        """Let time pass. A process that died is started again after a second."""
        until = self.loop.time() + seconds
        while (left := until - self.loop.time()) > 0:
            await asyncio.sleep(min(left, 1.0))
            if self.process.network.dead:
                await self.restart()

    async def restart(self) -> None:
        """The process stops at once, as one that lost its lease; what it sent may still arrive. Another one begins."""
        self.process.die()
        await self.process.gone()
        self.process = await self.start()

    def close(self) -> None:
        """End everything."""
        self.process.die()
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
        structlog.reset_defaults()
