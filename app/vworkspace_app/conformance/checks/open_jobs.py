"""Checks of acks, statuses and results of jobs, which the agent sends to the control plane (PULL-4)."""

import uuid
from typing import Any

import pytest

from purekube.apimachinery.errors import Invalid, JobClosed, NotFound
from vworkspace_app.conformance.examined import AT, Examined, check
from vworkspace_app.conformance.subject import Offer

DONE = {"outcome": "succeeded", "timestamp": AT}
PROGRESS = {"phase": "Reconciling", "conditions": [], "message": "", "timestamp": AT}


@check(Offer.JOBS)
async def test_an_acked_job_is_offered_no_more_and_an_unacked_one_is_PULL_4(c: Examined) -> None:
    acked, left = await c.enqueue(), await c.enqueue()
    assert await c.ids() == [acked, left]
    await c.control.ack(acked)
    await c.control.ack(acked)

    again: list[str] = []
    while not again:  # the server chooses when it offers an unacknowledged job again
        again = await c.ids(wait=5)
    assert again == [left]


@check()
async def test_an_ack_of_an_unknown_job_is_NotFound(c: Examined) -> None:
    for job_id in (f"nobody-{uuid.uuid4().hex}", "a/b?c#d"):
        with pytest.raises(NotFound):
            await c.control.ack(job_id)


@check(Offer.JOBS)
async def test_an_ack_of_a_job_that_has_its_result_says_that_it_is_closed_PULL_6(c: Examined) -> None:
    """Check that an ack of a job that has a result is answered by 409 or 404, after which the agent applies nothing."""
    job_id = await c.open_job()
    await c.control.result(job_id, DONE)

    with pytest.raises((JobClosed, NotFound)):
        await c.control.ack(job_id)


@check(Offer.JOBS, Offer.RECORDS, Offer.ACCOUNTS)
async def test_an_ack_of_a_job_that_is_withdrawn_is_refused_and_of_a_foreign_one_NotFound(c: Examined) -> None:
    other = await Examined.of(c.subject)
    foreign, withdrawn = await other.enqueue(), await c.enqueue()
    await c.subject.withdraw(withdrawn)

    with pytest.raises((JobClosed, NotFound)):
        await c.control.ack(withdrawn)
    with pytest.raises(NotFound):
        await c.control.ack(foreign)


@check(Offer.JOBS)
async def test_statuses_are_taken_until_the_result_closes_the_job(c: Examined) -> None:
    job_id = await c.open_job()
    await c.control.status(job_id, PROGRESS)
    await c.control.status(job_id, {**PROGRESS, "phase": "Ready"})
    await c.control.result(job_id, DONE)

    with pytest.raises(NotFound):
        await c.control.status(job_id, PROGRESS)


@check(Offer.JOBS, Offer.RECORDS)
async def test_statuses_are_kept_in_order(c: Examined) -> None:
    job_id = await c.open_job()
    await c.control.status(job_id, PROGRESS)
    await c.control.status(job_id, {**PROGRESS, "phase": "Ready"})

    assert [status["phase"] for status in (await c.subject.job(job_id))["statuses"]] == ["Reconciling", "Ready"]


@check(Offer.JOBS)
async def test_a_second_result_is_no_error_PULL_4(c: Examined) -> None:
    job_id = await c.open_job()
    await c.control.result(job_id, DONE)
    await c.control.result(job_id, {**DONE, "outcome": "failed", "error": "late"})


@check(Offer.JOBS, Offer.RECORDS)
async def test_the_first_result_counts_PULL_4(c: Examined) -> None:
    job_id = await c.open_job()
    await c.control.result(job_id, DONE)
    await c.control.result(job_id, {**DONE, "outcome": "failed", "error": "late"})

    job = await c.subject.job(job_id)
    assert (job["result"], job["resultsRefused"]) == (DONE, 1)


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
@check(Offer.JOBS)
async def test_a_malformed_result_is_Invalid_and_the_job_stays_open(c: Examined, bad: Any) -> None:
    job_id = await c.open_job()

    with pytest.raises(Invalid):
        await c.control.result(job_id, bad)
    await c.control.status(job_id, PROGRESS)
    await c.control.result(job_id, DONE)


@check(Offer.JOBS)
async def test_a_result_before_the_ack_is_Invalid(c: Examined) -> None:
    job_id = await c.enqueue()

    with pytest.raises(Invalid):
        await c.control.result(job_id, DONE)
    await c.control.ack(job_id)
    await c.control.result(job_id, DONE)
