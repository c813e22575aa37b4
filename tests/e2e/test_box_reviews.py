"""PH-10: an OperatorBox is reviewed when it is applied, by the webhook that the printed manifests configure."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubelab.http.serving import kubeconfig
from kubelab.server import ApiServer
from purekube.boxes.applied_definition import applied_box_definition
from purekube.boxes.model import API_VERSION, KIND
from tests.e2e.test_webhooks import SYSTEM, laid, made
from tests.support.boxes import config, crd
from tests.support.commands import Running, free_port, run
from tests.support.server_thread import Answer, Wire, served, wall_clock, wired
from vworkspace_core.api.crd import crd_manifests

pytestmark = pytest.mark.slow

BOXES = "/apis/box.vworkspace.io/v1alpha1/operatorboxes"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FORMS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "a process of its own": (("box", "run", "--applied"), ("box", "manifests", "--applied"), "vworkspace-boxes"),
    "the operator": (
        ("run", "--no-agent", "--cluster-id=c", "--applied-boxes"),
        ("manifests", "--applied-boxes"),
        "vworkspace-operator",
    ),
}
"""The command that runs boxes, the one that prints its manifests, and its name."""


def box(name: str, **spec: Any) -> dict[str, Any]:
    whole = {"crd": {"spec": crd()["spec"]}, "resources": [config("settings", "${self.metadata.name}")], **spec}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": whole}


@pytest.fixture(scope="module", params=FORMS)
def wire(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    command, printing, name = FORMS[request.param]
    folder, port = tmp_path_factory.mktemp("reviews"), free_port()
    certificates = made(f"{name}-webhook.{SYSTEM}.svc")
    (laid(folder, certificates) / "authority").write_bytes(certificates.authority)
    server, services = ApiServer(now=wall_clock), {(SYSTEM, f"{name}-webhook"): f"https://127.0.0.1:{port}"}
    with served(server, services=services) as url, wired(url) as connection:
        (folder / "kc").write_text(yaml.safe_dump(kubeconfig(url)))
        for definition in (*crd_manifests(), applied_box_definition()):
            assert connection.send("POST", DEFINITIONS, definition).status == 201
        words: tuple[str | Path, ...] = (
            *command,
            "--kubeconfig",
            folder / "kc",
            "--no-leader-elect",
            "--log-format=json",
            "--listen=",
        )
        hooks = (f"--webhook-listen=127.0.0.1:{port}", f"--webhook-certificates={folder}")
        with Running(folder / "run", *words, *hooks) as process:
            process.until(lambda: process.log("webhooks are served"), "the webhooks")
            _configure(connection, (*printing, "--webhook-ca", folder / "authority"))
            yield connection


def _configure(connection: Wire, printing: tuple[str | Path, ...]) -> None:
    ended = run(*printing)
    assert ended.status == 0, ended
    printed = [one for one in yaml.safe_load_all(ended.out) if one["kind"] == "ValidatingWebhookConfiguration"]
    (of_boxes,) = [one for one in printed if "operatorboxes" in str(one["webhooks"][0]["rules"])]
    assert connection.send("POST", CONFIGURATIONS, of_boxes).status == 201


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
