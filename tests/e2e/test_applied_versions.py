"""PH-10: the process that runs an applied box converts between its versions, as it does for a box from a file."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from purekube.boxes.model import API_VERSION, KIND
from tests.e2e.test_webhooks import SYSTEM, made
from tests.support.applied_process import FORMS, AppliedProcess, webhooks_of_applied_boxes
from tests.support.boxes import config, crd

pytestmark = pytest.mark.slow

BOXES = "/apis/box.vworkspace.io/v1alpha1/operatorboxes"
SHOPS = "/apis/example.com/{}/namespaces/default/shops"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/shops.example.com"


def spec(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "required": [name], "properties": {name: {"type": kind}, **more}}


def versions(*others: str) -> list[dict[str, Any]]:
    """v1 counts in `size`; each other version in `replicas`, and it has no `color`."""
    (stored,) = crd()["spec"]["versions"]

    def version(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        schema = stored["schema"]["openAPIV3Schema"]
        properties = {**schema["properties"], "spec": fields}
        whole = {"openAPIV3Schema": {**schema, "properties": properties}}
        return {**stored, "name": name, "storage": name == "v1", "schema": whole}

    current = version("v1", spec("size", "integer", color={"type": "string"}))
    return [current, *(version(name, spec("replicas", "integer")) for name in others)]


def box(*others: str) -> dict[str, Any]:
    up, down = {"spec.size": "${old.spec.replicas}"}, {"spec.replicas": "${self.spec.size}"}
    declared = [{"name": name, "up": up, "down": down, "keeps": "annotation"} for name in others]
    whole = {
        "crd": {"spec": {**crd()["spec"], "versions": versions(*others)}},
        "versions": [{"name": "v1"}, *declared],
        "resources": [config("settings", "${self.metadata.name}", {"v": "${string(self.spec.size)}"})],
    }
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "shops"}, "spec": whole}


@pytest.fixture(params=[*((form, False) for form in FORMS), ("the operator", True)], ids=[*FORMS, "kube-apiserver"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AppliedProcess]:
    form, is_real = request.param
    with webhooks_of_applied_boxes(form, tmp_path, is_real=is_real) as running:
        for name in (SYSTEM, "default"):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            running.wire.send("POST", "/api/v1/namespaces", namespace)
        yield running


def condition(site: AppliedProcess, kind: str) -> tuple[str, str]:
    found = site.wire.send("GET", f"{BOXES}/shops").json.get("status", {}).get("conditions", ())
    return next(((each["status"], each["message"]) for each in found if each["type"] == kind), ("", ""))


def apply(site: AppliedProcess, *others: str) -> None:
    """Apply the box, once its kind is served."""
    site.process.until(lambda: site.wire.send("POST", BOXES, box(*others)).status == 201, "the kind of boxes")


def shop(version: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"example.com/{version}", "kind": "Shop", "metadata": {"name": name}, "spec": fields}


def test_every_version_of_an_applied_box_is_read_and_written_PH_10(site: AppliedProcess) -> None:
    wire, process = site.wire, site.process
    apply(site, "v1alpha1")
    process.until(lambda: condition(site, "Accepted")[0] == "False", "the refusal")
    assert "names the operator's webhook, which converts" in condition(site, "Accepted")[1]
    assert wire.send("GET", DEFINITION).status == 404, "nothing of a box takes effect before it is accepted"
    site.configure()
    process.until(lambda: condition(site, "Serving")[0] == "True", "the box")
    assert wire.send("POST", SHOPS.format("v1"), shop("v1", "new", size=3, color="red")).status == 201
    assert wire.send("POST", SHOPS.format("v1alpha1"), shop("v1alpha1", "old", replicas=4)).status == 201
    assert wire.send("GET", SHOPS.format("v1alpha1") + "/new").json["spec"] == {"replicas": 3}
    assert wire.send("GET", SHOPS.format("v1") + "/old").json["spec"] == {"size": 4}
    child = "/api/v1/namespaces/default/configmaps/old"
    process.until(lambda: wire.send("GET", child).json.get("data", {}).get("v") == "4", "the child")


def test_a_new_version_is_converted_as_soon_as_its_definition_is_accepted_PH_10(site: AppliedProcess) -> None:
    wire, process = site.wire, site.process
    site.configure()
    apply(site, "v1alpha1")
    process.until(lambda: condition(site, "Serving")[0] == "True", "the box")
    assert wire.send("POST", SHOPS.format("v1"), shop("v1", "a", size=3, color="red")).status == 201
    patch = {"spec": box("v1alpha1", "v1beta1")["spec"]}
    assert wire.send("PATCH", f"{BOXES}/shops", patch, content_type="application/merge-patch+json").status == 200
    process.until(lambda: wire.send("GET", SHOPS.format("v1beta1") + "/a").status == 200, "the new version")
    one = SHOPS.format("v1beta1") + "/a"
    assert wire.send("GET", one).json["spec"] == {"replicas": 3}
    # The operator may write between a read and a write, as the box still rolls out: people read again then.
    process.until(lambda: wire.send("PUT", one, wire.send("GET", one).json).status == 200, "a write of what was read")
    assert wire.send("GET", SHOPS.format("v1") + "/a").json["spec"] == {"size": 3, "color": "red"}


def test_a_renewed_authority_comes_into_the_definition_PH_10(site: AppliedProcess) -> None:
    wire, process = site.wire, site.process

    def client() -> Any:
        return wire.send("GET", DEFINITION).json["spec"]["conversion"]["webhook"]["clientConfig"]

    site.configure()
    apply(site, "v1alpha1")
    process.until(lambda: condition(site, "Serving")[0] == "True", "the box")
    configuration = site.configuration()
    (reviews,) = configuration["webhooks"]
    here = json.dumps(reviews["clientConfig"], sort_keys=True)
    assert json.dumps(client(), sort_keys=True) == here.replace("/operatorboxes/validate", "/convert")
    trusted = b64decode(reviews["clientConfig"]["caBundle"])
    both = b64encode(trusted + made("another.example.com").authority).decode()
    renewed = {"webhooks": [{**reviews, "clientConfig": {**reviews["clientConfig"], "caBundle": both}}]}
    name = configuration["metadata"]["name"]
    merge = "application/merge-patch+json"
    assert wire.send("PATCH", f"{CONFIGURATIONS}/{name}", renewed, content_type=merge).status == 200
    seen = {"metadata": {"annotations": {"example.com/seen": "true"}}}  # or a minute later
    assert wire.send("PATCH", f"{BOXES}/shops", seen, content_type=merge).status == 200
    process.until(lambda: client()["caBundle"] == both, "the authority")
