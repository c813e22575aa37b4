# ruff: noqa: E501
"""Compiled schemas, their rules and their formats: what each keyword becomes, and which mistakes are told (PH-6)."""

from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from purekube.cel import DYN, STRING, CelType, Field
from purekube.cel.values import Duration, KeyedList, SetList, Timestamp
from purekube.schema.causes import go_value, quoted
from purekube.schema.celtypes import type_of_schema
from purekube.schema.compile import compile_schema
from purekube.schema.formats import is_date_time, matches_format
from purekube.schema.keywords import mistyped_keywords
from purekube.schema.node import ANYTHING, MISSING, CompiledRule, JsonType, ListType, Schema, SchemaError
from purekube.schema.objectmeta import with_type_meta
from purekube.schema.rule_compile import compile_rules
from purekube.schema.rules import check_rules, convert, needs_conversion
from purekube.schema.violations import validate

TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number"}
FREE: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}


def thing(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def listed(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


SET = {"x-kubernetes-list-type": "set"}
KEYED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
ITEM = {**thing(k=TEXT), "required": ["k"]}
TWO_KEYS = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "j"]}
TWO = {**thing(k=TEXT, j=TEXT, v=TEXT), "required": ["k", "j"]}
NULL = object()
"""An old value of null, in contrast to None, which is no old value."""


def field(schema: Any) -> Schema:
    return compile_schema(thing(f=schema)).properties["f"]


def flags(schema: Any) -> set[str]:
    node = field(schema)
    names = (
        "free",
        "nullable",
        "int_or_string",
        "preserve_unknown",
        "embedded",
        "atomic_map",
        "has_defaults",
        "has_rules",
        "has_transitions",
        "has_keys",
        "has_embedded",
    )
    return {name for name in names if getattr(node, name)}


def ruled(schema: dict[str, Any], rule: str, **more: Any) -> dict[str, Any]:
    return {**schema, "x-kubernetes-validations": [{"rule": rule, **more}]}


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        (TEXT, {"free"}),
        (thing(), {"free"}),
        (thing(a=TEXT), set()),
        ({**thing(a=TEXT), **FREE}, {"free", "preserve_unknown"}),
        (FREE, {"free", "preserve_unknown"}),
        ({"type": "object", "additionalProperties": TEXT}, set()),
        ({"type": "object", "additionalProperties": True}, {"free", "preserve_unknown"}),
        ({**TEXT, "nullable": True}, {"free", "nullable"}),
        ({"x-kubernetes-int-or-string": True}, {"free", "int_or_string"}),
        ({**thing(a=TEXT), "x-kubernetes-map-type": "atomic"}, {"atomic_map"}),
        ({**thing(a=TEXT), "x-kubernetes-map-type": "granular"}, set()),
        ({**thing(a=TEXT), "x-kubernetes-embedded-resource": True}, {"embedded"}),
        (thing(a={**thing(b=TEXT), "x-kubernetes-embedded-resource": True}), {"has_embedded"}),
        (thing(a=thing(b={**thing(c=TEXT), "x-kubernetes-embedded-resource": True})), {"has_embedded"}),
        (thing(a={**TEXT, "default": "x"}), {"has_defaults"}),
        (thing(a=thing(b={**TEXT, "default": ""})), {"has_defaults"}),
        (thing(a=listed({**TEXT, "default": "x"})), {"has_defaults"}),
        ({"type": "object", "additionalProperties": {**TEXT, "default": "x"}}, {"has_defaults"}),
        (thing(a={**TEXT, "default": None}), set()),
        (thing(a=listed(TEXT, **SET)), {"has_keys"}),
        (thing(a=listed(TEXT)), set()),
        (thing(a=thing(b=listed(ITEM, **KEYED))), {"has_keys"}),
        (ruled(thing(a=TEXT), "has(self.a)"), {"has_rules"}),
        (thing(a=ruled(TEXT, "self != ''")), {"has_rules"}),
        (thing(a=ruled(TEXT, "self == oldSelf")), {"has_rules", "has_transitions"}),
        (ruled(thing(a=ruled(TEXT, "self == oldSelf")), "has(self.a)"), {"has_rules", "has_transitions"}),
        (ruled(thing(a=ruled(TEXT, "self != ''")), "self == oldSelf"), {"has_rules", "has_transitions"}),
    ],
)
def test_a_schema_has_the_marks_of_its_parts(schema: Any, found: set[str]) -> None:
    assert flags(schema) == found


def test_a_node_has_what_its_keywords_say() -> None:
    node = field({**listed(ITEM, **KEYED), "x-kubernetes-patch-merge-key": "k", "minItems": 1, "maxItems": 3})
    number = field(
        {
            **NUMBER,
            "minimum": 1,
            "maximum": 2,
            "multipleOf": 0.5,
            "exclusiveMinimum": True,
            "enum": [1, 2],
            "format": "x",
        }
    )
    bounded = field({**thing(), "minProperties": 1, "maxProperties": 2})

    assert (node.type, node.list_type, node.list_keys, node.patch_key) == (JsonType.ARRAY, ListType.MAP, ("k",), "k")
    assert node.items is not None
    assert (node.items.required, node.items.type) == (("k",), JsonType.OBJECT)
    assert node.checks is not None
    assert (node.checks.min_items, node.checks.max_items, node.checks.min_length) == (1, 3, None)
    assert number.checks is not None
    assert (number.checks.minimum, number.checks.maximum, number.checks.multiple_of, number.checks.enum) == (
        1,
        2,
        0.5,
        (1, 2),
    )
    assert (number.checks.exclusive_minimum, number.checks.exclusive_maximum, number.format) == (True, False, "x")
    assert bounded.checks is not None
    assert (bounded.checks.min_properties, bounded.checks.max_properties) == (1, 2)
    assert (field(TEXT).checks, field(TEXT).default, field({**TEXT, "default": "x"}).default) == (None, MISSING, "x")


