r"""The syntax of patterns (PH-6): what each sign matches, where each error is, and what is found first.

The answers are those of Go's `regexp`, but for `\p{…}`, and letters outside of ASCII of which both cases match.
"""

import string

import pytest

from purekube.regex import Pattern, PatternError, compile_pattern
from purekube.regex.regex_syntax import Characters, Ranges, Sequence, parse

SOME = [*map(chr, range(0x17F)), "\ud7ff", "\ue000", "\U0010fffe", "\U0010ffff"]
LETTERS, DIGITS = string.ascii_letters, string.digits
CLASSES = {
    ".": [sign for sign in SOME if sign != "\n"],
    "(?s).": SOME,
    r"\d": DIGITS,
    r"\w": LETTERS + DIGITS + "_",
    r"\s": "\t\n\f\r ",
    "[[:alnum:]]": LETTERS + DIGITS,
    "[[:alpha:]]": LETTERS,
    "[[:ascii:]]": SOME[:0x80],
    "[[:blank:]]": "\t ",
    "[[:cntrl:]]": [*SOME[:0x20], "\x7f"],
    "[[:digit:]]": DIGITS,
    "[[:graph:]]": LETTERS + DIGITS + string.punctuation,
    "[[:lower:]]": string.ascii_lowercase,
    "[[:print:]]": LETTERS + DIGITS + string.punctuation + " ",
    "[[:punct:]]": string.punctuation,
    "[[:space:]]": "\t\n\v\f\r ",
    "[[:upper:]]": string.ascii_uppercase,
    "[[:word:]]": LETTERS + DIGITS + "_",
    "[[:xdigit:]]": string.hexdigits,
    "[abc-f]": "abcdef",
    "[a-a]": "a",
    "[c-ea-d]": "abcde",
    "[a-cb]": "abc",
    "[a-]": "a-",
    "[-a]": "-a",
    "[--a]": [sign for sign in SOME if "-" <= sign <= "a"],
    "[]a]": "]a",
    "[]-a]": "]^_`a",
    "[[]": "[",
    r"[\d-z]": DIGITS + "-z",
    "[[:blank:]-z]": "\t -z",
    r"[\]\\\-]": "]\\-",
    r"[\x41-\x43\n]": "ABC\n",
    r"[\101-C]": "ABC",
    "[[:a]": "[:a",
    "[.^$*]": ".^$*",
    "(?i)k": "kK",
    "(?i)[j-l]": "jklJKL",
    "(?i)[@-C]": "@ABCabc",
    "(?i)[Y-b]": [*"YZ[\\]^_`ab", *"AByz"],
    "(?i)[^a-z1]": [sign for sign in SOME if sign not in LETTERS + "1"],
    "(?i)é": "éÉ",
    "(?i)É": "éÉ",
    "(?i)[^é]": [sign for sign in SOME if sign not in "éÉ"],
    "(?i)ß": "ß",
    r"(?i)\x{c9}": "éÉ",
    "(?i)[@-A]": "@Aa",
    "(?i)[z-{]": "zZ{",
    "(?i)[Z-[]": "Zz[",
    "(?i)[`-a]": "`aA",
    "(?i)[Z-Za-a]": "ZzAa",
    "(?i)[A-Az-z]": "ZzAa",
}


@pytest.mark.parametrize(("text", "matched"), CLASSES.items())
def test_a_sign_or_class_matches_exactly_these_characters(text: str, matched: str) -> None:
    pattern = compile_pattern(text)

    assert [sign for sign in SOME if pattern.matches_in(sign)] == sorted(matched)


@pytest.mark.parametrize("name", ["d", "w", "s"])
def test_a_class_in_upper_case_matches_what_the_other_does_not(name: str) -> None:
    lower, upper, negated = (compile_pattern(form) for form in (f"[\\{name}]", f"\\{name.upper()}", f"[^\\{name}]"))

    for sign in SOME:
        assert upper.matches_in(sign) is negated.matches_in(sign) is not lower.matches_in(sign)


