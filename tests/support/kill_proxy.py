"""A proxy that ends a process with SIGKILL at one request of its own, before or after it is forwarded.

Between the operator and both servers: it counts what belongs to the sequence of PULL-2, every request to the control
plane, every write to the API server and every read of one object. A few requests pass uncounted, because a clock and
not the job decides how many there are and between which others they fall:

* lists and watches of informers, the leader's lease, and the status of the Cluster (its heartbeat), which go on whether
  or not there is a job;
* batches of events to the control plane (one a second, PULL-6), and Kubernetes Events, which are written beside the
  work and may be gathered into one. No step of the sequence waits for either.
"""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import attrs

from tests.support.scripted_server import Request, Script, wire

_UNCOUNTED = ("/leases", "/clusters/", "/apis/events.k8s.io/", "/api/agent/events")
_WAITING = "GET /api/agent/jobs #1"
_VARIES = re.compile(r"(?<=/vworkspace-job-)[0-9a-f]{40}|(?<=/job-)[0-9]+|(?<=-)[0-9]+(?=(?:-[0-9a-f]{8})?(?:/|$))")
"""Keys, ids of jobs, and the numbers at the end of names, where the hash of a chart's source may follow."""


@attrs.define(eq=False)
class _Passing:
    """A request on its way through the proxy; `label` is empty while nobody counts it."""

    is_poll: bool
    label: str
    upstream: asyncio.StreamWriter | None = None


@attrs.define
class Killer:
    """Counts requests, and kills at one of them. `kill` ends the process; `trace` is what was counted since `arm`.

    A request is known by its label: the method, the path without what differs from run to run, and how many like it
    there have been. So it is found again when two requests that do not wait for each other have changed places.
    """

    kill: Callable[[], None]
    trace: list[str] = attrs.field(factory=list)
    fired: bool = False
    _at: str = ""
    _after: bool = False
    _armed: bool = False
    _passing: set[_Passing] = attrs.field(factory=set)

    def arm(self, at: str = "", *, after: bool = False) -> None:
        """Count from now on, and kill at the request with label `at`, if any. The long poll that waits is the first."""
        self.trace, self.fired = [_WAITING], False
        self._at, self._after, self._armed = at, after, True
        for found in self._passing:
            found.label = _WAITING if found.is_poll else ""
        assert any(found.is_poll for found in self._passing), "nobody polls"
        if at == _WAITING and not after:
            self._strike()

    def disarm(self) -> None:
        """Let everything pass."""
        self._armed = False

    def proxy(self, port: int) -> Script:
        """Pass requests on to the server at `port`, unless this is where the process ends."""

        async def script(request: Request, writer: asyncio.StreamWriter) -> None:
            is_poll = request.method == "GET" and request.path.endswith("/api/agent/jobs")
            found = _Passing(is_poll, self._count(request))
            if self._is_due(found, after=False):
                self._strike()
                return
            self._passing.add(found)
            try:
                if is_poll and self._is_due(found, after=True):
                    await self._forward_and_strike(request, port, found)
                else:
                    await self._forward(request, port, found, writer)
            finally:
                self._passing.discard(found)

        return script

    async def _forward_and_strike(self, request: Request, port: int, found: _Passing) -> None:
        """A long poll that nobody answers has been forwarded all the same."""
        with anyio.move_on_after(0.2):
            async for _ in _forwarded(request, port, found, whole=True):
                break
        if self._is_due(found, after=True):
            self._strike()

    async def _forward(self, request: Request, port: int, found: _Passing, writer: asyncio.StreamWriter) -> None:
        async for chunk in _forwarded(request, port, found, whole=not request.is_watch):
            if self._is_due(found, after=True):
                self._strike()
                return
            writer.write(chunk)
            await writer.drain()

    def _count(self, request: Request) -> str:
        if not self._armed or self.fired or not _counts(request):
            return ""
        plain = f"{request.method} {_VARIES.sub('*', request.path)}"
        label = f"{plain} #{1 + sum(known.startswith(f'{plain} #') for known in self.trace)}"
        self.trace.append(label)
        return label

    def _is_due(self, found: _Passing, *, after: bool) -> bool:
        return self._armed and not self.fired and self._after is after and found.label == self._at != ""

    def _strike(self) -> None:
        self.fired = True
        self.kill()
        self.hang_up()

    def hang_up(self) -> None:
        """The process is no more, and with it its connections: the servers see them close."""
        for found in self._passing:
            if found.upstream is not None:
                found.upstream.transport.abort()


def _counts(request: Request) -> bool:
    if request.is_watch or any(part in request.path for part in _UNCOUNTED):
        return False
    if request.path.startswith("/api/agent/"):
        return True
    return request.method != "GET" or _is_one_object(request.path)


def _is_one_object(path: str) -> bool:
    """Whether the path names one object: `…/namespaces/N/PLURAL/NAME` or `…/PLURAL/NAME` of a cluster-scoped kind."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    return len(rest) == 2 if rest[:1] != ["namespaces"] else len(rest) in (2, 4, 5)


async def _forwarded(request: Request, port: int, passing: _Passing, *, whole: bool) -> AsyncIterator[bytes]:
    """The answer of the server at `port`, as it comes, or in one piece."""
    reader, upstream = await asyncio.open_connection("127.0.0.1", port)
    passing.upstream = upstream
    headers = {**request.headers, "connection": "close"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    upstream.write(f"{request.method} {request.target} HTTP/1.1\r\n{lines}\r\n".encode() + request.body)
    try:
        if whole:
            yield await reader.read(-1)
        while chunk := await reader.read(65536):
            yield chunk
    finally:
        upstream.close()


def sigkill(pid: int) -> None:
    """End a process as a power failure would."""
    os.kill(pid, signal.SIGKILL)


@asynccontextmanager
async def killing(killer: Killer, *ports: int) -> AsyncIterator[list[str]]:
    """URLs of proxies in front of the servers at `ports`, all counted by `killer`."""
    async with wire(killer.proxy(ports[0])) as first, wire(killer.proxy(ports[1])) as second:
        yield [first.url, second.url]
        killer.hang_up()
        await asyncio.sleep(0.1)
