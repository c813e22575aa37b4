"""The control plane in memory: its clock, tokens, limits and books under any order of calls (PULL-11)."""

from collections.abc import Callable, Coroutine
from datetime import timedelta
from itertools import count
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from kubelab.clock import ManualClock
from purekube.apimachinery.errors import Unavailable
from tests.support.effort import effort
from vworkspace_fake.controlplane import (
    AgentCall,
    ApiRefusal,
    ControlPlaneServer,
    InProcessControlPlane,
    RateLimit,
    ScriptedFault,
    When,
)
from vworkspace_fake.controlplane.jobs import JobEntry

T = TypeVar("T")
DONE = {"outcome": "succeeded", "timestamp": "2026-01-01T00:00:00Z"}
C = "cluster-a"


def now_of(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that does not suspend."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise AssertionError("it suspended")


def make(**fields: Any) -> tuple[ControlPlaneServer, ManualClock]:
    clock = ManualClock()
    numbers = count()
    server = ControlPlaneServer(now=clock.now, mint=lambda: f"minted-{next(numbers)}", **fields)
    server.tokens.add(C, "token")
    return server, clock


def enqueue(server: ControlPlaneServer, **fields: Any) -> JobEntry:
    return server.enqueue(C, **{"kind": "apply", "payload": {}, "idempotency_key": "k", **fields})


def status_of(call: Callable[[], Any]) -> int:
    try:
        call()
    except ApiRefusal as refusal:
        return refusal.status
    return 200


def test_without_a_loop_a_waiting_poll_answers_at_once() -> None:
    server, clock = make()
    control = InProcessControlPlane(server, "token")

    fetched = now_of(control.fetch(C, 300))

    assert fetched.jobs == []
    assert fetched.server_time == clock.now()


def test_an_unacked_job_is_offered_again_after_the_redelivery_time() -> None:
    server, clock = make(redelivery=timedelta(seconds=5))
    job = enqueue(server)

    assert server.fetch("token", C) == [job.raw]
    assert server.fetch("token", C) == []
    assert server.seconds_to_offer(C) == 5.0
    clock.advance(5)
    assert server.fetch("token", C) == [job.raw]
    assert job.offers == 2


def test_a_rotated_token_lives_for_its_grace_period() -> None:
    server, clock = make(rotation_grace=timedelta(minutes=10))

    fresh = server.rotate("token")["token"]

    clock.advance(599)
    assert status_of(lambda: server.fetch("token", C)) == 200
    clock.advance(1)
    assert status_of(lambda: server.fetch("token", C)) == 401
    assert status_of(lambda: server.fetch(fresh, C)) == 200


def test_rotating_twice_does_not_prolong_the_first_token() -> None:
    server, clock = make(rotation_grace=timedelta(minutes=10))
    server.rotate("token")
    clock.advance(300)
    server.rotate("token")
    clock.advance(300)

    assert status_of(lambda: server.fetch("token", C)) == 401


def test_a_token_with_a_lifetime_says_when_it_ends_and_then_does() -> None:
    server, clock = make(token_lifetime=timedelta(hours=1))

    issued = server.rotate("token")

    assert issued["expiresAt"] == "2026-01-01T01:00:00Z"
    clock.advance(3600)
    assert status_of(lambda: server.fetch(issued["token"], C)) == 401


def test_the_rate_limit_fills_again_and_says_when() -> None:
    server, clock = make(rate_limit=RateLimit(2, 10.0))

    assert [status_of(lambda: server.fetch("token", C)) for _ in range(3)] == [200, 200, 429]
    with pytest.raises(ApiRefusal) as refused:
        server.fetch("token", C)
    assert refused.value.retry_after == 5.0
    clock.advance(5)
    assert [status_of(lambda: server.fetch("token", C)) for _ in range(2)] == [200, 429]


def test_no_token_is_in_any_repr() -> None:
    server, _ = make()
    server.tokens.offer_registration(C)
    control = InProcessControlPlane(server, "token-in-use")

    shown = f"{server!r} {server.tokens!r} {control!r} {server.tokens.add(C, 'added')!r}"

    assert not any(secret in shown for secret in ("minted", "token-in-use", "added"))


def test_a_fault_is_for_its_call_and_its_number_of_times() -> None:
    server, _ = make()
    control = InProcessControlPlane(server, "token")
    server.faults.inject(ScriptedFault(call=AgentCall.ACK, status=500, when=When.AFTER, times=2))
    job = enqueue(server)

    assert now_of(control.fetch(C, 0)).jobs == [job.raw]
    for _ in range(2):
        with pytest.raises(Unavailable):
            now_of(control.ack(job.id))
    now_of(control.ack(job.id))
    assert job.acks == 3


class Books(RuleBasedStateMachine):
    """Whatever is called in whatever order: one result a job, no offer after an ack; an ack is 409 after the result."""

    jobs = Bundle("jobs")

    def __init__(self) -> None:
        super().__init__()
        self.server, self.clock = make()
        self.accepted: dict[str, Any] = {}

    @rule(target=jobs)
    def enqueue(self) -> JobEntry:
        return enqueue(self.server)

    @rule()
    def fetch(self) -> None:
        for raw in self.server.fetch("token", C):
            job = self.server.jobs.get(raw["id"])
            assert job.acked_at is None
            assert job.open

    @rule(job=jobs)
    def ack(self, job: JobEntry) -> None:
        desired = 409 if job.result else 404 if not job.open else 200
        assert status_of(lambda: self.server.ack("token", job.id)) == desired

    @rule(job=jobs)
    def status(self, job: JobEntry) -> None:
        body = {"phase": "Ready", "conditions": [], "message": "", "timestamp": "2026-01-01T00:00:00Z"}
        desired = 404 if not job.open else 200 if job.acked_at else 400
        assert status_of(lambda: self.server.status("token", job.id, body)) == desired

    @rule(job=jobs, outcome=st.sampled_from(["succeeded", "noop"]))
    def result(self, job: JobEntry, outcome: str) -> None:
        body = {**DONE, "outcome": outcome}
        desired = 409 if job.result else 404 if not job.open else 200 if job.acked_at else 400
        assert status_of(lambda: self.server.result("token", job.id, body)) == desired
        if desired == 200:
            self.accepted[job.id] = body

    @rule(job=jobs)
    def close(self, job: JobEntry) -> None:
        self.server.close_job(job.id)

    @rule(seconds=st.integers(0, 20))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @invariant()
    def the_first_result_stays(self) -> None:
        assert {job.id: job.result for job in self.server.jobs if job.result} == self.accepted


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=effort(1), stateful_step_count=30, deadline=None)
