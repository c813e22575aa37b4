"""The ASGI application of the webhooks, which decodes a review, has a pure function judge it, and encodes the answer.

A review is an AdmissionReview or a ConversionReview of the API server. The path of a request says whether the object's
namespace is managed: two webhooks with opposite `namespaceSelector`s have two paths. So the API server decides that by
the namespace's label as it sees it, and every replica can answer without a cache.
"""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Protocol

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from purekube.apimachinery.admission_review import (
    AdmissionRequest,
    MalformedReview,
    allowed,
    patched,
    read_review,
    refused,
)
from purekube.apimachinery.certificates import Validity
from purekube.apimachinery.manifest import canonical_json
from purekube.apimachinery.nesting import decode_answer
from purekube.apimachinery.secret_material import shown
from purekube.boxes.webhooks.conversion_webhook import CONVERT_PATH
from vworkspace_app.webhooks.intake import LARGEST, Bodies, Lanes, Rest
from vworkspace_app.webhooks.kinds import NO_KINDS, Judge, ServedKinds
from vworkspace_core.webhook.admission import (
    DEFAULT_PATH,
    GATED_PATH,
    UNGATED_PATH,
    WebhookSettings,
    default_patch,
    refusals,
)


class ReviewObserver(Protocol):
    """The interface of an observer of admission and conversion reviews, and of their server's certificate, for metrics.

    For each review, the beginning and the end are reported once.
    """

    def certificate(self, validity: Validity) -> None:
        """Record the validity of the certificate in use."""

    def webhook(self, path: str) -> None:
        """Record that a webhook is served at this path."""

    def review_began(self, path: str) -> None:
        """Record that the webhook at this path received a review."""

    def review_ended(self, path: str, code: int, seconds: float) -> None:
        """Record that a review was answered with the HTTP code `code` after `seconds`.

        The code 500 also means that it was abandoned or failed.
        """


_log = structlog.get_logger("webhook")

Endpoint = Callable[[Request], Awaitable[Response]]
Handle = Callable[[bytes, Rest], Awaitable[Response]]
"""A function that returns the response to the body of a review."""


def application(
    settings: WebhookSettings | None,
    observer: ReviewObserver | None = None,
    now: Callable[[], float] = time.monotonic,
    kinds: ServedKinds = NO_KINDS,
) -> Starlette:
    """Return the ASGI application of the webhooks.

    It answers 400 to a body that is not a review, and never fails because of a review's content. If `settings` is None,
    only the webhooks in `kinds` are served. An `observer` is called for every review; `now` is the monotonic clock.
    """
    bodies, lanes = Bodies(), Lanes(now)
    judges = {**({} if settings is None else _own(settings)), **kinds.judges}
    handlers = {path: partial(_judged, judge=judge) for path, judge in judges.items()}
    if kinds.converts:
        from vworkspace_app.webhooks.conversions import conversion_response  # schemas and expressions need 3 MB

        handlers[CONVERT_PATH] = partial(conversion_response, kinds=kinds)
    endpoints = {path: _endpoint(handle, bodies, lanes) for path, handle in handlers.items()}
    if observer is not None:
        endpoints = {path: _observed(path, endpoint, observer, now) for path, endpoint in endpoints.items()}
    return Starlette(routes=[Route(path, endpoint, methods=["POST"]) for path, endpoint in endpoints.items()])


def _own(settings: WebhookSettings) -> dict[str, Judge]:
    return {
        GATED_PATH: partial(_validated, settings=settings, namespace_managed=True),
        UNGATED_PATH: partial(_validated, settings=settings, namespace_managed=False),
        DEFAULT_PATH: _defaulted,
    }


async def _defaulted(request: AdmissionRequest) -> dict[str, Any]:
    return patched(request, default_patch(request))


def _observed(path: str, endpoint: Endpoint, observer: ReviewObserver, now: Callable[[], float]) -> Endpoint:
    observer.webhook(path)

    async def answer(request: Request) -> Response:
        began, code = now(), 500  # the status if an exception is raised
        observer.review_began(path)
        try:
            response = await endpoint(request)
            code = response.status_code
            return response
        finally:
            observer.review_ended(path, code, now() - began)

    return answer


async def _validated(
    request: AdmissionRequest, *, settings: WebhookSettings, namespace_managed: bool
) -> dict[str, Any]:
    problems = refusals(request, settings, namespace_managed=namespace_managed)
    if not problems:
        return allowed(request)
    messages = [shown(str(problem)) for problem in problems]
    _log.info("refused", operation=request.operation, namespace=request.namespace, name=request.name, problems=messages)
    return refused(request, problems)


class _UserInfo(msgspec.Struct):
    username: str = ""


class _Request(msgspec.Struct):
    """The fields of an AdmissionReview's request. Its objects are decoded one by one later."""

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


async def _review(body: bytes, rest: Rest) -> AdmissionRequest:
    """Decode an AdmissionReview in parts, awaiting `rest` between them, and return its request.

    Raises MalformedReview and msgspec.DecodeError for a malformed body.
    """
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


_REFUSALS: Final = {
    413: f"the review has more than {LARGEST} bytes\n",
    503: "too many reviews at one time: ask again\n",
}


def _endpoint(handle: Handle, bodies: Bodies, lanes: Lanes) -> Endpoint:
    async def answer(request: Request) -> Response:
        try:
            body = await bodies.read(request)
        except ClientDisconnect:
            return Response(status_code=400)  # the client is gone
        if body.refusal:
            # The rest of the body is not read: the connection ends with the answer.
            headers = {"connection": "close", "retry-after": "1"}
            return PlainTextResponse(_REFUSALS[body.refusal], body.refusal, headers=headers)
        try:
            turns = lanes.of(len(body.content))
            async with turns.taken(len(body.content)):
                return await handle(bytes(body.content), turns.rest)
        finally:
            bodies.let_go(body)

    return answer


async def _judged(body: bytes, rest: Rest, *, judge: Judge) -> Response:
    try:
        request = await _review(body, rest)
        return Response(canonical_json(await judge(request)), media_type="application/json")
    except (MalformedReview, msgspec.DecodeError, UnicodeDecodeError) as error:
        return PlainTextResponse(f"{error}\n", 400)