@pytest.mark.parametrize("text", [text for text in CLASSES if text.startswith("[[:") and text.endswith(":]]")])
def test_a_named_class_is_negated_inside_and_outside_of_its_brackets(text: str) -> None:
    inside, outside = compile_pattern(text.replace("[:", "[:^")), compile_pattern(text.replace("[[:", "[^[:"))
    none = compile_pattern(text.replace("[[:", "[^[:^"))

    for sign in SOME:
        assert inside.matches_in(sign) is outside.matches_in(sign) is (sign not in CLASSES[text])
        assert none.matches_in(sign) is (sign in CLASSES[text])


@pytest.mark.parametrize(
    ("text", "character"),
    [
        (r"\a", "\a"), (r"\f", "\f"), (r"\t", "\t"), (r"\n", "\n"), (r"\r", "\r"), (r"\v", "\v"),
        (r"\0", "\0"), (r"\07", "\a"), (r"\012", "\n"), (r"\12", "\n"), (r"\77", "?"), (r"\101", "A"),
        (r"\777", "\u01ff"),
        (r"\x00", "\0"), (r"\x4a", "J"), (r"\x4A", "J"), (r"\xff", "ÿ"), (r"\x{0}", "\0"), (r"\x{4A}", "J"),
        (r"\x{10ffff}", "\U0010ffff"), (r"\-", "-"), (r"\.", "."), (r"\_", "_"), (r"\~", "~"), (r"\\", "\\"),
        ("é", "é"),
    ],
)  # fmt: skip
def test_an_escape_is_one_character(text: str, character: str) -> None:
    assert parse(text) == Sequence((Characters(((ord(character), ord(character)),)),))
    assert parse(f"[{text}]") == parse(text)


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("[e-fa-bc]", ((97, 99), (101, 102))),
        ("[a-fb-cg]", ((97, 103),)),
        ("[ac]", ((97, 97), (99, 99))),
        (r"[^\x00-b]", ((99, 0x10FFFF),)),
        (r"[^a-\x{10ffff}]", ((0, 96),)),
        (r"[^\x00-\x{10fffe}]", ((0x10FFFF, 0x10FFFF),)),
        (r"[^\x01a-\x{10fffe}]", ((0, 0), (2, 96), (0x10FFFF, 0x10FFFF))),
        (r"[^\x00-\x{10ffff}]", ()),
    ],
)
def test_ranges_are_in_order_and_merged_where_they_touch(text: str, ranges: Ranges) -> None:
    assert parse(text) == Sequence((Characters(ranges),))


