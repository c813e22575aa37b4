"""PH-10: an OperatorBox is reviewed when it is applied, by the webhook that the printed manifests configure."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from purekube.boxes.model import API_VERSION, KIND
from tests.support.applied_process import FORMS, webhooks_of_applied_boxes
from tests.support.boxes import config, crd
from tests.support.server_thread import Answer, Wire

pytestmark = pytest.mark.slow

BOXES = "/apis/box.vworkspace.io/v1alpha1/operatorboxes"


def box(name: str, **spec: Any) -> dict[str, Any]:
    whole = {"crd": {"spec": crd()["spec"]}, "resources": [config("settings", "${self.metadata.name}")], **spec}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": whole}


@pytest.fixture(scope="module", params=FORMS)
def wire(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with webhooks_of_applied_boxes(request.param, tmp_path_factory.mktemp("reviews")) as site:
        site.configure()
        yield site.wire


def post(wire: Wire, manifest: Mapping[str, Any]) -> Answer:
    return wire.send("POST", f"{BOXES}?dryRun=All", manifest)


def test_a_sound_box_is_admitted_without_a_word_PH_10(wire: Wire) -> None:
    answer = post(wire, box("shops"))
    assert (answer.status, answer.headers.get("warning")) == (201, None)


def test_a_wrong_box_is_refused_with_every_path_PH_10(wire: Wire) -> None:
    wrong = config("settings", "${self.spec.nothing}")
    answer = post(wire, box("shops", resources=[wrong], rollout={"when": ["1 + 1"]}))
    assert answer.status == 422
    fields = {cause["field"] for cause in answer.json["details"]["causes"]}
    assert fields == {"spec.resources[0].template.metadata.name", "spec.rollout.when[0]"}


def test_what_another_object_can_cure_is_a_warning_PH_10(wire: Wire) -> None:
    """A GitOps tool may apply the CRD after the box."""
    answer = post(wire, box("shops", crd={"name": "parlours.example.com"}))
    assert answer.status == 201
    assert "the cluster has no CRD parlours.example.com: apply it first" in answer.headers["warning"]


def test_a_policy_that_is_not_there_yet_is_a_warning_and_a_value_beyond_policies_is_refused_PH_10(
    wire: Wire,
) -> None:
    rule = {"rule": "!('barred' in self.metadata.?labels.orValue({}))"}
    answer = post(wire, box("shops", validation=[rule]))
    assert answer.status == 201
    assert "the ValidatingAdmissionPolicy shops.box.vworkspace.io is not there" in answer.headers["warning"]
    filled = {"field": "spec.host", "value": "${self.metadata.name + '.x'}"}
    answer = post(wire, box("hosts", mutation=[filled]))
    assert answer.status == 201
    assert "the MutatingAdmissionPolicy hosts.box.vworkspace.io is not there" in answer.headers["warning"]
    answer = post(wire, box("shops", validation=[rule], mutation=[{**filled, "value": "${hash(self.metadata.name)}"}]))
    assert answer.status == 422
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == ["spec.mutation[0].value"]


def test_a_box_keeps_its_kind_PH_10(wire: Wire) -> None:
    assert wire.send("POST", BOXES, box("kept")).status == 201
    names = {"plural": "stalls", "singular": "stall", "kind": "Stall", "listKind": "StallList"}
    other = crd(names=names)["spec"]
    change = {"spec": {"crd": {"spec": other}}}
    answer = wire.send("PATCH", f"{BOXES}/kept", change, content_type="application/merge-patch+json")
    assert answer.status == 422
    assert "an applied box keeps its kind: apply a box of another name" in answer.json["message"]
    label = {"metadata": {"labels": {"a": "b"}}}
    assert wire.send("PATCH", f"{BOXES}/kept", label, content_type="application/merge-patch+json").status == 200
