"""PH-7: the module of a CRD as text, with what it does not express, and the small rules that its text follows."""

from typing import Any

import pytest

from purekube.apimachinery.manifest import Kind
from purekube.reconcilers.crd_classes import attribute_name, normal, pascal, rule_call, singular, split_rules
from purekube.reconcilers.crd_source import UnfitCrd, constant_of, kind_source
from purekube.reconcilers.source_text import Group, Text, call, docstring, imported, laid_out, literal, quoted

FREE = "x-kubernetes-preserve-unknown-fields"
PORT: Any = {
    "type": "object",
    "description": "A port.",
    "required": ["number"],
    "properties": {"number": {"type": "integer", "minimum": 1}, "name": {"type": "string", "default": ""}},
}
LONG = ["FirstOfTheChoices", "SecondOfTheChoices", "ThirdOfTheChoices", "FourthOfThem"]
SPEC: Any = {
    "type": "object",
    "required": ["image", "tier", "class", "note"],
    "x-kubernetes-validations": [
        {"rule": "self.size < 9", "message": "too large", "fieldPath": ".size", "reason": "FieldValueInvalid"}
    ],
    "properties": {
        "image": {"type": "string", "description": "Its image.", "pattern": "^[a-z]+$"},
        "size": {"type": "integer", "default": 3},
        "tier": {"type": "string", "enum": ["Free", "Paid"]},
        "strategy": {"type": "string", "enum": LONG},
        "other": {"type": "string", "enum": LONG},
        "class": {"type": "string"},
        "note": {"type": "string", "nullable": True},
        "weight": {"type": "number"},
        "on": {"type": "boolean", "default": True},
        "surge": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "ports": {"type": "array", "items": PORT, "maxItems": 4},
        "mainPort": PORT,
        "named": {"type": "object", "additionalProperties": {"type": "string", "nullable": True}},
        "free": {"type": "object", FREE: True},
        "anything": {FREE: True},
        "foo-bar": {"type": "string"},
        "empty": {"type": "object", "nullable": True},
        "rules": {
            "type": "string",
            "x-kubernetes-validations": [{"rule": "self != ''", "message": "is empty", "reason": "FieldValueRequired"}],
        },
        "odd": {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'x'", "messageExpression": "'no'"}]},
        "either": {"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [{"required": ["a"]}]},
        "dashed": {"type": "object", "properties": {"foo-bar": {"type": "string"}}},
        "names": {
            "type": "array",
            "items": {"type": "array", "items": {"type": "string"}},
            "x-kubernetes-list-type": "set",
        },
        "parts": {"type": "object", "nullable": True, "additionalProperties": PORT},
        "selector": {"type": "object", "default": {"a": 1}, FREE: True},
    },
}
STATUS: Any = {
    "type": "object",
    "required": ["ready"],
    "properties": {
        "ready": {"type": "integer", "default": 0},
        "phase": {"type": "string"},
        "conditions": {"type": "array", "items": {"type": "object"}},
        "mainPort": PORT,
    },
}
CRD: Any = {
    "metadata": {"name": "mice.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {
            "kind": "Mouse",
            "plural": "mice",
            "singular": "mous",
            "listKind": "Mice",
            "shortNames": ["mo"],
            "categories": ["all", "pets"],
        },
        "conversion": {"strategy": "Webhook"},
        "versions": [
            {"name": "v1alpha1", "served": True, "storage": False, "schema": {"openAPIV3Schema": {"type": "object"}}},
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "deprecated": True,
                "subresources": {"status": {}, "scale": {}},
                "additionalPrinterColumns": [
                    {"name": "Image", "type": "string", "jsonPath": ".spec.image"},
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1, "format": "int32"},
                    {"name": "Ready", "type": "string", "jsonPath": ".status.ready"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "A mouse.",
                        "x-kubernetes-validations": [{"rule": "self.metadata.name != 'cat'", "message": "no cats"}],
                        "properties": {
                            "apiVersion": {"type": "string"},
                            "kind": {"type": "string"},
                            "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
                            "spec": SPEC,
                            "status": STATUS,
                            "data": {"type": "object"},
                        },
                    }
                },
            },
        ],
    },
}