def test_a_value_that_needs_no_check_is_known_by_its_type() -> None:
    assert (field(TEXT).natural, field(TEXT).plain) == (str, str)
    assert (field({**TEXT, "maxLength": 1}).plain, field({**TEXT, "format": "x"}).plain) == (None, None)
    assert (field(NUMBER).natural, field(NUMBER).plain) == (float, None)
    assert (field({"type": "integer"}).plain, field({"type": "boolean"}).plain) == (int, bool)
    assert (field(thing()).natural, field(thing()).plain, field(listed(TEXT)).natural) == (dict, None, list)
    assert (
        field({"x-kubernetes-int-or-string": True}).natural,
        field({**TEXT, "x-kubernetes-int-or-string": True}).natural,
    ) == (None, None)


def test_a_member_has_the_schema_that_is_declared_for_it() -> None:
    node, table, free = field(thing(a=TEXT)), field({"type": "object", "additionalProperties": NUMBER}), field(FREE)

    assert (node.child("a"), node.child("b"), node.applied("b")) == (node.properties["a"], None, None)
    assert (table.child("x"), table.applied("x")) == (table.additional, table.additional)
    assert (free.child("x"), free.applied("x")) == (None, ANYTHING)
    assert [key for key, _ in field(thing(a=TEXT, b={**TEXT, "default": ""})).defaulted] == ["b"]


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({"type": 3}, [".type: must be a string, not int"]),
        ({"properties": []}, [".properties: must be an object, not list"]),
        ({"properties": {"a": 3}}, [".properties[a]: must be an object, not int"]),
        (
            {"properties": {"a": {"minLength": "1", "pattern": 3}}},
            [
                ".properties[a].minLength: must be an integer, not str",
                ".properties[a].pattern: must be a string, not int",
            ],
        ),
        ({"minimum": "1"}, [".minimum: must be a number, not str"]),
        ({"minimum": True, "maximum": 1.5, "multipleOf": 2}, [".minimum: must be a number, not bool"]),
        (
            {"maxLength": True, "minItems": 1.5},
            [".maxLength: must be an integer, not bool", ".minItems: must be an integer, not float"],
        ),
        ({"nullable": "true"}, [".nullable: must be a boolean, not str"]),
        ({"required": "a"}, [".required: must be a list, not str"]),
        ({"required": ["a", 3]}, [".required[1]: must be a string, not int"]),
        ({"enum": "a"}, [".enum: must be a list, not str"]),
        ({"enum": [1, "a", None]}, []),
        ({"items": 3}, [".items: must be an object, not int"]),
        ({"items": [3]}, []),
        ({"items": {"type": 3}}, [".items.type: must be a string, not int"]),
        ({"additionalProperties": True}, []),
        ({"additionalProperties": 3}, [".additionalProperties: must be an object, not int"]),
        ({"additionalProperties": {"type": 3}}, [".additionalProperties.type: must be a string, not int"]),
        ({"allOf": {}}, [".allOf: must be a list, not dict"]),
        (
            {"anyOf": [{"type": 3}, 3]},
            [".anyOf[0].type: must be a string, not int", ".anyOf[1]: must be an object, not int"],
        ),
        ({"not": 3}, [".not: must be an object, not int"]),
        (
            {"x-kubernetes-validations": [{"rule": 3, "optionalOldSelf": "x", "other": 3}, 3]},
            [
                ".x-kubernetes-validations[0].rule: must be a string, not int",
                ".x-kubernetes-validations[0].optionalOldSelf: must be a boolean, not str",
                ".x-kubernetes-validations[1]: must be an object, not int",
            ],
        ),
        ({"x-kubernetes-validations": [{"rule": None}]}, []),
        ({"type": None, "unknown": 3, "default": 3}, []),
        ("x", [": must be an object, not str"]),
    ],
)
def test_a_keyword_of_the_wrong_type_is_named(schema: Any, found: list[str]) -> None:
    assert list(mistyped_keywords(schema, "")) == found


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({**TEXT, "multipleOf": 0}, "properties[f].multipleOf: must be greater than zero"),
        (
            {**TEXT, "pattern": "("},
            "properties[f].pattern: must be a valid regular expression, but isn't: missing ) at 1",
        ),
        ({**TEXT, "allOf": ["x"]}, "properties[f].allOf[0]: a schema is an object, not str"),
        (
            {**TEXT, "not": {"default": "x"}},
            "properties[f].not.default: must be undefined below a junctor to be structural",
        ),
        (
            {**TEXT, "oneOf": [{"type": "boolean"}]},
            "properties[f].oneOf[0].type: must be undefined below a junctor to be structural",
        ),
        (
            {**thing(a=TEXT), "not": {"properties": {"b": {}}}},
            "properties[f].properties[b]: must be declared, because a junctor restricts it",
        ),
        (
            {**thing(a=thing(c=TEXT)), "anyOf": [{"allOf": [{"properties": {"a": {"properties": {"b": {}}}}}]}]},
            "properties[f].properties[a].properties[b]: must be declared, because a junctor restricts it",
        ),
        (
            {**listed(thing(a=TEXT)), "allOf": [{"items": {"properties": {"b": {}}}}]},
            "properties[f].items.properties[b]: must be declared, because a junctor restricts it",
        ),
        (ruled(TEXT, " "), "properties[f].x-kubernetes-validations[0]: ' ': rule is required"),
        (ruled(TEXT, "1"), "properties[f].x-kubernetes-validations[0]: '1': must evaluate to a bool, not to int"),
        (
            ruled(thing(a=thing(b=TEXT)), "true", fieldPath=".a.c"),
            "properties[f].x-kubernetes-validations[0]: 'true': fieldPath '.a.c' does not refer to a valid field",
        ),
        (
            listed(listed(TEXT, **SET), **SET),
            "properties[f].items: items of a list of type set must be scalar or atomic",
        ),
    ],
)
def test_a_schema_that_cannot_be_served_is_refused_with_its_path(schema: Any, problem: str) -> None:
    with pytest.raises(SchemaError) as refused:
        compile_schema(thing(f=schema))

    assert [str(each) for each in refused.value.problems] == [problem]


