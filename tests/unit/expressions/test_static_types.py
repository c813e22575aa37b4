"""Static types and signatures, and values as JSON: how types fit, join and are written, and what functions cost."""

from types import MappingProxyType
from typing import Any

import pytest

from purekube.cel import (
    BOOL,
    BYTES,
    DYN,
    INT,
    STRING,
    Budget,
    CelType,
    EvaluationError,
    Field,
    list_of,
    map_of,
    optional_of,
)
from purekube.cel.json_values import as_json
from purekube.cel.signatures import built, function, list_cost, named, square_cost, table, text_cost
from purekube.cel.types import joined, substituted, unify
from purekube.cel.values import ABSENT, Duration, KeyedList, Timestamp, TypeValue, Uint, type_name

A, B = CelType("$A"), CelType("$B")
SHOP = CelType("object", (), {"a": Field(INT)})
OTHER = CelType("object", (), {"b": Field(INT)})


@pytest.mark.parametrize(
    ("wanted", "given", "fits"),
    [
        (INT, INT, True),
        (INT, STRING, False),
        (DYN, INT, True),
        (INT, DYN, True),
        (list_of(INT), list_of(INT), True),
        (list_of(INT), list_of(STRING), False),
        (list_of(DYN), list_of(STRING), True),
        (list_of(INT), list_of(DYN), True),
        (list_of(INT), INT, False),
        (map_of(INT), map_of(INT), True),
        (map_of(INT), map_of(INT, INT), False),
        (map_of(INT), map_of(STRING), False),
        (map_of(INT), SHOP, True),
        (SHOP, map_of(INT), True),
        (SHOP, OTHER, True),
        (SHOP, INT, False),
        (list_of(INT), SHOP, False),
        (optional_of(INT), INT, False),
        (CelType("list"), list_of(INT), True),
    ],
)
def test_a_type_fits_another_or_not(wanted: CelType, given: CelType, fits: bool) -> None:
    assert given.fits(wanted) is fits
    assert unify(wanted, given, {}) is fits


@pytest.mark.parametrize(
    ("pairs", "bound"),
    [
        ([(A, INT), (A, INT)], {"$A": INT}),
        ([(A, INT), (A, STRING)], None),
        ([(A, DYN), (A, INT)], {"$A": INT}),
        ([(A, INT), (A, DYN)], {"$A": INT}),
        ([(list_of(A), list_of(INT)), (B, STRING)], {"$A": INT, "$B": STRING}),
        ([(A, list_of(DYN)), (A, list_of(INT))], {"$A": list_of(DYN)}),
        ([(map_of(B, A), map_of(INT))], {"$A": STRING, "$B": INT}),
    ],
)
def test_a_parameter_is_one_type_in_all_places(pairs: list[tuple[CelType, CelType]], bound: Any) -> None:
    found: dict[str, CelType] = {}

    assert all(unify(wanted, given, found) for wanted, given in pairs) is (bound is not None)
    assert found == (bound or {"$A": INT})


def test_types_are_written_and_filled_in() -> None:
    assert str(map_of(list_of(A), INT)) == "map(int, list(A))"
    assert (str(SHOP), str(DYN), str(optional_of(BOOL))) == ("object", "dyn", "optional(bool)")
    assert substituted(map_of(list_of(A), B), {"$A": INT}) == map_of(list_of(INT), DYN)
    assert substituted(INT, {"$A": STRING}) is INT
    assert (list_of(INT).item, map_of(INT).item, INT.item) == (INT, INT, DYN)
    assert (map_of(INT, BOOL).key, SHOP.key, INT.key, list_of(INT).key, CelType("map").key) == (
        BOOL,
        STRING,
        DYN,
        DYN,
        DYN,
    )


@pytest.mark.parametrize(
    ("types", "common"),
    [
        ([], DYN),
        ([INT], INT),
        ([INT, INT], INT),
        ([INT, STRING], DYN),
        ([list_of(INT), list_of(INT)], list_of(INT)),
        ([list_of(INT), list_of(STRING)], list_of(DYN)),
        ([map_of(INT), map_of(STRING)], map_of(DYN)),
        ([map_of(INT), map_of(INT, INT)], map_of(INT, DYN)),
        ([list_of(INT), map_of(INT)], DYN),
        ([SHOP, SHOP], SHOP),
        ([SHOP, OTHER], DYN),
        ([SHOP, map_of(INT)], DYN),
        ([map_of(INT), SHOP], DYN),
        ([list_of(SHOP), list_of(SHOP)], list_of(SHOP)),
        ([list_of(SHOP), list_of(OTHER)], list_of(DYN)),
        ([map_of(SHOP), map_of(SHOP), map_of(OTHER)], map_of(DYN)),
        ([INT, INT, STRING], DYN),
        ([list_of(list_of(INT)), list_of(list_of(BOOL))], list_of(list_of(DYN))),
        ([CelType("list"), list_of(INT)], DYN),
    ],
)
def test_types_have_a_common_one(types: list[CelType], common: CelType) -> None:
    assert joined(types) == common