@pytest.mark.parametrize(
    ("text", "size"),
    [("", 1), ("a", 2), ("ab", 3), ("a|b", 5), ("a|b|c", 8), ("a?", 3), ("a+", 3), ("a*", 4), ("a{2}", 3), ("a{2,}", 4),
     ("a{1,}", 3), ("a{0,}", 4), ("a{1,3}", 6), ("a{0}", 1), ("^$", 3), ("(a)", 2), ("[ab]", 2)],
)  # fmt: skip
def test_the_size_of_a_pattern_is_that_of_its_program(text: str, size: int) -> None:
    assert compile_pattern(text).size == size


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a" * 2_001, "a pattern has at most 2000 characters at 2000"),
        ("a)b", "unexpected ) at 1"),
        ("(" * 101 + ")" * 101, "groups are nested deeper than 100 at 101"),
        ("a(b", "missing ) at 3"),
        ("a(?=b)", "unknown kind of group at 2"),
        ("(?!b)", "unknown kind of group at 1"),
        ("(?<=b)", "unknown kind of group at 1"),
        ("(?<!b)", "unknown kind of group at 1"),
        ("(?P=n)", "unknown kind of group at 1"),
        ("(?P<>b)", "unknown kind of group at 1"),
        ("(?P<né>b)", "unknown kind of group at 1"),
        ("(?P<n b", "unknown kind of group at 1"),
        ("(?x)b", "unknown kind of group at 1"),
        ("(?xi)b", "unknown kind of group at 1"),
        ("(?i-)b", "unknown kind of group at 1"),
        ("(?i--s)b", "unknown kind of group at 1"),
        ("(?i-m-s:b)", "unknown kind of group at 1"),
        ("(?i", "unknown kind of group at 1"),
        ("(?-:b)", "unknown kind of group at 1"),
        ("a|*", "nothing to repeat at 2"),
        ("+", "nothing to repeat at 0"),
        ("a({2})", "nothing to repeat at 2"),
        ("ba**", "nothing to repeat at 1"),
        ("ba{1}{2}", "nothing to repeat at 1"),
        ("ba??+", "nothing to repeat at 1"),
        ("a(?i)*", "nothing to repeat at 5"),
        ("ba{1001}", "bad repetition '{1001}' at 2"),
        ("a{1001,}", "bad repetition '{1001,}' at 1"),
        ("a{1,1001}", "bad repetition '{1,1001}' at 1"),
        ("a{2,1}", "bad repetition '{2,1}' at 1"),
        ("a{123456}", "bad repetition '{123456}' at 1"),
        ("a\\", "an escape is not complete at 2"),
        (r"a\x4", "an escape names no character at 1"),
        (r"a\xg1", "an escape names no character at 1"),
        (r"\x", "an escape names no character at 0"),
        (r"\x{}", "an escape names no character at 0"),
        (r"\x{4", "an escape names no character at 0"),
        (r"\x{4_1}", "an escape names no character at 0"),
        (r"\x{+41}", "an escape names no character at 0"),
        ("\\x{\u0661}", "an escape names no character at 0"),
        (r"\x{110000}", "an escape names no character at 0"),
        (r"[a\x{110000}]", "an escape names no character at 2"),
        (r"a\8", "\\8 is not supported at 1"),
        (r"(a)\1", "\\1 is not supported at 3"),
        (r"\18", "\\1 is not supported at 0"),
        (r"a\Z", "\\Z is not supported at 1"),
        (r"\pN", "\\p is not supported at 0"),
        (r"\é", "\\é is not supported at 0"),
        ("\\§", "\\§ is not supported at 0"),
        (r"a\Q\E*", "nothing to repeat at 5"),
        (r"\E", "\\E is not supported at 0"),
        (r"[b\b]", "\\b is not supported at 2"),
        ("[a", "a class is not complete at 2"),
        ("[]", "a class is not complete at 2"),
        ("[^]", "a class is not complete at 3"),
        ("[a-", "a class is not complete at 3"),
        ("[a\\", "an escape is not complete at 3"),
        ("[ab-a]", "bad range of characters at 2"),
        (r"[a-\d]", "bad range of characters at 1"),
        ("[a-[:blank:]]", "bad range of characters at 1"),
        ("[!-[:alpha:]]", "bad range of characters at 1"),
        ("[!-[:digit:]]", "bad range of characters at 1"),
        ("[a[:no:]]", "unknown class [:no:] at 2"),
        ("[[:^:]]", "unknown class [:^:] at 1"),
        ("[[:ALPHA:]]", "unknown class [:ALPHA:] at 1"),
    ],
)  # fmt: skip
def test_an_error_says_what_is_wrong_and_where(text: str, problem: str) -> None:
    with pytest.raises(PatternError) as refused:
        compile_pattern(text)

    assert str(refused.value) == problem
    assert refused.value.position == int(problem.rpartition(" ")[2])


def test_what_is_just_within_the_bounds_is_a_pattern() -> None:
    assert compile_pattern("a" * 2_000).size == 2_001
    assert compile_pattern("(" * 100 + "a" + ")" * 100).matches_in("a")
    assert compile_pattern("a{1000}").size == 1_001
    assert compile_pattern("^(?:a{999}){5}a{2}$").size == 5_000


def test_a_pattern_that_is_too_large_once_written_out_is_refused() -> None:
    with pytest.raises(PatternError, match=r"^the pattern is too large once its repetitions are written out at 0$"):
        compile_pattern("^(?:a{999}){5}a{3}$")


