"""PULL-11: the admin API of the embedded control plane shows everything, whatever an agent or a tester sends."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import httpx2
import pytest
from starlette.applications import Starlette

from tests.support.run_by import run_by
from vworkspace_app.commands.servers import jobs_page
from vworkspace_app.page.site import Site
from vworkspace_fake.controlplane.http import MEDIA_TYPE, control_plane_app
from vworkspace_fake.controlplane.server import ControlPlaneServer
from vworkspace_fake.controlplane.waiting import LongPolls

ADMIN = {"Authorization": "Bearer admin"}
AGENT = {"Authorization": "Bearer agent", "Accept": MEDIA_TYPE, "Content-Type": MEDIA_TYPE}
JOB = {"clusterId": "c", "kind": "apply", "payload": {}, "idempotencyKey": "k"}


def told(story: Callable[[httpx2.AsyncClient], Awaitable[None]]) -> None:
    """Run a story with a client of a control plane that knows the clusters `c` and `d`."""

    async def main() -> None:
        server = ControlPlaneServer()
        server.tokens.add("c", "agent")
        server.tokens.add("d", "other-agent")
        app = control_plane_app(server, LongPolls(server), admin_token="admin")
        transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://here") as client:
            await story(client)

    anyio.run(main)


async def jobs(client: httpx2.AsyncClient) -> list[Any]:
    answer = await client.get("/api/admin/jobs", headers=ADMIN)
    assert answer.status_code == 200, answer.text
    found: list[Any] = answer.json()["jobs"]
    return found


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
@run_by(told)
async def test_a_report_that_is_no_json_is_refused_and_hides_no_job_PULL_11(
    client: httpx2.AsyncClient, *, number: str
) -> None:
    await client.post("/api/admin/jobs", headers=ADMIN, json={**JOB, "id": "j"})
    await client.post("/api/agent/jobs/j/ack", headers={name: AGENT[name] for name in ("Authorization", "Accept")})
    body = '{"phase": "P", "conditions": [], "message": "", "timestamp": "2026-01-01T00:00:00Z", "more": %s}'
    answer = await client.post("/api/agent/jobs/j/status", headers=AGENT, content=body % number)
    assert (answer.status_code, answer.json()["error"]) == (400, "BadRequest")
    answer = await client.post("/api/agent/jobs/j/status", headers=AGENT, content=body % '"\\ud800"')
    assert answer.status_code in (204, 400)
    assert [job["id"] for job in await jobs(client)] == ["j"]


@pytest.mark.parametrize("raw", ["\ud800", {"id": "\ud800"}, float("nan")])
@run_by(told)
async def test_a_malformed_job_is_offered_as_it_is_and_hides_no_other_PULL_11(
    client: httpx2.AsyncClient, *, raw: Any
) -> None:
    await client.post("/api/admin/jobs", headers=ADMIN, json=JOB)
    answer = await client.post("/api/admin/jobs", headers=ADMIN, content=json.dumps({"clusterId": "c", "raw": raw}))
    assert answer.status_code == 200, answer.text
    assert len(await jobs(client)) == 2


@run_by(told)
async def test_events_are_listed_of_all_clusters_or_of_one_that_is_known_PULL_11(client: httpx2.AsyncClient) -> None:
    """An empty list for a cluster that nobody knows would say that its agent has reported nothing."""
    ref = {"apiVersion": "v1", "kind": "Cluster", "namespace": "", "name": "c", "uid": ""}
    event = {"kind": "ClusterHeartbeat", "eventKey": "1", "timestamp": "2026-01-01T00:00:00Z", "conditions": []}
    posted = await client.post("/api/agent/events", headers=AGENT, json={"events": [{**event, "resourceRef": ref}]})
    assert posted.status_code == 204, posted.text

    async def keys(query: str) -> list[str]:
        answer = await client.get(f"/api/admin/events{query}", headers=ADMIN)
        return [one["eventKey"] for one in answer.json()["events"]]

    assert (await keys(""), await keys("?cluster=c"), await keys("?cluster=d")) == (["1"], ["1"], [])
    for path in ("events", "jobs"):
        answer = await client.get(f"/api/admin/{path}?cluster=typo", headers=ADMIN)
        assert answer.status_code == 404
        assert "known: c, d" in answer.json()["message"]


@pytest.mark.parametrize("seconds", [1e300, "soon", float("inf")])
@run_by(told)
async def test_an_unusable_lifetime_is_refused_with_a_reason_PULL_11(
    client: httpx2.AsyncClient, *, seconds: Any
) -> None:
    content = json.dumps({**JOB, "expiresInSeconds": seconds})
    answer = await client.post("/api/admin/jobs", headers=ADMIN, content=content)
    assert answer.status_code == 400, answer.text
    assert await jobs(client) == []


@run_by(anyio.run)
async def test_the_page_shows_a_malformed_job_among_the_others_SEE_3() -> None:
    server = ControlPlaneServer()
    server.tokens.add("c", "agent")
    server.enqueue("c", kind="\ud800", payload={"kind": "\udfff", "name": "x"}, idempotency_key="k", job_id="j\ud800")
    server.enqueue("c", kind="apply", payload={}, idempotency_key="well-formed", job_id="well")
    app = Starlette(routes=Site(jobs_page(server), "control plane").routes())
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get("/")
    assert answer.status_code == 200
    assert "well-formed" in answer.text