MODULE = '''\
"""A mouse."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import attrs
from purekube.reconcilers import Column, Object, resource, rule, schema_field

Strategy: TypeAlias = Literal["FirstOfTheChoices", "SecondOfTheChoices", "ThirdOfTheChoices", "FourthOfThem"]


@attrs.frozen
class Port:
    """A port."""

    number: int = schema_field("", schema={"minimum": 1})
    name: str = schema_field("", default="", publish_default=True)


@attrs.frozen
class Empty:
    """An object without fields."""


@attrs.frozen
class Either:
    a: str | None = None
    SCHEMA: ClassVar[Mapping[str, Any]] = {"oneOf": [{"required": ["a"]}]}


@attrs.frozen
class Dashed:
    SCHEMA: ClassVar[Mapping[str, Any]] = {"properties": {"foo-bar": {"type": "string"}}}


@attrs.frozen
class Part:
    """A port."""

    number: int = schema_field("", schema={"minimum": 1})
    name: str = schema_field("", default="", publish_default=True)


@attrs.frozen
class MouseSpec:
    """The spec of a Mouse."""

    tier: Literal["Free", "Paid"]
    class_: str
    image: str = schema_field("Its image.", schema={"pattern": "^[a-z]+$"})
    size: int = 3
    strategy: Strategy | None = None
    other: Strategy | None = None
    note: str | None = schema_field("", default=None, schema={"nullable": True})
    weight: float | None = None
    on: bool = True
    surge: int | str | None = None
    ports: tuple[Port, ...] = schema_field("", default=(), schema={"maxItems": 4})
    main_port: Port | None = None
    named: Mapping[str, str | None] = schema_field(
        "",
        default=attrs.Factory(dict),
        schema={"additionalProperties": {"type": "string", "nullable": True}},
    )
    free: Mapping[str, Any] = attrs.Factory(dict)
    anything: Any = None
    empty: Empty | None = schema_field("", default=None, schema={"nullable": True})
    rules: str | None = schema_field(
        "",
        default=None,
        rules=[rule("self != ''", "is empty", reason="FieldValueRequired")],
    )
    odd: str | None = schema_field(
        "",
        default=None,
        schema={"x-kubernetes-validations": [{"rule": "self != 'x'", "messageExpression": "'no'"}]},
    )
    either: Either | None = None
    dashed: Dashed | None = None
    names: tuple[tuple[str, ...], ...] = schema_field("", default=(), schema={"x-kubernetes-list-type": "set"})
    parts: Mapping[str, Part] | None = schema_field("", default=None, schema={"nullable": True})
    selector: Mapping[str, Any] = schema_field("", default=attrs.Factory(dict), schema={"default": {"a": 1}})
    SCHEMA: ClassVar[Mapping[str, Any]] = {"properties": {"foo-bar": {"type": "string"}}, "required": ["note"]}
    CEL_RULES = (rule("self.size < 9", "too large", field_path=".size"),)


@attrs.frozen
class MouseStatus:
    """The status of a Mouse."""

    ready: int = schema_field("", default=0, publish_default=True)
    phase: str | None = None
    main_port: Port | None = None


Mouse: TypeAlias = Object[MouseSpec, MouseStatus]
MOUSE = resource(
    "example.com",
    "v1",
    "Mouse",
    MouseSpec,
    MouseStatus,
    plural="mice",
    short_names=["mo"],
    categories=["all", "pets"],
    namespaced=False,
    columns=[Column("Image", ".spec.image"), Column("Size", ".spec.size", type="integer", priority=1)],
    rules=[rule("self.metadata.name != 'cat'", "no cats")],
)
'''
NOTES = [
    "spec.names.singular: becomes mouse, not mous",
    "spec.names.listKind: becomes MouseList, not Mice",
    "spec.versions: only the stored one, v1, becomes classes, not v1alpha1",
    "spec.conversion: is left out: `conversion` converts between versions",
    "spec.versions.subresources.scale: is left out",
    'additionalPrinterColumns.Ready: becomes .status.conditions[?(@.type=="Ready")].status',
    "additionalPrinterColumns.Size: format: is left out",
    "spec: optional, but required here",
    "data: is left out: a kind in Python has a spec and a status",
    "metadata: is left out: a kind in Python has a spec and a status",
    "status.conditions: has the framework's schema",
    "spec.note: required and nullable, but None is left out when an object is written",
    "spec.foo-bar: no attribute can have this name: read it from the object's `manifest`",
    "spec.either: oneOf: is in the schema, but not in the type",
    "spec.dashed.foo-bar: no attribute can have this name: read it from the object's `manifest`",
]


