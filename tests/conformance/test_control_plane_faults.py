"""What the embedded control plane does beside the protocol: anything on offer, faults on order (PULL-11, RUN-10)."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from purekube.apimachinery.errors import Unavailable
from tests.support.control_planes import Admin, quick_server, served
from tests.support.effort import unused_name
from tests.support.patience import PATIENCE
from tests.support.run_by import run_by
from vworkspace_core.control_plane.port import ControlPlane
from vworkspace_fake.controlplane import InProcessControlPlane
from vworkspace_odoo import HttpControlPlane

CLUSTER, TOKEN = "c1", "t1"
Body = Callable[[Admin, ControlPlane], Awaitable[None]]


@pytest.fixture(params=["in-process", "http"])
def examine(request: pytest.FixtureRequest) -> Callable[[Body], None]:
    """Runs a check on one face of a fresh server."""

    async def main(body: Body) -> None:
        server = quick_server()
        server.tokens.add(CLUSTER, TOKEN)
        with anyio.fail_after(PATIENCE):
            if request.param == "in-process":
                await body(Admin(server), InProcessControlPlane(server, TOKEN))
                return
            async with served(server) as url, HttpControlPlane(url, lambda: TOKEN) as control:
                await body(Admin(server), control)

    return lambda body: anyio.run(main, body)


async def enqueue(admin: Admin) -> str:
    job = {"clusterId": CLUSTER, "kind": "apply", "payload": {}, "idempotencyKey": unused_name("key")}
    return str((await admin("POST", "jobs", job))["id"])


@pytest.mark.parametrize("raw", [{"id": 7}, {"kind": "apply"}, {"id": "x", "payload": "text"}])
@run_by("examine")
async def test_anything_can_be_offered_so_that_agents_can_be_tried(
    admin: Admin, control: ControlPlane, *, raw: Any
) -> None:
    await admin("POST", "jobs", {"clusterId": CLUSTER, "raw": raw})

    assert list((await control.fetch(CLUSTER, 0)).jobs) == [raw]


@run_by("examine")
async def test_faults_before_the_effect_after_it_and_without_an_answer(admin: Admin, control: ControlPlane) -> None:
    before, after, dropped = [await enqueue(admin) for _ in range(3)]
    for job_id, fault, taken in (
        (before, {"status": 500}, False),
        (after, {"status": 503, "when": "after", "retryAfter": 7}, True),
        (dropped, {"status": 0, "when": "after"}, True),
    ):
        await admin("POST", "faults", {"call": "ack", **fault})
        with pytest.raises(Unavailable) as failed:
            await control.ack(job_id)
        assert failed.value.retry_after == fault.get("retryAfter")
        assert ((await admin("GET", f"jobs/{job_id}"))["ackedAt"] is not None) is taken
        await control.ack(job_id)


@run_by("examine")
async def test_an_outage_is_total_until_it_ends(admin: Admin, control: ControlPlane) -> None:
    await admin("PUT", "outage", {"status": 502})
    for _ in range(3):
        with pytest.raises(Unavailable):
            await control.fetch(CLUSTER, 0)
    await admin("PUT", "outage", {})
    assert (await control.fetch(CLUSTER, 0)).jobs == []
