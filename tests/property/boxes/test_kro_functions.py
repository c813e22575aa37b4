"""kro's functions are their definitions, and give what kro gives (PH-6)."""

import hashlib
import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.boxes.expressions import FUNCTIONS
from purekube.cel import DYN, CelError, Environment, EvaluationError, LimitExceeded, compile_expression
from purekube.cel.json_values import as_json

TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
).filter(lambda value: "Infinity" not in json.dumps(value))
ITEMS = st.lists(st.integers(0, 9), max_size=6)
UID = "6f9619ff-8b86-d011-b42d-00c04fc964ff"


def value(text: str, **scope: Any) -> Any:
    return compile_expression(text, Environment(dict.fromkeys(scope, DYN), FUNCTIONS)).evaluate(scope)


@pytest.mark.parametrize(
    ("seed", "fnv", "text", "number"),
    [
        ("", "cbf29ce484222325", "ew0w84jlew0w84jlew0w", 31956),
        ("x", "af63f54c86021707", "iot11jnpiot11jnpiot1", 32196),
        (UID, "2e35c36c471905f1", "8ne1vl0b8ne1vl0b8ne1", 31907),
        ("é", "0ac21707b7181e01", "ifhmb46oifhmb46oifhm", 30227),
    ],
)
def test_seeds_and_hashes_are_those_of_kro(seed: str, fnv: str, text: str, number: int) -> None:
    """The values are those of kro's own code, run once with Go."""
    assert value("hash.fnv64a(s)", s=seed).hex() == fnv
    assert value("random.seededString(20, s)", s=seed) == text
    assert value("random.seededInt(30000, 32768, s)", s=seed) == number


@given(TEXTS, TEXTS)
def test_a_hash_is_its_definition(text: str, more: str) -> None:
    assert value("hash.sha256(s)", s=text) == hashlib.sha256(text.encode()).digest()
    assert value("hash.md5(s)", s=text) == hashlib.md5(text.encode(), usedforsecurity=False).digest()
    state = int.from_bytes(value("hash.fnv64a(s)", s=text), "big")
    for byte in more.encode():
        state = ((state ^ byte) * 1099511628211) & (2**64 - 1)
    assert value("hash.fnv64a(s + m)", s=text, m=more) == state.to_bytes(8, "big")


@given(TEXTS, st.integers(1, 40), st.integers(1, 40))
def test_a_shorter_seeded_text_begins_a_longer_one(seed: str, length: int, more: int) -> None:
    short = value("random.seededString(n, s)", s=seed, n=length)
    assert len(short) == length
    assert set(short) <= set("0123456789abcdefghijklmnopqrstuvwxyz")
    assert value("random.seededString(n, s)", s=seed, n=length + more).startswith(short)


@given(TEXTS, st.integers(-(2**62), 2**62), st.integers(1, 2**62))
def test_a_seeded_number_is_in_its_range(seed: str, least: int, count: int) -> None:
    number = value("random.seededInt(a, b, s)", s=seed, a=least, b=least + count)
    assert least <= number < least + count
    assert number == value("random.seededInt(a, b, s)", s=seed, a=least, b=least + count)


@given(JSON)
def test_json_that_is_taken_apart_is_written_again_as_it_was(given_value: Any) -> None:
    found = value("json.unmarshal(s)", s=json.dumps(given_value))
    assert as_json(found) == given_value


@given(TEXTS)
@example("9007199254740993")  # no double has this value
@example("1e999")
def test_a_text_is_taken_apart_as_json_or_told(text: str) -> None:
    try:
        wanted = json.loads(text, parse_int=_double, parse_float=_double, parse_constant=_refused)
    except (ValueError, RecursionError):
        with pytest.raises(EvaluationError):
            value("json.unmarshal(s)", s=text)
    else:
        assert as_json(value("json.unmarshal(s)", s=text)) == wanted


