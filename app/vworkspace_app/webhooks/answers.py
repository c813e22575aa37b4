"""The ASGI application of the webhooks: JSON in, the pure judgement, JSON out.

The path says whether the namespace is gated: two webhooks with opposite `namespaceSelector`s ask at two paths, so
that the API server's own view of the label counts and every replica can answer without a cache.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from vworkspace_core.kinds.secrets import redact
from vworkspace_core.manifest import canonical_json
from vworkspace_core.webhook.defaulting import default_patch
from vworkspace_core.webhook.review import AdmissionRequest, MalformedReview, allowed, patched, read_review, refused
from vworkspace_core.webhook.validating import WebhookSettings, refusals

__all__ = ["DEFAULT_PATH", "GATED_PATH", "UNGATED_PATH", "application"]

DEFAULT_PATH: Final = "/default"
GATED_PATH: Final = "/validate"
UNGATED_PATH: Final = "/validate-ungated"

_LARGEST: Final = 16 * 1024 * 1024
"""Bytes of a review: two objects of etcd's largest size, and room."""

_log = structlog.get_logger("webhook")

Judge = Callable[[AdmissionRequest], dict[str, Any]]


def application(settings: WebhookSettings) -> Starlette:
    """The application; it answers 400 to what is no review, and never fails on what one holds."""
    judges: dict[str, Judge] = {
        GATED_PATH: lambda request: _validated(request, settings, gated=True),
        UNGATED_PATH: lambda request: _validated(request, settings, gated=False),
        DEFAULT_PATH: lambda request: patched(request, default_patch(request)),
    }
    return Starlette(routes=[Route(path, _endpoint(judge), methods=["POST"]) for path, judge in judges.items()])


def _validated(request: AdmissionRequest, settings: WebhookSettings, *, gated: bool) -> dict[str, Any]:
    problems = refusals(request, settings, gated=gated)
    if not problems:
        return allowed(request)
    told = [redact(str(problem)) for problem in problems]
    _log.info("refused", operation=request.verb, namespace=request.namespace, name=request.name, problems=told)
    return refused(request, problems)


def _endpoint(judge: Judge) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        body = await _read(request)
        if body is None:
            return PlainTextResponse(f"the review has more than {_LARGEST} bytes\n", 413)
        try:
            review = read_review(msgspec.json.decode(body))
        except (MalformedReview, msgspec.DecodeError, RecursionError) as error:
            return PlainTextResponse(f"{error}\n", 400)
        return Response(canonical_json(judge(review)), media_type="application/json")

    return answer


async def _read(request: Request) -> bytes | None:
    """The body; None when it is too large."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LARGEST:
            return None
    return bytes(body)
