"""Patterns and formats of schemas mean what they mean to an API server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.regex import PatternError, compile_pattern
from purekube.schema.formats import _FORMATS, matches_format


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^a$", "a", True),
        ("^a$", "a\n", False),
        ("a", "xay", True),
        ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "my-name", True),
        ("^[[:alpha:]_]+$", "ab_", True),
        ("^[[:alpha:]_]+$", "a1", False),
        ("^[^[:space:]]+$", "a b", False),
        (r"^\d+$", "\u0661", False),
        (r"^\w+$", "é", False),
        (r"^a\z", "a", True),
        (r"^[$]+$", "$$", True),
        (r"^[]a]+$", "]a", True),
        (r"^[a[]+$", "a[", True),
        (r"(?i)^AB$", "ab", True),
        (r"(?m)^b$", "a\nb\nc", True),
        (r"(?m)^a$", "a\nb", True),
        (r"(?m)^$", "", True),
        (r"(?m)^[a-z]+$", "abc", True),
        (r"^\$$", "$", True),
        ("^(oci|https?)://", "oci://x", True),
    ],
)
def test_patterns_mean_what_they_mean_to_go(pattern: str, text: str, found: bool) -> None:
    assert compile_pattern(pattern).matches_in(text) is found


@pytest.mark.parametrize("pattern", [r"\p{L}", r"\PN", "(", "[", r"a\Z", "*"])
def test_what_has_no_equivalent_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(pattern)


def test_no_pattern_of_a_definition_that_a_tenant_can_feed_takes_more_than_linear_work_RUN_11() -> None:
    """Python's engine would not come back from this one: each letter more doubles its time."""
    pattern = compile_pattern("^(a+)+$")
    assert not pattern.matches_in("a" * 100_000 + "b")


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        (
            "date-time",
            ["2026-01-01T00:00:00Z", "2026-01-01t00:00:00.123+02:00"],
            ["2026-01-01", "x", "2026-13-01T00:00:00Z"],
        ),
        ("date", ["2026-01-31"], ["2026-02-30", "2026-1-1", "20260131"]),
        ("duration", ["1h", "1.5s", "22 ns", "10 days"], ["x", "", "0\u017f"]),
        ("byte", ["Yg==", ""], ["?", "Yg="]),
        ("ipv4", ["10.0.0.1"], ["10.0.0", "::1"]),
        ("ipv6", ["::1"], ["10.0.0.1"]),
        ("cidr", ["10.0.0.0/8"], ["10.0.0.0"]),
        ("uri", ["https://x/y", "/path"], ["not a uri", ""]),
        ("email", ["a@b"], ["a", "a @b"]),
        ("hostname", ["a.example.com", "x"], ["-x", "a..b"]),
        ("uuid", ["00000000-0000-0000-0000-000000000000"], ["0"]),
        ("uuid4", ["00000000-0000-4000-8000-000000000000"], ["00000000-0000-1000-8000-000000000000"]),
        ("mac", ["01:02:03:04:05:06"], ["01:02"]),
        ("isbn", ["0321751043", "978-0321751041"], ["0321751044"]),
        ("k8s-short-name", ["my-name"], ["My", "a.b"]),
        ("k8s-long-name", ["a.b-c"], ["a_b"]),
        ("anything-unknown", ["x", ""], []),
    ],
)
def test_formats(name: str, good: list[str], bad: list[str]) -> None:
    assert [text for text in good if not matches_format(name, text)] == []
    assert [text for text in bad if matches_format(name, text)] == []


@given(st.text(max_size=20) | st.text("0123456789abcdefxX:.-/+@ zT", max_size=24))
def test_every_format_that_is_known_answers_for_any_text(text: str) -> None:
    for name in _FORMATS:
        assert matches_format(name, text) in (True, False)
    assert matches_format("of-no-server", text), "what the server does not know is no restriction"