@pytest.mark.parametrize(
    "schema",
    [
        {**TEXT, "multipleOf": 1},
        {**TEXT, "oneOf": [{"type": "integer"}, {"type": "string"}]},
        listed(listed(TEXT), **SET),
        {**thing(a=TEXT), **FREE, "not": {"properties": {"b": {}}}},
        listed({**thing(a=TEXT), "x-kubernetes-map-type": "atomic"}, **SET),
        {
            "type": "object",
            "additionalProperties": thing(a=TEXT),
            "not": {"properties": {"x": {"properties": {"a": {}}}}},
        },
        ruled(thing(a=thing(b=TEXT)), "true", fieldPath=".a.b"),
        listed({**thing(k={"x-kubernetes-int-or-string": True}), "required": ["k"]}, **KEYED),
        listed(thing(k={**TEXT, "default": "x"}), **KEYED),
    ],
)
def test_a_schema_at_the_edge_is_served(schema: Any) -> None:
    assert isinstance(field(schema), Schema)


RULE_CAUSES = [
    (ruled(TEXT, "self == 'a'"), "b", None, ["FieldValueInvalid f Invalid value: \"b\": failed rule: self == 'a'"]),
    (ruled(TEXT, "self == 'a'", message="no"), "b", None, ['FieldValueInvalid f Invalid value: "b": no']),
    (ruled(TEXT, "self == 'a'"), "b", "b", []),
    (ruled(TEXT, "self == 'a'"), "b", "c", ["FieldValueInvalid f Invalid value: \"b\": failed rule: self == 'a'"]),
    (ruled(TEXT, "self == oldSelf"), "b", None, []),
    (
        ruled(TEXT, "oldSelf == 'x'"),
        "b",
        "b",
        ["FieldValueInvalid f Invalid value: \"b\": failed rule: oldSelf == 'x'"],
    ),
    (
        ruled(TEXT, "self == 'a'", messageExpression="'is ' + self", message="no"),
        "b",
        None,
        ['FieldValueInvalid f Invalid value: "b": is b'],
    ),
    (
        ruled(TEXT, "self == 'a'", messageExpression="' '", message="no"),
        "b",
        None,
        ['FieldValueInvalid f Invalid value: "b": no'],
    ),
    (
        ruled(TEXT, "self == 'a'", messageExpression="'x\\ny'", message="no"),
        "b",
        None,
        ['FieldValueInvalid f Invalid value: "b": no'],
    ),
    (ruled(TEXT, "self == 'a'", messageExpression="'x\\n'"), "b", None, ['FieldValueInvalid f Invalid value: "b": x']),
    (
        ruled(TEXT, "self == 'a'", messageExpression="self.substring(9)", message="no"),
        "b",
        None,
        ['FieldValueInvalid f Invalid value: "b": no'],
    ),
    (
        ruled(TEXT, "self.substring(9) == ''"),
        "b",
        None,
        [
            "FieldValueInvalid f Invalid value: \"string\": index out of range: 9 evaluating rule: self.substring(9) == ''"
        ],
    ),
    (
        ruled(TEXT, "self.substring(9) == ''", message="no"),
        "b",
        None,
        ['FieldValueInvalid f Invalid value: "string": index out of range: 9 evaluating rule: no'],
    ),
    (
        ruled(FREE, "self + 1 == 2", message="no"),
        "b",
        None,
        [
            "FieldValueInvalid f Invalid value: \"\": 'no such overload': call arguments did not match a supported operator, function or macro"
            " signature for rule: no"
        ],
    ),
    (
        ruled(thing(a=TEXT), "false", reason="FieldValueRequired"),
        {},
        None,
        ["FieldValueRequired f Required value: failed rule: false"],
    ),
    (
        ruled(thing(a=TEXT), "false", reason="FieldValueForbidden"),
        {},
        None,
        ["FieldValueForbidden f Forbidden: failed rule: false"],
    ),
    (ruled(thing(a=TEXT), "false", reason="FieldValueDuplicate"), {}, None, ["FieldValueDuplicate f Duplicate value"]),
    (ruled(TEXT, "false", reason="FieldValueDuplicate"), "b", None, ['FieldValueDuplicate f Duplicate value: "b"']),
    (ruled(listed(TEXT), "false"), ["b"], None, ["FieldValueInvalid f Invalid value: failed rule: false"]),
    (
        ruled(thing(a=TEXT), "false", fieldPath=".a"),
        {},
        None,
        ["FieldValueInvalid f.a Invalid value: failed rule: false"],
    ),
    (
        listed(ruled(TEXT, "self == 'a'")),
        ["a", "b"],
        None,
        ["FieldValueInvalid f[1] Invalid value: \"b\": failed rule: self == 'a'"],
    ),
    (
        {"type": "object", "additionalProperties": ruled(TEXT, "self == 'a'")},
        {"x": "b"},
        None,
        ["FieldValueInvalid f[x] Invalid value: \"b\": failed rule: self == 'a'"],
    ),
    (
        {"type": "object", "additionalProperties": ruled(TEXT, "self == oldSelf")},
        {"x": "b", "y": "c"},
        {"x": "a"},
        ['FieldValueInvalid f[x] Invalid value: "b": failed rule: self == oldSelf'],
    ),
    (listed(ruled(ITEM, "self == oldSelf"), **KEYED), [{"k": "b"}, {"k": "a"}], [{"k": "a"}, "x"], []),
    (
        listed(ruled({**thing(k=TEXT, v=TEXT), "required": ["k"]}, "self == oldSelf"), **KEYED),
        [{"k": "b"}, {"k": "a", "v": "2"}],
        [{"k": "a", "v": "1"}],
        ["FieldValueInvalid f[1] Invalid value: failed rule: self == oldSelf"],
    ),
    (
        listed(ruled(TWO, "self == oldSelf"), **TWO_KEYS),
        [{"k": "a", "j": "2", "v": "y"}, {"k": "a", "j": "1", "v": "x"}],
        [{"k": "a", "j": "1", "v": "x"}, {"k": "a", "j": "2", "v": "x"}],
        ["FieldValueInvalid f[0] Invalid value: failed rule: self == oldSelf"],
    ),
    (
        listed(ruled({**ITEM, "nullable": True}, "self == oldSelf"), **KEYED),
        [None, {"k": "a"}],
        [None, {"k": "a"}],
        [],
    ),
    (listed(ruled(ITEM, "self == oldSelf"), **KEYED), [{"k": "a"}], None, []),
    (listed(ruled(ITEM, "self == oldSelf"), **KEYED), [{"k": "a"}], NULL, []),
    (
        listed(ruled(thing(a=TEXT), "false"), **{"x-kubernetes-list-type": "atomic"}),
        [{"a": "x"}],
        [{"a": "x"}, {"a": "y"}],
        ["FieldValueInvalid f[0] Invalid value: failed rule: false"],
    ),
    (listed(ruled(thing(a=TEXT), "false")), [{"a": "x"}], [{"a": "x"}, {"a": "y"}], []),
    (
        listed(ruled(thing(a=TEXT), "false")),
        [{"a": "y"}],
        [{"a": "x"}, {"a": "y"}],
        ["FieldValueInvalid f[0] Invalid value: failed rule: false"],
    ),
    (ruled({**TEXT, "nullable": True}, "self == oldSelf"), "b", NULL, []),
    (
        ruled({**TEXT, "nullable": True}, "oldSelf.hasValue()", optionalOldSelf=True),
        "b",
        NULL,
        ['FieldValueInvalid f Invalid value: "b": failed rule: oldSelf.hasValue()'],
    ),
    (
        ruled(FREE, "self.x == 2", messageExpression="self.x", message="no"),
        {"x": 1},
        None,
        ['FieldValueInvalid f Invalid value: {"x":1}: no'],
    ),
    (ruled(TEXT, "!oldSelf.hasValue() || self == oldSelf.value()", optionalOldSelf=True), "b", None, []),
    (
        ruled(TEXT, "oldSelf.hasValue()", optionalOldSelf=True),
        "b",
        None,
        ['FieldValueInvalid f Invalid value: "b": failed rule: oldSelf.hasValue()'],
    ),
    (ruled(TEXT, "oldSelf.hasValue()", optionalOldSelf=True), "b", "a", []),
    (ruled({**TEXT, "format": "date-time"}, "self.getFullYear() == 2026"), "2026-01-01T00:00:00Z", None, []),
    (ruled({**TEXT, "format": "duration"}, "self.getHours() == 2"), "2h", None, []),
    (ruled({**TEXT, "format": "byte"}, "self == b'YQ=='"), "YQ==", None, []),
    (ruled(NUMBER, "self / 2.0 == 0.5"), 1, None, []),
    (ruled(listed(TEXT, **SET), "self == ['b', 'a']"), ["a", "b"], None, []),
    (
        ruled(listed(TEXT), "self == ['b', 'a']"),
        ["a", "b"],
        None,
        ["FieldValueInvalid f Invalid value: failed rule: self == ['b', 'a']"],
    ),
]


