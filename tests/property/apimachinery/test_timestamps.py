"""Times as text: one function for each form, and what is written is read again (PULL-12)."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.timestamps import exact_time, format_time, has_come, microtime, parse_time, time_or_none

zones = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
spans = st.timedeltas(timedelta(days=-20_000), timedelta(days=300_000))
instants = st.builds(lambda span, zone: (datetime(1970, 1, 1, tzinfo=UTC) + span).astimezone(zone), spans, zones)


@given(instants)
@example(datetime(2026, 1, 1, tzinfo=UTC))
def test_an_exact_time_is_read_as_it_was(instant: datetime) -> None:
    assert parse_time(exact_time(instant)) == instant
    assert parse_time(microtime(instant)) == instant


@given(instants)
def test_whole_seconds_lose_the_fraction_and_nothing_else(instant: datetime) -> None:
    assert parse_time(format_time(instant)) == instant.replace(microsecond=0)
    assert format_time(instant) == exact_time(instant.replace(microsecond=0))


@given(instants)
def test_every_form_is_in_utc_and_says_so(instant: datetime) -> None:
    for text in (format_time(instant), exact_time(instant), microtime(instant)):
        assert text.endswith("Z")
        assert "+" not in text


NO_TIME = "must be an RFC 3339 time such as 2026-01-31T12:00:00Z, not "


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x" * 300, NO_TIME + repr("x" * 64)),
        ("", NO_TIME + "''"),
        ("2026-01-31T12:00:00", "must name its offset (Z or +01:00): '2026-01-31T12:00:00'"),
        ("0001-01-01T00:00:00+14:00", "lies outside the calendar: '0001-01-01T00:00:00+14:00'"),
    ],
)
def test_what_is_no_time_is_quoted_up_to_64_characters_with_the_reason(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told) + "$"):
        parse_time(text)


@given(st.text(max_size=80))
def test_any_text_is_a_time_in_utc_or_none(text: str) -> None:
    found = time_or_none(text)
    assert found is None or (found == parse_time(text) and found.utcoffset() == timedelta())


@pytest.mark.parametrize("value", [None, 7, True, ["2026-01-31T12:00:00Z"], {}])
def test_no_text_is_no_time(value: object) -> None:
    assert time_or_none(value) is None


@pytest.mark.parametrize(("ahead", "has"), [(-1, True), (0, True), (1, False), (60, False), (61, True), (7200, True)])
def test_a_moment_has_come_at_its_time_or_when_the_clock_was_set_back(ahead: int, has: bool) -> None:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    assert has_come(now + timedelta(seconds=ahead), now, timedelta(minutes=1)) is has
