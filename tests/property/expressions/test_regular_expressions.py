"""Regular expressions (PH-6) find what Python's find, and take linear time where Python's take for ever."""

import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from purekube.regex import PatternError, compile_pattern

ATOMS = st.sampled_from(
    [
        "a",
        "b",
        "c",
        ".",
        "[ab]",
        "[^a]",
        r"\d",
        r"\w",
        r"\s",
        "^",
        r"\b",
        r"\B",
        "(?i:A)",
        "(?m:^)",
        "(?m:$)",
        "(?s:.)",
        "ä",
    ]
)
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: (
        st.builds("{}{}".format, inner, inner)
        | st.builds("(?:{}|{})".format, inner, inner)
        | st.builds("(?:a{}){}".format, inner, st.sampled_from(["*", "+", "?", "{1,2}", "{2}", "*?", "+?"]))
    ),
    max_leaves=6,
)
TEXTS = st.text(st.sampled_from("abcA1 \nä"), max_size=10)


@given(PATTERNS, TEXTS)
@example("(?:a|ab)(?:c|bcd)", "abcd")
@example("(?m:^)a", "a")
def test_a_pattern_finds_what_pythons_engine_finds(pattern: str, text: str) -> None:
    r"""But for \B, which Python's engine found nowhere in an empty text before 3.14."""
    assume(text or r"\B" not in pattern)
    expected = re.compile(pattern, re.ASCII).search(text)
    compiled = compile_pattern(pattern)

    assert compiled.matches_in(text) is (expected is not None)
    assert compiled.find(text) == (expected.span() if expected else None)


def test_an_empty_text_has_no_boundary_as_gos_engine_has_it() -> None:
    assert compile_pattern(r"\B").find("") == (0, 0)
    assert compile_pattern(r"\b").find("") is None


def place_of_error(text: str) -> int:
    """-1 for a pattern, which is then tried."""
    try:
        compile_pattern(text).matches_in("abc")
    except PatternError as error:
        return error.position
    return -1


@given(st.text(max_size=30) | st.text(st.sampled_from("ab()[]{}*+?|^$\\.-:<>Pims,09"), max_size=25))
@example("a{1001}")
@example("(" * 500)
@example("((a{1000}){1000}){1000}")
@example("[b-a]")
@example("(?P<n")
def test_any_text_is_a_pattern_or_an_error_with_its_place(text: str) -> None:
    assert place_of_error(text) in range(-1, max(len(text), 2_000) + 1)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(a*)*b", "(a|aa)+$", "(.*)(.*)(.*)x", "(?:a?){30}a{30}$"])
def test_patterns_that_take_others_for_ever_take_linear_time(pattern: str) -> None:
    """A million characters of these would take Python's engine longer than the universe is old."""
    assert compile_pattern(pattern).matches_in("a" * 1_000_000 + "!") is False


def test_an_automaton_forgets_rather_than_grows() -> None:
    compiled = compile_pattern(r"\w+@\w+")
    text = "".join(chr(0x4E00 + at) for at in range(15_000))

    assert compiled.matches_in(text) is False
    assert compiled.kept <= 2_001


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("[[:alpha:]]+", "12ab3", "ab"),
        (r"\x41\x{1F642}", "A🙂", "A🙂"),
        (r"(?s)a.b", "a\nb", "a\nb"),
        ("(?m)^b$", "a\nb\nc", "b"),
        (r"\Qa.b\E+", "a.bbb", "a.bbb"),
        ("(?U)a+", "aaa", "a"),
        ("a{,2}", "a{,2}", "a{,2}"),
        ("[]a]+", "]a]", "]a]"),
        ("[^-a]", "-ab", "b"),
        (r"(?P<year>\d{4})", "in 2026", "2026"),
    ],
)
def test_the_syntax_is_that_of_re2(pattern: str, text: str, found: str) -> None:
    place = compile_pattern(pattern).find(text)

    assert place is not None
    assert text[place[0] : place[1]] == found


@pytest.mark.parametrize("pattern", ["(?=a)", "(?!a)", "(?<=a)b", r"(a)\1", r"\p{L}", "a**", "*a", "a)", "[a", "\\"])
def test_what_re2_does_not_have_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(pattern)
