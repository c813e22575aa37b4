"""The API of the embedded control plane for agents (operators in clusters) over HTTP, and its server.

It is as strict about the wire format as the specification (PULL-1).
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from email.utils import format_datetime
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from kubelab.http.listener import bind, serve_until_cancelled, url_of
from vworkspace_fake.controlplane.admin import admin_routes
from vworkspace_fake.controlplane.faults import AgentCall
from vworkspace_fake.controlplane.refusals import ApiRefusal, Dropped, error_body
from vworkspace_fake.controlplane.server import ControlPlaneServer
from vworkspace_fake.controlplane.waiting import LongPolls

MEDIA_TYPE: Final = "application/vnd.vworkspace.agent.v1+json"
DEFAULT_WAIT: Final = 30
LONGEST_WAIT: Final = 300
_LONGEST_BODY: Final = 16 * 1024 * 1024

_WELCOME: Final = """The embedded control plane of vworkspace-operator.

/api/agent/   what an agent calls (docs/protocol.md)
/api/admin/   what Odoo does, with Authorization: Bearer <the value of --admin-token>

GET    /api/admin/jobs            every job with its statuses and result
POST   /api/admin/jobs            {"clusterId", "kind", "payload", "idempotencyKey"}: offer a job
GET    /api/admin/events          what the agents told; ?cluster= of one cluster
"""

Effect = Callable[[Request, str | None, Any], Any]
"""A function that does what a request with a token and a body asks for, and returns the answer."""


def control_plane_app(
    server: ControlPlaneServer, polls: LongPolls, *, admin_token: str, further: Sequence[BaseRoute] = ()
) -> Starlette:
    """Build the ASGI application that serves `server` over HTTP.

    `polls` are the long polls: the agents' requests that wait for a job. Paths below `/api/agent/` are for agents,
    those below `/api/admin/` for the holder of `admin_token`. The routes in `further` are added.
    """
    face = _AgentFace(server, polls)
    routes: list[BaseRoute] = [Route("/api/agent/jobs", face.jobs)]
    effects: Mapping[str, tuple[AgentCall, Effect]] = {
        "jobs/{job_id}/ack": (AgentCall.ACK, lambda request, token, _: server.ack(token, _job_id(request))),
        "jobs/{job_id}/status": (AgentCall.STATUS, lambda request, *sent: _report(server.status, request, *sent)),
        "jobs/{job_id}/result": (AgentCall.RESULT, lambda request, *sent: _report(server.result, request, *sent)),
        "events": (AgentCall.EVENTS, lambda _, token, body: server.events(token, body)),
        "register": (AgentCall.REGISTER, lambda _, token, body: server.register(token, body)),
        "credentials/rotate": (AgentCall.ROTATE, lambda _, token, _body: server.rotate(token)),
    }
    for path, (call, effect) in effects.items():
        routes.append(Route(f"/api/agent/{path}", face.post(call, effect), methods=["POST"]))

    def elsewhere(_: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        return _refused(
            ApiRefusal(status, "the agent API is below /api/agent/, the admin API below /api/admin/"), server
        )

    handlers = {HTTPException: elsewhere}
    routes.append(Route("/", lambda _: Response(_WELCOME, media_type="text/plain")))
    return Starlette(routes=[*routes, *admin_routes(server, admin_token), *further], exception_handlers=handlers)


class _AgentFace:
    """The HTTP endpoints of the agent API. `_answer` turns faults and refusals into responses."""

    def __init__(self, server: ControlPlaneServer, polls: LongPolls) -> None:
        self._server = server
        self._polls = polls

    async def jobs(self, request: Request) -> Response:
        """Answer a long poll with the offered jobs.

        If no job is offered within the poll's time, the answer has no jobs.
        """
        return await self._answer(request, AgentCall.FETCH, self._poll)

    async def _poll(self, request: Request, token: str | None) -> Any:
        cluster_id, wait = request.query_params.get("cluster"), _wait(request)
        if not cluster_id:
            raise ApiRefusal(400, "cluster: is required")
        jobs = self._server.fetch(token, cluster_id)
        if not jobs and wait > 0:
            jobs = await _unless_gone(
                request, self._polls.jobs(lambda: self._server.poll(token, cluster_id), cluster_id, wait)
            )
        return {"jobs": jobs}

    def post(self, call: AgentCall, effect: Effect) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of `call`, which has the effect `effect` and answers with its result."""

        async def perform(request: Request, token: str | None) -> Any:
            # An acknowledgement has no body.
            return effect(request, token, None if call is AgentCall.ACK else await _body(request))

        async def endpoint(request: Request) -> Response:
            return await self._answer(request, call, perform)

        return endpoint

    async def _answer(
        self, request: Request, call: AgentCall, perform: Callable[[Request, str | None], Awaitable[Any]]
    ) -> Response:
        fault = self._server.incoming(call)
        if fault.latency > 0:
            await asyncio.sleep(fault.latency)
        try:
            with fault.around():
                _check_accept(request)
                answer = await perform(request, _bearer(request))
        except ApiRefusal as refusal:
            return _refused(refusal, self._server)
        except Dropped:
            return _NoAnswer()
        return _response(200 if answer is not None else 204, answer, self._server.now())


