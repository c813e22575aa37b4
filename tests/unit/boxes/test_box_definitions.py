"""The CRD and the admission policies of a box's kind, and what of a box a live CRD does not enforce (PH-6, PH-10)."""

import copy
from typing import Any

import pytest

from purekube.boxes.definition import crd_of, not_enforced
from purekube.boxes.model import OperatorBox
from purekube.boxes.rollouts.applied_definition import applied_box_definition
from purekube.boxes.webhooks.admission_policy import (
    BINDING,
    MUTATING_BINDING,
    MUTATING_POLICY,
    POLICY,
    is_enforced_by,
    policy_of,
)
from purekube.boxes.webhooks.kind_webhooks import BoxAdmission, WebhookDuties, converter_of
from purekube.boxes.webhooks.policy_expressions import pointer
from tests.support.boxes import box_of, config, crd

TEXT = {"type": "string"}
RULE = {"rule": "self.spec.image != ''", "message": "give an image", "field": "spec.image"}
PLAIN = {"rule": "self.spec.parts.size() < 9"}
LABELLED = {"rule": "self.metadata.?labels.hasValue()", "message": "give\n  labels"}
CHANGED = {"rule": "self.metadata.?labels == oldSelf.metadata.?labels", "message": "labels stay"}


def two_versions(**change: Any) -> dict[str, Any]:
    kind = crd(**change)
    (first,) = kind["spec"]["versions"]
    older = copy.deepcopy(first) | {"name": "v0", "storage": False}
    older["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["picture"] = TEXT
    del older["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["host"]
    kind["spec"]["versions"] = [first, older]
    return kind


def schemas(manifest: Any) -> dict[str, Any]:
    return {each["name"]: each["schema"]["openAPIV3Schema"] for each in manifest["spec"]["versions"]}


def test_a_crd_has_the_rules_of_the_box_once_and_its_label() -> None:
    kind = crd()
    kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = [{"rule": "true"}, PLAIN]
    kind["metadata"]["labels"] = {"a": "b"}
    made = crd_of(box_of(config("a"), kind=kind, validation=[RULE, PLAIN, LABELLED]))
    assert made["metadata"] == {"name": "shops.example.com", "labels": {"a": "b", "box.vworkspace.io/name": "shop"}}
    assert schemas(made)["v1"]["x-kubernetes-validations"] == [
        {"rule": "true"},
        PLAIN,
        {"rule": RULE["rule"], "message": "give an image", "fieldPath": ".spec.image"},
    ]


def test_a_crd_without_rules_is_as_it_was_but_for_its_label() -> None:
    made = crd_of(box_of(config("a")))
    assert made["metadata"] == {"name": "shops.example.com", "labels": {"box.vworkspace.io/name": "shop"}}
    assert made["spec"] == crd()["spec"]


DEFAULTS = [
    {"field": "spec.host", "value": "here"},
    {"field": "spec.image", "value": "r/x"},
    {"field": "spec.free.a.b", "value": 1},
    {"field": "spec.replicas", "value": "${1 + 1}"},
]


def test_defaults_are_those_of_the_stored_version_and_of_fields_that_others_declare_alike() -> None:
    found = schemas(crd_of(box_of(config("a"), kind=two_versions(), mutation=DEFAULTS)))
    stored, older = (found[name]["properties"]["spec"]["properties"] for name in ("v1", "v0"))
    assert stored["host"] == {**TEXT, "default": "here"}
    assert stored["image"] == older["image"] == {**TEXT, "default": "r/x"}
    assert stored["free"]["properties"] == {"a": {"properties": {"b": {"default": 1}}}}
    assert "host" not in older
    assert stored["replicas"] == {"type": "integer", "default": 2}


@pytest.mark.parametrize(
    ("field", "is_alike"),
    [
        ({**TEXT, "description": "other words"}, True),
        ({**TEXT, "default": "other"}, True),
        ({**TEXT, "maxLength": 3}, False),
        ({"type": "integer"}, False),
    ],
)
def test_a_default_and_a_description_do_not_tell_fields_apart(field: dict[str, Any], is_alike: bool) -> None:
    kind = two_versions()
    kind["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["image"] = field
    made = crd_of(box_of(config("a"), kind=kind, mutation=[{"field": "spec.image", "value": "r/x"}]))
    default = schemas(made)["v0"]["properties"]["spec"]["properties"]["image"].get("default")
    assert default == ("r/x" if is_alike else field.get("default"))


def test_what_a_live_crd_lacks_is_told() -> None:
    computed = {"field": "spec.free.c", "value": "${self.spec.image}"}
    box = box_of(config("a"), kind=two_versions(), validation=[RULE, LABELLED], mutation=[*DEFAULTS[:2], computed])
    assert not_enforced(box, crd_of(box)) == ()
    told = f"the rule {RULE['rule']}"
    defaults = ("the default of spec.host", "the default of spec.image")
    assert not_enforced(box, two_versions()) == (told, f"{told} in v0", *defaults)
    unserved = two_versions()
    unserved["spec"]["versions"][1]["served"] = False
    assert not_enforced(box, unserved) == (told, *defaults)
    assert not_enforced(box, {"spec": {}}) == (told, *defaults)
    lacking = copy.deepcopy(crd_of(box))
    del lacking["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"]
    assert not_enforced(box, lacking) == (f"{told} in v0",)
    reversed_ = {"spec": {"versions": [*reversed(two_versions()["spec"]["versions"])]}}
    assert not_enforced(box, reversed_) == (told, f"{told} in v0", *defaults)


# --- admission policies ----------------------------------------------------------------------------------------------

NAMED = {"name": "shop.box.vworkspace.io", "labels": {"box.vworkspace.io/name": "shop"}}


def common(scope: str = "Namespaced", selector: Any = None) -> dict[str, Any]:
    reviewed = {
        "apiGroups": ["example.com"],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["shops"],
        "scope": scope,
    }
    return {
        "failurePolicy": "Fail",
        "matchConditions": [{"name": "stays", "expression": "!has(object.metadata.deletionTimestamp)"}],
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": selector or {},
            "objectSelector": {},
            "resourceRules": [reviewed],
        },
    }


def test_rules_that_a_crd_cannot_check_are_in_a_policy() -> None:
    policies = policy_of(box_of(config("a"), validation=[RULE, LABELLED, CHANGED]))
    assert list(policies) == [POLICY, BINDING]
    policy, binding = policies[POLICY], policies[BINDING]
    assert (policy["apiVersion"], policy["kind"]) == ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")
    assert policy["metadata"] == binding["metadata"] == NAMED
    assert binding["spec"] == {"policyName": "shop.box.vworkspace.io", "validationActions": ["Deny"]}
    assert policy["spec"] == {
        **common(),
        "validations": [
            {"expression": f"[object].all(self, {LABELLED['rule']}\n)", "message": "give labels"},
            {
                "expression": f"oldObject == null || [object].all(self, [oldObject].all(oldSelf, {CHANGED['rule']}\n))",
                "message": "labels stay",
            },
        ],
    }


def test_computed_values_are_in_a_policy_too() -> None:
    selector = {"matchLabels": {"a": "b"}}
    computed = [{"field": "spec.host", "value": "${self.metadata.name}"}, {"field": "spec.image", "value": "x"}]
    policies = policy_of(box_of(config("a"), mutation=computed, namespaces=selector))
    assert list(policies) == [MUTATING_POLICY, MUTATING_BINDING]
    assert policies[MUTATING_BINDING]["spec"] == {"policyName": "shop.box.vworkspace.io"}
    spec = policies[MUTATING_POLICY]["spec"]
    (mutation,) = spec.pop("mutations")
    assert spec == {**common(selector=selector), "reinvocationPolicy": "Never"}
    assert mutation["patchType"] == "JSONPatch"
    assert mutation["jsonPatch"] == {
        "expression": "[object].map(self, [[\n"
        '(!("spec" in self) || self["spec"] == null || type(self["spec"]) == map && '
        '(!("host" in self["spec"]) || self["spec"]["host"] == null)) ? [dyn(self.metadata.name\n)] : []\n'
        "]].map(found,\n"
        '((!("spec" in self) || self["spec"] == null) && size(found[0]) > 0 ? '
        '[JSONPatch{op: "add", path: "/spec", value: {}}] : []) +\n'
        'found[0].map(value, JSONPatch{op: "add", path: "/spec/host", value: value})\n'
        ")[0])[0]"
    }
    assert policy_of(box_of(config("a"), validation=[RULE])) == {}


def test_objects_of_a_cluster_are_reviewed_as_such() -> None:
    wide = {"id": "n", "template": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}}
    (policy, _) = policy_of(box_of(wide, kind=crd(scope="Cluster"), validation=[LABELLED])).values()
    assert policy["spec"]["matchConstraints"] == common("Cluster")["matchConstraints"]


@pytest.mark.parametrize(
    ("live", "is_enforced"),
    [
        (None, False),
        ({}, False),
        ({"spec": "x"}, False),
        ({"spec": {"a": 1}}, True),
        ({"spec": {"a": 1, "b": 2}}, False),
        ({"spec": {}}, False),
        ({"spec": {"a": 1}, "metadata": {"labels": {}}}, True),
    ],
)
def test_a_policy_is_enforced_by_one_with_the_same_spec(live: Any, is_enforced: bool) -> None:
    assert is_enforced_by({"spec": {"a": 1}}, live) is is_enforced


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("${self.spec.image}", "[dyn(self.spec.image\n)]"),
        ("a ${self.spec.image} b", '[dyn("" + "a " + (self.spec.image\n) + " b")]'),
        ("$${x} ${self.spec.image}", '[dyn("" + "${x} " + (self.spec.image\n))]'),
        (
            {"a": "${self.spec.?host}", "b": [1, None, "x"], "c": {}},
            '[dyn({?"a": (self.spec.?host\n).optMap(value, dyn(value)), '
            '"b": dyn([dyn(1), dyn(null), dyn("x")]), "c": dyn({})})]',
        ),
        ({"a-${self.spec.image}": 1}, '[dyn({"" + "a-" + (self.spec.image\n): dyn(1)})]'),
        ("${self.spec.?host}", "[?(self.spec.?host\n).optMap(value, dyn(value))]"),
        (
            "${self.spec.?free.?a[?0].orValue('')}",
            "[dyn(self.spec.?free.?a[?0].optMap(value, dyn(value)).orValue('')\n)]",
        ),
        ("${[?self.spec.?host][0]}", "[dyn([?self.spec.?host][0]\n)]"),
        ("${self[?'spec'].hasValue()}", "[dyn(self[?'spec'].optMap(value, dyn(value)).hasValue()\n)]"),
        ("${{'a': [self.spec.image][?0].orValue('x')}['a']}", None),
    ],
)
def test_a_value_is_written_for_the_api_server(value: Any, text: str | None) -> None:
    box = box_of(config("a"), mutation=[{"field": "spec.free.x", "value": {"v": value, "w": "${self.spec.image}"}}])
    expression = policy_of(box)[MUTATING_POLICY]["spec"]["mutations"][0]["jsonPatch"]["expression"]
    if text is None:
        text = "[dyn({'a': [self.spec.image][?0].optMap(value, dyn(value)).orValue('x')}['a']\n)]"
    inner = text[1:-1]
    key = '?"v": ' + inner[1:] if inner.startswith("?") else f'"v": {inner}'
    assert f'? [dyn({{{key}, "w": dyn(self.spec.image\n)}})] : []' in expression