def _double(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise ValueError(digits)
    return number


def _refused(name: str) -> Any:
    raise ValueError(name)


@given(st.dictionaries(TEXTS, st.integers()), st.dictionaries(TEXTS, st.integers()))
def test_a_merge_has_the_keys_of_both_and_the_values_of_the_second(one: dict[str, int], other: dict[str, int]) -> None:
    assert value("a.merge(b)", a=one, b=other) == {**one, **other}


@given(ITEMS, st.integers(-2, 8), st.integers(0, 9))
def test_a_changed_list_is_that_of_python(items: list[int], at: int, item: int) -> None:
    replaced, inserted, removed = list(items), list(items), list(items)
    within, end = 0 <= at < len(items), 0 <= at <= len(items)
    inserted.insert(at, item)
    if within:
        replaced[at] = item
        del removed[at]
    cases = [
        ("lists.setAtIndex(l, i, v)", within, replaced),
        ("lists.insertAtIndex(l, i, v)", end, inserted),
        ("lists.removeAtIndex(l, i)", within, removed),
    ]
    for text, legal, wanted in cases:
        if legal:
            assert value(text, l=items, i=at, v=item) == wanted
        else:
            with pytest.raises(EvaluationError, match="index out of bounds"):
                value(text, l=items, i=at, v=item)


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        ("random.seededString(0, 'a')", EvaluationError, "the length must be positive"),
        ("random.seededString(-1, 'a')", EvaluationError, "the length must be positive"),
        ("random.seededString(2000000, 'a')", LimitExceeded, "the expression builds too much text"),
        ("random.seededInt(3, 3, 'a')", EvaluationError, "the first number must be less than the second"),
        ("json.unmarshal('{')", EvaluationError, "the text is no JSON"),
        ("json.unmarshal('1e999')", EvaluationError, "the text is no JSON"),
        ("json.unmarshal('1' + n)", EvaluationError, "the JSON has a number beyond 64 bits"),
        ("json.unmarshal('[' + s + ']')", EvaluationError, "the JSON is nested more than 64 levels deep"),
        ("lists.setAtIndex([1], 1, 1)", EvaluationError, "index out of bounds: 1"),
        ("lists.insertAtIndex([1], 2, 1)", EvaluationError, "index out of bounds: 2"),
        ("lists.removeAtIndex([1], -1)", EvaluationError, "index out of bounds: -1"),
    ],
)
def test_what_cannot_be_worked_out_is_told(text: str, error: type[CelError], told: str) -> None:
    with pytest.raises(error) as raised:
        value(text, s="[" * 65 + "]" * 65, n="0" * 400)
    assert str(raised.value) == told


def test_json_may_be_nested_64_levels_deep_below_its_top() -> None:
    assert json.dumps(value("json.unmarshal(s)", s="[" * 65 + "]" * 65)) == "[" * 65 + "]" * 65


TEXT_WANTED = [
    "hash.sha256({})", "hash.fnv64a({})", "hash.md5({})", "json.unmarshal({})",
    "random.seededString(1, {})", "random.seededInt(0, 2, {})",
]  # fmt: skip
NUMBER_WANTED = [
    "random.seededString({}, 'a')", "random.seededInt({}, 2, 'a')", "random.seededInt(0, {}, 'a')",
    "lists.setAtIndex([1], {}, 1)", "lists.insertAtIndex([1], {}, 1)", "lists.removeAtIndex([1], {})",
]  # fmt: skip
OTHERS_WANTED = ["{}.merge({{}})", "{{}}.merge({})", "lists.setAtIndex({}, 0, 1)", "lists.removeAtIndex({}, 0)"]


@pytest.mark.parametrize(
    ("texts", "wrong"),
    [
        (TEXT_WANTED, (1, True, 1.5, b"a", None, [])),
        (NUMBER_WANTED, ("1", True, 1.5, b"a", None, [])),
        (OTHERS_WANTED, (1, True, "a", b"a", None)),
    ],
)
def test_a_value_of_another_type_has_no_overload(texts: list[str], wrong: tuple[Any, ...]) -> None:
    for text in texts:
        for given_value in wrong:
            with pytest.raises(EvaluationError, match=r"^no such overload$"):
                value(text.format("x"), x=given_value)