def test_the_module_of_a_kind_is_laid_out_like_this() -> None:
    made = kind_source(CRD, "v1")

    assert made.text == MODULE
    assert [str(note) for note in made.notes] == NOTES
    assert made.kind == Kind("example.com", "v1", "Mouse", "mice", namespaced=False)


def crd(schema: Any, **names: Any) -> Any:
    named = {"kind": "Shop", "plural": "shops", **names}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {"spec": {"group": "example.com", "names": named, "versions": [version]}}


def of_spec(properties: Any, **more: Any) -> Any:
    spec = {"type": "object", "properties": properties, **more}
    return crd({"type": "object", "required": ["spec"], "properties": {"spec": spec}})


SMALL = '''\
"""The kind Shop."""

from typing import TypeAlias

import attrs
from purekube.reconcilers import Object, resource


@attrs.frozen
class ShopSpec:
    """The spec of a Shop."""

    a: str


@attrs.frozen
class ShopStatus:
    """The status of a Shop."""


Shop: TypeAlias = Object[ShopSpec, ShopStatus]
SHOP = resource("example.com", "v1", "Shop", ShopSpec, ShopStatus)
'''


def test_a_small_kind_has_a_small_module_and_no_notes() -> None:
    made = kind_source(of_spec({"a": {"type": "string"}}, required=["a"]), "v1")

    assert (made.text, list(made.notes)) == (SMALL, [])


def classes_of(properties: Any) -> list[str]:
    text = kind_source(of_spec(properties), "v1").text
    return [line.removeprefix("class ").rstrip(":") for line in text.splitlines() if line.startswith("class ")]


def thing(**fields: Any) -> Any:
    return {"type": "object", "properties": {name: {"type": kind} for name, kind in fields.items()}}


def test_equal_objects_share_a_class_and_others_of_one_name_get_longer_names() -> None:
    assert classes_of({"a": thing(x="string"), "b": thing(x="string")}) == ["A", "B", "ShopSpec", "ShopStatus"]
    same = {"a": {**thing(), "properties": {"port": thing(x="string")}}, "port": thing(x="string")}
    assert classes_of(same) == ["Port", "A", "ShopSpec", "ShopStatus"]
    other = {"a": {**thing(), "properties": {"port": thing(x="integer")}}, "port": thing(x="string")}
    assert classes_of(other) == ["Port", "A", "ShopSpecPort", "ShopSpec", "ShopStatus"]
    taken = {"shop": thing(x="string"), "str": thing(y="string"), "mapping": thing(z="string")}
    assert classes_of(taken) == ["ShopSpecShop", "Str", "ShopSpecMapping", "ShopSpec", "ShopStatus"]
    assert classes_of({"shops": {"type": "array", "items": thing(x="string")}})[0] == "ShopSpecShop"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"spec": {"group": "x.example"}}, "spec.names: is required"),
        (crd({}), "spec.versions[0].schema.openAPIV3Schema: is missing"),
        (crd({"type": "object", "properties": {"spec": {"type": "string"}}}),
         "spec.versions[0].schema.openAPIV3Schema.properties.spec: a kind in Python has a spec that is an object"),
        (crd({"type": "object"}),
         "spec.versions[0].schema.openAPIV3Schema.properties.spec: a kind in Python has a spec that is an object"),
        (crd({"type": "object"}, kind="shop"), "spec: the kind must be such as Shop, not 'shop'"),
        (crd({"type": "object"}, shortNames=["S"]), "spec: the short name must be such as sh, not 'S'"),
    ],
)  # fmt: skip
def test_a_crd_of_which_no_module_can_be_made_is_told_with_its_path(given: Any, message: str) -> None:
    with pytest.raises(UnfitCrd) as refused:
        kind_source(given, "v1")
    assert str(refused.value) == message


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("image", "image"),
        ("maxSurge", "max_surge"),
        ("URL", "URL"),
        ("urlOfX", "url_of_x"),
        ("x2y", "x2y"),
        ("X", "X"),
        ("class", "class_"),
        ("self", "self_"),
        ("str", "str_"),
        ("l", "l_"),
        ("resource", "resource_"),
        ("foo-bar", None),
        ("foo_bar", None),
        ("1a", None),
        ("", None),
        ("a\n", None),
    ],
)
def test_a_field_is_an_attribute_where_python_has_a_name_for_it(key: str, name: str | None) -> None:
    assert attribute_name(key) == name