def test_a_step_of_a_pointer_is_escaped() -> None:
    assert pointer(("a/b", "c~d", "~/")) == "/a~1b/c~0d/~0~1"
    assert pointer(()) == ""


# --- webhooks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("duties", "is_any", "text"),
    [
        (WebhookDuties(), False, ""),
        (WebhookDuties(versions=("v0", "v2")), True, "conversion of v0, v2"),
        (WebhookDuties(rules=1), True, "1 rule"),
        (WebhookDuties(rules=2), True, "2 rules"),
        (WebhookDuties(fields=("a.b", "c")), True, "filling in a.b, c"),
        (WebhookDuties(("v0",), 3, ("a",)), True, "conversion of v0, 3 rules, filling in a"),
    ],
)
def test_duties_of_a_webhook_are_told_in_order(duties: WebhookDuties, is_any: bool, text: str) -> None:
    assert (bool(duties), str(duties)) == (is_any, text)


UP = {"spec.image": "${old.spec.?picture.orValue('')}", "spec.free.a.b": "${old.spec.?picture}"}
DOWN = {"spec.picture": "${self.spec.image}"}
STORED = {"name": "v1"}


def test_duties_are_those_of_versions_rules_and_computed_fields() -> None:
    versions = [{"name": "v0", "up": UP, "down": DOWN}, STORED]
    box = box_of(config("a"), kind=two_versions(), versions=versions, validation=[LABELLED, CHANGED], mutation=DEFAULTS)
    assert WebhookDuties.of(box) == WebhookDuties(("v0",), 2, ("spec.replicas",))
    assert WebhookDuties.of(box_of(config("a"))) == WebhookDuties()