@pytest.mark.parametrize(("schema", "value", "old", "found"), RULE_CAUSES)
def test_a_rule_has_exactly_these_causes(schema: Any, value: Any, old: Any, found: list[str]) -> None:
    before = None if old is None else {"f": None if old is NULL else old}
    causes = validate(compile_schema(thing(f=schema)), {"f": value}, before)

    assert [f"{cause.reason} {cause.field} {cause.message}" for cause in causes] == found


def test_an_old_value_that_was_valid_is_not_asked_again() -> None:
    schema = compile_schema(thing(f=ruled(thing(a=TEXT), "false"), g=thing(b=ruled(TEXT, "oldSelf != 'x'"))))
    old = {"f": {"a": "x"}, "g": {"b": "x"}}

    assert [cause.field for cause in validate(schema, {**old}, old, settled=True)] == ["g.b"]
    assert [cause.field for cause in validate(schema, {**old, "f": {"a": "y"}}, old, settled=True)] == ["f", "g.b"]
    assert [
        cause.field for cause in validate(schema, {"f": {"a": "x"}, "g": {"b": "y"}}, {**old, "f": {"a": "z"}})
    ] == ["f", "g.b"]


def test_a_rule_that_fails_to_evaluate_is_told_of_an_unchanged_value_too_unless_it_is_settled() -> None:
    schema = compile_schema(thing(f=ruled(thing(a=TEXT), "self.a == 'x'"), g=ruled(thing(a=TEXT), "has(self.a)")))
    value: dict[str, Any] = {"f": {}, "g": {}}

    assert [cause.field for cause in validate(schema, value, value)] == ["f"]
    assert validate(schema, value, value, settled=True) == []


