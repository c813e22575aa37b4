"""Checks of the long poll of the agent API, by which an agent fetches jobs from the control plane (PULL-1, PULL-12)."""

from typing import Any

import anyio

from vworkspace_app.conformance.examined import PROMPT, Examined, check
from vworkspace_app.conformance.subject import Offer


@check()
async def test_a_poll_without_a_wait_answers_at_once_and_shows_the_server_s_clock_PULL_12(c: Examined) -> None:
    began = anyio.current_time()
    fetched = await c.control.fetch(c.id, 0)

    assert anyio.current_time() - began < PROMPT
    assert fetched.server_time is not None, "a Date header: expiry is judged by it"


@check(Offer.ACCOUNTS)
async def test_a_poll_with_a_wait_answers_empty_after_it(c: Examined) -> None:
    began = anyio.current_time()
    assert (await c.control.fetch(c.id, 1)).jobs == []
    assert 0.9 < anyio.current_time() - began < 1.0 + PROMPT


@check(Offer.JOBS)
async def test_a_job_comes_over_whole_with_every_field_of_PULL_1(c: Examined) -> None:
    job_id = await c.enqueue(payload={"x": ["ä", 1, None]}, signature="sig", idempotencyKey="App/ns/name@1")

    (job,) = await c.jobs()
    assert job.pop("createdAt") < job.pop("expiresAt")
    assert job == {
        "id": job_id,
        "kind": "apply",
        "payload": {"x": ["ä", 1, None]},
        "idempotencyKey": "App/ns/name@1",
        "signature": "sig",
    }


@check(Offer.JOBS)
async def test_a_waiting_poll_wakes_when_a_job_comes(c: Examined) -> None:
    jobs: list[Any] = []

    async def poll() -> None:
        jobs.extend((await c.control.fetch(c.id, 15)).jobs)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(poll)
        await anyio.sleep(0.2)
        job_id = await c.enqueue()
        began = anyio.current_time()
    assert job_id in [job["id"] for job in jobs]
    assert anyio.current_time() - began < PROMPT


@check(Offer.JOBS, Offer.ACCOUNTS)
async def test_a_poll_of_another_cluster_sleeps_on(c: Examined) -> None:
    other = await Examined.of(c.subject)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other.enqueue)
        assert (await c.control.fetch(c.id, 1)).jobs == []