def versioned(version: str, spec: Any) -> dict[str, Any]:
    meta = {"name": "a", "namespace": "n"}
    return {"apiVersion": f"example.com/{version}", "kind": "Shop", "metadata": meta, "spec": spec}


@pytest.mark.parametrize("keeps", ["none", "annotation"])
def test_a_converter_sets_fields_both_ways_and_keeps_what_the_box_says(keeps: str) -> None:
    versions = [{"name": "v0", "up": UP, "down": DOWN, "keeps": keeps}, STORED]
    converter = converter_of(box_of(config("a"), kind=two_versions(), versions=versions))
    assert converter is not None
    parts: list[Any] = []
    up = converter.convert(versioned("v0", {"picture": "p", "image": "i", "parts": parts}), "v1")
    assert up["spec"]["image"] == "p"
    assert up["spec"]["free"] == {"a": {"b": "p"}}
    absent = converter.convert(versioned("v0", {"image": "i", "parts": parts, "free": {"a": {"b": 1}}}), "v1")
    assert absent["spec"]["free"] == {"a": {}}
    assert "free" not in converter.convert(versioned("v0", {"image": "i", "parts": parts}), "v1")["spec"]
    given = versioned("v1", {"image": "i", "parts": parts, "host": "h"})
    down = converter.convert(given, "v0")
    assert down["spec"]["picture"] == "i"
    assert bool(down["metadata"].get("annotations")) is (keeps == "annotation")
    back = converter.convert(down, "v1")
    assert back["spec"].get("host") == ("h" if keeps == "annotation" else None)
    assert converter_of(box_of(config("a"))) is None
    assert converter_of(box_of(config("a"), versions=[STORED])) is None


