"""How fast to try again, and what counts as connected (PULL-5, PULL-7)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.apimachinery.errors import (
    Forbidden,
    Invalid,
    NotFound,
    OperatorError,
    Permanent,
    Unauthorized,
    Unavailable,
)
from purekube.apimachinery.timestamps import Instant
from vworkspace_core.control_plane.connection import ConnectionState, Connectivity, RetryPace
from vworkspace_core.control_plane.port import error_of, parse_http_date, seconds_of

jitters = st.floats(0, 1, exclude_max=True)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@given(st.integers(0, 10_000), jitters)
def test_a_failure_is_never_followed_sooner_than_a_second_nor_later_than_a_minute(failures: int, jitter: float) -> None:
    pace, delay = RetryPace(failures).failed(Unavailable("down"), jitter)

    assert pace == RetryPace(failures + 1)
    assert 1.0 <= delay <= 60.0


@given(jitters)
def test_backoff_has_full_jitter_over_a_doubling_range_cut_off_at_a_minute(jitter: float) -> None:
    delays = [RetryPace(failures).failed(Unavailable("down"), jitter)[1] for failures in range(13)]

    spreads = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024)
    assert delays == [min(60.0, max(1.0, spread * jitter)) for spread in spreads]


@given(st.integers(0, 50), jitters, st.sampled_from([Unauthorized("no"), Forbidden("no")]))
def test_a_rejected_credential_is_tried_every_five_to_ten_minutes(
    failures: int, jitter: float, error: OperatorError
) -> None:
    assert 300 <= RetryPace(failures).failed(error, jitter)[1] <= 600


@pytest.mark.parametrize(("wish", "delay"), [(0.0, 1.0), (7.0, 7.0), (7, 7.0), (1e9, 3600.0), (-5.0, 1.0)])
def test_retry_after_is_honoured_within_reason(wish: float, delay: float) -> None:
    assert RetryPace(3).failed(Unavailable("busy", retry_after=wish, status=429), 0.5)[1] == delay


@given(jitters, st.sampled_from([NotFound("x"), Permanent("x"), Invalid("x")]))
def test_a_configuration_error_is_tried_slowly(jitter: float, error: OperatorError) -> None:
    assert 60 <= RetryPace().failed(error, jitter)[1] <= 120


def test_a_success_starts_over() -> None:
    assert RetryPace(9).succeeded() == RetryPace()


@pytest.mark.parametrize(
    ("status", "kind", "may_have_happened"),
    [
        (400, Invalid, None),
        (401, Unauthorized, None),
        (403, Forbidden, None),
        (404, NotFound, None),
        (405, Permanent, None),
        (409, Permanent, None),
        (413, Invalid, None),
        (422, Invalid, None),
        (429, Unavailable, False),
        (500, Unavailable, True),
        (503, Unavailable, True),
        (599, Unavailable, True),
        (301, Permanent, None),
    ],
)
def test_every_status_has_its_error(status: int, kind: type[OperatorError], may_have_happened: Any) -> None:
    error = error_of(status, "text")

    assert type(error) is kind
    assert getattr(error, "may_have_happened", None) == may_have_happened
    if isinstance(error, Unavailable):
        asked = error_of(status, "text", 9.0)
        assert isinstance(asked, Unavailable)
        assert (asked.status, asked.retry_after, error.retry_after) == (status, 9.0, None)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("Thu, 01 Jan 2026 00:02:00 GMT", 120.0),
        ("Wed, 31 Dec 2025 00:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("", None),
        (None, None),
        ("9" * 5000, 999999999.0),
    ],
)
def test_retry_after_has_two_forms(text: str | None, seconds: float | None) -> None:
    assert seconds_of(text, NOW) == seconds


def test_a_date_without_a_zone_or_sense_is_no_date() -> None:
    assert parse_http_date("Thu, 01 Jan 2026 00:00:00 GMT") == NOW
    assert parse_http_date("yesterday") is None
    assert parse_http_date("Thu, 01 Jan 2026 00:00:00 -0000") is None


def at(seconds: float) -> Instant:
    return Instant(NOW + timedelta(seconds=seconds), seconds)


def test_a_state_of_the_link_has_one_beginning() -> None:
    link = ConnectionState().failed(Unavailable("a"), at(0)).failed(Unavailable("token=hunter2"), at(3600))

    assert (link.connectivity, link.since, link.last_ok) == (Connectivity.UNREACHABLE, at(0), None)
    assert link.error == "token=***"


def test_a_round_trip_of_another_call_does_not_say_that_the_poll_works() -> None:
    link = ConnectionState().succeeded(at(0)).failed(Unavailable("a"), at(60)).seen(at(90))

    assert (link.connectivity, link.since, link.last_ok) == (Connectivity.UNREACHABLE, at(60), at(90))
