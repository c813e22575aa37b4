"""The ASGI application of the webhooks: JSON in, the pure judgement, JSON out.

The path says whether the namespace is gated: two webhooks with opposite `namespaceSelector`s ask at two paths, so
that the API server's own view of the label counts and every replica can answer without a cache.
"""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import anyio
import attrs
import msgspec
import structlog
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from vworkspace_app.webhooks.kinds import CONVERT_PATH, NO_KINDS, Judge, ServedKinds, answered
from vworkspace_app.webhooks.observer import UNWATCHED, ReviewObserver
from vworkspace_core.apimachinery.manifest import canonical_json
from vworkspace_core.apimachinery.nesting import decode_answer
from vworkspace_core.apimachinery.secret_material import shown
from vworkspace_core.versions import MalformedConversionReview
from vworkspace_core.webhook.defaulting import default_patch
from vworkspace_core.webhook.review import AdmissionRequest, MalformedReview, allowed, patched, read_review, refused
from vworkspace_core.webhook.validating import WebhookSettings, refusals

DEFAULT_PATH: Final = "/default"
"""Where defaults are filled in."""

GATED_PATH: Final = "/validate"
"""Where objects in namespaces of the operator's are judged."""

UNGATED_PATH: Final = "/validate-ungated"
"""Where those in all other namespaces are."""

LARGEST: Final = 3 * 1024 * 1024
"""Bytes of a review. An API server takes requests of 3 MiB at most; objects that large are refused, not judged."""
BUDGET: Final = 24 * 1024 * 1024
"""Bytes of all reviews that are being read at one time: beyond them the API server is asked to come again."""

_LONG: Final = 0.005
"""Seconds from which a part of a review is a burden on the event loop."""

_log = structlog.get_logger("webhook")

Endpoint = Callable[[Request], Awaitable[Response]]
Handle = Callable[[bytes], Awaitable[Response]]
"""Answers the body of a review."""


def application(
    settings: WebhookSettings | None,
    observer: ReviewObserver = UNWATCHED,
    now: Callable[[], float] = time.monotonic,
    kinds: ServedKinds = NO_KINDS,
) -> Starlette:
    """The application; it answers 400 to what is no review, and never fails on what one holds.

    Without `settings` only `kinds` are served. `observer` is told of every review, with its time by the monotonic clock
    `now`.
    """
    reading, turns = _Reading(), Turns(now)
    judges = {**({} if settings is None else _own(settings)), **kinds.judges}
    handlers = {path: partial(_judged, judge=judge, turns=turns) for path, judge in judges.items()}
    if kinds.converters:
        handlers[CONVERT_PATH] = partial(_converted, kinds=kinds, turns=turns)
    for path in handlers:
        observer.webhook(path)
    endpoints = {
        path: _observed(path, _endpoint(handle, reading, turns), observer, now) for path, handle in handlers.items()
    }
    return Starlette(routes=[Route(path, endpoint, methods=["POST"]) for path, endpoint in endpoints.items()])


def _own(settings: WebhookSettings) -> dict[str, Judge]:
    return {
        GATED_PATH: lambda request: _validated(request, settings, gated=True),
        UNGATED_PATH: lambda request: _validated(request, settings, gated=False),
        DEFAULT_PATH: lambda request: patched(request, default_patch(request)),
    }


def _observed(path: str, endpoint: Endpoint, observer: ReviewObserver, now: Callable[[], float]) -> Endpoint:
    async def answer(request: Request) -> Response:
        began, code = now(), 500  # what an exception is answered with
        observer.review_began(path)
        try:
            response = await endpoint(request)
            code = response.status_code
            return response
        finally:
            observer.review_ended(path, code, now() - began)

    return answer


def _validated(request: AdmissionRequest, settings: WebhookSettings, *, gated: bool) -> dict[str, Any]:
    problems = refusals(request, settings, gated=gated)
    if not problems:
        return allowed(request)
    messages = [shown(str(problem)) for problem in problems]
    _log.info("refused", operation=request.operation, namespace=request.namespace, name=request.name, problems=messages)
    return refused(request, problems)


class _UserInfo(msgspec.Struct):
    username: str = ""


class _Request(msgspec.Struct):
    """What is looked at of a request before anything of its objects is built."""

    uid: str = ""
    userInfo: _UserInfo | None = None
    operation: str = ""
    namespace: str | None = None
    name: str | None = None
    subResource: str | None = None
    object: msgspec.Raw = msgspec.Raw(b"null")
    oldObject: msgspec.Raw = msgspec.Raw(b"null")


