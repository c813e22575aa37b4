"""What a box's webhooks refuse and fill in (PH-8)."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from purekube.apimachinery.admission_review import AdmissionOperation, AdmissionRequest
from purekube.boxes.box import Box
from purekube.boxes.webhooks.kind_webhooks import BoxAdmission, WebhookDuties
from purekube_run.boxes.load import load_boxes, runnable
from vworkspace_app.webhooks.kinds_of_users import served_kinds
from vworkspace_core.webhook.admission import default_path, validate_path

BOXES = Path(__file__).resolve().parents[3] / "examples" / "boxes"
RULES = """
    - rule: "!('barred' in self.metadata.?labels.orValue({}))"
      message: barred
    - rule: self.metadata.?annotations[?'tier'].orValue('') == oldSelf.metadata.?annotations[?'tier'].orValue('')
      message: the tier stays
      field: metadata.annotations
"""
FIELDS = """
    - field: spec.tls.secretName
      value: ${self.metadata.name + '-tls'}
    - field: spec.logLevel
      value: "${self.spec.version == '1' ? 'debug' : 'info'}"
"""


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Box:
    folder = tmp_path_factory.mktemp("box")
    text = (BOXES / "registry.yaml").read_text(encoding="utf-8")
    begin, end = text.index("  validation:"), text.index("  versions:")
    own = f"  validation:{RULES}  mutation:{FIELDS}"
    (folder / "registry.yaml").write_text(text[:begin] + own + text[end:], encoding="utf-8")
    (folder / "registry-crd.yaml").write_text((BOXES / "registry-crd.yaml").read_text(encoding="utf-8"))
    (found,) = runnable(load_boxes([str(folder / "registry.yaml")]))
    return found


def registry(spec: Any = None, **meta: Any) -> dict[str, Any]:
    given = {"version": "1"} if spec is None else spec
    return {"apiVersion": "example.com/v1", "kind": "Registry", "metadata": {"name": "a", **meta}, "spec": given}


def asked(box: Box, path: str, new: Any, old: Any = None, subresource: str = "") -> dict[str, Any]:
    operation = AdmissionOperation.CREATE if old is None else AdmissionOperation.UPDATE
    request = AdmissionRequest("u", operation, "team", "a", subresource, "", new, old)
    answer: dict[str, Any] = anyio.run(served_kinds([box]).judges[path], request)
    response: dict[str, Any] = answer["response"]
    return response


def test_a_rule_that_reads_all_of_the_metadata_is_asked_by_the_webhook(box: Box) -> None:
    path = validate_path("registry")
    assert asked(box, path, registry())["allowed"] is True
    barred = registry(labels={"barred": "x"})
    refused = asked(box, path, barred)
    assert (refused["allowed"], refused["status"]["message"]) == (False, "object: barred")
    assert asked(box, path, {**barred, "metadata": {**barred["metadata"], "deletionTimestamp": "x"}})["allowed"]
    assert asked(box, path, barred, registry(), "status")["allowed"], "a status gets through"


def test_a_rule_about_a_change_is_asked_of_updates_only(box: Box) -> None:
    path = validate_path("registry")
    gold, tin = (registry(annotations={"tier": tier}) for tier in ("gold", "tin"))
    assert asked(box, path, gold)["allowed"] is True
    assert asked(box, path, gold, gold)["allowed"] is True
    status = asked(box, path, tin, gold)["status"]
    assert status["details"]["causes"][0] == {
        "reason": "FieldValueInvalid",
        "message": "the tier stays",
        "field": "metadata.annotations",
    }


def test_fields_are_filled_in_where_they_are_absent(box: Box) -> None:
    admission = BoxAdmission.of(box)
    tls = [
        {"op": "add", "path": "/spec/tls", "value": {}},
        {"op": "add", "path": "/spec/tls/secretName", "value": "a-tls"},
    ]
    level = {"op": "add", "path": "/spec/logLevel", "value": "debug"}
    assert admission.patch(registry()) == ([*tls, level], ())
    there = registry({"version": "2", "tls": {}, "logLevel": "error"})
    assert admission.patch(there) == (tls[1:], ())
    assert admission.patch(registry(deletionTimestamp="x")) == ([], ())
    assert admission.patch(registry({"version": "1", "tls": 3})) == ([level], ()), "the schema refuses it"


def test_a_field_that_cannot_be_filled_in_refuses_the_object_and_is_named(box: Box) -> None:
    refused = asked(box, default_path("registry"), registry({}))
    assert refused["allowed"] is False
    assert "spec.logLevel: cannot be filled in: no such key: version" in refused["status"]["message"]


def test_what_the_webhooks_are_needed_for_is_told(box: Box) -> None:
    duties = WebhookDuties.of(box)
    assert str(duties) == "conversion of v1alpha1, 2 rules, filling in spec.tls.secretName, spec.logLevel"
    (webapp,) = runnable(load_boxes([str(BOXES / "webapp.yaml")]))
    assert not WebhookDuties.of(webapp)
    assert not served_kinds([webapp])
