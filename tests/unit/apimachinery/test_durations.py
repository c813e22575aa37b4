"""Durations and ages as text, at each of their bounds: as Go reads and kubectl shows them."""

from datetime import UTC, datetime, timedelta

import pytest

from purekube.apimachinery.durations import (
    LONGEST_SECONDS,
    age,
    go_duration,
    human_duration,
    is_duration,
    nanoseconds_of,
    seconds_of,
    seconds_with_days,
)

MINUTE, HOUR, DAY = 60, 3_600, 86_400
LONGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-2, "<invalid>"), (-1.9, "0s"), (-1, "0s"), (-0.5, "0s"), (0, "0s"), (0.9, "0s"), (1, "1s"), (119, "119s"),
        (2 * MINUTE, "2m"), (2 * MINUTE + 1, "2m1s"), (10 * MINUTE - 1, "9m59s"), (10 * MINUTE, "10m"),
        (10 * MINUTE + 59, "10m"), (3 * HOUR - 1, "179m"), (3 * HOUR, "3h"),
        (3 * HOUR + MINUTE, "3h1m"), (8 * HOUR - 1, "7h59m"), (8 * HOUR, "8h"), (8 * HOUR + 59 * MINUTE, "8h"),
        (2 * DAY - 1, "47h"), (2 * DAY, "2d"), (2 * DAY + HOUR, "2d1h"), (8 * DAY - 1, "7d23h"), (8 * DAY, "8d"),
        (8 * DAY + 2 * HOUR, "8d"), (730 * DAY - 1, "729d"), (730 * DAY, "2y"), (731 * DAY, "2y1d"),
        (3 * 365 * DAY - 1, "2y364d"), (8 * 365 * DAY - 1, "7y364d"), (8 * 365 * DAY, "8y"), (9 * 365 * DAY - 1, "8y"),
    ],
)  # fmt: skip
def test_a_span_is_shown_in_the_units_of_kubectl(seconds: float, shown: str) -> None:
    assert human_duration(timedelta(seconds=seconds)) == shown


@pytest.mark.parametrize(
    ("since", "shown"),
    [
        ("2026-01-01T00:00:00Z", "5m30s"), ("2026-01-01T00:06:30Z", "<invalid>"),
        ("2026-01-01T01:00:00+01:00", "5m30s"),
        ("", "<unknown>"), (None, "<unknown>"), ("yesterday", "<invalid>"),
    ],
)  # fmt: skip
def test_an_age_counts_from_a_time_of_the_api(since: str | None, shown: str) -> None:
    assert age(since, datetime(2026, 1, 1, 0, 5, 30, tzinfo=UTC)) == shown


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0), ("+0", 0), ("-0", 0), ("0s", 0), ("1ns", 1), ("1us", 1_000), ("1µs", 1_000), ("1\u03bcs", 1_000),
        ("1ms", 1_000_000), ("1s", 10**9), ("1m", 60 * 10**9), ("1h", 3_600 * 10**9), ("1h2m3s", 3_723 * 10**9),
        ("1.5s", 1_500_000_000), ("1.s", 10**9), (".5s", 500_000_000), ("0.5h", 1_800 * 10**9),
        ("-1.5s", -1_500_000_000),
        ("+1s", 10**9), ("1s1s", 2 * 10**9), ("1.0000000019s", 1_000_000_001), ("0.9ns", 0),
        (".25m.5s", 15_500_000_000),
        ("0.100000000000000000009h", 360 * 10**9), ("9223372036854775807ns", LONGEST),
        ("-9223372036854775807ns", -LONGEST),
        ("0.3333333333333333333h", 1_199_999_999_999),
        ("9223372036854775808ns", None), ("2562048h", None), ("0" * 199 + "s", 0), ("0" * 200 + "s", None),
        ("", None), ("1", None), ("s", None), ("1d", None), (".s", None), ("1 s", None), ("--1s", None), ("00", None),
        ("\u0661s", None), ("1s ", None), ("1S", None),
    ],
)  # fmt: skip
def test_a_duration_is_read_as_go_reads_it(text: str, nanoseconds: int | None) -> None:
    assert nanoseconds_of(text) == nanoseconds
    assert is_duration(text) is (
        nanoseconds is not None or text in ("9223372036854775808ns", "2562048h", "0" * 200 + "s")
    )


def test_seconds_of_other_texts_are_an_error_or_what_is_said() -> None:
    assert (seconds_of("1500ms"), seconds_of("0s"), seconds_of("1s", 5.0)) == (1.5, 0.0, 1.0)
    assert (seconds_of("x", 5.0), seconds_of("x", 0.0), seconds_of("0s", 5.0)) == (5.0, 0.0, 0.0)
    with pytest.raises(ValueError, match=r"^not a duration: 'x'$"):
        seconds_of("x")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1), ("2m", 120), ("3h", 3 * HOUR), ("4d", 4 * DAY), ("1d2h3m4s", DAY + 2 * HOUR + 3 * MINUTE + 4),
     ("1d4s", DAY + 4),
     ("36500d", LONGEST_SECONDS), ("0d1s", 1), ("999999999s", 999_999_999)],
)  # fmt: skip
def test_a_duration_may_have_days(text: str, seconds: int) -> None:
    assert seconds_with_days(text) == seconds


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *((text, "must be a duration such as 30d, 720h or 1d12h") for text in ("", "1", "1w", "-1d", "1h1d", "1.5h")),
        ("1000000000s", "must be a duration such as 30d, 720h or 1d12h"),
        *((text, "must be longer than nothing and not longer than a hundred years") for text in ("0s", "36500d1s")),
    ],
)  # fmt: skip
def test_a_duration_with_days_has_bounds(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem}$"):
        seconds_with_days(text)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0s"), (0.0004, "0s"), (0.001, "1ms"), (0.9994, "999ms"), (0.9996, "1s"), (1, "1s"), (1.5, "1.5s"),
     (1.25, "1.25s"),
     (59.999, "59.999s"), (60, "1m0s"), (61.5, "1m1.5s"), (3_599, "59m59s"), (3_600, "1h0m0s"), (3_661, "1h1m1s"),
     (90_000, "25h0m0s"),
     (10, "10s"), (100, "1m40s")],
)  # fmt: skip
def test_seconds_are_shown_as_go_shows_them(seconds: float, shown: str) -> None:
    assert go_duration(seconds) == shown