class _Review(msgspec.Struct):
    apiVersion: str = ""
    kind: str = ""
    request: _Request | None = None


_decode = msgspec.json.Decoder(_Review).decode


async def _review(body: bytes, rest: Callable[[], Awaitable[None]]) -> AdmissionRequest:
    """The request of a review, with a `rest` after each part of it. Raises MalformedReview and msgspec.DecodeError."""
    try:
        review = _decode(body)
        given = msgspec.structs.asdict(review)
        if review.request is not None:
            inner = msgspec.structs.asdict(review.request)
            user = review.request.userInfo
            inner["userInfo"] = None if user is None else {"username": user.username}
            read_review({**given, "request": {**inner, "object": None, "oldObject": None}})
            for name in ("object", "oldObject"):
                await rest()
                inner[name] = decode_answer(bytes(inner[name]))
            given["request"] = inner
    except RecursionError:
        given = decode_answer(body, "request", ("object", "oldObject"))
    await rest()
    return read_review(given)


@attrs.define
class _Reading:
    """The bodies that are in memory at this moment."""

    held: int = 0

    async def read(self, request: Request) -> tuple[bytes, int]:
        """The body, and what to answer at once where it is not to be had; it counts until `let_go`."""
        body = bytearray()
        try:
            async for chunk in request.stream():
                if len(body) + len(chunk) > LARGEST:
                    return self._refused(body, 413)
                if self.held + len(chunk) > BUDGET:
                    return self._refused(body, 503)
                body += chunk
                self.held += len(chunk)
        except BaseException:
            self.let_go(len(body))
            raise
        return bytes(body), 0

    def _refused(self, body: bytearray, code: int) -> tuple[bytes, int]:
        self.let_go(len(body))
        return b"", code

    def let_go(self, size: int) -> None:
        """A body is done with."""
        self.held -= size


_REFUSALS: Final = {
    413: f"the review has more than {LARGEST} bytes\n",
    503: "too many reviews at one time: ask again\n",
}


@attrs.define
class Turns:
    """One review is in hand at a time, and the event loop is everybody else's for as long as each part of it took.

    Reviews that arrive together would otherwise be judged in one round of the loop: each is bounded, their sum is not
    (RUN-11). `now` is the monotonic clock.
    """

    now: Callable[[], float]
    _lock: anyio.Lock = attrs.field(factory=anyio.Lock)
    _began: float = 0.0
    _free_at: float = 0.0

    async def __aenter__(self) -> None:
        await self._lock.acquire()
        try:
            await anyio.sleep(max(0.0, self._free_at - self.now()))
        except BaseException:
            self._lock.release()
            raise
        self._began = self.now()

    async def rest(self) -> None:
        """Between two parts of the review in hand; what has not taken long yet goes on at once."""
        took = self.now() - self._began
        if took >= _LONG:
            await anyio.sleep(took)
            self._began = self.now()

    async def __aexit__(self, *_: object) -> None:
        ended = self.now()
        self._free_at = 2 * ended - self._began
        self._lock.release()


def _endpoint(handle: Handle, reading: _Reading, turns: Turns) -> Endpoint:
    async def answer(request: Request) -> Response:
        try:
            body, refusal = await reading.read(request)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        if refusal:
            # What is still on its way is not read: the connection ends with the answer.
            headers = {"connection": "close", "retry-after": "1"}
            return PlainTextResponse(_REFUSALS[refusal], refusal, headers=headers)
        try:
            async with turns:
                return await handle(body)
        finally:
            reading.let_go(len(body))

    return answer


async def _judged(body: bytes, *, judge: Judge, turns: Turns) -> Response:
    try:
        request = await _review(body, turns.rest)
        return Response(canonical_json(judge(request)), media_type="application/json")
    except (MalformedReview, msgspec.DecodeError, UnicodeDecodeError) as error:
        return PlainTextResponse(f"{error}\n", 400)


async def _converted(body: bytes, *, kinds: ServedKinds, turns: Turns) -> Response:
    try:
        return Response(await answered(body, kinds.converters, turns.rest), media_type="application/json")
    except (MalformedConversionReview, msgspec.DecodeError, UnicodeDecodeError) as error:
        return PlainTextResponse(f"{error}\n", 400)
