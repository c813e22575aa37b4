"""What every control plane must do for an agent (PULL-1, PULL-4, PULL-6, PULL-8), on every face there is.

With `CONTROL_PLANE_URL` and `CONTROL_PLANE_ADMIN_TOKEN` set, the suite examines that server too.
"""

import os
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from tests.conformance.control_planes import Open, Subject, at_url, in_process, over_http
from vworkspace_core.errors import Forbidden, Invalid, NotFound, Unauthorized, Unavailable

URL = os.environ.get("CONTROL_PLANE_URL", "")
FACES: list[Any] = [pytest.param(in_process, id="in-process"), pytest.param(over_http, id="http")]
if URL:
    token = os.environ.get("CONTROL_PLANE_ADMIN_TOKEN", "")
    FACES.append(pytest.param(lambda: at_url(URL, token), id="url"))

DONE = {"outcome": "succeeded", "timestamp": "2026-01-01T00:00:00Z"}
PROGRESS = {"phase": "Reconciling", "conditions": [], "message": "", "timestamp": "2026-01-01T00:00:00Z"}


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> Open:
    return request.param  # type: ignore[no-any-return]


class Cluster:
    """A fresh cluster with a token of its own on the subject."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.id = f"cluster-{uuid.uuid4().hex[:8]}"
        self.token = f"token-{uuid.uuid4().hex}"

    async def open(self) -> "Cluster":
        await self.subject.admin("POST", "tokens", {"clusterId": self.id, "token": self.token})
        self.control = self.subject.control(self.token)
        return self

    async def enqueue(self, **fields: Any) -> Any:
        body = {"clusterId": self.id, "kind": "apply", "payload": {"a": 1}, "idempotencyKey": "k", **fields}
        return (await self.subject.admin("POST", "jobs", {"id": f"job-{uuid.uuid4().hex[:8]}", **body}))["id"]

    async def job(self, job_id: str) -> Any:
        return await self.subject.admin("GET", f"jobs/{job_id}")

    async def ids(self, wait: int = 0) -> list[str]:
        return [job["id"] for job in (await self.control.fetch(self.id, wait)).jobs]

    async def events(self) -> Any:
        return (await self.subject.admin("GET", f"events?cluster={self.id}"))["events"]


def examine(face: Open, body: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        with anyio.fail_after(20):
            async with face() as subject:
                await body(await Cluster(subject).open())

    anyio.run(main)


def test_a_job_comes_over_whole_with_every_field_of_PULL_1(face: Open) -> None:
    async def body(c: Cluster) -> None:
        job_id = await c.enqueue(payload={"x": ["ä", 1, None]}, signature="sig")

        fetched = await c.control.fetch(c.id, 0)

        (job,) = fetched.jobs
        assert job.pop("createdAt") < job.pop("expiresAt")
        assert job == {
            "id": job_id,
            "kind": "apply",
            "payload": {"x": ["ä", 1, None]},
            "idempotencyKey": "k",
            "signature": "sig",
        }
        assert fetched.server_time is not None

    examine(face, body)


def test_an_empty_poll_answers_at_once_without_a_wait_and_after_it_with_one(face: Open) -> None:
    async def body(c: Cluster) -> None:
        began = anyio.current_time()
        assert await c.ids() == []
        at_once = anyio.current_time() - began
        assert await c.ids(wait=1) == []
        waited = anyio.current_time() - began - at_once

        assert at_once < 0.5
        assert 0.9 < waited < 2.0

    examine(face, body)


def test_a_waiting_poll_wakes_when_a_job_comes(face: Open) -> None:
    async def body(c: Cluster) -> None:
        found: list[str] = []

        async def poll() -> None:
            found.extend(await c.ids(wait=20))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(poll)
            await anyio.sleep(0.2)
            began = anyio.current_time()
            job_id = await c.enqueue()
        assert found == [job_id]
        assert anyio.current_time() - began < 1.0

    examine(face, body)


def test_a_poll_of_another_cluster_sleeps_on(face: Open) -> None:
    async def body(c: Cluster) -> None:
        other = await Cluster(c.subject).open()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other.enqueue)
            assert await c.ids(wait=1) == []

    examine(face, body)


def test_an_acked_job_is_offered_no_more_and_an_unacked_one_is_PULL_4(face: Open) -> None:
    async def body(c: Cluster) -> None:
        acked, left = await c.enqueue(), await c.enqueue()
        assert await c.ids() == [acked, left]
        await c.control.ack(acked)
        await c.control.ack(acked)

        assert await c.ids(wait=10) == [left]

    examine(face, body)


def test_an_ack_of_what_is_unknown_foreign_or_closed_is_NotFound(face: Open) -> None:
    async def body(c: Cluster) -> None:
        other = await Cluster(c.subject).open()
        foreign, closed, settled = await other.enqueue(), await c.enqueue(), await c.enqueue()
        await c.subject.admin("DELETE", f"jobs/{closed}")
        await c.control.ack(settled)
        await c.control.result(settled, DONE)

        for job_id in ("nobody", "a/b?c#d", foreign, closed, settled):
            with pytest.raises(NotFound):
                await c.control.ack(job_id)

    examine(face, body)


def test_statuses_are_kept_until_the_result_closes_the_job(face: Open) -> None:
    async def body(c: Cluster) -> None:
        job_id = await c.enqueue()
        await c.control.ack(job_id)
        await c.control.status(job_id, PROGRESS)
        await c.control.status(job_id, {**PROGRESS, "phase": "Ready"})
        await c.control.result(job_id, DONE)

        with pytest.raises(NotFound):
            await c.control.status(job_id, PROGRESS)
        job = await c.job(job_id)
        assert [status["phase"] for status in job["statuses"]] == ["Reconciling", "Ready"]
        assert job["result"] == DONE

    examine(face, body)


def test_the_first_result_counts_and_a_second_is_no_error_PULL_4(face: Open) -> None:
    async def body(c: Cluster) -> None:
        job_id = await c.enqueue()
        await c.control.ack(job_id)
        await c.control.result(job_id, DONE)
        await c.control.result(job_id, {**DONE, "outcome": "failed", "error": "late"})

        job = await c.job(job_id)
        assert job["result"] == DONE
        assert job["resultsRefused"] == 1

    examine(face, body)


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"outcome": "great", "timestamp": "2026-01-01T00:00:00Z"},
        {"outcome": "failed", "timestamp": "2026-01-01T00:00:00Z"},
        {"outcome": "succeeded", "timestamp": "today"},
        {"outcome": "succeeded", "timestamp": "2026-01-01T00:00:00Z", "appliedRef": {"kind": "x"}},
    ],
)
def test_a_malformed_result_is_Invalid_and_the_job_stays_open(face: Open, bad: Any) -> None:
    async def body(c: Cluster) -> None:
        job_id = await c.enqueue()
        await c.control.ack(job_id)

        with pytest.raises(Invalid):
            await c.control.result(job_id, bad)
        await c.control.result(job_id, DONE)

    examine(face, body)


def test_a_result_before_the_ack_is_Invalid(face: Open) -> None:
    async def body(c: Cluster) -> None:
        job_id = await c.enqueue()

        with pytest.raises(Invalid, match="not acknowledged"):
            await c.control.result(job_id, DONE)

    examine(face, body)


def event(key: str) -> dict[str, Any]:
    return {"kind": "ConditionTransition", "eventKey": key, "timestamp": "2026-01-01T00:00:00Z"}


def test_events_are_kept_once_per_key_in_order_PULL_6(face: Open) -> None:
    async def body(c: Cluster) -> None:
        await c.control.events([event("a"), event("b")])
        await c.control.events([event("b"), event("c"), event("a")])

        assert [found["eventKey"] for found in await c.events()] == ["a", "b", "c"]

    examine(face, body)


@pytest.mark.parametrize("batch", [[], [event("x"), {"kind": "x"}], [event(str(at)) for at in range(101)]])
def test_a_batch_that_is_empty_too_long_or_malformed_is_refused_as_a_whole(face: Open, batch: Any) -> None:
    async def body(c: Cluster) -> None:
        with pytest.raises(Invalid):
            await c.control.events(batch)
        assert await c.events() == []

    examine(face, body)


def test_a_token_speaks_for_its_cluster_only(face: Open) -> None:
    async def body(c: Cluster) -> None:
        other = await Cluster(c.subject).open()

        with pytest.raises(Forbidden) as refused:
            await c.control.fetch(other.id, 0)
        assert not isinstance(refused.value, Unauthorized)
        with pytest.raises(Unauthorized) as rejected:
            await c.subject.control("wrong-token-text").fetch(c.id, 0)
        assert "wrong-token-text" not in str(rejected.value)

    examine(face, body)


def test_rotation_gives_a_new_token_and_keeps_the_old_one_for_a_while_PULL_8(face: Open) -> None:
    async def body(c: Cluster) -> None:
        fresh = (await c.control.rotate())["token"]

        assert fresh != c.token
        await c.subject.control(fresh).fetch(c.id, 0)
        await c.control.fetch(c.id, 0)

    examine(face, body)


def test_registration_is_one_time_once_its_credential_was_used_PULL_8(face: Open) -> None:
    async def body(c: Cluster) -> None:
        once = (await c.subject.admin("POST", "registrations", {"clusterId": c.id}))["registrationToken"]
        ask = {"registrationToken": once, "clusterId": c.id}

        lost = await c.subject.control(once).register(ask)
        again = await c.subject.control(once).register(ask)

        assert again["clusterId"] == c.id
        assert again["token"] != lost["token"]
        with pytest.raises(Unauthorized):
            await c.subject.control(lost["token"]).fetch(c.id, 0)
        await c.subject.control(again["token"]).fetch(c.id, 0)
        with pytest.raises(Unauthorized):
            await c.subject.control(once).register(ask)

    examine(face, body)


def test_registration_for_another_cluster_is_refused(face: Open) -> None:
    async def body(c: Cluster) -> None:
        once = (await c.subject.admin("POST", "registrations", {"clusterId": c.id}))["registrationToken"]

        with pytest.raises(Forbidden):
            await c.subject.control(once).register({"registrationToken": once, "clusterId": "other"})

    examine(face, body)


def test_a_revoked_token_ends_even_a_waiting_poll(face: Open) -> None:
    async def body(c: Cluster) -> None:
        refused: list[Exception] = []

        async def poll() -> None:
            try:
                await c.control.fetch(c.id, 20)
            except Unauthorized as error:
                refused.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(poll)
            await anyio.sleep(0.2)
            await c.subject.admin("DELETE", "tokens", {"token": c.token})
            await c.enqueue()
        assert len(refused) == 1

    examine(face, body)


@pytest.mark.parametrize("raw", [{"id": 7}, {"kind": "apply"}, {"id": "x", "payload": "text"}])
def test_anything_can_be_offered_so_that_agents_can_be_tried(face: Open, raw: Any) -> None:
    async def body(c: Cluster) -> None:
        unique = {**raw, "id": uuid.uuid4().int % 10**12 if raw.get("id") == 7 else uuid.uuid4().hex}
        offered = unique if "id" in raw else raw
        await c.subject.admin("POST", "jobs", {"clusterId": c.id, "raw": offered})

        assert list((await c.control.fetch(c.id, 0)).jobs) == [offered]

    examine(face, body)


def test_faults_before_the_effect_after_it_and_without_an_answer(face: Open) -> None:
    async def body(c: Cluster) -> None:
        before, after, dropped = [await c.enqueue() for _ in range(3)]
        for job_id, fault, taken in (
            (before, {"status": 500}, False),
            (after, {"status": 503, "when": "after", "retryAfter": 7}, True),
            (dropped, {"status": 0, "when": "after"}, True),
        ):
            await c.subject.admin("POST", "faults", {"call": "ack", **fault})
            with pytest.raises(Unavailable) as failed:
                await c.control.ack(job_id)
            assert failed.value.retry_after == fault.get("retryAfter")
            assert ((await c.job(job_id))["ackedAt"] is not None) is taken
            await c.control.ack(job_id)

    examine(face, body)


def test_an_outage_is_total_until_it_ends(face: Open) -> None:
    async def body(c: Cluster) -> None:
        await c.subject.admin("PUT", "outage", {"status": 502})
        for _ in range(3):
            with pytest.raises(Unavailable):
                await c.ids()
        await c.subject.admin("PUT", "outage", {})
        assert await c.ids() == []

    examine(face, body)
