"""Secrets in values, texts and paths (RES-7): which are hidden, and which text is left as it is."""

from typing import Any

import pytest

from purekube.apimachinery.formats import LONGEST_MATCHED, matches, quoted
from purekube.apimachinery.secret_material import find_secret_material, redact, safe, shown, visible, without_user

HIDDEN = "***"


def nested(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ({"message": "password=hunter2"}, {"message": "password=***"}),
        ({"message": "all is well", "count": 3, "done": True, "gone": None}, None),
        ({"lines": ["all is well", "token=abcdef1"]}, {"lines": ["all is well", "token=***"]}),
        ({"lines": ["all is well", "and still"]}, None),
        ({"lines": ["fine", 3]}, None),
        ({"password": "hunter2"}, {"password": HIDDEN}),
        ({"password": 5}, {"password": HIDDEN}),
        ({"password": 0.5}, {"password": HIDDEN}),
        ({"password": True}, {"password": True}),
        ({"password": None}, {"password": None}),
        ({"password": ""}, {"password": ""}),
        ({"password": ["a", 1, None, ["b"]]}, {"password": [HIDDEN, HIDDEN, None, [HIDDEN]]}),
        ({"password": {"a": "b"}}, {"password": {"a": "b"}}),
        ({"a": {"token": "b", "c": "d"}}, {"a": {"token": HIDDEN, "c": "d"}}),
        ({"name": "DB_PASSWORD", "value": "b"}, {"name": "DB_PASSWORD", "value": HIDDEN}),
        ({"name": "DB_HOST", "value": "b"}, None),
        ({"name": "DB_PASSWORD", "valueFrom": "b"}, {"name": "DB_PASSWORD", "valueFrom": "b"}),
        ({"name": 3, "value": "b"}, None),
        ({1: "b"}, None),
        ([{"token": "b"}, "token=abcdef1"], [{"token": HIDDEN}, "token=***"]),
        (("a", "token=abcdef1"), ["a", "token=***"]),
        ("token=abcdef1", "token=***"),
        (3, 3),
        (None, None),
    ],
)
def test_a_value_is_shown_without_its_secrets(value: Any, left: Any) -> None:
    expected = value if left is None and isinstance(value, dict) else left

    assert redact(value) == expected
    assert redact(redact(value)) == expected
    assert type(redact(value)) is type(expected)


def test_what_is_nested_too_deeply_is_hidden() -> None:
    assert redact(nested(3, 65)) == nested(HIDDEN, 65)
    assert redact(nested(3, 64)) == nested(3, 64)
    assert redact(nested({"a": 3}, 64)) == nested({"a": HIDDEN}, 64)
    assert redact(nested("text", 80)) == nested(HIDDEN, 65)


@pytest.mark.parametrize(
    ("values", "paths"),
    [
        ({"password": "a"}, ("v.password",)),
        ({"password": ""}, ()),
        ({"password": 3}, ("v.password",)),
        ({"password": True}, ()),
        ({"a": [{"token": "b"}, {"c": "d"}]}, ("v.a[0].token",)),
        ({"tokens": ["b"], "token": ["b", 2, ["c"], {"d": "e"}]}, ("v.token[0]", "v.token[1]", "v.token[2][0]")),
        ({"env": [{"name": "A_SECRET", "value": "b"}]}, ("v.env[0].value",)),
        ({"existingSecret": "b", "auth": {"existingSecretPassword": "c"}}, ()),
        ({"a": "-----BEGIN PRIVATE KEY-----"}, ("v.a",)),
        ({"a": "-----BEGIN RSA PRIVATE KEY"}, ("v.a",)),
        ({"a": "a PRIVATE KEY"}, ()),
        ({"a.b": {"secret": "c"}}, ("v['a.b'].secret",)),
        ("-----BEGIN PRIVATE KEY-----", ("v",)),
        ({f"a{at}_token" if at % 2 else f"b{at}": "c" for at in range(4)}, ()),
        ({f"a{at}_password": "c" for at in range(40)}, tuple(f"v.a{at}_password" for at in range(32))),
    ],
)
def test_a_secret_in_values_is_named_by_its_path(values: Any, paths: tuple[str, ...]) -> None:
    assert find_secret_material(values, "v") == paths


def test_a_long_path_is_cut_in_its_middle() -> None:
    def within(steps: int) -> Any:
        value: Any = {"token": "b"}
        for at in reversed(range(steps - 1)):
            value = {f"s{at}": value}
        return value

    assert find_secret_material(within(32)) == (".".join([*(f"s{at}" for at in range(31)), "token"]),)
    assert find_secret_material(within(33)) == (
        ".".join([*(f"s{at}" for at in range(16)), "…", *(f"s{at}" for at in range(17, 32)), "token"]),
    )


@pytest.mark.parametrize(
    ("text", "longest", "left"),
    [
        ("a" * 10, 10, "a" * 10), ("a" * 11, 10, "a" * 10), ("é" * 5, 10, "é" * 5), ("é" * 6, 10, "é" * 5),
        ("é" * 6, 11, "é" * 5),
        ("aé", 2, "a"), ("token=abcdef1", 8, "token=**"), ("", 10, ""),
        ("a\x00b\x1b\tc\n\u202e", 40, "a\\u0000b\\u001b\tc\n\\u202e"),
    ],
)  # fmt: skip
def test_a_text_is_cut_at_its_bytes(text: str, longest: int, left: str) -> None:
    assert shown(text, longest) == left
    assert safe(text, longest) == left


def test_a_word_that_the_cut_splits_is_hidden_where_it_may_be_a_secret() -> None:
    assert shown("a b " + "token=" + "x" * 50, 10) == "a b ***"
    assert shown("a b " + "x" * 60, 10) == "a b xxxxxx"
    assert shown("x" * 2_000) == "x" * 2_000
    assert shown("x" * 5_000) == "x" * 4_096
    assert safe("x" * 5_000) == "x" * 1_024


@pytest.mark.parametrize(
    ("url", "left"),
    [("https://u:p@h/x", "https://h/x"), ("https://u@h", "https://h"), ("https://h/x@y", "https://h/x@y"),
     ("u@h", "u@h"),
     ("see https://u:p@h and ftp://v@i", "see https://h and ftp://i"), ("https://h?a@b", "https://h?a@b"), ("", "")],
)  # fmt: skip
def test_a_url_is_shown_without_its_user(url: str, left: str) -> None:
    assert without_user(url) == left


def test_what_steers_a_terminal_is_escaped() -> None:
    assert visible("a\tb\nc") == "a\tb\nc"
    assert visible("\x08\x0b\x1f\x7f\x9f\u061c\u200e\u2028\u2069") == "".join(
        f"\\u{code}" for code in ("0008", "000b", "001f", "007f", "009f", "061c", "200e", "2028", "2069")
    )


def test_a_quoted_text_is_short_and_without_secrets() -> None:
    assert quoted("it's") == '"it\'s"'
    assert quoted("a" * 64) == f"'{'a' * 64}'"
    assert quoted("a" * 65) == f"'{'a' * 63}…'"
    assert quoted("password=hunter2") == "'password=***'"


def test_a_text_beyond_the_bound_matches_no_pattern() -> None:
    assert matches("a$", "b" * (LONGEST_MATCHED - 1) + "a")
    assert not matches("a$", "b" * LONGEST_MATCHED + "a")
    assert not matches("a$", "a\n")
    assert not matches(r"\d", "\u0661")
    assert matches(r"^a\$", "a$b")
    assert matches(r"^a\\$", "a\\")
    assert not matches(r"^a\\$", "a\\\n")
