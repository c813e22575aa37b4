"""PULL-7, RUN-11: one job that is too large keeps none of the others from being read, and is answered itself (SL4)."""

import json
from contextlib import suppress
from typing import Any

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.errors import Unavailable
from purekube.apimachinery.manifest import canonical_json
from tests.support.jobs import CLUSTER_ID, job
from tests.support.strategies import json_values
from tests.support.work import MIB, peak_of
from vworkspace_core.control_plane.port import OversizedJob
from vworkspace_core.jobs.scope import JobScope
from vworkspace_core.jobs.state import JobState, accept
from vworkspace_odoo.decoding import LONGEST_BODY, MOST_JOBS, MOST_VALUES, fits, jobs_of, jobs_that_fit
from vworkspace_odoo.failures import refusal

WHERE = "GET jobs"
TOO_MANY = b"[" + b",".join([b"1"] * (MOST_VALUES + 1)) + b"]"
KEYS = st.sampled_from(["id", "idempotencyKey", "jobs", "payload"]) | st.text(max_size=4)
TEXTS = st.text(st.sampled_from('\\"[]{},: a\u00e9'), max_size=8)
JOBS = st.lists(st.dictionaries(KEYS, json_values() | TEXTS, max_size=4), max_size=6)


def answer(*jobs: bytes, before: bytes = b"", after: bytes = b"") -> bytes:
    return b"{" + before + b'"jobs": [' + b", ".join(jobs) + b"]" + after + b"}"


def small(number: int) -> bytes:
    return json.dumps(job(id=f"job-{number}")).encode()


def large(payload: bytes = TOO_MANY) -> bytes:
    return b'{"id": "large", "idempotencyKey": "k", "payload": {"spec": ' + payload + b"}}"


def ids(found: list[Any]) -> list[Any]:
    return [one.fields["id"] if isinstance(one, OversizedJob) else one.get("id") for one in found]


@pytest.mark.slow
@given(JOBS, st.booleans())
@example([{"id": '"jobs": ['}, {"payload": {"id": 1}, "id": 2}], False)
def test_one_by_one_jobs_are_what_they_are_together(jobs: list[Any], ascii_only: bool) -> None:
    members = [json.dumps(one, ensure_ascii=ascii_only).encode() for one in jobs]
    body = answer(*members, before=b'"a": [[{"jobs": [1]}], "jobs"], ', after=b', "jobs2": [{}]')
    if members:
        assert jobs_that_fit(body, WHERE) == jobs_of(body, WHERE)
    else:
        with pytest.raises(Unavailable):
            jobs_that_fit(body, WHERE)


@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_job_of_too_many_values_is_refused_alone(before: int) -> None:
    """Those behind it are offered again, and nothing is in their way then."""
    body = answer(*map(small, range(before)), large(), small(7))

    assert not fits(body)
    *taken, refused = jobs_that_fit(body, WHERE)
    assert ids(taken) == [f"job-{number}" for number in range(before)]
    assert isinstance(refused, OversizedJob)
    assert refused == OversizedJob(
        {"id": "large", "idempotencyKey": "k"}, f"the job has more than {MOST_VALUES} values"
    )


@pytest.mark.slow
def test_jobs_that_are_too_many_values_only_together_are_taken_in_turns() -> None:
    half = b"[" + b",".join([b"1"] * (MOST_VALUES // 2 - 100)) + b"]"
    body = answer(*(large(half).replace(b"large", b"job-%d" % number) for number in range(5)))
    assert ids(jobs_that_fit(body, WHERE)) == ["job-0", "job-1"]


def test_of_an_answer_that_is_too_long_the_jobs_at_its_beginning_are_taken() -> None:
    body = answer(small(1), small(2), large(b'"' + b"a" * 5_000 + b'"'), small(3))
    assert ids(jobs_that_fit(body[:3_000], WHERE, 3_000)) == ["job-1", "job-2"]


def test_a_job_that_is_longer_than_an_answer_may_be_is_refused_alone() -> None:
    body = answer(large(b'"' + b"a" * 5_000 + b'"'), small(3))
    (refused,) = jobs_that_fit(body[:3_000], WHERE, 3_000)
    assert refused == OversizedJob({"id": "large", "idempotencyKey": "k"}, "the job has some 3000 bytes or more")


@pytest.mark.parametrize(
    "body",
    [
        answer(b'{"payload": ' + TOO_MANY + b"}"),
        b"[" + TOO_MANY,
        b'{"jobs": ' + TOO_MANY,
        answer(large(b'[{"a": nonsense' + b", 1" * MOST_VALUES))[:1_000],
        b'{"jobs": [{"id": "a", "payload": nonsense}, {}]}',
    ],
    ids=["no id", "no object", "no jobs", "cut", "no JSON"],
)
def test_what_can_neither_be_taken_nor_answered_is_told_as_what_the_connection_suffers_from(body: bytes) -> None:
    if b'"id"' in body and b"}, {}" not in body:
        assert ids(jobs_that_fit(body, WHERE)) == ["large"]
        return
    with pytest.raises(Unavailable, match=WHERE):
        jobs_that_fit(body, WHERE)


@pytest.mark.slow
@pytest.mark.parametrize("item", [b"{}", b'"abc"'])
def test_sixteen_megabytes_of_nothing_cost_bounded_memory(item: bytes) -> None:
    """The number of jobs is bounded, and so is how far anybody looks for the end of one."""
    body = answer(*[item] * (LONGEST_BODY // (len(item) + 2) - 100))

    def read() -> None:
        with suppress(Unavailable):
            assert len(jobs_that_fit(body, WHERE)) <= MOST_JOBS

    assert peak_of(read) < MIB


def test_the_agent_answers_an_oversized_job_with_the_reason() -> None:
    found = accept(OversizedJob({"id": 7}, "the job has more than 10 values"), 0, JobScope(CLUSTER_ID))
    assert isinstance(found, JobState)
    assert found.result is not None
    assert (found.id, found.result.error) == ("7", "InvalidJob: the job has more than 10 values")


def test_an_explanation_with_half_a_character_can_be_told_in_a_status() -> None:
    headers = httpx2.Headers({"content-type": "application/json"})
    error = refusal(502, headers, b'{"message": "no \\ud83d backend", "error": "\\udc00"}', WHERE)

    assert error.message == "GET jobs: 502 no ? backend"
    assert canonical_json({"message": error.message})
