"""The two faces of the embedded control plane, and any other one at a URL, as one subject to examine (PULL-11)."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Protocol

import anyio
import httpx2

from vworkspace_core.ports import ControlPlane
from vworkspace_fake.controlplane import ControlPlaneServer, InProcessControlPlane
from vworkspace_fake.controlplane.http import control_plane_app
from vworkspace_fake.controlplane.serve import serve
from vworkspace_fake.controlplane.waiting import LongPolls
from vworkspace_odoo import HttpControlPlane

ADMIN_TOKEN = "admin-token"


def quick_server() -> ControlPlaneServer:
    """A server that offers unacked jobs again soon, so that nobody waits for it."""
    return ControlPlaneServer(redelivery=timedelta(seconds=1))


class Subject(Protocol):
    """A control plane: `control` is what an agent with a token sees, `admin` what Odoo's side does."""

    def control(self, token: str) -> ControlPlane:
        """The agent's port."""
        ...

    async def admin(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """One call of the admin API."""
        ...


class OverHttp:
    """Any server that has the agent API and the admin API at `url`."""

    def __init__(self, url: str, admin_token: str) -> None:
        self._url = url
        self._open: list[HttpControlPlane] = []
        self._client = httpx2.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {admin_token}"})

    def control(self, token: str) -> ControlPlane:
        control = HttpControlPlane(self._url, lambda: token)
        self._open.append(control)
        return control

    async def admin(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        answer = await self._client.request(method, f"/api/admin/{path}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def aclose(self) -> None:
        for control in self._open:
            await control.aclose()
        await self._client.aclose()


class InProcess:
    """The in-memory server without sockets; its admin API is the same handlers, called through ASGI."""

    def __init__(self) -> None:
        self.server = quick_server()
        app = control_plane_app(self.server, LongPolls(self.server), admin_token=ADMIN_TOKEN)
        self._client = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app),
            base_url="http://in-process",
            headers={"Authorization": f"Bearer {ADMIN_TOKEN}"},
        )

    def control(self, token: str) -> ControlPlane:
        return InProcessControlPlane(self.server, token)

    async def admin(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        content = None if body is None else json.dumps(body)
        answer = await self._client.request(method, f"/api/admin/{path}", content=content)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def aclose(self) -> None:
        await self._client.aclose()


@asynccontextmanager
async def in_process() -> AsyncIterator[Subject]:
    """The in-process face."""
    subject = InProcess()
    try:
        yield subject
    finally:
        await subject.aclose()


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
async def over_http() -> AsyncIterator[Subject]:
    """The HTTP face, served here."""
    async with served() as url, at_url(url, ADMIN_TOKEN) as subject:
        yield subject


@asynccontextmanager
async def at_url(url: str, admin_token: str) -> AsyncIterator[Subject]:
    """A control plane that somebody else runs."""
    subject = OverHttp(url, admin_token)
    try:
        yield subject
    finally:
        with anyio.CancelScope(shield=True):
            await subject.aclose()


Open = Callable[[], Any]