@pytest.mark.parametrize(
    ("word", "one"),
    [
        ("ports", "port"), ("policies", "policy"), ("classes", "class"), ("boxes", "box"), ("branches", "branch"),
        ("meshes", "mesh"), ("fizzes", "fizz"), ("status", "status"), ("class", "class"), ("s", ""), ("port", "port"),
        ("cases", "case"), ("bus", "bus"),
    ],
)  # fmt: skip
def test_the_singular_follows_the_rules_of_english(word: str, one: str) -> None:
    assert singular(word) == one


@pytest.mark.parametrize(
    ("word", "text"),
    [("port", "Port"), ("mainPort", "MainPort"), ("foo-bar_baz", "FooBarBaz"), ("2x", "Field2x"), ("-", "Field")],
)
def test_a_word_begins_with_a_capital_in_a_class(word: str, text: str) -> None:
    assert pascal(word) == text


def test_the_constant_of_a_kind_is_none_of_its_classes() -> None:
    assert [constant_of(kind) for kind in ("Shop", "URL", "A")] == ["SHOP", "URL_KIND", "A_KIND"]


# --- schemas ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "kept"),
    [
        ({"type": "string", "format": None, "pattern": "", "nullable": False, "description": " x "},
         {"type": "string", "description": "x"}),
        ({"default": "", "enum": [], "not": {}}, {"default": "", "enum": [], "not": {}}),
        ({"default": False, "minimum": 0}, {"default": False, "minimum": 0}),
        ({"properties": {}, "required": []}, {}),
        ({"properties": {"a": {"type": "string", "title": ""}}}, {"properties": {"a": {"type": "string"}}}),
        ({"items": {"title": ""}}, {}),
        ({"additionalProperties": True, "type": "object"}, {FREE: True, "type": "object"}),
        ({"additionalProperties": False}, {}),
        ({"additionalProperties": {"type": "string", "title": ""}}, {"additionalProperties": {"type": "string"}}),
        ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
         {"x-kubernetes-int-or-string": True}),
        ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "string"}, {"type": "integer"}]},
         {"x-kubernetes-int-or-string": True}),
        ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "string"}]},
         {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "string"}]}),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        ({"required": ["b", "a"], "properties": {"a": {"default": 1}, "b": {"type": "string"}}},
         {"required": ["b"], "properties": {"a": {"default": 1}, "b": {"type": "string"}}}),
    ],
)  # fmt: skip
def test_keywords_without_effect_are_left_out(schema: Any, kept: Any) -> None:
    assert normal(schema) == kept
    assert normal(kept) == kept


GOOD = {"rule": "self > 1", "message": "small"}


@pytest.mark.parametrize(
    ("rule", "callable"),
    [
        (GOOD, True),
        ({**GOOD, "fieldPath": ".a", "reason": "FieldValueInvalid"}, True),
        ({**GOOD, "messageExpression": "'x'"}, False),
        ({**GOOD, "optionalOldSelf": True}, False),
        ({"rule": "self > 1"}, False),
        ({"rule": "self > 1", "message": ""}, False),
    ],
)
def test_rules_are_calls_where_a_call_says_all_of_them(rule: Any, callable: bool) -> None:
    rules = [GOOD, rule]
    expected: Any = (rules, {}) if callable else ((), {"x-kubernetes-validations": rules})

    assert split_rules({"x-kubernetes-validations": rules}) == expected
    assert split_rules({}) == ([], {})