def test_a_rule_that_cannot_be_told_is_at_its_field() -> None:
    rule = {
        "rule": "int(self.metadata.?labels[?'n'].orValue('x')) > 0",
        "message": "a number",
        "field": "metadata.labels",
    }
    (problem,) = BoxAdmission.of(box_of(config("a"), validation=[rule])).problems(versioned("v1", {}), None)
    assert (problem.path, problem.message.partition(" (")[0]) == ("metadata.labels", "a number")


# --- the CRD of boxes ------------------------------------------------------------------------------------------------


def test_the_crd_of_boxes_is_structural_and_keeps_descriptions() -> None:
    (version,) = applied_box_definition()["spec"]["versions"]
    assert version["schema"]["openAPIV3Schema"]["description"] == str(OperatorBox.__doc__).strip()
    fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    free = "x-kubernetes-preserve-unknown-fields"
    assert fields["crd"] == {"description": "The CRD of its kind: a file beside this one, or `{name: …}`.", free: True}
    resource = fields["resources"]["items"]["properties"]
    assert resource["forEach"] == {"description": "One object for each item of a list.", "type": "object", free: True}
    assert resource["when"]["items"] == {free: True}
    assert resource["when"]["type"] == "array"
    assert resource["id"]["type"] == "string"
    assert resource["generate"][free] is True

    def walk(schema: Any) -> None:
        assert not {"anyOf", "additionalProperties"} & set(schema), schema
        for below in (*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])):
            walk(below)

    walk({"properties": fields})