def test_a_rule_at_the_root_names_the_field_below_it_or_none() -> None:
    def told(rule: str, **more: Any) -> list[str]:
        causes = validate(compile_schema(ruled(thing(a=TEXT), rule, **more)), {})
        return [f"{cause.field} {cause.message}" for cause in causes]

    assert told("false") == ["<nil> Invalid value: failed rule: false"]
    assert told("false", fieldPath=".a") == ["a Invalid value: failed rule: false"]
    assert told("self.a == ''") == ["<nil> Invalid value: \"object\": no such key: a evaluating rule: self.a == ''"]


def test_a_rule_that_needs_conversion_gets_it_beside_one_that_does_not() -> None:
    """All rules of a compiled node are alike; a node may be made by hand too."""
    seen: list[Any] = []

    def run(variables: Mapping[str, Any]) -> bool:
        seen.append(dict(variables))
        return True

    def rule(*, typed: bool) -> CompiledRule:
        return CompiledRule("seen", run, transition=True, typed=typed)

    node = Schema(type=JsonType.NUMBER, has_rules=True, rules=(rule(typed=True), rule(typed=False)))
    assert check_rules(node, 1, 2) == []
    assert [{name: type(value) for name, value in variables.items()} for variables in seen] == [
        {"self": float, "oldSelf": float},
        {"self": float, "oldSelf": int},
    ]
    seen.clear()
    assert check_rules(attrs.evolve(node, rules=(rule(typed=False),)), 1, 2) == []
    assert type(seen[0]["self"]) is int


def test_rules_wait_until_the_structure_is_valid() -> None:
    schema = compile_schema(thing(f={"type": "integer"}, g=ruled(TEXT, "false")))
    causes = validate(schema, {"f": "x", "g": "y"})

    assert [(cause.reason, cause.field) for cause in causes] == [
        ("FieldValueTypeInvalid", "f"),
        ("FieldValueInvalid", "<nil>"),
    ]
    assert causes[1].message == (
        "Invalid value: null: some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation"
    )
    bounded = compile_schema(thing(f={"type": "integer", "minimum": 3}, g=ruled(TEXT, "false")))
    assert [cause.field for cause in validate(bounded, {"f": 1, "g": "y"})] == ["f", "g"]


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        ({**TEXT, "enum": ["a"]}, "b", "FieldValueNotSupported"),
        ({**thing(a=TEXT), "required": ["a"]}, {}, "FieldValueRequired"),
        ({**TEXT, "maxLength": 0}, "b", "FieldValueTooLong"),
        ({**listed(TEXT), "maxItems": 0}, ["b"], "FieldValueTooMany"),
        ({"type": "object", "additionalProperties": TEXT, "maxProperties": 0}, {"a": "b"}, "FieldValueTooMany"),
        (TEXT, 1, "FieldValueTypeInvalid"),
        ({**TEXT, "format": "date"}, "b", "FieldValueTypeInvalid"),
    ],
)
def test_rules_wait_for_what_is_wrong_with_the_structure_of_another_field(schema: Any, value: Any, reason: str) -> None:
    compiled = compile_schema(thing(f=schema, g=ruled(TEXT, "false")))
    causes = validate(compiled, {"f": value, "g": "y"})

    assert [(cause.reason, cause.field) for cause in causes][1:] == [("FieldValueInvalid", "<nil>")]
    assert causes[0].reason == reason
    assert len(validate(compile_schema(thing(f=schema)), {"f": value})) == 1, "without rules nothing is left out"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({**TEXT, "pattern": "a"}, "b"),
        ({**TEXT, "minLength": 2}, "b"),
        ({**listed(TEXT), "minItems": 1}, []),
        (listed(TEXT, **SET), ["a", "a"]),
        ({**TEXT, "not": {"minLength": 1}}, "b"),
    ],
)
def test_rules_do_not_wait_for_what_is_wrong_with_a_value_alone(schema: Any, value: Any) -> None:
    compiled = compile_schema(thing(f=schema, g=ruled(TEXT, "false")))
    *_, last = validate(compiled, {"f": value, "g": "y"})

    assert (last.field, last.message) == ("g", 'Invalid value: "y": failed rule: false')


def test_the_root_is_no_embedded_resource_and_no_null() -> None:
    schema = with_type_meta(compile_schema(thing(f=TEXT)))

    assert validate(schema, {}) == []
    assert [(cause.reason, cause.field) for cause in validate(schema, None)] == [("FieldValueTypeInvalid", "<nil>")]


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({"rule": " false\n"}, "failed rule: false"),
        ({"rule": "false", "message": " no "}, "no"),
        ({"rule": "false", "message": " "}, "failed rule: false"),
        ({"rule": "false ||\nfalse", "message": "no"}, "no"),
        ({"rule": "false", "reason": "", "messageExpression": ""}, "failed rule: false"),
        ({"rule": "false", "reason": None, "message": None, "fieldPath": None}, "failed rule: false"),
    ],
)
def test_a_rule_and_its_message_are_told_without_the_space_around_them(rule: Any, told: str) -> None:
    schema = compile_schema(thing(f={**TEXT, "x-kubernetes-validations": [rule]}))
    (cause,) = validate(schema, {"f": "b"})

    assert (cause.reason, cause.message) == ("FieldValueInvalid", f'Invalid value: "b": {told}')


