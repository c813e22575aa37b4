"""Equality of nested values is asked from left to right (PH-6), and time zones are the same on every machine."""

from collections import UserDict
from datetime import UTC, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from purekube.cel import DYN, Budget, CelError, Environment, EvaluationError, compile_expression
from purekube.cel.moments import zone_of
from purekube.cel.values import KeyedList, SetList, cel_equal, summed_lists

TWO, TWICE = SetList([1, 2]), [1, 1]


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (TWO, [2, 1], True),
        (TWO, TWICE, False),
        (TWICE, TWO, True),
        ([0, TWO], [0, TWICE], False),
        ([0, TWICE], [0, TWO], True),
        ({"a": 0, "b": TWO}, {"a": 0, "b": TWICE}, False),
        ({"a": 0, "b": TWICE}, {"a": 0, "b": TWO}, True),
        (SetList([TWO]), [TWICE], False),
        (SetList([TWICE]), [TWO], True),
        ({"a": 1}, {"b": 1}, False),
        ({"a": 1}, {"a": 1, "b": 1}, False),
        ({"a": 1, "b": 2}, {"b": 2.0, "a": 1.0}, True),
        ([1, 2], [2, 1], False),
        ([1], [1, 1], False),
        (True, True, True),
        (True, False, False),
        (True, 1, False),
        (1, True, False),
        (0.0, False, False),
        (1, 1.0, True),
        ("1", 1, False),
        (None, None, True),
        (None, False, False),
    ],
)
def test_each_item_of_a_set_on_the_left_is_sought_on_the_right(left: Any, right: Any, equal: bool) -> None:
    assert cel_equal(left, right, Budget()) is equal


def test_a_list_is_distinct_by_what_comes_later_in_it() -> None:
    """What comes later is compared with what was kept, as it is written: `later == kept`."""
    distinct = compile_expression("x.distinct()", Environment({"x": DYN}), checked=False)

    assert distinct.evaluate({"x": [TWO, TWICE]}, Budget()) == [TWO]
    assert distinct.evaluate({"x": [TWICE, TWO]}, Budget()) == [TWICE, TWO]


def test_a_field_of_any_mapping_can_be_read() -> None:
    field = compile_expression("x.a.b", Environment({"x": DYN}), checked=False)

    for value in ({"a": {"b": 1}}, UserDict({"a": UserDict({"b": 1})})):
        assert field.evaluate({"x": value}, Budget()) == 1
    with pytest.raises(CelError, match="no such key: b"):
        field.evaluate({"x": UserDict({"a": UserDict({})})}, Budget())


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        ("UTC", UTC),
        ("", UTC),
        ("Europe/Berlin", ZoneInfo("Europe/Berlin")),
        ("+01:30", timezone(timedelta(minutes=90))),
        ("-01:30", timezone(timedelta(minutes=-90))),
        ("23:59", timezone(timedelta(hours=23, minutes=59))),
    ],
)
def test_a_zone_is_known_by_its_name_or_its_offset(name: str, zone: Any) -> None:
    assert zone_of(name) == zone


@pytest.mark.parametrize("name", ["24:00", "01:60", "Nowhere/At/All", "../UTC"])
def test_an_unknown_zone_is_an_error(name: str) -> None:
    with pytest.raises(EvaluationError, match="unknown time zone"):
        zone_of(name)


def keyed(*items: Any) -> KeyedList:
    """A map list whose items have the key `k`."""
    out = KeyedList(items)
    out.keys = ("k",)
    return out


A1, A2, B1, B2 = {"k": "a", "v": 1}, {"k": "a", "v": 2}, {"k": "b", "v": 1}, {"k": "b", "v": 2}


@pytest.mark.parametrize(
    ("left", "right", "total"),
    [
        ([1, 2], [2, 3], [1, 2, 2, 3]),
        (SetList([1, 2]), [2, 3, 3], SetList([1, 2, 3])),
        (keyed(B1, A1), [A2], keyed(B1, A2)),
        (keyed(A1), [B1, B2, A2], keyed(A2, B1, B2)),
        (keyed(), [], keyed()),
    ],
)
def test_the_sum_of_a_set_or_map_list_has_each_item_once(left: list[Any], right: list[Any], total: list[Any]) -> None:
    found = summed_lists(left, right, Budget())

    assert (type(found), list(found)) == (type(total), list(total))
    assert getattr(found, "keys", ()) == getattr(total, "keys", ())


def test_a_sum_of_lists_costs_its_items_and_a_set_their_comparisons() -> None:
    plain, unique = Budget(), Budget()
    summed_lists([1], [2, 3], plain)
    summed_lists(SetList([1]), [2, 3], unique)

    assert (plain.items, unique.items) == (Budget().items - 3, Budget().items - 3)
    assert plain.steps == Budget().steps
    # 2 is compared with one item, 3 with two; each comparison costs one more for the item itself.
    assert unique.steps <= Budget().steps - (1 + 1) - (1 + 2)


def test_a_map_list_takes_only_maps() -> None:
    with pytest.raises(EvaluationError, match="no such overload"):
        summed_lists(keyed(A1), [1], Budget())
