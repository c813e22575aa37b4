"""S-62: what decoding gives back itself, what it skips because the old object has it, and what it copies."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from purekube.schema.compile import compile_schema
from purekube.schema.node import Schema
from purekube.schema.pruning import apply_defaults, drop_nulls, prune

TEXT: dict[str, Any] = {"type": "string"}
LEAF = {"type": "object", "properties": {"a": TEXT, "d": {**TEXT, "default": "x"}}}


def listed(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "one": LEAF,
            "many": listed(LEAF),
            "lists": listed(listed(LEAF)),
            "named": {"type": "object", "additionalProperties": LEAF},
        },
    }
)
Decode = Callable[[Schema, Any, Any], Any]
DECODERS: dict[str, tuple[Decode, dict[str, Any], dict[str, Any]]] = {
    "defaults": (apply_defaults, {"a": "b"}, {"a": "b", "d": "x"}),
    "pruned": (lambda schema, value, old: prune(schema, value, old)[0], {"a": "b", "z": 1}, {"a": "b"}),
    "nulls": (drop_nulls, {"a": None, "d": None}, {"d": None}),
}
"""Each with an object that it changes, and what that becomes."""


@pytest.mark.parametrize("name", DECODERS)
def test_a_part_that_the_old_object_has_itself_is_skipped_and_an_equal_one_is_not(name: str) -> None:
    """The old object is decoded by the same schema; one that is not shows what is skipped."""
    decode, raw, done = DECODERS[name]
    old: dict[str, Any] = {
        "one": dict(raw),
        "many": [dict(raw), dict(raw)],
        "lists": [[dict(raw)], [dict(raw)]],
        "named": {"x": dict(raw), "y": dict(raw)},
    }
    whole = {"one": done, "many": [done, done], "lists": [[done], [done]], "named": {"x": done, "y": done}}

    assert decode(SCHEMA, old, {}) == whole
    assert decode(SCHEMA, copy.deepcopy(old), old) == whole
    assert decode(SCHEMA, old, old) is old
    assert decode(SCHEMA, dict(old), old) == old
    changed = {
        "one": {**old["one"]},
        "many": [dict(raw), old["many"][0]],
        "lists": [[dict(raw)], old["lists"][1]],
        "named": {"x": dict(raw), "y": old["named"]["y"], "z": dict(raw)},
    }
    assert decode(SCHEMA, changed, old) == {
        "one": done,
        "many": [done, raw],
        "lists": [[done], [raw]],
        "named": {"x": done, "y": raw, "z": done},
    }
    odd: Any
    for odd in (None, "old", [], {"one": 3, "many": {}, "lists": "x", "named": []}):
        assert decode(SCHEMA, copy.deepcopy(old), odd) == whole


@pytest.mark.parametrize("name", DECODERS)
def test_what_needs_no_change_is_the_same_object_in_each_part(name: str) -> None:
    decode, raw, done = DECODERS[name]
    value = {"one": {"a": "b", "d": "x"}, "many": [{"a": "b", "d": "x"}], "lists": [[]], "named": {}}

    assert decode(SCHEMA, value, {}) is value
    for key, part in {"one": dict(raw), "many": [dict(raw)], "lists": [[dict(raw)]], "named": {"x": raw}}.items():
        mixed = {**value, key: part}
        found = decode(SCHEMA, mixed, {})
        assert found is not mixed
        assert {other for other in value if found[other] is not value[other]} == {key}
        assert mixed[key] is part, "the argument is unchanged"
    assert done == decode(SCHEMA, {"one": raw}, {})["one"]


def test_a_default_is_copied_into_each_object() -> None:
    filled = {"type": "object", "additionalProperties": TEXT, "default": {"a": "b"}}
    schema = compile_schema(
        {
            "type": "object",
            "properties": {
                "one": filled,
                "words": {**listed(TEXT), "default": ["a"]},
                "many": listed(filled),
                "named": {"type": "object", "additionalProperties": filled},
            },
        }
    )
    wanted = {
        "one": {"a": "b"},
        "words": ["a"],
        "many": [{"a": "b"}, {"a": "b"}],
        "named": {"x": {"a": "b"}},
    }
    for _ in range(2):
        found = apply_defaults(schema, {"many": [None, None], "named": {"x": None}})
        assert found == wanted
        found["one"]["a"] = found["many"][0]["a"] = found["named"]["x"]["a"] = "changed"
        found["words"].append("b")
        assert found["many"][1] == {"a": "b"}


def test_unknown_fields_are_told_in_the_order_of_their_paths() -> None:
    value = {"z": 1, "one": {"y": 1, "b": 1}, "many": [{}, {"c": 1}], "b": 1}

    assert prune(SCHEMA, value) == ({"one": {}, "many": [{}, {}]}, ("b", "many[1].c", "one.b", "one.y", "z"))


def test_a_null_or_a_float_of_the_old_object_itself_stays() -> None:
    numbers = compile_schema({"type": "object", "properties": {"n": listed({"type": "number"})}})
    old, null = {"n": [1.0, 2.5]}, {"one": None}

    assert prune(numbers, {**old}) == ({"n": [1, 2.5]}, ())
    assert type(prune(numbers, {**old})[0]["n"][0]) is int
    assert type(prune(numbers, {**old}, old)[0]["n"][0]) is float
    assert drop_nulls(SCHEMA, {**null}) == {}
    assert drop_nulls(SCHEMA, {**null}, null) == {}, "a null is no part that can be recognised"
    assert drop_nulls(SCHEMA, null, null) is null
