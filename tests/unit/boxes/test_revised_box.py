"""PH-10: which revision of a box decides about a parent."""

from datetime import UTC, datetime
from typing import Any

from purekube.apimachinery.definitions import BROUGHT_TO
from purekube.boxes.revised import RevisedBox
from purekube.boxes.revisions import Assignments
from purekube.controller.decision import Decision, Snapshot
from tests.support.boxes import box_of, config

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NEW = box_of(config("settings", data={"value": "new"}))


def decided(record: str, **boxes: Any) -> Decision:
    """The decision on a parent with this record, by a box with the revisions `old` and `new`, of which some run."""
    composite = RevisedBox(boxes, lambda: Assignments(("old", "new"), "new")).composite
    meta = {
        "name": "shop",
        "namespace": "team",
        "uid": "u",
        "resourceVersion": "1",
        "generation": 1,
        "finalizers": [composite.finalizer],
        "annotations": {BROUGHT_TO: record} if record else {},
    }
    spec = {"image": "r/x:1", "parts": []}
    manifest = {"apiVersion": NEW.kind.api_version, "kind": NEW.kind.kind, "metadata": meta, "spec": spec}
    return composite.decide(composite.read(manifest), Snapshot(), NOW)


def conditions(decision: Decision) -> dict[str, Any]:
    assert decision.status is not None
    return {each["type"]: each for each in decision.status["status"]["conditions"]}


def test_parent_of_a_revision_that_is_not_served_is_left_alone_PH_10() -> None:
    decision = decided("old 2026-01-01T00:00:00Z", new=NEW)

    assert not decision.writes_downstream
    said = conditions(decision)
    assert (said["Stalled"]["status"], said["Stalled"]["reason"]) == ("True", "RevisionNotServed")
    assert said["Stalled"]["message"].startswith("revision old of the box")
    assert said["Revision"]["message"] == "old"


def test_new_parent_gets_its_record_before_anything_is_written_and_an_old_one_keeps_it_PH_10() -> None:
    assert decided("", new=NEW).annotations[BROUGHT_TO] == "new 2026-01-01T00:00:00Z"
    assert BROUGHT_TO not in decided("new 2025-01-01T00:00:00Z", new=NEW).annotations
