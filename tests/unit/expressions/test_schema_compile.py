"""Which schemas are refused, and that all reasons are given at once with their paths."""

from typing import Any

import pytest

from purekube.schema.compile import compile_schema
from purekube.schema.keywords import KeywordReader
from purekube.schema.node import JsonType, ListType, SchemaError

STRING: dict[str, Any] = {"type": "string"}
MAP = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}


def problems(schema: dict[str, Any]) -> list[str]:
    with pytest.raises(SchemaError) as caught:
        compile_schema(schema)
    return [str(problem) for problem in caught.value.problems]


def of_field(schema: Any) -> list[str]:
    return problems({"type": "object", "properties": {"f": schema}})


def item(**key: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"k": key}}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({}, "properties[f].type: must not be empty for specified fields and items"),
        ({"type": "text"}, "properties[f].type: 'text' is none of object, array, string, integer, number, boolean"),
        ("string", "properties[f]: a schema is an object, not str"),
        ({"type": "array"}, "properties[f].items: must be specified"),
        ({"$ref": "#/x", "type": "object"}, "properties[f].$ref: is not supported"),
        (
            {"type": "array", "items": STRING, "uniqueItems": True},
            "properties[f].uniqueItems: cannot be set to true since the runtime complexity becomes quadratic",
        ),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
            "properties[f].x-kubernetes-preserve-unknown-fields: must be true or undefined",
        ),
        (
            {"type": "object", "additionalProperties": False},
            "properties[f].additionalProperties: cannot be set to false",
        ),
        (
            {"type": "object", "properties": {"a": STRING}, "additionalProperties": STRING},
            "properties[f].additionalProperties: mutual exclusion with properties",
        ),
        (
            {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"},
            "properties[f].items: items of a list of type set must be scalar or atomic",
        ),
        (
            {"type": "array", "items": STRING, "x-kubernetes-list-type": "bag"},
            "properties[f].x-kubernetes-list-type: 'bag' is none of atomic, set, map",
        ),
        (
            {"type": "array", "items": item(type="string"), "x-kubernetes-list-type": "map"},
            "properties[f].x-kubernetes-list-map-keys: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            {"type": "array", "items": STRING, **MAP},
            "properties[f].items.type: must be object if parent array's x-kubernetes-list-type is map",
        ),
        (
            {"type": "array", "items": item(type="string"), **MAP},
            "properties[f].items.properties[k]: a list map key must be required or have a default",
        ),
        (
            {"type": "array", "items": {"type": "object", "properties": {"j": STRING}}, **MAP},
            "properties[f].x-kubernetes-list-map-keys: 'k' must be a property of the items",
        ),
        (
            {"type": "array", "items": {**item(type="object"), "required": ["k"]}, **MAP},
            "properties[f].items.properties[k].type: must be a scalar type if it is a list map key",
        ),
        (
            {"type": "string", "x-kubernetes-list-type": "set"},
            "properties[f].type: must be array if x-kubernetes-list-type is specified",
        ),
        (
            {"type": "integer", "default": "x"},
            'properties[f].default: Invalid value: "string": default in body must be of type integer: "string"',
        ),
        (
            {"type": "object", "anyOf": [{"properties": {"x": {"minLength": 1}}}]},
            "properties[f].properties[x]: must be declared, because a junctor restricts it",
        ),
        (
            {"type": "string", "allOf": [{"x-kubernetes-validations": [{"rule": "true"}]}]},
            "properties[f].allOf[0].x-kubernetes-validations: must be undefined below a junctor to be structural",
        ),
        (
            {"type": "object", "anyOf": [{"type": "object"}]},
            "properties[f].anyOf[0].type: must be undefined below a junctor to be structural",
        ),
    ],
)
def test_a_schema_that_cannot_be_served(schema: Any, problem: str) -> None:
    assert problem in of_field(schema)


def test_a_malformed_pattern_is_named() -> None:
    [problem] = of_field({"type": "string", "pattern": "("})
    assert problem.startswith("properties[f].pattern: must be a valid regular expression, but isn't: ")


def test_the_root_is_an_object() -> None:
    assert problems({"type": "string"}) == ["type: must be object at the root"]


