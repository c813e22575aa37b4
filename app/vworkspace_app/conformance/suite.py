"""What every control plane must do for an agent (PULL-1, PULL-4, PULL-6, PULL-8), as pytest checks of `subject`.

A check that needs more than the agent API says so with `needs`, and is skipped with what it would have taken. Each
works on jobs of its own, so that other jobs of a cluster that is in use do not disturb it.
"""

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from vworkspace_app.conformance.subject import WHAT_IT_TAKES, Offer, Open, Subject
from vworkspace_core.errors import Forbidden, Invalid, NotFound, Unauthorized

AT = "2026-01-01T00:00:00Z"
DONE = {"outcome": "succeeded", "timestamp": AT}
PROGRESS = {"phase": "Reconciling", "conditions": [], "message": "", "timestamp": AT}
PROMPT, LONGEST = 1.0, 20.0
"""Seconds within which an answer is prompt, and in which a check must be over."""


class Examined:
    """One cluster of the subject, and the jobs that this check put on offer for it."""

    def __init__(self, subject: Subject, cluster_id: str, token: str) -> None:
        self.subject = subject
        self.id = cluster_id
        self.token = token
        self.control = subject.control(token)
        self._own: list[str] = []

    @classmethod
    async def of(cls, subject: Subject) -> "Examined":
        account = await subject.account()
        return cls(subject, account.cluster_id, account.token)

    async def enqueue(self, **fields: Any) -> str:
        """Put a job on offer; its id."""
        key = f"conformance/{uuid.uuid4().hex}"
        job = {"kind": "apply", "payload": {"a": 1}, "idempotencyKey": key, **fields}
        job_id = await self.subject.enqueue(self.id, job)
        self._own.append(job_id)
        return job_id

    async def jobs(self, wait: int = 0) -> list[Any]:
        """Of the jobs that one poll brings, those of this check."""
        return [job for job in (await self.control.fetch(self.id, wait)).jobs if job["id"] in self._own]

    async def ids(self, wait: int = 0) -> list[str]:
        return [job["id"] for job in await self.jobs(wait)]

    async def open_job(self) -> str:
        """A job that is acknowledged."""
        job_id = await self.enqueue()
        await self.control.ack(job_id)
        return job_id


Body = Callable[[Examined], Awaitable[None]]


def needs(*offers: Offer) -> pytest.MarkDecorator:
    """What the check asks of the subject beside the agent API."""
    return pytest.mark.needs(*offers)


@pytest.fixture
def examine(subject: Open, request: pytest.FixtureRequest) -> Callable[[Body], None]:
    """Runs a check on the subject, or skips it."""
    asked = {offer for mark in request.node.iter_markers("needs") for offer in mark.args}

    def run(body: Body) -> None:
        async def main() -> list[str]:
            async with subject() as opened:
                missing = [WHAT_IT_TAKES[offer] for offer in sorted(asked - opened.offers)]
                if not missing:
                    with anyio.fail_after(LONGEST):
                        await body(await Examined.of(opened))
                return missing

        missing = anyio.run(main)
        if missing:
            pytest.skip("needs " + "; ".join(missing))

    return run


Examine = Callable[[Body], None]


# --- the long poll ------------------------------------------------------------------------------------------------


