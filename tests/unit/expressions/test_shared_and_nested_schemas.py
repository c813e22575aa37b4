"""What a node of a schema has of the nodes above it, of a cache, and of the metadata of every object (PH-6)."""

from typing import Any

import pytest

from purekube.apimachinery.errors import StatusCause
from purekube.apimachinery.manifest import Kind
from purekube.boxes.schemas import stored
from purekube.schema.causes import forbidden_value
from purekube.schema.compile import Compiled, compile_schema
from purekube.schema.node import Schema, SchemaError
from purekube.schema.objectmeta import OBJECT_META, with_type_meta
from purekube.schema.violations import validate

TEXT: dict[str, Any] = {"type": "string"}
FREE: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
KEYED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}


def thing(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def listed(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def ruled(schema: dict[str, Any], rule: str) -> dict[str, Any]:
    return {**schema, "x-kubernetes-validations": [{"rule": rule}]}


def problems(schema: Any) -> list[str]:
    with pytest.raises(SchemaError) as refused:
        compile_schema(schema)
    return [str(problem) for problem in refused.value.problems]


ITEM = {**thing(k=TEXT), "required": ["k"]}
UNCORRELATED = "'self == oldSelf': oldSelf cannot be used on the uncorrelatable portion of the schema"


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        (
            {"type": "array", **KEYED},
            [
                "properties[f].items: must be specified",
                "properties[f].items.type: must be object if parent array's x-kubernetes-list-type is map",
            ],
        ),
        (
            {"type": "integer", "multipleOf": 0, "default": 1},
            ["properties[f].multipleOf: must be greater than zero"],
        ),
        ({"type": "integer", "multipleOf": -1}, ["properties[f].multipleOf: must be greater than zero"]),
        (
            {"type": "object", "additionalProperties": {}},
            ["properties[f].additionalProperties.type: must not be empty for specified fields and items"],
        ),
        (
            {"type": "object", "additionalProperties": False},
            ["properties[f].additionalProperties: cannot be set to false"],
        ),
        (
            {**thing(a=TEXT), "additionalProperties": TEXT},
            ["properties[f].additionalProperties: mutual exclusion with properties"],
        ),
        (
            listed(thing(l=listed(ruled(ITEM, "self == oldSelf"), **KEYED))),
            [f"properties[f].items.properties[l].items.x-kubernetes-validations[0]: {UNCORRELATED}"],
        ),
        (
            ruled(thing(a=TEXT), "self.apiVersion == ''"),
            [
                "properties[f].x-kubernetes-validations[0]: \"self.apiVersion == ''\":"
                " undefined field 'apiVersion' at line 1, column 5"
            ],
        ),
    ],
)
def test_a_field_that_cannot_be_served_has_exactly_these_problems(schema: Any, found: list[str]) -> None:
    assert problems(thing(f=schema)) == found


def test_the_root_is_an_object_before_anything_else() -> None:
    assert problems({**TEXT, "pattern": "("}) == [
        "type: must be object at the root",
        "pattern: must be a valid regular expression, but isn't: missing ) at 1",
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {**FREE, "allOf": [{"items": {"properties": {"b": {"minLength": 1}}}}]},
        {"type": "object", "properties": {}, "additionalProperties": TEXT},
        listed({**thing(k=TEXT, l=listed(ruled(ITEM, "self == oldSelf"), **KEYED)), "required": ["k"]}, **KEYED),
        {"type": "integer", "multipleOf": 1},
    ],
)
def test_a_field_at_the_edge_is_served(schema: Any) -> None:
    assert isinstance(compile_schema(thing(f=schema)), Schema)


def test_a_format_below_a_junctor_is_enforced() -> None:
    schema = compile_schema(thing(f={**TEXT, "anyOf": [{"format": "date"}, {"format": "ipv4"}]}))

    assert validate(schema, {"f": "2026-01-01"}) == validate(schema, {"f": "10.0.0.1"}) == []
    assert [cause.field for cause in validate(schema, {"f": "x"})] == ["<nil>", "f"]


def test_what_is_below_a_node_that_keeps_unknown_fields_is_free_at_any_depth() -> None:
    inner = thing(a=thing(b=thing(c=TEXT)))
    schema = compile_schema(thing(free={**inner, **FREE}, strict=inner))

    def frees(node: Schema) -> list[bool]:
        return [node.free, *(free for child in node.properties.values() for free in frees(child))]

    assert frees(schema.properties["free"]) == [True] * 4
    assert frees(schema.properties["strict"]) == [False, False, False, True], "a text has no fields"


def test_a_shared_part_is_compiled_once_for_each_kind_of_place() -> None:
    part = thing(a=TEXT)
    known: Compiled = {}
    schema = compile_schema(thing(one=part, two=part, free={**thing(three=part, four=part), **FREE}), known)
    free = schema.properties["free"].properties

    assert schema.properties["one"] is schema.properties["two"]
    assert free["three"] is free["four"]
    assert (schema.properties["one"].free, free["three"].free) == (False, True)
    again = compile_schema(thing(other=part), known)
    assert again.properties["other"] is schema.properties["one"]
    assert compile_schema(thing(other=part)).properties["other"] is not schema.properties["one"]


def test_a_stored_object_keeps_what_its_crd_declares_of_its_name() -> None:
    named = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}}
    schema = stored(with_type_meta(compile_schema(thing(metadata=named))), Kind("example.org", "v1", "Thing", "things"))
    metadata = schema.properties["metadata"]
    assert [validate(metadata.properties["name"], "x" * size) == [] for size in (9, 10)] == [True, False]
    assert {"uid", "namespace"} <= set(metadata.required) & set(metadata.properties)


def test_a_whole_object_has_the_metadata_of_every_object_with_what_its_schema_adds() -> None:
    bare = with_type_meta(compile_schema(thing(a=TEXT)))
    assert list(bare.properties) == ["apiVersion", "kind", "a", "metadata"]
    assert bare.properties["metadata"] is OBJECT_META
    assert (bare.embedded, bare.free, bare.has_keys) == (True, False, True)
    assert with_type_meta(compile_schema({**thing(a=TEXT), **FREE})).free
    assert not with_type_meta(compile_schema({"type": "object"})).free

    empty = with_type_meta(compile_schema(thing(metadata={"type": "object"})))
    assert empty.properties["metadata"] is OBJECT_META
    short = {**TEXT, "maxLength": 1}
    named = with_type_meta(compile_schema(thing(kind=short, metadata=thing(name=short))))
    assert [cause.field for cause in validate(named, {"kind": "Ab", "metadata": {"name": "ab", "uid": "ab"}})] == [
        "kind",
        "metadata.name",
    ]
    assert named.properties["metadata"].properties.keys() == OBJECT_META.properties.keys()


def test_a_forbidden_value_has_its_own_reason() -> None:
    assert forbidden_value("a.b", "why") == StatusCause("a.b", "Forbidden: why", "FieldValueForbidden")