FOUND = [
    ("", "", [""]), ("", "ab", ["", "", ""]), ("a*", "baac", ["", "aa", ""]), ("a", "aXa", ["a", "a"]),
    ("a|ab|b", "abb", ["a", "b", "b"]), ("ab|a|b", "abb", ["ab", "b"]), ("a||b", "ab", ["a", ""]),
    ("(a|)b", "bab", ["b", "ab"]), ("(|a)b", "ab", ["ab"]), ("()", "a", ["", ""]), ("(a|b|cd|e)+", "abcdex", ["abcde"]),
    ("(|a)*", "aa", ["", "", ""]), ("(|a)+", "aa", ["", "", ""]), ("(a|)*", "aa", ["aa"]), ("(a*?)*", "a", ["", ""]),
    ("(a??)*b", "aab", ["aab"]), ("(a*)*", "aab", ["aa", ""]), ("(a*)+", "b", ["", ""]),
    ("(|a){2,}", "aa", ["", "", ""]),
    ("a*?", "aa", ["", "", ""]), ("a+?", "aa", ["a", "a"]), ("a??b", "ab", ["ab"]), ("a?", "aa", ["a", "a"]),
    ("a{2}", "aaa", ["aa"]), ("a{2,}", "aaaa", ["aaaa"]), ("a{2,}?", "aaaa", ["aa", "aa"]), ("a{0}b", "ab", ["b"]),
    ("a{1,2}", "aaa", ["aa", "a"]), ("a{1,3}?", "aaa", ["a", "a", "a"]), ("a{0,2}b", "aaab", ["aab"]),
    ("a{3,}", "aa", []),
    ("ab{2}", "abbab", ["abb"]), ("(?:ab){2}", "ababab", ["abab"]), ("a{0,0}", "a", ["", ""]),
    ("^a{10}$", "a" * 10, ["a" * 10]),
    ("a{2", "a{2", ["a{2"]), ("a{2,x}", "a{2,x}", ["a{2,x}"]), ("a{,2}", "a{,2}", ["a{,2}"]),
    ("a{01}", "a{01}", ["a{01}"]),
    ("a{0,01}", "a{0,01}", ["a{0,01}"]), ("a{}", "a{}", ["a{}"]), ("{2", "{2", ["{2"]),
    ("a{1,2,3}", "a{1,2,3}", ["a{1,2,3}"]),
    ("(?U)a+", "aa", ["a", "a"]), ("(?U)a+?", "aa", ["aa"]), ("(?U)a??", "a", ["a"]), ("(?-U)a+", "aa", ["aa"]),
    ("^a", "aa\na", ["a"]), ("a$", "a\na", ["a"]), ("(?m)^a", "a\na", ["a", "a"]), ("(?m)a$", "a\na\n", ["a", "a"]),
    ("(?m)^", "a\n", ["", ""]), ("(?m)$", "a\n", ["", ""]), ("(?m)^$", "\n\n", ["", "", ""]), ("^$", "", [""]),
    ("^$", "\n", []),
    (r"(?m)\Aa", "a\na", ["a"]), (r"(?m)a\z", "a\na", ["a"]), (r"\bab?\b", "a ab abc", ["a", "ab"]),
    (r"a\B", "a ab", ["a"]),
    (r"\b", "a-_", ["", "", "", ""]), (r"\B", "ab", [""]), (r"\ba", "a", ["a"]), (r"\B.", "-a", ["-"]),
    (r"\B", "  ", ["", "", ""]), (r"\Ba", "é a éa", []),
    (r"a\b", "aé", ["a"]),
    ("^*a", "ba", ["a"]), ("(?:^a|b$)+", "aab", ["a", "b"]), ("$+", "a", [""]), (r"\b?a", "aa", ["a", "a"]),
    ("(?i)a|b", "AB", ["A", "B"]), ("a(?i)b|c", "aBCAb", ["aB", "C"]), ("(a(?i)b)c", "aBcaBC", ["aBc"]),
    ("(?i:a)a", "AaAA", ["Aa"]),
    ("(?i)a(?-i)b", "AbAB", ["Ab"]), ("(?i)a(?-i:b)c", "AbCABC", ["AbC"]), ("(?is)a.b", "A\nB", ["A\nB"]),
    ("(?s-i)A.", "a\nA\n", ["A\n"]),
    ("(?i-i)A", "aA", ["A"]), ("(?i-s)A.", "a\nax", ["ax"]), ("(?s)(?-s).", "\na", ["a"]),
    ("(?m)(?-m)^a", "b\na", []), ("(?)a", "a", ["a"]),
    ("(?ms:^.)$", "a\nb", ["b"]), ("(?m-i:^A)", "a\nA", ["A"]), ("(?i)(?m)^A", "b\na", ["a"]), ("(?:)a", "a", ["a"]),
    ("(?P<n>a)b", "ab", ["ab"]), ("(?<n_1>a)b", "ab", ["ab"]), ("(?P<n>a)(?P<n>b)", "ab", ["ab"]),
    ("(?s:.)(.)", "\n\nb", ["\nb"]),
    (r"\Qa.b\E+", "a.bba.", ["a.bb"]), (r"\Qa+", "aaa+", ["a+"]), (r"\Q\E", "a", ["", ""]),
    (r"\Q.\Ea", ".aba", [".a"]), (r"\Q\\E", "\\", ["\\"]),
    (r"\Q.", "a.", ["."]), (r"(?i)\Qa.\E", "A.", ["A."]), (r"\Q*\E*", "**", ["**"]), (r"a\Q", "a", ["a"]),
    (".", "a\né", ["a", "é"]), ("[^a]", "ab\n", ["b", "\n"]), ("]", "]", ["]"]), ("}", "}", ["}"]),
    ("a-b", "a-b", ["a-b"]), (r"\0123", "\n3", ["\n3"]),
    ("(a+)(b|$)", "aacaab", ["aab"]), ("x*y|x", "xxxz", ["x", "x", "x"]), ("(a|ab)(c|bcd)(d*)", "abcd", ["abcd"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "searched", "found"), FOUND)
def test_the_matches_of_a_pattern_are_these(text: str, searched: str, found: list[str]) -> None:
    pattern = compile_pattern(text)

    assert list(pattern.find_all(searched)) == found
    assert list(pattern.find_all(searched, 2)) == found[:2]
    assert list(pattern.find_all(searched, 0)) == []
    assert pattern.matches_in(searched) is bool(found)


@pytest.mark.parametrize(
    ("text", "start", "found"),
    [("ab", 0, (0, 2)), ("ab", 1, (3, 5)), ("ab", 3, (3, 5)), ("ab", 4, None), ("", 5, (5, 5)), ("", 6, None),
     ("^a", 3, None),
     (r"\bab", 1, None), ("b*", 2, (2, 2)), ("b*", 4, (4, 5)), ("$", 0, (5, 5)), ("a|abX", 0, (0, 1)),
     ("abX|a", 0, (0, 3))],
)  # fmt: skip
def test_a_search_begins_at_a_place_and_knows_what_is_before_it(
    text: str, start: int, found: tuple[int, int] | None
) -> None:
    assert compile_pattern(text).find("abXab", start) == found


def test_a_pattern_knows_its_text() -> None:
    assert compile_pattern("a+").text == "a+"


def test_an_automaton_keeps_its_transitions_up_to_a_bound_and_then_begins_anew() -> None:
    pattern = Pattern("x$")
    signs = "".join(map(chr, range(0x100, 0x100 + 2_000)))

    assert pattern.kept == 0
    assert not pattern.matches_in(signs[:100])
    assert pattern.kept == 100
    assert not pattern.matches_in(signs[:100])
    assert pattern.kept == 100, "what is known costs nothing more"
    assert not pattern.matches_in(signs)
    assert pattern.kept == 2_000
    assert pattern.matches_in("ax")
    assert pattern.kept == 1, "one more was one too many"
    assert [pattern.matches_in("ax"), pattern.kept] == [True, 2], "the first one was forgotten as well"
    assert [pattern.matches_in("ax"), pattern.kept] == [True, 2]
    assert pattern.matches_in(signs + "x")
    assert not pattern.matches_in(signs + "xa")
