"""When a failed step is tried again, for jobs and the credential alike (PULL-7)."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from purekube.controller.backoff import Backoff, Retry

NOW = datetime(2026, 1, 1, tzinfo=UTC)
attempts = st.integers(1, 10_000)
jitters = st.floats(0, 1)
backoffs = st.builds(Backoff, st.floats(0.01, 10), st.floats(10, 1000))


@given(backoffs, attempts, jitters)
def test_a_delay_lies_inside_the_bounds_and_in_the_upper_half(backoff: Backoff, attempt: int, jitter: float) -> None:
    delay = backoff.delay(attempt, jitter)

    assert backoff.base <= delay <= backoff.cap
    assert delay >= backoff.delay(attempt, 1.0) / 2


@given(backoffs, attempts, jitters)
def test_full_jitter_lies_inside_the_bounds(backoff: Backoff, attempt: int, jitter: float) -> None:
    assert backoff.base <= backoff.full_jitter(attempt, jitter) <= backoff.cap


@given(st.lists(st.floats(0, 3600), max_size=8))
def test_failures_are_counted_and_the_last_one_says_when(waits: list[float]) -> None:
    retry = Retry()
    for seconds in waits:
        retry = retry.started().failed(seconds, NOW)

    assert retry.failures == len(waits)
    assert retry.at == (NOW + timedelta(seconds=waits[-1]) if waits else None)
    assert retry.started() == Retry(len(waits))


@given(st.floats(0, 3600), st.floats(0, 7200))
def test_a_step_is_due_from_its_time_on(wait: float, later: float) -> None:
    retry = Retry().failed(wait, NOW)
    now = NOW + timedelta(seconds=later)

    assert retry.is_due(now) == (now >= NOW + timedelta(seconds=wait))
    assert not retry.started().is_due(now)