class _NoAnswer(Response):
    """A response that announces a body but never sends it, so that the client sees a lost connection."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Announce a body and return; the server then closes the connection."""
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]})


async def _unless_gone(request: Request, poll: Awaitable[list[Any]]) -> list[Any]:
    """Wait for the long poll `poll`, and return its jobs.

    If the client disconnects first, cancel the poll and return no jobs, so that no job is offered to a missing client.
    """
    waiting = asyncio.ensure_future(poll)
    gone = asyncio.ensure_future(_hangup(request))
    try:
        await asyncio.wait((waiting, gone), return_when=asyncio.FIRST_COMPLETED)
        return await waiting if waiting.done() else []
    finally:
        for task in (waiting, gone):
            task.cancel()
        await asyncio.gather(waiting, gone, return_exceptions=True)


async def _hangup(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _report(record: Callable[[str | None, str, Any], None], request: Request, token: str | None, body: Any) -> None:
    record(token, _job_id(request), body)


def _job_id(request: Request) -> str:
    return str(request.path_params["job_id"])


def _bearer(request: Request) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def _check_accept(request: Request) -> None:
    if MEDIA_TYPE not in request.headers.get("accept", ""):
        raise ApiRefusal(406, f"Accept must name {MEDIA_TYPE}")


def _wait(request: Request) -> int:
    text = request.query_params.get("wait", str(DEFAULT_WAIT))
    if not (text.isascii() and text.isdigit()) or int(text[:9]) > LONGEST_WAIT:
        raise ApiRefusal(400, f"wait: must be 0 to {LONGEST_WAIT} seconds, not {text[:20]!r}")
    return int(text)


async def _body(request: Request) -> Any:
    if request.headers.get("content-type", "").partition(";")[0].strip() != MEDIA_TYPE:
        raise ApiRefusal(415, f"Content-Type must be {MEDIA_TYPE}")
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > _LONGEST_BODY:
                raise ApiRefusal(413, f"the body has more than {_LONGEST_BODY} bytes")
        return json.loads(bytes(body), parse_constant=_no_json)
    except (ValueError, RecursionError) as error:
        raise ApiRefusal(400, f"the body is not JSON that can be read: {error}") from error
    except ClientDisconnect as error:
        raise Dropped from error


def _no_json(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _response(status: int, value: Any, now: datetime) -> Response:
    body = b"" if value is None else json.dumps(value).encode()
    return Response(body, status, headers=_headers(now), media_type=MEDIA_TYPE if value is not None else None)


def _headers(now: datetime) -> dict[str, str]:
    return {"date": format_datetime(now, usegmt=True)}


def _refused(refusal: ApiRefusal, server: ControlPlaneServer) -> Response:
    headers = _headers(server.now())
    if refusal.retry_after is not None:
        headers["retry-after"] = str(round(refusal.retry_after))
    document = error_body(refusal.status, refusal.message, server.request_id())
    body = json.dumps(document).encode() if refusal.body is None else refusal.body
    return Response(body, refusal.status, headers=headers, media_type=refusal.content_type or MEDIA_TYPE)


async def serve(
    server: ControlPlaneServer,
    host: str,
    port: int,
    *,
    admin_token: str,
    ready: Callable[[str], None],
    further: Sequence[BaseRoute] = (),
) -> None:
    """Serve the control plane until cancelled. `ready` is called with the base URL once connections are accepted.

    `further` routes are served as well. Port 0 takes a free port. Raises OSError if the address is unavailable. On
    cancellation open polls are ended with an empty answer and connections are closed.
    """
    polls = LongPolls(server)
    app = control_plane_app(server, polls, admin_token=admin_token, further=further)
    listener = bind(host, port)
    url = url_of(host, listener)
    config = uvicorn.Config(
        app, log_level="critical", access_log=False, date_header=False, server_header=False, lifespan="off",
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    await serve_until_cancelled(config, listener, ready=lambda: ready(url), ending=polls.close)
