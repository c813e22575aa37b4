"""A proxy between operators and an API server: it records requests, delays or fails some, and can kill the sender."""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl

import anyio
import attrs
import msgspec
import uvicorn
from anyio.abc import TaskStatus

from kubelab.http.listener import bind, serve_until_cancelled, url_of
from purekube_http.forwarding import ForwardedAnswer, Forwarder, NoAnswer
from purekube_run.examination.audit import Audit, RecordedRequest, Where

Receive: TypeAlias = Callable[[], Awaitable[Any]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]

_REASONS: Final = {
    403: "Forbidden", 409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError",
    503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


_BINARY: Final = re.compile(r"application/(vnd\.kubernetes\.protobuf|cbor-seq|cbor)")
"""The media types in which API servers answer clients that prefer them to JSON."""


@attrs.define(eq=False)
class ProxyFault:
    """A fault that the proxy injects into requests for which `where` returns True.

    If `times` is given, it disturbs at most as many requests. The request is delayed by `delay` seconds. With `status`,
    it is answered with that status. With `kill`, the process that sent it is killed. In both cases the request is not
    forwarded, except with `after`: then it is forwarded first, and the API server's response is dropped. `hits` are the
    disturbed requests.
    """

    name: str
    where: Where
    status: int = 0
    message: str = "injected by the examiner"
    after: bool = False
    kill: bool = False
    delay: float = 0.0
    times: int | None = None
    hits: list[RecordedRequest] = attrs.field(factory=list)

    @property
    def is_spent(self) -> bool:
        """True if the fault has disturbed the maximum number of requests, `times`."""
        return self.times is not None and len(self.hits) >= self.times


@attrs.define(eq=False)
class _Stream:
    """An open watch through the proxy: the number of the watching process, its request, and the scope that ends it."""

    process: int
    call: RecordedRequest
    scope: anyio.CancelScope


class Proxy:
    """The proxy between an examined operator and the API server.

    Each process has a port of its own, which identifies it. `on_kill` is the function that kills the process with a
    given number.
    """

    def __init__(self, forwarder: Forwarder, audit: Audit) -> None:
        self._forwarder = forwarder
        self.audit = audit
        self.on_kill: Callable[[int], None] = lambda process: None
        self._faults: list[ProxyFault] = []
        self._held: list[Where] = []
        self._released = anyio.Event()
        self._streams: list[_Stream] = []
        self.events_held = 0
        """The number of watch events that came while they were held back."""

    # --- disturbance -------------------------------------------------------------------------------------------------

    @contextmanager
    def fault(self, name: str, where: Where, **options: Any) -> Iterator[ProxyFault]:
        """Inject a fault into the requests for which `where` returns True, and yield the fault.

        The fault ends with the `with` block. `name` names it in the records of these requests. `options` are further
        fields of `ProxyFault`. If several faults apply to a request, the one that was added last disturbs it.
        """
        fault = ProxyFault(name, where, **options)
        self._faults.insert(0, fault)
        try:
            yield fault
        finally:
            self._faults.remove(fault)

    @contextmanager
    def watches_held(self, where: Where) -> Iterator[None]:
        """Hold back the events of the watches for which `where` returns True, while the `with` block runs.

        The caches of the operator then become stale.
        """
        self._held.append(where)
        try:
            yield
        finally:
            self._held.remove(where)
            self._released.set()
            self._released = anyio.Event()

    def cut_watches(self, where: Where) -> int:
        """Close the open watches for which `where` returns True, and return how many there were."""
        cut = [stream for stream in self._streams if where(stream.call)]
        for stream in cut:
            stream.scope.cancel()
        return len(cut)

    def hang_up(self, process: int) -> None:
        """Close the watches of a process that has ended."""
        for stream in [stream for stream in self._streams if stream.process == process]:
            stream.scope.cancel()

    # --- serving -----------------------------------------------------------------------------------------------------

    async def serve(self, process: int, *, task_status: TaskStatus[str]) -> None:
        """Serve the process with this number on a port of its own until cancelled.

        The port's URL is passed to `task_status`.
        """
        listener = bind("127.0.0.1", 0)
        url = url_of("127.0.0.1", listener)

        async def app(scope: Any, receive: Receive, send: Send) -> None:
            await self._serve(process, scope, receive, send)

        config = uvicorn.Config(
            app, lifespan="off", log_level="critical", access_log=False, timeout_graceful_shutdown=1,
            timeout_keep_alive=90,
        )  # fmt: skip
        await serve_until_cancelled(
            config, listener, ready=lambda: task_status.started(url), ending=lambda: self.hang_up(process)
        )

    async def _serve(self, process: int, scope: Any, receive: Receive, send: Send) -> None:
        body = await _body(receive)
        raw_query = scope["query_string"].decode()
        target = scope["raw_path"].decode() + (f"?{raw_query}" if raw_query else "")
        headers = {name.decode().lower(): value.decode("latin-1") for name, value in scope["headers"]}
        query = dict(parse_qsl(raw_query, keep_blank_values=True))
        call = self.audit.begin(process, scope["method"], scope["path"], query, headers, body)
        fault = self._fault_of(call)
        if fault is not None and call is not None:
            call.disturbed = fault.name
            fault.hits.append(call)
            await anyio.sleep(fault.delay)
            if fault.kill and not fault.after:
                self.on_kill(process)
                return
            if fault.status and not fault.after:
                await self._refuse(call, fault, send)
                return
        try:
            answer = await self._forwarder.open(scope["method"], target, _preferring_json(headers), body)
        except NoAnswer as error:
            self.audit.answered(call, 503, b"")
            await _send(send, 503, _status(503, f"no answer from the API server: {error}"))
            return
        try:
            if call is not None and call.verb == "watch" and answer.status == 200:
                await self._stream(process, call, answer, receive, send)
            else:
                await self._relay(process, call, fault, answer, send)
        finally:
            answer.close()

    def _fault_of(self, call: RecordedRequest | None) -> ProxyFault | None:
        if call is None:
            return None
        return next((fault for fault in self._faults if not fault.is_spent and fault.where(call)), None)

    async def _refuse(self, call: RecordedRequest, fault: ProxyFault, send: Send) -> None:
        """Answer a request with the fault's status, in the form in which an API server refuses requests.

        A watch with status 410 gets status 200 and an ERROR event, as from kube-apiserver 1.36 for an old
        resourceVersion.
        """
        status, content = fault.status, _status(fault.status, fault.message)
        if call.verb == "watch" and status == HTTPStatus.GONE:
            status, content = HTTPStatus.OK, b'{"type":"ERROR","object":' + content + b"}\n"
        self.audit.answered(call, status, b"")
        await _send(send, status, content)

    async def _relay(
        self, process: int, call: RecordedRequest | None, fault: ProxyFault | None, answer: ForwardedAnswer, send: Send
    ) -> None:
        """Read the API server's response completely, then send it to the operator.

        If `fault` takes effect after the request, drop the response instead: kill the operator's process, or send the
        fault's status.
        """
        try:
            content = await answer.body()
        except NoAnswer as error:
            content = _status(503, f"the answer broke off: {error}")
        self.audit.answered(call, answer.status, content)
        if call is not None and fault is not None and fault.after:
            if fault.kill:
                self.on_kill(process)
                return
            await _send(send, fault.status, _status(fault.status, fault.message))
            return
        await _send(send, answer.status, content, answer.headers)

    async def _stream(
        self, process: int, call: RecordedRequest, answer: ForwardedAnswer, receive: Receive, send: Send
    ) -> None:
        """Relay a watch chunk by chunk, until either side closes the watch or it is cut."""
        self.audit.answered(call, answer.status, b"")
        await send({"type": "http.response.start", "status": 200, "headers": _raw(answer.headers)})
        stream = _Stream(process, call, anyio.CancelScope())
        self._streams.append(stream)
        try:
            with stream.scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(_until_gone, receive, group.cancel_scope)
                    await self._events(call, answer, send)
                    group.cancel_scope.cancel()
        finally:
            self._streams.remove(stream)
        await send({"type": "http.response.body", "body": b""})

    async def _events(self, call: RecordedRequest, answer: ForwardedAnswer, send: Send) -> None:
        try:
            async for chunk in answer.chunks():
                while any(held(call) for held in self._held):
                    self.events_held += 1
                    await self._released.wait()
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except NoAnswer:
            return


def _preferring_json(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the headers with JSON in place of binary media types in Accept, so that answers can be recorded."""
    # client-go reads an answer by its content type, whatever it asked for; controller-runtime asks for protobuf first.
    return {**headers, "accept": _BINARY.sub("application/json", headers.get("accept", "*/*"))}


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def _until_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _send(send: Send, status: int, content: bytes, headers: Any = None) -> None:
    given = {"content-type": "application/json", **(headers or {}), "content-length": str(len(content))}
    await send({"type": "http.response.start", "status": status, "headers": _raw(given)})
    await send({"type": "http.response.body", "body": content})


def _raw(headers: Any) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]


def _status(code: int, message: str) -> bytes:
    return msgspec.json.encode(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": _REASONS.get(code, ""),
            "code": code,
        }
    )
