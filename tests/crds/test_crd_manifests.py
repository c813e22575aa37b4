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
    (kind, path, node)
    for kind, crd in CRDS.items()
    for path, node in nodes(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
]
RULES = [(node, rule) for _, _, node in NODES for rule in node.get("x-kubernetes-validations", ())]


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


def test_every_node_is_structural() -> None:
    for kind, path, node in NODES:
        place = f"{kind}:{path}"
        assert set(node) <= KEYWORDS, place
        assert node["type"] in ("object", "array", "string", "integer", "boolean"), place
        assert ("items" in node) == (node["type"] == "array"), place
        assert set(node.get("required", ())) <= set(node.get("properties", {})), place
        if node["type"] == "object" and path != "metadata":
            assert node.get("properties") or node.get("x-kubernetes-preserve-unknown-fields") is True, place
        if node["type"] == "integer":
            assert node["format"] == "int64", place
        if node.get("x-kubernetes-list-type") == "map":
            assert set(node["x-kubernetes-list-map-keys"]) <= set(node["items"]["required"]), place


def test_kubectl_explain_has_something_to_say() -> None:
    for kind, path, node in NODES:
        if not path.endswith("[]") and path not in ("apiVersion", "kind", "metadata"):
            assert node["description"].endswith("."), f"{kind}:{path}"


def test_lists_say_how_they_merge() -> None:
    lists = {f"{kind}:{path}": node for kind, path, node in NODES if node["type"] == "array"}
    assert [place for place, node in lists.items() if node["x-kubernetes-list-type"] not in ("map", "set")] == []


def test_rules_name_a_field_that_exists_and_say_what_is_wrong() -> None:
    for node, rule in RULES:
        field = node
        for step in filter(None, rule.get("fieldPath", "").split(".")):
            field = field["properties"][step]
        assert rule["message"], rule
        assert "\n" not in rule["message"] + rule["rule"]
        assert rule["reason"] in ("FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired"), rule


def test_rules_ask_for_forms_that_re2_knows() -> None:
    """A form is asked for by a rule with a message, never by the keyword `pattern`, which shows itself."""
    for found in [found for _, rule in RULES for found in re.findall(r"matches\('(.*)'\)", rule["rule"])]:
        pattern = found.replace("\\\\", "\\")
        assert re.compile(pattern)
        assert pattern.startswith("^")
        assert pattern.endswith("$")
        assert not re.search(r"\(\?", pattern), "RE2 knows no lookaround"


SIMPLE = re.compile(r"has\(|\.startsWith\(|self|oldSelf|\.[a-zA-Z]+|'[^']*'|==|!=|&&|\|\||[!?:()]|\s")


def test_rules_keep_to_simple_constructs() -> None:
    assert [rule["rule"] for _, rule in RULES if SIMPLE.sub("", rule["rule"])] == []


def test_strings_that_rules_read_are_bounded_so_that_their_cost_is() -> None:
    for node, rule in RULES:
        properties = {name: child for name, child in node.get("properties", {}).items() if child["type"] == "string"}
        read = [child for name, child in properties.items() if re.search(rf"self\.{name}\b(?!\.)", rule["rule"])]
        read += [node] if node["type"] == "string" else []
        assert all("maxLength" in child or "enum" in child for child in read), rule["rule"]


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