def test_a_rule_is_written_without_what_it_says_anyway() -> None:
    def text(**more: Any) -> str:
        return "".join(laid_out("", rule_call({**GOOD, **more})))

    assert text() == text(reason="FieldValueInvalid") == text(fieldPath="") == 'rule("self > 1", "small")'
    assert text(fieldPath=".a", reason="FieldValueRequired") == (
        'rule("self > 1", "small", field_path=".a", reason="FieldValueRequired")'
    )


# --- text -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("a", '"a"'),
        ("", '""'),
        ("it's", '"it\'s"'),
        ('say "x"', "'say \"x\"'"),
        ('it\'s "x"', "'it\\'s \"x\"'"),
        ("'\"", '"\'\\""'),
        ("a\n\t\\", '"a\\n\\t\\\\"'),
        ("é界", '"é\\u754c"'),
        ("~ \x7f", '"~ \\x7f"'),
        ("e\u0301", '"e\\u0301"'),
    ],
)
def test_a_text_is_quoted_with_the_fewest_escapes(text: str, source: str) -> None:
    assert quoted(text) == source


def test_what_is_too_long_for_a_line_has_a_line_for_each_part() -> None:
    short, long = "x" * 50, "y" * 100

    assert [*laid_out("a = ", call("f", "b", c="d"), ",", 4)] == ["    a = f(b, c=d),"]
    assert [*laid_out("", literal({"a": [1, None, True], "b": {}}))] == ['{"a": [1, None, True], "b": {}}']
    assert [*laid_out("", Group("(", [("", "a")], ")"))] == ["(a,)"]
    assert [*laid_out("", Group("(", [("", "a"), ("", "b")], ")"))] == ["(a, b)"]
    assert [*laid_out("a = ", call("f", short, b=long), ",", 4)] == [
        "    a = f(", f"        {short},", f"        b={long},", "    ),",
    ]  # fmt: skip
    assert [*laid_out("a = ", "z" * 200)] == [f"a = {'z' * 200}"]
    assert [*laid_out("a" * 130 + " = ", call("f"))] == ["a" * 130 + " = f()"]


@pytest.mark.parametrize(("length", "lines"), [(118, 1), (119, 2), (236, 2), (237, 3)])
def test_a_text_goes_on_in_the_next_line_at_the_width(length: int, lines: int) -> None:
    found = [*laid_out("", Text("x" * length))]

    assert len(found) == lines
    assert max(map(len, found)) <= 120
    words = [*laid_out("a = ", Text(f"{'x' * 100} {'y' * 30}\nz"), ",", 4)]
    assert words == [f'    a = "{"x" * 100} "', f'    "{"y" * 30}\\n"', '    "z",']


def test_imports_are_broken_at_the_width() -> None:
    fit, wide = (["a" * 50, "b" * length] for length in (52, 53))

    assert [*imported("m.n", fit)] == [f"from m.n import {', '.join(fit)}"]
    assert [*imported("m.n", wide)] == ["from m.n import (", f"    {wide[0]},", f"    {wide[1]},", ")"]
    assert [*imported("m", ["T", "b", "A", "AB", "Cd"])] == ["from m import AB, A, Cd, T, b"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("One.", ['    """One."""']),
        (" One. ", ['    """One."""']),
        ('"One" is', ['    """\\"One" is"""']),
        ('is "One"', ['    """is "One"', '    """']),
        ("ends \\", ['    """ends \\\\', '    """']),
        ('a """ b', ['    """a \\"\\"\\" b"""']),
        ("One.\n\nTwo.", ['    """One.', "", "    Two.", '    """']),
        ("One.\n  Two.", ['    """One.', "      Two.", '    """']),
        ("x" * 100, [f'    """{"x" * 100}"""']),
        ("x" * 50 + " " + "y" * 50, [f'    """{"x" * 50}', f"    {'y' * 50}", '    """']),
    ],
)
def test_a_docstring_is_laid_out_as_people_write_it(text: str, lines: list[str]) -> None:
    assert [*docstring(text, 4)] == lines
