"""The HTTP admin API of the embedded control plane, for tests, demo and development to act as Odoo (PULL-11).

A job is a unit of work that Odoo sends to the operator in a cluster.

POST   /api/admin/jobs            {clusterId, kind, payload, idempotencyKey, id?, expiresInSeconds?, …}
                                  or {clusterId, raw}: any JSON value as a job
GET    /api/admin/jobs            every job with its statuses and result; ?cluster=: only this cluster's
GET    /api/admin/jobs/<id>       one job
DELETE /api/admin/jobs/<id>       withdraw it
GET    /api/admin/events          events, each once, in order; ?cluster=: only this cluster's
POST   /api/admin/tokens          {clusterId, token}: accept a token
DELETE /api/admin/tokens          {token}: refuse it from now on
POST   /api/admin/registrations   {clusterId}: a one-time token
POST   /api/admin/faults          {call?, status?, when?, times?, latency?, retryAfter?, body?, contentType?}
PUT    /api/admin/outage          the same, on every request; an empty object ends it
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from hmac import compare_digest
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from vworkspace_fake.controlplane.faults import AgentCall, ScriptedFault, When
from vworkspace_fake.controlplane.refusals import ApiRefusal, error_body
from vworkspace_fake.controlplane.server import ControlPlaneServer

Handler = Callable[[Request, Any], Any]


def admin_routes(server: ControlPlaneServer, admin_token: str) -> list[Route]:
    """Return the routes of the admin API. Each of them requires `admin_token` as the bearer token."""
    admin = _Admin(server)

    def route(path: str, **handlers: Handler) -> Route:
        methods = [name.upper() for name in handlers]
        return Route(f"/api/admin/{path}", _guarded(server, admin_token, handlers), methods=methods)

    return [
        route("jobs", get=admin.list_jobs, post=admin.enqueue),
        route("jobs/{job_id}", get=admin.get_job, delete=admin.withdraw),
        route("events", get=admin.list_events),
        route("tokens", post=admin.add_token, delete=admin.revoke_token),
        route("registrations", post=admin.offer_registration),
        route("faults", post=admin.inject),
        route("outage", put=admin.outage),
    ]


def _guarded(
    server: ControlPlaneServer, admin_token: str, handlers: Mapping[str, Handler]
) -> Callable[[Request], Awaitable[Response]]:
    def refused(status: int, message: str) -> Response:
        return JSONResponse(error_body(status, message, server.request_id()), status)

    async def endpoint(request: Request) -> Response:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not admin_token or not compare_digest(given.encode(), admin_token.encode()):
            return refused(401, "the admin token (the value of --admin-token) is required as bearer token")
        # GET routes also accept HEAD.
        handler = handlers["get" if request.method == "HEAD" else request.method.lower()]
        try:
            # ASCII, because a malformed job may hold half of a surrogate pair, or a number such as NaN.
            shown = json.dumps(handler(request, await _json(request)))
            return Response(shown, media_type="application/json")
        except ApiRefusal as refusal:
            return refused(refusal.status, refusal.message)
        except KeyError as error:
            return refused(400, f"{error.args[0]}: is required")
        except (TypeError, ValueError, OverflowError) as error:
            return refused(400, str(error))

    return endpoint


async def _json(request: Request) -> Any:
    body = await request.body()
    if not body:
        return {}
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the body is not JSON that can be read: {error}") from error
    if not isinstance(document, dict):
        raise TypeError("the body must be an object")
    return document


class _Admin:
    """The handlers of the admin API. Each turns the JSON object of a request into the JSON value of its answer."""

    def __init__(self, server: ControlPlaneServer) -> None:
        self._server = server

    def enqueue(self, _: Request, body: dict[str, Any]) -> Any:
        """Offer a job to a cluster, and return the job's entry.

        The job is made of the fields in `body` or, for tests of malformed jobs, is the JSON value `raw` as it is.
        """
        self._check_cluster(_text(body, "clusterId"))
        if "raw" in body:
            return self._server.enqueue_raw(_text(body, "clusterId"), body["raw"]).as_json()
        fields = dict(body)
        cluster_id, kind, key = (_text(fields, name) for name in ("clusterId", "kind", "idempotencyKey"))
        for name in ("clusterId", "kind", "idempotencyKey"):
            del fields[name]
        if "payload" not in fields:
            raise ValueError("payload: is required")
        seconds = fields.pop("expiresInSeconds", None)
        entry = self._server.enqueue(
            cluster_id,
            kind=kind,
            payload=fields.pop("payload"),
            idempotency_key=key,
            job_id=fields.pop("id", None),
            expires_in=None if seconds is None else timedelta(seconds=float(seconds)),
            **fields,
        )
        return entry.as_json()

    def _check_cluster(self, cluster_id: str) -> None:
        """Raise a 404 ApiRefusal for an unknown cluster, because no agent fetches its jobs or reports on it."""
        known = self._server.tokens.clusters()
        if cluster_id not in known:
            names = ", ".join(sorted(known)) or "none"
            raise ApiRefusal(
                404, f"clusterId: no cluster {cluster_id} is known here (known: {names}); add its token first"
            )

    def list_jobs(self, request: Request, _: Any) -> Any:
        """Return the entry of every job: the job itself, its reports and its result.

        The query `cluster` selects the jobs of one cluster.
        """
        cluster = self._cluster_of(request)
        return {"jobs": [job.as_json() for job in self._server.jobs if cluster in (None, job.cluster_id)]}

    def get_job(self, request: Request, _: Any) -> Any:
        """Return what is known of one job: the job itself, its reports and its result."""
        return self._server.jobs.get(request.path_params["job_id"]).as_json()

    def withdraw(self, request: Request, _: Any) -> Any:
        """Withdraw a job and return its entry."""
        self._server.close_job(request.path_params["job_id"])
        return self.get_job(request, _)

    def list_events(self, request: Request, _: Any) -> Any:
        """Return the events of every cluster. The query `cluster` selects those of one cluster."""
        cluster = self._cluster_of(request)
        clusters = sorted(self._server.tokens.clusters()) if cluster is None else [cluster]
        return {"events": [event for each in clusters for event in self._server.events_of(each)]}

    def _cluster_of(self, request: Request) -> str | None:
        """Return the cluster in the query `cluster`, or None without it. Raises a 404 ApiRefusal for an unknown one."""
        cluster = request.query_params.get("cluster")
        if cluster is not None:
            self._check_cluster(cluster)
        return cluster

    def add_token(self, _: Request, body: dict[str, Any]) -> Any:
        """Accept a token for a cluster from now on."""
        self._server.tokens.add(_text(body, "clusterId"), _text(body, "token"))
        return {}

    def revoke_token(self, _: Request, body: dict[str, Any]) -> Any:
        """Refuse a cluster's token from now on."""
        self._server.tokens.revoke(_text(body, "token"))
        return {}

    def offer_registration(self, _: Request, body: dict[str, Any]) -> Any:
        """Return a new one-time token for a cluster's registration."""
        return {"registrationToken": self._server.tokens.offer_registration(_text(body, "clusterId"))}

    def inject(self, _: Request, body: dict[str, Any]) -> Any:
        """Inject a fault into the next requests of agents."""
        self._server.faults.inject(_fault(body))
        return {}

    def outage(self, _: Request, body: dict[str, Any]) -> Any:
        """Begin an outage, in which the fault in `body` applies to every request of agents. An empty `body` ends it."""
        self._server.faults.outage(_fault(body) if body else None)
        return {}


def _text(body: Mapping[str, Any], name: str) -> str:
    if not isinstance(body.get(name), str) or not body[name]:
        raise ValueError(f"{name}: must be a non-empty string")
    return str(body[name])


def _fault(body: Mapping[str, Any]) -> ScriptedFault:
    status = body.get("status", 500)
    text = body.get("body")
    return ScriptedFault(
        call=AgentCall(body["call"]) if body.get("call") else None,
        status=None if status is None else int(status),
        when=When(body.get("when", "before")),
        times=int(body.get("times", 1)),
        latency=float(body.get("latency", 0)),
        retry_after=None if body.get("retryAfter") is None else float(body["retryAfter"]),
        body=None if text is None else str(text).encode(),
        content_type=body.get("contentType"),
    )
