"""Structural schemas as CRDs have them, drawn; the meaning of a compiled one; objects that fit them or just do not."""

import re
from collections.abc import Mapping
from copy import deepcopy
from types import ModuleType
from typing import Any, Final

import attrs
from hypothesis import strategies as st

from purekube.reconcilers import Resource
from purekube.schema import Schema
from purekube.schema.node import ANYTHING, JsonType

NAMES: Final = (
    *("image", "replicas", "clusterIP", "URL", "x509Cert", "Foo", "sources", "entries", "spec", "status"),
    *("class", "from", "self", "int", "tuple", "Any", "attrs", "SCHEMA", "l", "default", "type", "required"),
    *("foo-bar", "snake_case", "_hidden", "1st", "é", "x.y"),
)
"""Names of fields: usual ones, those that Python has taken, and those that no attribute can have."""
DESCRIPTIONS: Final = ("", "What it is.", 'A "word"\nand Mapping, Any.\n\n  * more \\ ' + "long " * 40)
WRONG: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    0,
    7,
    2.5,
    "",
    "a",
    "x" * 70,
    [],
    [None],
    {},
    {"image": None},
    {"replicas": [{}]},
)


def _with(schema: dict[str, Any], **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw the schema with some of these keywords."""
    return st.fixed_dictionaries({}, optional=optional).map(lambda drawn: {**schema, **drawn})


_TEXTS: Final = st.one_of(
    _with({"type": "string"}, maxLength=st.integers(1, 60), default=st.sampled_from(["a", "b"])),
    _with({"type": "string"}, minLength=st.integers(0, 2), pattern=st.sampled_from(["^[a-z]*$", r'^("|\\|a)*$'])),
    _with({"type": "string", "enum": ["a", "b"]}, default=st.just("b")),
    st.just({"type": "string", "enum": [f"value-{number}" for number in range(9)]}),
    st.sampled_from(["date-time", "duration", "byte"]).map(lambda name: {"type": "string", "format": name}),
    st.just({"type": "string", "default": ""}),
    st.just({"type": "string", "x-kubernetes-validations": [{"rule": "self.size() < 9", "message": "too long"}]}),
    st.just(
        {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'a'", "messageExpression": "'no ' + self"}]}
    ),
)
_SCALARS: Final = st.one_of(
    _TEXTS,
    _with({"type": "integer"}, minimum=st.integers(-2, 0), maximum=st.integers(7, 9), default=st.integers(0, 7)),
    _with({"type": "integer"}, format=st.sampled_from(["int32", "int64"]), enum=st.just([0, 7])),
    _with({"type": "number"}, exclusiveMinimum=st.booleans(), minimum=st.just(0), default=st.just(2.5)),
    _with({"type": "boolean"}, default=st.booleans()),
    st.just({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
    _with({"x-kubernetes-int-or-string": True}, pattern=st.just("^[0-9]+%?$"), default=st.just("7%")),
)
_KEYED: Final = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "replicas": {"type": "integer"}},
}
_SPECIAL: Final[st.SearchStrategy[dict[str, Any]]] = st.sampled_from(
    [
        {"type": "string", "nullable": True, "enum": ["a", None]},
        {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {"image": {"type": "string", "default": "a"}},
        },
        {"type": "array", "items": {"type": "string", "default": "a"}, "x-kubernetes-list-type": "set", "minItems": 1},
        {"type": "array", "items": _KEYED, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        {"type": "array", "items": {**_KEYED, "description": "One."}, "default": [{"name": "a"}]},
        {**_KEYED, "default": {"name": "a"}, "description": "Another one."},
        {"type": "string", "not": {"enum": ["a"]}, "description": "Not a."},
    ]
)
_FREE: Final[st.SearchStrategy[dict[str, Any]]] = st.sampled_from(
    [
        {"x-kubernetes-preserve-unknown-fields": True},
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        {"type": "object", "additionalProperties": True},
        {"type": "object", "default": {}},
        {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
    ]
)


@st.composite
def object_schemas(draw: st.DrawFn, inner: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    """Draw the schema of an object with named fields."""
    properties = draw(st.dictionaries(st.sampled_from(NAMES), inner, max_size=4))
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    names = sorted(properties)
    if draw(st.booleans()) and names:
        schema["required"] = draw(st.lists(st.sampled_from(names), unique=True))
    if names and draw(st.integers(0, 5)) == 0:
        schema[draw(st.sampled_from(["anyOf", "oneOf"]))] = [{"required": [name]} for name in names]
    if draw(st.integers(0, 5)) == 0:
        schema["x-kubernetes-preserve-unknown-fields"] = True
    if draw(st.integers(0, 5)) == 0:
        schema["minProperties"] = 1
    if names and draw(st.integers(0, 5)) == 0 and re.fullmatch("[a-z]+", names[0]):
        schema["x-kubernetes-validations"] = [
            {"rule": "self == self", "message": "never", "reason": "FieldValueForbidden"}
        ]
    return schema


def _extended(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    lists = st.tuples(inner, st.booleans()).map(
        lambda pair: {"type": "array", "items": pair[0], **({"maxItems": 3} if pair[1] else {})}
    )
    maps = inner.map(lambda value: {"type": "object", "additionalProperties": value})
    return object_schemas(_annotated(inner)) | _annotated(lists) | _annotated(maps)


def _annotated(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    keywords = st.fixed_dictionaries(
        {}, optional={"description": st.sampled_from(DESCRIPTIONS), "nullable": st.booleans()}
    )
    return st.tuples(inner, keywords).map(lambda pair: {**pair[0], **pair[1]})


NODES: Final = st.recursive(_annotated(_SCALARS | _FREE | _SPECIAL), _extended, max_leaves=8)
SPECS: Final = object_schemas(NODES)


def crd_of(spec: Mapping[str, Any], status: Mapping[str, Any] | None = None, **root: Any) -> dict[str, Any]:
    """Return a CRD of widgets with this spec and status."""
    properties = {"spec": spec, **({} if status is None else {"status": status})}
    schema = {"type": "object", "required": ["spec"], "properties": properties, **root}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [version],
        },
    }


def loaded(text: str) -> ModuleType:
    """Return the module of this source text."""
    module = ModuleType("generated")
    exec(compile(text, "generated.py", "exec"), module.__dict__)
    return module


def resource_in(text: str) -> Resource[Any, Any]:
    """Return the Resource that a module of this source text has."""
    return next(value for value in vars(loaded(text)).values() if isinstance(value, Resource))


def meaning(node: Schema) -> dict[str, Any]:
    """Return what a compiled schema says, so that two of them compare: not how it says it.

    A required field with a default is never missing, an int-or-string has its two types, and values of any kind in a
    map are unknown fields that are kept.
    """
    checks = attrs.asdict(node.checks, recurse=False) if node.checks else {}
    checks = {name: value for name, value in checks.items() if (value and name != "pattern") or value == 0}
    if node.int_or_string and {branch.type for branch in checks.get("any_of", ())} == {
        JsonType.INTEGER,
        JsonType.STRING,
    }:
        del checks["any_of"]
    for name in ("all_of", "any_of", "one_of"):
        if name in checks:
            checks[name] = [meaning(branch) for branch in checks[name]]
    if "negated" in checks:
        checks["negated"] = meaning(checks["negated"])
    keeps_any = node.additional is not None and meaning(node.additional) == meaning(ANYTHING)
    return {
        "type": node.type,
        "properties": {name: meaning(child) for name, child in sorted(node.properties.items())},
        "additional": None if node.additional is None or keeps_any else meaning(node.additional),
        "items": None if node.items is None else meaning(node.items),
        "required": sorted(key for key in node.required if not _has_default(node, key)),
        "nullable": node.nullable,
        "int or string": node.int_or_string,
        "keeps": keeps_any or (node.additional is None and node.preserve_unknown),
        "embedded": node.embedded,
        "default": repr(node.default),
        "lists": (node.list_type, node.list_keys, node.atomic_map),
        "format": node.format,
        "checks": {name: value for name, value in checks.items() if value is not False},
        "rules": [
            (rule.text, rule.message, rule.message_run is None, rule.reason, rule.field_path, rule.optional_old)
            for rule in node.rules
        ],
    }


def _has_default(node: Schema, key: str) -> bool:
    return key in node.properties and repr(node.properties[key].default) != "MISSING"


@st.composite
def bent(draw: st.DrawFn, value: Any) -> Any:
    """Draw the value with one part of it replaced by something else, which may fit or not, or taken away."""
    value = deepcopy(value)
    at = value
    while isinstance(at, dict | list) and at:
        key = draw(st.sampled_from(sorted(at))) if isinstance(at, dict) else draw(st.integers(0, len(at) - 1))
        if not isinstance(at[key], dict | list) or not at[key] or draw(st.booleans()):
            if draw(st.booleans()):
                at[key] = draw(st.sampled_from(WRONG))
            else:
                del at[key]
            break
        at = at[key]
    return value