def test_all_problems_are_reported_at_once() -> None:
    found = problems(
        {"type": "object", "properties": {"a": {}, "b": {"type": "array"}, "c": {"type": "string", "pattern": "["}}}
    )
    assert [problem.split(":")[0] for problem in found] == [
        "properties[a].type",
        "properties[b].items",
        "properties[c].pattern",
    ]


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("self.nope > 1", "undefined field 'nope' at line 1, column 5"),
        ("self.f.frobnicate()", "there is no method frobnicate() at line 1, column 8"),
        ("frobnicate(self.f)", "there is no function frobnicate() at line 1, column 1"),
        ("self.f", "must evaluate to a bool, not to string"),
        ("self.f == 1", "no matching overload for '==' applied to (string, int) at line 1, column 8"),
        ("self.f >", "expected an expression, found the end at line 1, column 9"),
        ("other.f", "undeclared reference to 'other' at line 1, column 1"),
        ("", "rule is required"),
        ("self.metadata.namespace == 'x'", "undefined field 'namespace'; did you mean 'name'? at line 1, column 14"),
        ("self.metadata.labels.size() > 0", "undefined field 'labels' at line 1, column 14"),
    ],
)
def test_a_rule_outside_the_subset_is_an_error_with_path_and_rule(rule: str, problem: str) -> None:
    schema = {
        "type": "object",
        "properties": {"f": STRING},
        "x-kubernetes-validations": [{"rule": "true"}, {"rule": rule}],
    }
    assert problems(schema) == [f"x-kubernetes-validations[1]: {rule!r}: {problem}"]


def test_a_rule_deep_down_is_named_by_its_path() -> None:
    inner = {"type": "array", "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self.x"}]}}
    [problem] = of_field(inner)
    assert problem.startswith("properties[f].items.x-kubernetes-validations[0]: 'self.x': ")


def test_optional_old_self_without_old_self_is_refused() -> None:
    rules = [{"rule": "self.f == 'x'", "optionalOldSelf": True}]
    [problem] = problems({"type": "object", "properties": {"f": STRING}, "x-kubernetes-validations": rules})
    assert "optionalOldSelf is set but oldSelf is not used in rule" in problem


@pytest.mark.parametrize("kind", ["text", "String", "null", 3, ["string"]])
def test_a_type_that_is_none_is_told_once(kind: Any) -> None:
    (problem,) = of_field({"type": kind})
    assert problem.startswith("properties[f].type: ")


@pytest.mark.parametrize("keyword", ["$ref", "definitions", "dependencies", "patternProperties", "additionalItems"])
def test_a_structural_schema_has_no_such_keyword(keyword: str) -> None:
    value: Any = "#/x" if keyword == "$ref" else {}
    assert of_field({"type": "string", keyword: value}) == [f"properties[f].{keyword}: is not supported"]
    assert compile_schema({"type": "object", keyword: None}).properties == {}


@pytest.mark.parametrize(("value", "problems"), [("x", ["must be an object"]), ([1], ["must be an object"]), ({}, [])])
def test_a_part_that_is_no_object_is_told_and_read_as_an_empty_one(value: Any, problems: list[str]) -> None:
    reader = KeywordReader()

    assert reader.mapping({"properties": value}, "properties", ".a") == {}
    assert reader.mapping({}, "properties", ".a") == {}
    assert [(problem.path, problem.message) for problem in reader.problems] == [
        ("a.properties", message) for message in problems
    ]


def test_what_is_no_keyword_of_its_kind_is_read_as_the_default() -> None:
    reader = KeywordReader()

    assert (reader.json_type({"type": "text"}, ""), reader.json_type({}, "")) == (JsonType.ANY, JsonType.ANY)
    assert reader.type_of({"type": "text"}, "") is JsonType.ANY
    assert reader.list_type({"x-kubernetes-list-type": "bag"}, "") is ListType.ATOMIC
    assert (reader.list_type({}, ""), reader.pattern("(", "")) == (ListType.ATOMIC, None)
    assert [problem.path for problem in reader.problems] == ["type", "type", "x-kubernetes-list-type", "pattern"]
