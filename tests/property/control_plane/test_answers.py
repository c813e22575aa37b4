"""How answers of the control plane are read: statuses, headers, and the state of the connection (PULL-5, PULL-7)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

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
from vworkspace_core.control_plane.connection import ConnectionState, Connectivity
from vworkspace_core.control_plane.port import error_of, parse_http_date, seconds_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("statuses", "error"),
    [
        ((400, 413, 415, 422), Invalid),
        ((401,), Unauthorized),
        ((403,), Forbidden),
        ((404, 410), NotFound),
        ((408, 425, 429, 500, 502, 503, 599), Unavailable),
        ((300, 402, 405, 409, 418, 499), Permanent),
    ],
)
def test_each_status_has_its_error(statuses: tuple[int, ...], error: type[OperatorError]) -> None:
    for status in statuses:
        found = error_of(status, "why", 7.0)
        assert (type(found), found.message) == (error, "why")
        if isinstance(found, Unavailable):
            assert (found.status, found.retry_after, found.may_have_happened) == (status, 7.0, status >= 500)
        if isinstance(found, Permanent):
            assert found.status == status


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("Thu, 01 Jan 2026 12:00:00 GMT", NOW),
        ("Thu, 01 Jan 2026 14:00:00 +0200", NOW),
        ("Thu, 01 Jan 2026 12:00:00 -0000", None),
        ("soon", None),
        ("99999999999999999999 Dec 00:00 0 +0000", None),
        ("", None),
        (None, None),
    ],
)
def test_a_date_without_a_zone_is_none(text: str | None, moment: datetime | None) -> None:
    assert parse_http_date(text) == moment


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("1234567890", 123456789.0),
        ("\u0667", None),
        ("-1", None),
        ("1.5", None),
        ("Thu, 01 Jan 2026 12:00:30 GMT", 30.0),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_a_delay_is_a_number_of_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert seconds_of(header, NOW) == seconds


def at(seconds: float) -> Instant:
    return Instant(NOW + timedelta(seconds=seconds), seconds)


C = Connectivity
DOWN, NO = Unavailable("token=hunter2 refused"), Unauthorized("no")


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([], ConnectionState()),
        ([None], ConnectionState(C.CONNECTED, at(0), at(0))),
        ([None, None], ConnectionState(C.CONNECTED, at(0), at(1))),
        ([DOWN], ConnectionState(C.UNREACHABLE, at(0), None, "token=*** refused")),
        ([None, DOWN, DOWN], ConnectionState(C.UNREACHABLE, at(1), at(0), "token=*** refused")),
        ([DOWN, NO, Forbidden("no")], ConnectionState(C.REJECTED, at(1), None, "no")),
        ([NO, DOWN], ConnectionState(C.UNREACHABLE, at(1), None, "token=*** refused")),
        ([DOWN, None], ConnectionState(C.CONNECTED, at(1), at(1))),
    ],
)
def test_a_connection_is_in_its_state_since_the_first_of_equal_answers(
    calls: list[Any], expected: ConnectionState
) -> None:
    state = ConnectionState()
    for number, error in enumerate(calls):
        state = state.succeeded(at(number)) if error is None else state.failed(error, at(number))

    assert state == expected


def test_another_call_is_a_sign_of_life_and_ends_no_outage() -> None:
    down = ConnectionState().failed(DOWN, at(0))

    assert down.seen(at(5)) == ConnectionState(C.UNREACHABLE, at(0), at(5), "token=*** refused")
