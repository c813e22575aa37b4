"""Pruning, nulls and defaults: what reading an object by its schema makes of it."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.schema.compile import compile_schema
from purekube.schema.pruning import apply_defaults, drop_nulls, prune

STRING: dict[str, Any] = {"type": "string"}
FREE: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "s": STRING,
            "n": {"type": "integer"},
            "null": {**STRING, "nullable": True},
            "o": {"type": "object", "properties": {"a": STRING, "d": {**STRING, "default": "dd"}}},
            "bare": {"type": "object"},
            "free": {**FREE, "properties": {"known": {"type": "object", "properties": {"a": STRING}}}},
            "map": {
                "type": "object",
                "additionalProperties": {"type": "object", "properties": {"a": {**STRING, "default": "x"}}},
            },
            "list": {
                "type": "array",
                "items": {"type": "object", "properties": {"a": STRING, "d": {**STRING, "default": "i"}}},
            },
            "deep": {
                "type": "object",
                "default": {"x": {}},
                "properties": {"x": {"type": "object", "properties": {"y": {**STRING, "default": "z"}}}},
            },
            "whole": {**FREE, "x-kubernetes-embedded-resource": True},
            "dn": {**STRING, "default": "was-null"},
        },
    }
)


@pytest.mark.parametrize(
    ("value", "left", "unknown"),
    [
        ({"s": "x", "zz": 1}, {"s": "x"}, ("zz",)),
        ({"o": {"a": "x", "b": 1}}, {"o": {"a": "x"}}, ("o.b",)),
        ({"list": [{"a": "x", "q": 1}]}, {"list": [{"a": "x"}]}, ("list[0].q",)),
        ({"map": {"k": {"q": 1}}}, {"map": {"k": {}}}, ("map.k.q",)),
        ({"bare": {"a": 1}}, {"bare": {}}, ("bare.a",)),
        ({"free": {"any": {"thing": [1]}}}, {"free": {"any": {"thing": [1]}}}, ()),
        ({"free": {"known": {"a": "x", "q": 1}}}, {"free": {"known": {"a": "x"}}}, ("free.known.q",)),
        ({"whole": {"apiVersion": "v1", "kind": "K", "metadata": {"q": 1}}}, None, ()),
        ({"n": 2.0}, {"n": 2}, ()),
        ({"s": 5}, None, ()),
    ],
)
def test_pruning_takes_what_the_schema_does_not_know(value: Any, left: Any, unknown: tuple[str, ...]) -> None:
    pruned, paths = prune(SCHEMA, value)
    assert (pruned, paths) == (value if left is None else left, unknown)
    assert all(type(pruned[key]) is type(left[key]) for key in left or ())


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ({"s": None}, {}),
        ({"null": None}, {"null": None}),
        ({"o": {"a": None}}, {"o": {}}),
        ({"o": {"d": None}}, {"o": {"d": None}}),
        ({"list": [{"a": None}]}, {"list": [{}]}),
        ({"free": {"x": None}}, {"free": {"x": None}}),
        ({"s": "x"}, {"s": "x"}),
    ],
)
def test_stray_nulls_go_unless_allowed_or_replaced_by_a_default(value: Any, left: Any) -> None:
    assert drop_nulls(SCHEMA, value) == left


@pytest.mark.parametrize(
    ("value", "full"),
    [
        ({}, {"deep": {"x": {"y": "z"}}, "dn": "was-null"}),
        ({"o": {}}, {"o": {"d": "dd"}}),
        ({"o": {"d": "mine"}}, {"o": {"d": "mine"}}),
        ({"o": {"d": None}}, {"o": {"d": "dd"}}),
        ({"map": {"k": {}}}, {"map": {"k": {"a": "x"}}}),
        ({"list": [{}, {"d": "mine"}]}, {"list": [{"d": "i"}, {"d": "mine"}]}),
        ({"deep": {}}, {"deep": {}}),
        ({"dn": None}, {"dn": "was-null"}),
    ],
)
def test_defaults_fill_what_is_absent_from_the_top_down(value: Any, full: Any) -> None:
    filled = apply_defaults(SCHEMA, value)
    assert {key: filled[key] for key in full} == full


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.just(2.0) | st.sampled_from(["", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["s", "a", "d", "o", "free", "known", "list", "map", "null", "q"]), inner, max_size=3
        )
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(
    st.sampled_from(["s", "o", "bare", "free", "map", "list", "deep", "null", "dn", "q"]), JSON, max_size=4
)


@given(OBJECTS)
def test_reading_twice_changes_nothing_more(value: dict[str, Any]) -> None:
    pruned, _ = prune(SCHEMA, value)
    assert prune(SCHEMA, pruned) == (pruned, ())
    assert drop_nulls(SCHEMA, drop_nulls(SCHEMA, value)) == drop_nulls(SCHEMA, value)
    filled = apply_defaults(SCHEMA, value)
    assert apply_defaults(SCHEMA, filled) is filled or apply_defaults(SCHEMA, filled) == filled


@given(OBJECTS)
def test_arguments_stay_as_they_are(value: dict[str, Any]) -> None:
    before = copy.deepcopy(value)
    prune(SCHEMA, value)
    drop_nulls(SCHEMA, value)
    apply_defaults(SCHEMA, value)
    assert value == before


@given(OBJECTS)
def test_what_needs_no_change_is_given_back_itself(value: dict[str, Any]) -> None:
    pruned, unknown = prune(SCHEMA, value)
    again, _ = prune(SCHEMA, pruned)
    assert again is pruned
    assert bool(unknown) <= (pruned is not value)


def test_defaults_are_not_shared_between_objects() -> None:
    first, second = apply_defaults(SCHEMA, {}), apply_defaults(SCHEMA, {})
    assert first["deep"] is not second["deep"]
    assert first["deep"]["x"] is not second["deep"]["x"]


NULLS = [
    {"type": "string", "nullable": nullable, **default}
    for nullable in (True, False)
    for default in ({"default": "d"}, {})
]


@given(st.sampled_from(range(len(NULLS))), st.lists(st.none() | st.text(max_size=2), max_size=4))
def test_a_null_item_becomes_the_default_exactly_where_null_is_not_allowed(number: int, items: list[Any]) -> None:
    """S-62, of lists and of maps; without a default it stays, and validation names it."""
    schema = NULLS[number]
    filled = "default" in schema and not schema["nullable"]
    for parent, value in (
        ({"type": "array", "items": schema}, items),
        ({"type": "object", "additionalProperties": schema}, {str(at): item for at, item in enumerate(items)}),
    ):
        root = compile_schema({"type": "object", "properties": {"f": parent}})
        found = apply_defaults(root, {"f": value})["f"]
        left = list(found.values()) if isinstance(found, dict) else found
        assert left == ["d" if item is None and filled else item for item in items]