REASONS = "FieldValueDuplicate, FieldValueForbidden, FieldValueInvalid, FieldValueRequired"


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({}, "None: rule is required"),
        ({"rule": 3}, "3: rule is required"),
        ({"rule": ""}, "'': rule is required"),
        ({"rule": "true", "reason": "Odd"}, f"'true': reason 'Odd' is none of {REASONS}"),
        ({"rule": "true", "message": "a\nb"}, "'true': message must not contain line breaks"),
        (
            {"rule": "true ||\ntrue", "message": " "},
            "'true ||\\ntrue': message must be specified if rule contains line breaks",
        ),
        (
            {"rule": "true", "messageExpression": "1"},
            "'true': messageExpression must evaluate to a string, not to int",
        ),
        (
            {"rule": "true", "optionalOldSelf": True},
            "'true': optionalOldSelf is set but oldSelf is not used in rule",
        ),
        ({"rule": "true", "fieldPath": "a"}, "'true': fieldPath 'a' must begin with a dot"),
        ({"rule": "true", "fieldPath": ".b"}, "'true': fieldPath '.b' does not refer to a valid field"),
        (
            {"rule": "self == oldSelf"},
            "'self == oldSelf': oldSelf cannot be used on the uncorrelatable portion of the schema",
        ),
    ],
)
def test_a_rule_that_cannot_be_used_is_left_out_and_told_with_its_index(rule: Any, problem: str) -> None:
    good = {"rule": "true", "fieldPath": ".a"}
    optional = {"rule": "oldSelf.hasValue()", "optionalOldSelf": True}
    rules, problems = compile_rules([good, rule, optional], field(thing(a=TEXT)), root=False, correlatable=False)

    assert [one.text for one in rules] == ["true", "oldSelf.hasValue()"]
    assert problems == [(1, problem)]


@pytest.mark.parametrize(
    ("schema", "value", "seen", "needed"),
    [
        (TEXT, "a", "a", False),
        ({**TEXT, "format": "date-time"}, "1970-01-01T00:00:01Z", Timestamp(10**9), True),
        ({**TEXT, "format": "date-time"}, "soon", "soon", True),
        ({**TEXT, "format": "date"}, "1970-01-02", Timestamp(86_400 * 10**9), True),
        ({**TEXT, "format": "date"}, "soon", "soon", True),
        ({**TEXT, "format": "duration"}, "1m", Duration(60 * 10**9), True),
        ({**TEXT, "format": "duration"}, "3 days", "3 days", True),
        ({**TEXT, "format": "byte"}, "YQ==", b"YQ==", True),
        ({**TEXT, "format": "email"}, "a", "a", False),
        (NUMBER, 1, 1.0, True),
        (NUMBER, True, True, True),
        (listed(TEXT), ["a"], ["a"], False),
        (listed(TEXT, **SET), ["a"], SetList(["a"]), True),
        (listed(ITEM, **KEYED), [{"k": "a"}], KeyedList([{"k": "a"}]), True),
        (listed(NUMBER), [1], [1.0], True),
        (thing(a=TEXT), {"a": None, "b": None}, {"b": None}, False),
        (thing(a={**TEXT, "nullable": True}), {"a": None}, {}, True),
        ({"type": "object", "additionalProperties": NUMBER}, {"a": 1, "b": None}, {"a": 1.0, "b": None}, True),
        (thing(a=thing(b=NUMBER)), {"a": {"b": 1}}, {"a": {"b": 1.0}}, True),
        ({"type": "integer"}, 1, 1, False),
    ],
)
def test_a_value_is_seen_by_a_rule_in_its_type(schema: Any, value: Any, seen: Any, needed: bool) -> None:
    node = field(schema)
    found = convert(node, value)

    assert (found, type(found)) == (seen, type(seen))
    assert needs_conversion(node) is needed


@pytest.mark.parametrize(
    ("schema", "in_rules", "plain"),
    [
        (thing(a=TEXT), "object", "object"),
        (FREE, "dyn", "dyn"),
        ({**thing(), **FREE}, "dyn", "dyn"),
        ({**thing(a=TEXT), **FREE}, "object", "object"),
        ({"type": "object", "additionalProperties": NUMBER}, "map(string, double)", "map(string, dyn)"),
        (listed(TEXT), "list(string)", "list(string)"),
        ({**TEXT, "format": "date"}, "timestamp", "string"),
        ({**TEXT, "format": "duration"}, "duration", "string"),
        ({**TEXT, "format": "byte"}, "bytes", "string"),
        ({**TEXT, "nullable": True}, "string", "dyn"),
        ({"type": "integer"}, "int", "int"),
        (NUMBER, "double", "dyn"),
        ({"type": "boolean"}, "bool", "bool"),
        ({"x-kubernetes-int-or-string": True}, "dyn", "dyn"),
    ],
)
def test_a_schema_has_its_type_in_rules_and_in_json(schema: Any, in_rules: str, plain: str) -> None:
    node = field(schema)

    assert (str(type_of_schema(node)), str(type_of_schema(node, plain=True))) == (in_rules, plain)


def fields(schema: Any, **how: bool) -> Any:
    """The fields of a schema's type: whether each is optional, and the names of the fields below it."""
    found = type_of_schema(schema, **how).fields
    assert found is not None
    return {name: (one.optional, one.type.fields and sorted(one.type.fields)) for name, one in found.items()}


