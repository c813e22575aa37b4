"""RES-6: the checked-in CRDs are the generated ones, and keep to the letter of what Kubernetes asks of a CRD."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from purekube.apimachinery.fields import CelRule, camel
from tools.generate import generated_files, main
from vworkspace_core.api.classes import CLASSES
from vworkspace_core.api.crd import crd_manifests

ROOT = Path(__file__).resolve().parents[2]
CRDS = {crd["spec"]["names"]["kind"]: crd for crd in crd_manifests()}


def nodes(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}".lstrip("."))
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")


NODES = [
    pytest.param(path, node, id=f"{kind}:{path}")
    for kind, crd in CRDS.items()
    for path, node in nodes(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
]
RULES = [
    pytest.param(node, rule, id=f"{kind}:{path}:{number}")
    for kind, crd in CRDS.items()
    for path, node in nodes(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    for number, rule in enumerate(node.get("x-kubernetes-validations", ()))
]


def test_the_checked_in_files_are_the_generated_ones() -> None:
    found = {name: (ROOT / name).read_text(encoding="utf-8") for name in generated_files()}

    assert found == generated_files(), "run: make manifests"


@pytest.mark.slow
def test_there_is_no_crd_file_of_a_kind_that_is_gone() -> None:
    assert {f"manifests/crds/{path.name}" for path in (ROOT / "manifests/crds").iterdir()} == {
        name for name in generated_files() if name.startswith("manifests/crds/")
    }


def test_the_generator_writes_what_it_says(tmp_path: Path) -> None:
    main(tmp_path)

    assert {name: (tmp_path / name).read_text(encoding="utf-8") for name in generated_files()} == generated_files()


@pytest.mark.parametrize("crd", CRDS.values(), ids=CRDS)
def test_yaml_says_what_the_classes_say(crd: dict[str, Any]) -> None:
    text = generated_files()[f"manifests/crds/{crd['metadata']['name']}.yaml"]

    assert yaml.safe_load(text) == crd


def test_names_scopes_and_short_names_are_the_specification_s() -> None:
    names = {kind: (crd["metadata"]["name"], crd["spec"]["scope"]) for kind, crd in CRDS.items()}

    assert names == {
        "ApplicationInstance": ("applicationinstances.apps.vworkspace.io", "Namespaced"),
        "Operation": ("operations.ops.vworkspace.io", "Namespaced"),
        "Cluster": ("clusters.ops.vworkspace.io", "Cluster"),
    }
    assert CRDS["ApplicationInstance"]["spec"]["names"]["shortNames"] == ["appinst"]
    assert CRDS["Operation"]["spec"]["names"]["shortNames"] == ["op"]
    assert CRDS["Cluster"]["spec"]["names"]["shortNames"] == ["vwc"]
    assert [crd["spec"]["versions"][0]["name"] for crd in CRDS.values()] == ["v1alpha1"] * 3


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        (
            "ApplicationInstance",
            ["Ready", "Suspended", "Wanted", "Deployed", "Reason", "Age", "Chart", "Override", "Message"],
        ),
        ("Operation", ["Phase", "Type", "Engine", "Target", "Reason", "Started", "Age", "Finished", "Message"]),
    ],
)
def test_columns_are_the_specification_s(kind: str, columns: list[str]) -> None:
    (version,) = CRDS[kind]["spec"]["versions"]

    assert [column["name"] for column in version["additionalPrinterColumns"]] == columns
    assert version["subresources"] == {"status": {}}


KEYWORDS = {
    "type",
    "description",
    "properties",
    "required",
    "items",
    "enum",
    "default",
    "format",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "maxItems",
    "nullable",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
}


@pytest.mark.parametrize(("path", "node"), NODES)
def test_every_node_is_structural(path: str, node: Mapping[str, Any]) -> None:
    assert set(node) <= KEYWORDS
    assert node["type"] in ("object", "array", "string", "integer", "boolean")
    assert ("items" in node) == (node["type"] == "array")
    assert set(node.get("required", ())) <= set(node.get("properties", {}))
    if node["type"] == "object" and path != "metadata":
        assert node.get("properties") or node.get("x-kubernetes-preserve-unknown-fields") is True
    if node["type"] == "integer":
        assert node["format"] == "int64"
    if node.get("x-kubernetes-list-type") == "map":
        assert set(node["x-kubernetes-list-map-keys"]) <= set(node["items"]["required"])


@pytest.mark.parametrize(("path", "node"), NODES)
def test_kubectl_explain_has_something_to_say(path: str, node: Mapping[str, Any]) -> None:
    assert path.endswith("[]") or path in ("apiVersion", "kind", "metadata") or node["description"].endswith(".")


@pytest.mark.parametrize(("path", "node"), NODES)
def test_lists_say_how_they_merge(path: str, node: Mapping[str, Any]) -> None:
    assert node["type"] != "array" or node["x-kubernetes-list-type"] in ("map", "set")


@pytest.mark.parametrize(("node", "rule"), RULES)
def test_rules_name_a_field_that_exists_and_say_what_is_wrong(node: Mapping[str, Any], rule: dict[str, str]) -> None:
    for step in filter(None, rule.get("fieldPath", "").split(".")):
        node = node["properties"][step]

    assert rule["message"]
    assert "\n" not in rule["message"] + rule["rule"]
    assert rule["reason"] in ("FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired")


@pytest.mark.parametrize(("node", "rule"), RULES)
def test_rules_ask_for_forms_that_re2_knows(node: Mapping[str, Any], rule: dict[str, str]) -> None:
    """U8: a form is asked for by a rule with a message, never by the keyword `pattern`, which shows itself."""
    for found in re.findall(r"matches\('(.*)'\)", rule["rule"]):
        pattern = found.replace("\\\\", "\\")
        assert re.compile(pattern)
        assert pattern.startswith("^")
        assert pattern.endswith("$")
        assert not re.search(r"\(\?", pattern), "RE2 knows no lookaround"


SIMPLE = re.compile(r"has\(|\.startsWith\(|self|oldSelf|\.[a-zA-Z]+|'[^']*'|==|!=|&&|\|\||[!?:()]|\s")


@pytest.mark.parametrize(("node", "rule"), RULES)
def test_rules_keep_to_simple_constructs(node: Mapping[str, Any], rule: dict[str, str]) -> None:
    assert SIMPLE.sub("", rule["rule"]) == ""


@pytest.mark.parametrize(("node", "rule"), RULES)
def test_strings_that_rules_read_are_bounded_so_that_their_cost_is(
    node: Mapping[str, Any], rule: dict[str, str]
) -> None:
    properties = {name: child for name, child in node.get("properties", {}).items() if child["type"] == "string"}
    read = [child for name, child in properties.items() if re.search(rf"self\.{name}\b(?!\.)", rule["rule"])]

    assert all(
        "maxLength" in child or "enum" in child for child in [*read, *([node] if node["type"] == "string" else [])]
    )


def rules_of(cls: type[Any]) -> Iterator[CelRule]:
    yield from getattr(cls, "CEL_RULES", ())
    for field in attrs.fields(cls):
        yield from field.metadata.get("rules", ())


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_attribute_is_published_under_its_json_name(cls: type[Any]) -> None:
    (version,) = CRDS[cls.__name__]["spec"]["versions"]
    published = version["schema"]["openAPIV3Schema"]["properties"]

    for part in ("spec", "status"):
        inner = attrs.fields_dict(cls)[part].type
        assert inner is not None
        assert set(published[part]["properties"]) == {camel(field.name) for field in attrs.fields(inner)}


def test_a_rule_about_the_past_is_known_as_such() -> None:
    rules = [rule for cls in CLASSES for rule in rules_of(attrs.fields_dict(cls)["spec"].type or object)]

    assert {rule.rule for rule in rules if rule.is_transition} == {
        "self == oldSelf",
        "oldSelf.mode != 'managed' || self.mode != 'placeholder'",
    }


def test_the_free_objects_are_those_of_the_specification() -> None:
    free = {
        (kind, path)
        for kind, crd in CRDS.items()
        for path, node in nodes(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        if node.get("x-kubernetes-preserve-unknown-fields")
    }

    assert free == {
        ("ApplicationInstance", "spec.values.inline"),
        ("ApplicationInstance", "status.releaseOverride.valuesPatch"),
        ("ApplicationInstance", "status.releaseOverride.replaced.valuesPatch"),
        ("Operation", "spec.parameters"),
        ("Operation", "status.outputs"),
    }
