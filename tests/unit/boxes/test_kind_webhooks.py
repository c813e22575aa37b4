"""PH-6, PH-8: what a box's webhooks refuse, fill in and convert, and when it needs none."""

import copy
from typing import Any

import pytest

from purekube.boxes.box import Box
from purekube.boxes.webhooks.kind_webhooks import BoxAdmission, WebhookDuties, converter_of
from tests.support.boxes import box_of, config, crd

BARRED = {"rule": "!('barred' in self.metadata.?labels.orValue({}))", "message": "barred"}
TIER = "self.metadata.?annotations[?'tier'].orValue('')"
STAYS = {
    "rule": f"{TIER} == {TIER.replace('self', 'oldSelf')}",
    "message": "the tier stays",
    "field": "metadata.annotations",
}
FIELDS = [
    {"field": "spec.host", "value": "${self.metadata.name + '.example.com'}"},
    {"field": "spec.free.deep.name", "value": "${self.spec.image + '-x'}"},
]


@pytest.fixture(scope="module")
def box() -> Box:
    return box_of(config("a"), validation=[BARRED, STAYS], mutation=FIELDS)


def shop(spec: Any = None, **meta: Any) -> dict[str, Any]:
    given = {"image": "i", "parts": []} if spec is None else spec
    return {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "a", **meta}, "spec": given}


def told(box: Box, new: Any, old: Any = None) -> list[str]:
    return [str(problem) for problem in BoxAdmission.of(box).problems(new, old)]


def test_a_rule_refuses_what_breaks_it_with_its_message_and_field(box: Box) -> None:
    gold, tin = (shop(annotations={"tier": tier}) for tier in ("gold", "tin"))

    assert told(box, shop()) == []
    assert told(box, shop(labels={"barred": "x"})) == ["object: barred"]
    assert told(box, gold) == [], "a rule about a change is asked of updates only"
    assert told(box, gold, gold) == []
    assert told(box, tin, gold) == ["metadata.annotations: the tier stays"]
    assert told(box, shop(labels={"barred": "x"}), shop()) == ["object: barred"]
    assert told(box, shop(labels={"barred": "x"}, deletionTimestamp="x")) == [], "what goes is let go"


def test_a_rule_that_cannot_be_evaluated_refuses_and_says_why(box: Box) -> None:
    broken = box_of(
        config("a"), validation=[{"rule": "int(self.metadata.?labels[?'n'].orValue('x')) > 0", "message": "a number"}]
    )
    (problem,) = told(broken, shop())

    assert problem.startswith("object: a number (it cannot be told: ")


def test_absent_fields_are_filled_in_with_all_that_they_are_in_PH_6(box: Box) -> None:
    admission = BoxAdmission.of(box)
    assert (admission.name, admission.kind) == (box.name, box.kind)
    host = {"op": "add", "path": "/spec/host", "value": "a.example.com"}
    free = [
        {"op": "add", "path": "/spec/free", "value": {}},
        {"op": "add", "path": "/spec/free/deep", "value": {}},
        {"op": "add", "path": "/spec/free/deep/name", "value": "i-x"},
    ]
    assert admission.patch(shop()) == ([host, *free], ())
    there = {"image": "i", "parts": [], "host": "mine", "free": {"deep": {}}}
    assert admission.patch(shop(there)) == ([free[2]], ())
    assert admission.patch(shop({**there, "free": {"deep": {"name": "own"}}})) == ([], ())
    assert admission.patch(shop({**there, "free": 3})) == ([], ()), "the schema refuses it"
    assert admission.patch(shop(deletionTimestamp="x")) == ([], ())


def test_a_field_that_cannot_be_filled_in_is_a_problem_with_its_path(box: Box) -> None:
    patch, problems = BoxAdmission.of(box).patch(shop({"parts": []}))

    assert [operation["path"] for operation in patch] == ["/spec/host"]
    (problem,) = problems
    assert str(problem).startswith("spec.free.deep.name: cannot be filled in: no such key: image")


def two_versions() -> dict[str, Any]:
    """The CRD of Shop with an older version, which calls the image by another name."""
    kind = copy.deepcopy(crd())
    (first,) = kind["spec"]["versions"]
    older = copy.deepcopy(first) | {"name": "v1alpha1", "storage": False}
    spec = older["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["picture"] = spec["properties"].pop("image")
    spec["required"] = ["picture", "parts"]
    kind["spec"]["versions"].append(older)
    return kind


VERSIONS: list[dict[str, Any]] = [
    {"name": "v1"},
    {
        "name": "v1alpha1",
        "up": {"spec.image": "${old.spec.picture}"},
        "down": {"spec.picture": "${self.spec.image}"},
        "keeps": "annotation",
    },
]


def test_a_box_has_a_converter_exactly_where_it_has_two_versions_PH_8(box: Box) -> None:
    assert converter_of(box) is None
    assert converter_of(box_of(config("a"), versions=VERSIONS[:1])) is None
    two = box_of(config("a"), kind=two_versions(), versions=VERSIONS)
    converter = converter_of(two)
    assert converter is not None

    old = {**shop({"picture": "i", "parts": [{"name": "p"}]}), "apiVersion": "example.com/v1alpha1"}
    new = converter.convert(old, "v1")
    assert new["spec"] == {"image": "i", "parts": [{"name": "p"}]} | {
        key: value for key, value in new["spec"].items() if key == "replicas"
    }
    assert converter.convert(new, "v1alpha1")["spec"]["picture"] == "i"


@pytest.mark.parametrize(
    ("spec", "free"),
    [
        ({}, None),
        ({"free": {"a": {"b": 1, "c": 2}, "d": 3}}, {"a": {"c": 2}, "d": 3}),
        ({"free": {"d": 3}}, {"d": 3}),
        ({"free": {"a": 3}}, {"a": 3}),
        ({"host": "h"}, {"a": {"b": "h"}}),
        ({"host": "h", "free": {"a": {"b": 1, "c": 2}, "d": 3}}, {"a": {"b": "h", "c": 2}, "d": 3}),
        ({"host": "h", "free": {"a": 3, "d": 3}}, {"a": {"b": "h"}, "d": 3}),
        ({"host": "h", "free": 3}, {"a": {"b": "h"}}),
    ],
)
def test_a_converted_field_is_set_with_all_that_it_is_in_or_removed_where_it_is_absent_PH_8(
    spec: dict[str, Any], free: Any
) -> None:
    up = {"spec.image": "${old.spec.picture}", "spec.free.a.b": "${old.spec.?host}"}
    versions = [VERSIONS[0], {**VERSIONS[1], "up": up}]
    converter = converter_of(box_of(config("a"), kind=two_versions(), versions=versions))
    assert converter is not None

    old = {**shop({"picture": "i", "parts": [], **spec}), "apiVersion": "example.com/v1alpha1"}
    before = copy.deepcopy(old)
    assert converter.convert(old, "v1")["spec"].get("free") == free
    assert old == before


def test_what_the_webhooks_are_needed_for_is_told_and_nothing_where_the_definition_can_do_it(box: Box) -> None:
    assert str(WebhookDuties.of(box)) == "2 rules, filling in spec.host, spec.free.deep.name"
    assert WebhookDuties.of(box)
    two = box_of(config("a"), kind=two_versions(), versions=VERSIONS, validation=[BARRED])
    assert str(WebhookDuties.of(two)) == "conversion of v1alpha1, 1 rule"
    plain = box_of(config("a"), validation=[{"rule": "self.spec.replicas > 0", "message": "some"}])
    assert not WebhookDuties.of(plain)
    assert told(plain, shop({"image": "i", "parts": [], "replicas": 0})) == []
