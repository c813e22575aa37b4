"""Validation by structure: every keyword, with the reasons, paths and words of a real API server."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purekube.schema.compile import compile_schema
from purekube.schema.node import Schema
from purekube.schema.violations import validate

STRING: dict[str, Any] = {"type": "string"}
INTEGER: dict[str, Any] = {"type": "integer"}


def field(schema: dict[str, Any]) -> Schema:
    return compile_schema({"type": "object", "properties": {"f": schema}})


def causes(schema: dict[str, Any], value: Any) -> list[tuple[str, str, str]]:
    """Reason, field and message of everything wrong, without the remark that CEL rules were left out."""
    status_causes = validate(field(schema), {"f": value})
    return [(c.reason, c.field, c.message) for c in status_causes if "some validation rules" not in c.message]


def typed(kind: str, name: str) -> tuple[str, str, str]:
    return "FieldValueTypeInvalid", "f", f'Invalid value: "{name}": f in body must be of type {kind}: "{name}"'


@pytest.mark.parametrize(
    ("schema", "value", "name"),
    [
        ("string", 1, "integer"),
        ("string", None, "null"),
        ("string", True, "boolean"),
        ("integer", "1", "string"),
        ("integer", 1.5, "number"),
        ("integer", True, "boolean"),
        ("number", "1", "string"),
        ("number", False, "boolean"),
        ("boolean", 0, "integer"),
        ("object", [], "array"),
        ("boolean", {}, "object"),
    ],
)
def test_a_value_of_another_type(schema: str, value: Any, name: str) -> None:
    assert causes({"type": schema}, value) == [typed(schema, name)]


def test_a_list_where_an_object_is_wanted_and_the_reverse() -> None:
    assert causes({"type": "array", "items": STRING}, {}) == [typed("array", "object")]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (STRING, ""),
        (INTEGER, 1),
        (INTEGER, 1.0),
        ({"type": "number"}, 1),
        ({"type": "number"}, 0.5),
        ({"type": "boolean"}, False),
        ({**STRING, "nullable": True}, None),
        ({"x-kubernetes-int-or-string": True}, 5),
        ({"x-kubernetes-int-or-string": True}, "5%"),
        ({"x-kubernetes-preserve-unknown-fields": True}, [{"a": None}]),
    ],
)
def test_values_of_the_right_type(schema: dict[str, Any], value: Any) -> None:
    assert causes(schema, value) == []


def test_int_or_string_is_neither_of_others() -> None:
    assert causes({"x-kubernetes-int-or-string": True}, 1.5) == [typed("integer,string", "number")]


@pytest.mark.parametrize(
    ("schema", "value", "cause"),
    [
        (
            {**STRING, "enum": ["red", "green"]},
            "pink",
            ("FieldValueNotSupported", "f", 'Unsupported value: "pink": supported values: "red", "green"'),
        ),
        (
            {**INTEGER, "enum": [1, 2]},
            3,
            ("FieldValueNotSupported", "f", 'Unsupported value: 3: supported values: "1", "2"'),
        ),
        ({**STRING, "maxLength": 3}, "long", ("FieldValueTooLong", "f", "Too long: may not be more than 3 bytes")),
        (
            {**STRING, "minLength": 2},
            "a",
            ("FieldValueInvalid", "f", 'Invalid value: "a": f in body should be at least 2 chars long'),
        ),
        (
            {**STRING, "pattern": "^[a-z]+$"},
            "A",
            ("FieldValueInvalid", "f", "Invalid value: \"A\": f in body should match '^[a-z]+$'"),
        ),
        (
            {**INTEGER, "maximum": 3},
            4,
            ("FieldValueInvalid", "f", "Invalid value: 4: f in body should be less than or equal to 3"),
        ),
        (
            {**INTEGER, "maximum": 3, "exclusiveMaximum": True},
            3,
            ("FieldValueInvalid", "f", "Invalid value: 3: f in body should be less than 3"),
        ),
        (
            {**INTEGER, "minimum": 3},
            2,
            ("FieldValueInvalid", "f", "Invalid value: 2: f in body should be greater than or equal to 3"),
        ),
        (
            {**INTEGER, "minimum": 3, "exclusiveMinimum": True},
            3,
            ("FieldValueInvalid", "f", "Invalid value: 3: f in body should be greater than 3"),
        ),
        (
            {**INTEGER, "multipleOf": 3},
            4,
            ("FieldValueInvalid", "f", "Invalid value: 4: f in body should be a multiple of 3"),
        ),
        (
            {"type": "array", "items": STRING, "maxItems": 1},
            ["a", "b"],
            ("FieldValueTooMany", "f", "Too many: 2: must have at most 1 items"),
        ),
        (
            {"type": "array", "items": STRING, "minItems": 1},
            [],
            ("FieldValueInvalid", "f", "Invalid value: 0: f in body should have at least 1 items"),
        ),
        (
            {"type": "object", "additionalProperties": STRING, "maxProperties": 1},
            {"a": "", "b": ""},
            ("FieldValueTooMany", "f", "Too many: 2: must have at most 1 items"),
        ),
        (
            {"type": "object", "additionalProperties": STRING, "minProperties": 1},
            {},
            ("FieldValueInvalid", "f", "Invalid value: 0: f in body should have at least 1 properties"),
        ),
        (
            {**STRING, "format": "date-time"},
            "yesterday",
            (
                "FieldValueTypeInvalid",
                "f",
                'Invalid value: "yesterday": f in body must be of type date-time: "yesterday"',
            ),
        ),
    ],
)
def test_restrictions_and_their_words(schema: dict[str, Any], value: Any, cause: tuple[str, str, str]) -> None:
    assert causes(schema, value) == [cause]


def test_only_the_first_of_length_and_pattern_is_told() -> None:
    schema = {**STRING, "maxLength": 2, "pattern": "^x$"}
    assert [reason for reason, *_ in causes(schema, "abc")] == ["FieldValueTooLong"]


def test_required_fields_and_the_paths_of_nested_values() -> None:
    item = {"type": "object", "required": ["name"], "properties": {"name": STRING, "n": INTEGER}}
    schema = {
        "type": "object",
        "properties": {"l": {"type": "array", "items": item}, "m": {"type": "object", "additionalProperties": INTEGER}},
    }
    found = causes(schema, {"l": [{"name": "x"}, {"n": "y"}], "m": {"k": "z"}})
    assert [(reason, where) for reason, where, _ in found] == [
        ("FieldValueTypeInvalid", "f.l[1].n"),
        ("FieldValueRequired", "f.l[1].name"),
        ("FieldValueTypeInvalid", "f.m.k"),
    ]


def test_a_required_field_at_the_root_has_no_leading_dot() -> None:
    schema = compile_schema({"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object"}}})
    assert [cause.field for cause in validate(schema, {})][:1] == ["spec"]


@pytest.mark.parametrize(
    ("junctor", "good", "bad", "text"),
    [
        ({"anyOf": [{"minimum": 10}, {"maximum": 1}]}, 0, 5, '"f" must validate at least one schema (anyOf)'),
        (
            {"oneOf": [{"minimum": 10}, {"maximum": 1}]},
            11,
            5,
            '"f" must validate one and only one schema (oneOf). Found none valid',
        ),
        (
            {"oneOf": [{"minimum": 1}, {"minimum": 2}]},
            1,
            5,
            '"f" must validate one and only one schema (oneOf). Found 2 valid alternatives',
        ),
        ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, 2, 5, '"f" must validate all the schemas (allOf)'),
        ({"not": {"minimum": 3}}, 2, 5, '"f" must not validate the schema (not)'),
    ],
)
def test_junctors(junctor: dict[str, Any], good: int, bad: int, text: str) -> None:
    assert causes({**INTEGER, **junctor}, good) == []
    assert ("FieldValueInvalid", "<nil>", f'Invalid value: "": {text}') in causes({**INTEGER, **junctor}, bad)


def test_one_of_required_as_crds_use_it() -> None:
    schema = {
        "type": "object",
        "properties": {"a": STRING, "b": STRING},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    }
    assert causes(schema, {"a": "x"}) == []
    assert causes(schema, {"a": "x", "b": "y"})[0][1] == "<nil>"
    assert causes(schema, {})


@pytest.mark.parametrize(
    ("schema", "value", "cause"),
    [
        (
            {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
            ["a", "b", "a"],
            ("f[2]", 'Duplicate value: "a"'),
        ),
        (
            {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": STRING, "v": STRING}},
            },
            [{"k": "a"}, {"k": "a", "v": "x"}],
            ("f[1]", 'Duplicate value: {"k":"a"}'),
        ),
    ],
)
def test_duplicates_in_sets_and_map_lists(schema: dict[str, Any], value: Any, cause: tuple[str, str]) -> None:
    assert causes(schema, value) == [("FieldValueDuplicate", *cause)]


def test_duplicates_that_were_there_before_are_let_through() -> None:
    schema = field({"type": "array", "items": STRING, "x-kubernetes-list-type": "set"})
    assert validate(schema, {"f": ["a", "a", "b"]}, {"f": ["a", "a"]}) == []
    assert validate(schema, {"f": ["a", "a"]}, {"f": ["a"]}) != []


def test_an_embedded_resource_needs_type_and_kind() -> None:
    schema = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    found = {(reason, where) for reason, where, _ in causes(schema, {"apiVersion": ""})}
    assert found == {("FieldValueInvalid", "f.apiVersion"), ("FieldValueRequired", "f.kind")}
    assert causes(schema, {"apiVersion": "v1", "kind": "X", "anything": 1}) == []


def test_what_did_not_change_is_not_held_against_an_update() -> None:
    schema = compile_schema(
        {"type": "object", "properties": {"a": {**STRING, "maxLength": 1}, "b": {**STRING, "maxLength": 1}}}
    )
    assert validate(schema, {"a": "long", "b": "y"}, {"a": "long", "b": "x"}) == []
    assert [cause.field for cause in validate(schema, {"a": "long", "b": "other"}, {"a": "long", "b": "x"})][:1] == [
        "b"
    ]


def test_items_of_map_lists_are_recognised_by_their_keys_in_an_update() -> None:
    item = {"type": "object", "required": ["k"], "properties": {"k": STRING, "v": {**STRING, "maxLength": 1}}}
    schema = field(
        {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    )
    old = {"f": [{"k": "a", "v": "long"}]}
    assert validate(schema, {"f": [{"k": "b"}, {"k": "a", "v": "long"}]}, old) == []


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["f", "g"]), inner, max_size=2),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["f", "g"]), JSON, max_size=2), JSON)
def test_anything_is_valid_or_named_but_never_an_error(value: dict[str, Any], old: Any) -> None:
    schema = compile_schema(
        {
            "type": "object",
            "properties": {
                "f": {
                    "type": "object",
                    "properties": {"f": {**STRING, "pattern": "^a"}, "g": {"x-kubernetes-int-or-string": True}},
                },
                "g": {"type": "array", "items": {**INTEGER, "minimum": 0, "format": "int32"}, "maxItems": 2},
            },
        }
    )
    for cause in validate(schema, value, old):
        assert cause.field
        assert cause.message
        assert cause.reason.startswith("FieldValue")


@given(st.dictionaries(st.sampled_from(["f", "g"]), JSON, max_size=2))
def test_an_object_is_always_a_valid_update_of_itself(value: dict[str, Any]) -> None:
    schema = compile_schema({"type": "object", "properties": {"f": {**STRING, "maxLength": 0}, "g": INTEGER}})
    assert validate(schema, value, value) == []