def test_of_the_metadata_of_an_object_a_rule_sees_the_name_and_json_all_of_it() -> None:
    embedded = field({**thing(a=TEXT), "x-kubernetes-embedded-resource": True})
    whole = with_type_meta(compile_schema(thing(a=TEXT)))
    names = {"apiVersion": (False, None), "kind": (False, None), "metadata": (False, ["generateName", "name"])}

    assert fields(embedded) == fields(field(thing(a=TEXT)), root=True) == {"a": (True, None), **names}
    assert fields(whole) == {"a": (True, None), **names}
    assert fields(field(thing(a=TEXT))) == fields(embedded, plain=True) == {"a": (True, None)}
    metadata = fields(whole, root=True, plain=True)["metadata"]
    assert metadata == (True, sorted([*whole.properties["metadata"].properties, "__namespace__"]))
    of_rules = type_of_schema(embedded).fields
    assert of_rules is not None
    assert fields_of_metadata(of_rules["metadata"].type) == {"name": False, "generateName": False}


def fields_of_metadata(metadata: CelType) -> dict[str, bool]:
    return {name: one.optional for name, one in (metadata.fields or {}).items()}


def test_undeclared_fields_have_a_type_in_json_alone() -> None:
    schema = field({**thing(a=TEXT), **FREE})
    in_rules, in_json = type_of_schema(schema).fields, type_of_schema(schema, plain=True).fields

    assert in_rules is not None
    assert in_json is not None
    assert (in_rules.get("b"), in_json["b"]) == (None, Field(DYN, optional=True))
    assert in_rules["a"] == in_json["a"] == Field(STRING, optional=True)
    assert (list(in_rules), list(in_json)) == (["a"], ["a"])


def test_the_fields_of_a_type_have_escaped_names() -> None:
    node = field({**thing(**{"a-b": TEXT, "if": TEXT, "é": TEXT, "c": {**TEXT, "default": "x"}}), "required": ["a-b"]})
    rules, plain = type_of_schema(node).fields, type_of_schema(node, plain=True).fields
    whole = type_of_schema(with_type_meta(node), root=True).fields
    free = type_of_schema(field({**thing(a=TEXT), **FREE}), plain=True).fields

    assert rules is not None
    assert plain is not None
    assert whole is not None
    assert free is not None
    assert (sorted(rules), len(rules)) == (["__if__", "a__dash__b", "c"], 3)
    assert sorted(plain) == ["__if__", "a__dash__b", "c", "if"]
    assert {name: rules[name].optional for name in rules} == {"__if__": True, "a__dash__b": False, "c": False}
    assert sorted(whole) == ["__if__", "a__dash__b", "apiVersion", "c", "kind", "metadata"]
    assert [whole[name].optional for name in ("apiVersion", "kind", "metadata")] == [False, False, False]
    assert (str(free["a"].type), str(free["zz"].type), free["zz"].optional) == ("string", "dyn", True)
    assert rules.get("zz") is None


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("bsonobjectid", ["a" * 24], ["a" * 23, "g" * 24]),
        ("byte", ["", "YQ=="], ["YQ", "Y Q=", "é"]),
        ("cidr", ["10.0.0.1/8", "::/0"], ["10.0.0.0", "10.0.0.0/33", "x/8"]),
        ("creditcard", ["4111111111111111", "4111-1111-1111-1111"], ["1" * 12, "4111111111111112"]),
        ("date", ["2026-01-31"], ["2026-02-30", "20260131", "2026-1-31", "2026-01-31T", "2026-W05-4"]),
        (
            "date-time",
            ["2026-01-31T23:59:59Z", "2026-01-31t00:00:00.5z", "2026-01-31T00:00:00+23:59"],
            [
                "2026-01-31T24:00:00Z",
                "2026-01-31T00:60:00Z",
                "2026-01-31T00:00:60Z",
                "2026-01-31",
                "2026-01-31T00:00:00",
                "2026-02-30T00:00:00Z",
            ],
        ),
        (
            "micro-time",
            ["2026-01-31T23:59:59.123456Z"],
            ["2026-01-31T23:59:59Z", "2026-01-31T23:59:59.12345Z", "2026-01-31T23:59:59.1234567Z", "x"],
        ),
        ("duration", ["1h", "1.5s", "0", "22 ns", "3 Weeks", "1 day"], ["x", "", "1", "h"]),
        ("email", ["a@b", "x <a@ b>"], ["a", "@b", "a@", "a @b", "a@b\n", "a@b@c"]),
        ("hexcolor", ["#fff", "FFF", "#a1b2c3"], ["#ff", "#ffff", "ggg"]),
        (
            "hostname",
            ["a", "a-", "a.bc", "a" * 63, ".".join(["a" * 49] * 5)],
            ["", "-a", "a.b", "a-b.c.", "my-host", "a..b", "a_b.c_", "a" * 64, ".".join(["a" * 63] * 4) + "a"],
        ),
        ("ipv4", ["1.2.3.4", "01.2.3.4", "1.02.003.4"], ["::1", "1.2.3"]),
        ("ipv6", ["::1"], ["1.2.3.4", ":1"]),
        (
            "isbn",
            ["0321751043", "080442957X", "978-0321751041", "9780321751041"],
            ["0321751044", "9780321751042", "080442957x", "X80442957X", ""],
        ),
        ("isbn10", ["0321751043"], ["9780321751041"]),
        ("isbn13", ["9780321751041"], ["0321751043", "978032175104X"]),
        ("k8s-long-name", ["a.b-c", "a" * 253], ["a" * 254, "a_b", ".a", "a..b", "A"]),
        ("k8s-short-name", ["a-b", "a" * 63], ["a" * 64, "a.b", "-a", ""]),
        (
            "mac",
            ["01:02:03:04:05:06", "01-02-03-04-05-0F", "0102.0304.0506"],
            ["01:02:03:04:05", "0102.0304", "01:02:03:04:05:0G"],
        ),
        ("password", ["", "x"], []),
        ("rgbcolor", ["rgb(1,2,3)", "rgb( 255 , 0 , 99 )"], ["rgb(1,2)", "rgb(1,2,1234)", "rgba(1,2,3)"]),
        ("ssn", ["123-45-6789", "123 45 6789"], ["12-345-6789", "123-45-678", "123456789"]),
        ("uri", ["https://h", "/p"], ["p", ""]),
        ("uuid", ["0" * 32, "00000000-0000-0000-0000-00000000000F"], ["0" * 31, "g" * 32]),
        ("uuid3", ["00000000-0000-3000-0000-000000000000"], ["00000000-0000-4000-8000-000000000000"]),
        (
            "uuid4",
            ["00000000-0000-4000-8000-000000000000", "00000000-0000-4000-b000-000000000000"],
            ["00000000-0000-4000-7000-000000000000", "00000000-0000-5000-8000-000000000000"],
        ),
        (
            "uuid5",
            ["00000000-0000-5000-a000-000000000000"],
            ["00000000-0000-5000-c000-000000000000", "00000000-0000-4000-8000-000000000000"],
        ),
        ("uu-id", ["0" * 32], ["x"]),
        ("of-no-server", ["", "x"], []),
    ],
)
def test_a_format_takes_exactly_what_a_server_takes(name: str, good: list[str], bad: list[str]) -> None:
    assert [text for text in good if not matches_format(name, text)] == []
    assert [text for text in bad if matches_format(name, text)] == []


