"""The two faces of the embedded control plane as subjects of the suite (PULL-11)."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
import httpx2

from tests.support.effort import unused_name
from vworkspace_app.conformance.over_http import ControlPlaneAt, HttpSubject
from vworkspace_app.conformance.subject import Account, Offer, RawAnswer
from vworkspace_core.control_plane.port import ControlPlane
from vworkspace_fake.controlplane import ControlPlaneServer, InProcessControlPlane
from vworkspace_fake.controlplane.http import MEDIA_TYPE, control_plane_app, serve
from vworkspace_fake.controlplane.waiting import LongPolls

ADMIN_TOKEN = "admin-token"


def quick_server() -> ControlPlaneServer:
    """A server that offers unacked jobs again soon, so that nobody waits for it."""
    return ControlPlaneServer(redelivery=timedelta(seconds=1))


class InProcess:
    """The in-memory server without sockets."""

    offers = frozenset(Offer)

    def __init__(self) -> None:
        self.server = quick_server()

    def control(self, token: str) -> ControlPlane:
        return InProcessControlPlane(self.server, token)

    async def asked(self, method: str, path: str, token: str) -> RawAnswer:
        app = control_plane_app(self.server, LongPolls(self.server), admin_token=ADMIN_TOKEN)
        headers = {"Authorization": f"Bearer {token}", "Accept": MEDIA_TYPE}
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://in-process") as client:
            answer = await client.request(method, f"/api/agent/{path}", headers=headers)
        return RawAnswer(answer.status_code, answer.headers.get("content-type", ""), answer.content)

    async def account(self) -> Account:
        made = Account(unused_name("cluster"), unused_name("token"))
        self.server.tokens.add(made.cluster_id, made.token)
        return made

    async def enqueue(self, cluster_id: str, job: Mapping[str, Any]) -> str:
        fields = dict(job)
        key = fields.pop("idempotencyKey")
        return self.server.enqueue(cluster_id, idempotency_key=key, **fields).id

    async def withdraw(self, job_id: str) -> None:
        self.server.close_job(job_id)

    async def job(self, job_id: str) -> Mapping[str, Any]:
        return self.server.jobs.get(job_id).as_json()

    async def events(self, cluster_id: str) -> Sequence[Mapping[str, Any]]:
        return self.server.events_of(cluster_id)

    async def refuse(self, token: str) -> None:
        self.server.tokens.revoke(token)

    async def registration(self, cluster_id: str) -> str:
        return self.server.tokens.offer_registration(cluster_id)


class Admin:
    """The admin API of a server, called through ASGI: what Odoo does."""

    def __init__(self, server: ControlPlaneServer) -> None:
        app = control_plane_app(server, LongPolls(server), admin_token=ADMIN_TOKEN)
        self._client = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app),
            base_url="http://in-process/api/admin/",
            headers={"Authorization": f"Bearer {ADMIN_TOKEN}"},
        )

    async def __call__(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        content = None if body is None else json.dumps(body)
        answer = await self._client.request(method, path, content=content)
        assert answer.status_code == 200, answer.text
        return answer.json()


@asynccontextmanager
async def in_process() -> AsyncIterator[InProcess]:
    """The in-process face."""
    yield InProcess()


@asynccontextmanager
async def served(server: ControlPlaneServer | None = None) -> AsyncIterator[str]:
    """The HTTP face on a free port; gives its URL."""
    urls: list[str] = []
    ready = anyio.Event()

    def announce(url: str) -> None:
        urls.append(url)
        ready.set()

    async with anyio.create_task_group() as tasks:

        async def run() -> None:
            await serve(server or quick_server(), "127.0.0.1", 0, admin_token=ADMIN_TOKEN, ready=announce)

        tasks.start_soon(run)
        await ready.wait()
        try:
            yield urls[0]
        finally:
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def over_http() -> AsyncIterator[HttpSubject]:
    """The HTTP face, served here, with the admin API."""
    async with served() as url, ControlPlaneAt(url, admin_token=ADMIN_TOKEN)() as subject:
        yield subject
