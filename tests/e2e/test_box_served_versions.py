"""PH-6: the rules of a box hold for an object that is written in any served version of its kind."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.errors import Invalid
from purekube.boxes.definition import crd_of, not_enforced
from purekube.boxes.webhooks.kind_webhooks import BoxAdmission, WebhookDuties
from tests.support.box_site import FACES, QUICK, BoxSite
from tests.support.boxes import SPEC, box_of, config, crd

RULE = "self.spec.?replicas.orValue(1) <= 5"
FILLED = {"field": "spec.host", "value": "example.com"}


def two_versions(older: Any = SPEC, **spec: Any) -> dict[str, Any]:
    """The CRD of Shop with a version v1beta1 whose spec is `older`."""
    (newest,) = crd()["spec"]["versions"]
    (other,) = crd(older)["spec"]["versions"]
    return crd(versions=[newest, {**other, "name": "v1beta1", "storage": False}], **spec)


@pytest.mark.parametrize("face", FACES)
def test_an_object_of_any_served_version_is_refused_by_a_rule_and_gets_the_defaults_PH_6(face: str) -> None:
    rules = [{"rule": RULE, "message": "at most five replicas"}, {"rule": "self.spec.host != 'bad'"}]
    box = box_of(config("settings"), kind=two_versions(), validation=rules, mutation=[FILLED])

    async def story(site: BoxSite) -> None:
        await site.install(crd_of(box))
        for version in ("v1", "v1beta1"):
            kind = attrs.evolve(box.kind, version=version)
            with pytest.raises(Invalid, match="at most five replicas"):
                await site.create(kind, f"{version}-large", spec={"image": "x", "parts": [], "replicas": 6})
            ref = await site.create(kind, f"{version}-small", spec={"image": "x", "parts": [], "replicas": 5})
            assert ((await site.admin.get(ref))["spec"]["host"]) == "example.com"

    FACES[face](story, QUICK)
    assert not WebhookDuties.of(box)


def without_replicas() -> dict[str, Any]:
    fields = {name: field for name, field in SPEC["properties"].items() if name != "replicas"}
    return {**SPEC, "properties": fields}


@pytest.mark.parametrize(
    "kind",
    [two_versions(without_replicas()), two_versions(conversion={"strategy": "Webhook"})],
    ids=["a version without the field", "a version that is converted"],
)
def test_a_rule_that_another_version_cannot_check_is_checked_by_the_webhook_PH_6(kind: dict[str, Any]) -> None:
    box = box_of(config("settings"), kind=kind, validation=[{"rule": RULE}])
    newest, older = crd_of(box)["spec"]["versions"]
    rules = "x-kubernetes-validations"
    assert [each["rule"] for each in newest["schema"]["openAPIV3Schema"][rules]] == [RULE]
    assert rules not in older["schema"]["openAPIV3Schema"]
    assert str(WebhookDuties.of(box)) == "1 rule"
    assert not_enforced(box, crd_of(box)) == ()


def test_the_webhook_reads_an_object_with_the_defaults_of_the_storage_version_PH_6() -> None:
    """An API server converts an object for a webhook, and fills in the defaults when it reads what is stored."""
    rules = [{"rule": "self.spec.replicas <= 5 && self.spec.host == oldSelf.spec.host"}]
    kind = two_versions(conversion={"strategy": "Webhook"})
    admission = BoxAdmission.of(box_of(config("settings"), kind=kind, validation=rules, mutation=[FILLED]))

    def shop(**spec: Any) -> dict[str, Any]:
        return {**admission.kind.manifest("a", "team"), "spec": {"image": "x", "parts": [], **spec}}

    assert admission.problems(shop(), shop()) == ()
    assert admission.problems(shop(host="example.com"), shop(replicas=9)) == ()
    assert [each.message for each in admission.problems(shop(replicas=6), shop())] == [f"must hold: {rules[0]['rule']}"]
    assert [each.message for each in admission.problems(shop(), shop(host="old"))] == [f"must hold: {rules[0]['rule']}"]


def test_a_live_definition_whose_other_version_lacks_a_rule_is_reported_PH_10() -> None:
    box = box_of(config("settings"), kind=two_versions(), validation=[{"rule": RULE}])
    newest, older = crd_of(box)["spec"]["versions"]
    _, bare = box.crd["spec"]["versions"]
    assert not_enforced(box, {"spec": {"versions": [newest, older]}}) == ()
    assert not_enforced(box, {"spec": {"versions": [newest, bare]}}) == (f"the rule {RULE} in v1beta1",)
    assert not_enforced(box, {"spec": {"versions": [newest, {**bare, "served": False}]}}) == ()


def test_a_version_that_is_not_served_needs_no_webhook_PH_6() -> None:
    newest, older = two_versions(without_replicas())["spec"]["versions"]
    kind = crd(versions=[newest, {**older, "served": False}])
    assert not WebhookDuties.of(box_of(config("settings"), kind=kind, validation=[{"rule": RULE}]))