def test_texts_of_causes_are_written_as_go_writes_them() -> None:
    assert (quoted('a"é'), go_value({"b": [1.5, None], "a": True})) == ('"a\\"é"', '{"a":true,"b":[1.5,null]}')
    assert is_date_time("2026-01-31T23:59:59.5+01:00")


def test_a_list_where_the_schema_describes_no_items_is_checked_by_its_own_rules_alone() -> None:
    free = compile_schema(thing(f=ruled({"x-kubernetes-preserve-unknown-fields": True}, "size(self) < 2")))

    assert check_rules(free, {"f": [1]}) == []
    assert [cause.field for cause in check_rules(free, {"f": [1, 2]})] == ["f"]


_FORMATS = (
    ("hostname", "ab a- a-b a.bc example.com é.fr $", "my-host a.b a.b1 example.com. x_y.com 1.2.3.4 -a.com a..bc"),
    ("email", 'a@b a@é a@[1.2.3.4] x<a@b> "x"<a@b> a@b(c)', "a a@ @b a@b@c .a@b a..b@c a@b. a,b@c a@[1.2] a@[a]"),
    ("mac", "01:23:45:67:89:ab 0123.4567.89ab.cdef 0123456789ab", "01:23-45:67:89:ab 01:23:45:67:89 01234567"),
    ("ipv4", "1.2.3.4 001.2.3.4 ::ffff:1.2.3.4", "1.2.3 256.1.1.1 ::1 ::1%a.b"),
    ("ipv6", "::1 ::ffff:1.2.3.4", "1.2.3.4 fe80::1%eth0 1::2::3 ::ffff:01.2.3.4"),
    ("cidr", "10.0.0.1/8 010.0.0.0/08 ::/0", "10.0.0.0/255.0.0.0 10.0.0.0 10.0.0.0/33 10.0.0.0/+8 fe80::%e/64"),
    ("byte", "YQ== YWJj", "YQ= Y1WE= YQ-_ ===="),
    ("ssn", "123-45-6789", "123456789 123-456789"),
    ("rgbcolor", "rgb(0,10,255)", "rgb(256,0,0) rgb(01,0,0) RGB(1,2,3)"),
    ("creditcard", "4111111111111111 4111-1111-1111-1111", "4111111111111112 123456789012 0000000000000000"),
    ("isbn", "0-306-40615-2 978-3-16-148410-0 080442957X", "0306406153 9783161484101 X"),
    ("duration", "1h 3days 1w2d 1minute x1s5", "1monkeys 2wks 1mi 99999999999999999999d d 1"),
    ("date", "2026-01-01 0000-02-29", "2026-1-1 2026-02-30 2026-W05-4 0100-02-29"),
    ("date-time", "2026-01-01T00:00:00Z 2026-01-01t00:00:00zt", "2026-01-01T24:00:00Z 2026-01-01T00:00:00"),
    ("uri", "/a mailto:a@b * http://[::1]:80/ a:%zz", "a http://a/%zz http://[0:1]:80/"),
)


@pytest.mark.parametrize(("name", "accepted", "refused"), _FORMATS)
def test_a_format_accepts_what_kube_openapi_accepts(name: str, accepted: str, refused: str) -> None:
    # Compared with strfmt.Default.Validates of k8s.io/kube-openapi at 865597e52e25, built with Go 1.26.8.
    assert [text for text in accepted.split() if not matches_format(name, text)] == []
    assert [text for text in refused.split() if matches_format(name, text)] == []


def test_spaces_are_allowed_around_an_address_and_not_before_its_sign() -> None:
    assert matches_format("email", " Ann Lee <a@ b> ")
    assert not matches_format("email", "a @b")


def test_a_long_name_without_an_address_is_refused_at_once() -> None:
    # One pattern for names and address tried each way to part the name: its time doubled with each letter.
    assert not matches_format("email", "a" * 200_000)
    assert not matches_format("email", '"a" b.' * 20_000 + ">")
    assert matches_format("email", "a" * 200_000 + " <a@b>")
