"""The model of ownership is itself held against what a real API server answered, before it judges ours."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.ownership_model import Model, Refused, Shapes, Spec, normal, owners_of, told

TRANSCRIPTS = Path(__file__).parents[4] / "shared" / "apiserver" / "transcripts"
WIDGET = Shapes(
    whole=("size", "colour", "title", "mode", "maybe", "when", "frozen", "args", "sealed"),
    maps=("labels", "nested"),
    sets=("tags",),
    named=("ports",),
    defaults={"mode": "normal"},
    item_defaults={"ports": {"proto": "TCP"}},
)
LEAST = 24
"""How many recorded conversations the model has to be able to tell; fewer mean that it was not asked."""


def recorded() -> dict[str, list[Any]]:
    """The conversations about nothing but who owns which field of a spec."""
    if not TRANSCRIPTS.is_dir():
        return {}
    cases = [
        case
        for group in ("apply", "lists", "update")
        for case in json.loads((TRANSCRIPTS / f"{group}.json").read_text())["cases"]
    ]
    return {case["name"]: case["steps"] for case in cases if all(map(tellable, case["steps"]))}


def tellable(step: Any) -> bool:
    request, status = step["request"], step["response"]["status"]
    if request["method"] == "DELETE":
        return True
    body = request.get("body")
    if "/widgets" not in request["path"] or request["path"].endswith("/status") or not isinstance(body, dict):
        return False
    spec, meta = body.get("spec"), set(body.get("metadata", {}))
    if not isinstance(spec, dict) or not WIDGET.knows(spec) or not meta <= {"name", "resourceVersion"}:
        return False
    refused_for_its_owner = status == 409 and "causes" in step["response"]["body"].get("details", {})
    return status in (200, 201) or refused_for_its_owner


CASES = recorded()


@pytest.mark.skipif(not CASES, reason="the recorded conversations lie beside the repository, and do not here")
def test_the_model_can_tell_most_of_what_was_recorded() -> None:
    assert len(CASES) >= LEAST


@pytest.mark.parametrize("name", CASES)
def test_the_model_tells_what_a_real_server_answered(name: str) -> None:
    model = Model(WIDGET)
    for step in CASES[name]:
        request, answer = step["request"], step["response"]["body"]
        refused = act(model, request)
        if step["response"]["status"] == 409:
            assert {cause["field"] for cause in answer["details"]["causes"]} == refused
            continue
        assert not refused
        if request["method"] != "DELETE":
            assert normal(answer["spec"], WIDGET) == normal(model.spec, WIDGET)
            assert owners_of(answer["metadata"]["managedFields"]) == model.owners


def act(model: Model, request: Any) -> set[str]:
    """Let the model do as was asked; the fields that others hold where it may not."""
    manager = request["query"].get("fieldManager", "transcript")
    spec: Spec = (request.get("body") or {}).get("spec", {})
    match request["method"], request.get("contentType"):
        case "DELETE", _:
            model.delete()
        case "PATCH", "application/apply-patch+yaml":
            try:
                model.apply(manager, spec, request["query"].get("force") == "true")
            except Refused as refused:
                return {told(path, WIDGET) for path in refused.paths}
        case "PATCH", _:
            merged = {**(model.spec or {}), **spec}
            model.update(manager, {key: value for key, value in merged.items() if value is not None})
        case _:
            model.update(manager, spec)
    return set()