@pytest.mark.parametrize(
    ("text", "name", "method", "arity", "parameters", "result"),
    [
        ("size(string) -> int", "size", False, 1, (STRING,), INT),
        ("string.size() -> int", "size", True, 0, (STRING,), INT),
        ("string.replace(string, string) -> string", "replace", True, 2, (STRING, STRING, STRING), STRING),
        ("list($A).slice(int, int) -> list($A)", "slice", True, 2, (list_of(A), INT, INT), list_of(A)),
        ("map($A, $B).keys() -> list($A)", "keys", True, 0, (map_of(B, A),), list_of(A)),
        (
            "list(list($A)).f(map(string, list(int))) -> bool",
            "f",
            True,
            1,
            (list_of(list_of(A)), map_of(list_of(INT))),
            BOOL,
        ),
        ("math.abs(int) -> int", "math.abs", False, 1, (INT,), INT),
        ("math.greatest(int...) -> int", "math.greatest", False, -1, (INT,), INT),
        ("f(string, int...) -> int", "f", False, -1, (STRING, INT), INT),
        ("optional.none() -> optional($A)", "optional.none", False, 0, (), optional_of(A)),
        ("optional($A).value() -> $A", "value", True, 0, (optional_of(A),), A),
        ("ip.isCanonical(string) -> bool", "ip.isCanonical", False, 1, (STRING,), BOOL),
        ("ip.family() -> int", "family", True, 0, (CelType("ip"),), INT),
        ("$A.f() -> int", "f", True, 0, (A,), INT),
        ("a.b.f(int) -> int", "a.b.f", False, 1, (INT,), INT),
    ],
)
def test_a_signature_is_read_as_users_read_it(
    text: str, name: str, method: bool, arity: int, parameters: tuple[CelType, ...], result: CelType
) -> None:
    found = function(text, len)

    assert found.key == (name, method, arity)
    assert [(form.text, form.parameters, form.result) for form in found.signatures] == [(text, parameters, result)]
    assert (found.run, found.cost, found.with_budget) == (len, None, False)


def test_a_function_is_found_by_its_name_and_number_of_arguments() -> None:
    one, any_number = function("f(int) -> int", abs), function("f(int...) -> int", max)
    functions = table([one], [any_number])

    assert named(functions, "f", False, 1) is one
    assert named(functions, "f", False, 2) is any_number
    assert named(functions, "f", True, 1) is None
    assert [form.text for form in function(["f(int) -> int", "f(bool) -> int"], abs).signatures] == [
        "f(int) -> int",
        "f(bool) -> int",
    ]


def test_a_method_of_lists_and_of_texts_is_chosen_by_its_target() -> None:
    texts = function("string.f(int) -> int", lambda text, _: len(text), cost=lambda *_: 3)
    lists = function("list($A).f(int) -> int", lambda budget, items, _: built(budget, items)[0], with_budget=True)
    budget = Budget()

    for order in ([texts, lists], [lists, texts]):
        both = table(order)["f", True, 1]
        assert (both.run(budget, "ab", 0), both.run(budget, [7], 0)) == (2, 7)
        assert (both.with_budget, both.cost, len(both.signatures)) == (True, None, 2)
    assert (Budget().steps - budget.steps, Budget().items - budget.items) == (6, 2)
    for first, second in (
        (texts, texts),
        (lists, lists),
        (function("f(int) -> int", abs), function("f(bool) -> int", abs)),
    ):
        with pytest.raises(ValueError, match=r"is defined twice$"):
            table([first], [second])


def test_costs_count_what_is_read() -> None:
    assert [text_cost("a" * count) for count in (0, 15, 16, 32)] == [1, 1, 2, 3]
    assert text_cost("a" * 8, b"a" * 8, 5) == 2
    assert [list_cost([]), list_cost([1, 2]), list_cost({"a": 1}, [1]), list_cost("abc")] == [1, 3, 3, 1]
    assert [square_cost([1, 2], [1, 2, 3]), square_cost([1, 2]), square_cost(5), square_cost([], [1])] == [7, 5, 2, 1]
    budget = Budget()
    assert [built(budget, value) for value in ("abc", b"ab", [1], {"a": 1}, 5)] == ["abc", b"ab", [1], {"a": 1}, 5]
    assert (Budget().text - budget.text, Budget().items - budget.items) == (5, 2)


@pytest.mark.parametrize(
    ("value", "json"),
    [
        (None, None),
        (True, True),
        ("a", "a"),
        (3, 3),
        (Uint(4), 4),
        (1.5, 1.5),
        (2.0, 2),
        (-2.0, -2),
        (2.0**53, 2.0**53),
        (2.0**53 - 1, 2**53 - 1),
        ({"a": 1.0}, {"a": 1}),
        ([1.0, (2.0,)], [1, [2]]),
        (KeyedList([1]), [1]),
        (Timestamp(0), "1970-01-01T00:00:00Z"),
        (b"ab", "YWI="),
        (Duration(1_500_000_000), "1.5s"),
        (MappingProxyType({"a": None}), {"a": None}),
    ],
)
def test_a_value_is_written_as_json(value: Any, json: Any) -> None:
    found = as_json(value)

    assert (found, type(found)) == (json, type(json))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (float("nan"), "nan and infinity cannot be written as JSON"),
        ([float("inf")], "nan and infinity cannot be written as JSON"),
        ({1: 2}, "the key of an object is a text, not int"),
        (TypeValue("int"), "a value of type type cannot be written as JSON"),
        (ABSENT, "a value of type optional_type cannot be written as JSON"),
    ],
)
def test_what_json_cannot_say_is_refused(value: Any, problem: str) -> None:
    with pytest.raises(EvaluationError) as refused:
        as_json(value)

    assert str(refused.value) == problem


def test_a_type_has_its_name() -> None:
    values = [MappingProxyType({}), KeyedList(), Uint(1), BYTES, True]

    assert [type_name(value) for value in values] == ["map", "list", "uint", "dyn", "bool"]