def test_a_poll_without_a_wait_answers_at_once_and_shows_the_server_s_clock_PULL_12(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        began = anyio.current_time()
        fetched = await c.control.fetch(c.id, 0)

        assert anyio.current_time() - began < PROMPT
        assert fetched.server_time is not None, "a Date header: expiry is judged by it"

    examine(body)


@needs(Offer.ACCOUNTS)
def test_a_poll_with_a_wait_answers_empty_after_it(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        began = anyio.current_time()
        assert (await c.control.fetch(c.id, 1)).jobs == []
        assert 0.9 < anyio.current_time() - began < 1.0 + PROMPT

    examine(body)


@needs(Offer.JOBS)
def test_a_job_comes_over_whole_with_every_field_of_PULL_1(examine: Examine) -> None:
    async def body(c: Examined) -> None:
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

    examine(body)


@needs(Offer.JOBS)
def test_a_waiting_poll_wakes_when_a_job_comes(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        found: list[Any] = []

        async def poll() -> None:
            found.extend((await c.control.fetch(c.id, 15)).jobs)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(poll)
            await anyio.sleep(0.2)
            job_id = await c.enqueue()
            began = anyio.current_time()
        assert job_id in [job["id"] for job in found]
        assert anyio.current_time() - began < PROMPT

    examine(body)


@needs(Offer.JOBS, Offer.ACCOUNTS)
def test_a_poll_of_another_cluster_sleeps_on(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        other = await Examined.of(c.subject)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other.enqueue)
            assert (await c.control.fetch(c.id, 1)).jobs == []

    examine(body)


# --- ack, status, result ------------------------------------------------------------------------------------------


@needs(Offer.JOBS)
def test_an_acked_job_is_offered_no_more_and_an_unacked_one_is_PULL_4(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        acked, left = await c.enqueue(), await c.enqueue()
        assert await c.ids() == [acked, left]
        await c.control.ack(acked)
        await c.control.ack(acked)

        again: list[str] = []
        while not again:  # when an unacknowledged job is offered again is the server's choice
            again = await c.ids(wait=5)
        assert again == [left]

    examine(body)


def test_an_ack_of_an_unknown_job_is_NotFound(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        for job_id in (f"nobody-{uuid.uuid4().hex}", "a/b?c#d"):
            with pytest.raises(NotFound):
                await c.control.ack(job_id)

    examine(body)


@needs(Offer.JOBS)
def test_an_ack_of_a_job_that_has_its_result_is_NotFound(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        job_id = await c.open_job()
        await c.control.result(job_id, DONE)

        with pytest.raises(NotFound):
            await c.control.ack(job_id)

    examine(body)


@needs(Offer.JOBS, Offer.RECORDS, Offer.ACCOUNTS)
def test_an_ack_of_a_job_that_is_foreign_or_withdrawn_is_NotFound(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        other = await Examined.of(c.subject)
        foreign, withdrawn = await other.enqueue(), await c.enqueue()
        await c.subject.withdraw(withdrawn)

        for job_id in (foreign, withdrawn):
            with pytest.raises(NotFound):
                await c.control.ack(job_id)

    examine(body)


@needs(Offer.JOBS)
def test_statuses_are_taken_until_the_result_closes_the_job(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        job_id = await c.open_job()
        await c.control.status(job_id, PROGRESS)
        await c.control.status(job_id, {**PROGRESS, "phase": "Ready"})
        await c.control.result(job_id, DONE)

        with pytest.raises(NotFound):
            await c.control.status(job_id, PROGRESS)

    examine(body)


@needs(Offer.JOBS, Offer.RECORDS)
def test_statuses_are_kept_in_order(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        job_id = await c.open_job()
        await c.control.status(job_id, PROGRESS)
        await c.control.status(job_id, {**PROGRESS, "phase": "Ready"})

        assert [status["phase"] for status in (await c.subject.job(job_id))["statuses"]] == ["Reconciling", "Ready"]

    examine(body)


@needs(Offer.JOBS)
def test_a_second_result_is_no_error_PULL_4(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        job_id = await c.open_job()
        await c.control.result(job_id, DONE)
        await c.control.result(job_id, {**DONE, "outcome": "failed", "error": "late"})

    examine(body)


@needs(Offer.JOBS, Offer.RECORDS)
def test_the_first_result_counts_PULL_4(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        job_id = await c.open_job()
        await c.control.result(job_id, DONE)
        await c.control.result(job_id, {**DONE, "outcome": "failed", "error": "late"})

        job = await c.subject.job(job_id)
        assert (job["result"], job["resultsRefused"]) == (DONE, 1)

    examine(body)


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"outcome": "great", "timestamp": AT},
        {"outcome": "failed", "timestamp": AT},
        {"outcome": "succeeded", "timestamp": "today"},
        {"outcome": "succeeded", "timestamp": AT, "appliedRef": {"kind": "x"}},
    ],
    ids=["empty", "unknown outcome", "failed without error", "no time", "half a reference"],
)
@needs(Offer.JOBS)
def test_a_malformed_result_is_Invalid_and_the_job_stays_open(examine: Examine, bad: Any) -> None:
    async def body(c: Examined) -> None:
        job_id = await c.open_job()

        with pytest.raises(Invalid):
            await c.control.result(job_id, bad)
        await c.control.status(job_id, PROGRESS)
        await c.control.result(job_id, DONE)

    examine(body)


@needs(Offer.JOBS)
def test_a_result_before_the_ack_is_Invalid(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        job_id = await c.enqueue()

        with pytest.raises(Invalid):
            await c.control.result(job_id, DONE)
        await c.control.ack(job_id)
        await c.control.result(job_id, DONE)

    examine(body)


# --- events -------------------------------------------------------------------------------------------------------


def event(key: str) -> dict[str, Any]:
    """An event that no instance has."""
    return {"kind": "ConditionTransition", "eventKey": f"conformance/{key}", "timestamp": AT}


def test_a_batch_of_a_hundred_events_is_taken_and_so_is_its_replay_PULL_6(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        run = uuid.uuid4().hex
        batch = [event(f"{run}/{number}") for number in range(100)]
        await c.control.events(batch)
        await c.control.events(batch)

    examine(body)


@needs(Offer.RECORDS, Offer.ACCOUNTS)
def test_events_are_kept_once_per_key_in_order_PULL_6(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        await c.control.events([event("a"), event("b")])
        await c.control.events([event("b"), event("c"), event("a")])

        kept = [found["eventKey"] for found in await c.subject.events(c.id)]
        assert kept == [f"conformance/{key}" for key in "abc"]

    examine(body)


BAD_BATCHES = {
    "empty": [],
    "one malformed": [event("x"), {"kind": "x"}],
    "too long": [event(str(number)) for number in range(101)],
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_a_batch_that_is_empty_too_long_or_malformed_is_Invalid(examine: Examine, name: str) -> None:
    async def body(c: Examined) -> None:
        with pytest.raises(Invalid):
            await c.control.events(BAD_BATCHES[name])

    examine(body)


@pytest.mark.parametrize("name", BAD_BATCHES)
@needs(Offer.RECORDS, Offer.ACCOUNTS)
def test_of_a_refused_batch_nothing_is_kept(examine: Examine, name: str) -> None:
    async def body(c: Examined) -> None:
        with pytest.raises(Invalid):
            await c.control.events(BAD_BATCHES[name])
        assert list(await c.subject.events(c.id)) == []

    examine(body)


# --- credentials --------------------------------------------------------------------------------------------------


def test_a_token_speaks_for_its_cluster_only(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        with pytest.raises(Forbidden) as refused:
            await c.control.fetch(f"{c.id}-other", 0)
        assert not isinstance(refused.value, Unauthorized), "403, not 401: the token is good"

    examine(body)


def test_an_unknown_token_is_Unauthorized_and_not_echoed_PULL_8(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        with pytest.raises(Unauthorized) as rejected:
            await c.subject.control("wrong-token-text").fetch(c.id, 0)
        assert "wrong-token-text" not in str(rejected.value)

    examine(body)


@needs(Offer.JOBS, Offer.ACCOUNTS)
def test_a_token_that_is_refused_ends_even_a_waiting_poll(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        refused: list[Exception] = []

        async def poll() -> None:
            try:
                await c.control.fetch(c.id, 15)
            except Unauthorized as error:
                refused.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(poll)
            await anyio.sleep(0.2)
            await c.subject.refuse(c.token)
            await c.enqueue()
        assert len(refused) == 1

    examine(body)


@needs(Offer.ACCOUNTS)
def test_a_rotation_whose_answer_was_lost_can_be_repeated_with_the_old_token_PULL_8(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        lost, kept = (await c.control.rotate())["token"], (await c.control.rotate())["token"]

        assert len({c.token, lost, kept}) == 3
        await c.subject.control(kept).fetch(c.id, 0)

    examine(body)


@needs(Offer.ACCOUNTS)
def test_rotation_gives_a_new_token_and_keeps_the_old_one_for_a_while_PULL_8(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        fresh = (await c.control.rotate())["token"]

        assert fresh != c.token
        await c.subject.control(fresh).fetch(c.id, 0)
        await c.control.fetch(c.id, 0)

    examine(body)


@needs(Offer.REGISTRATION)
def test_registration_is_one_time_once_its_credential_was_used_PULL_8(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        once = await c.subject.registration(c.id)
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

    examine(body)


@needs(Offer.REGISTRATION)
def test_registration_takes_a_display_name_and_may_leave_the_cluster_to_the_server_PULL_1(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        once = await c.subject.registration(c.id)

        issued = await c.subject.control(once).register({"registrationToken": once, "displayName": "Production one"})

        assert issued["clusterId"] == c.id
        await c.subject.control(issued["token"]).fetch(c.id, 0)

    examine(body)


@needs(Offer.REGISTRATION)
def test_registration_for_another_cluster_is_Forbidden(examine: Examine) -> None:
    async def body(c: Examined) -> None:
        once = await c.subject.registration(c.id)

        with pytest.raises(Forbidden):
            await c.subject.control(once).register({"registrationToken": once, "clusterId": f"{c.id}-other"})

    examine(body)
