"""The step that failed a Workflow is told, as recorded of Argo in `workflow_fails_after_a_retry` (OPS-8)."""

from typing import Any

import attrs

from purekube.apimachinery.manifest import ref_of
from purekube.apimachinery.resources import WORKFLOW
from tests.support.operation_worlds import SETTINGS, operation, target_manifest, template
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.api.operation import EngineRef
from vworkspace_core.operations.contract import EngineContext
from vworkspace_core.operations.engines.workflow import ENGINE
from vworkspace_core.operations.identity import engine_manifest


def node(name: str, type_: str, phase: str, at: int = 0, **more: Any) -> dict[str, Any]:
    message = {"message": "main: Error (exit code 1)"} if phase == "Failed" else {}
    finished = f"2026-11-23T06:00:{at:02}Z"
    return {"id": name, "displayName": name, "type": type_, "phase": phase, "finishedAt": finished, **message, **more}


def message_of(*nodes: dict[str, Any]) -> str:
    of = "runbook.workflow"
    run = operation(of)
    target = read_application_instance(target_manifest(of))
    manifest = engine_manifest(WORKFLOW, run, target, EngineContext(SETTINGS, template(of)))
    status = {"phase": "Failed", "nodes": {found["id"]: found for found in nodes}}
    meta = manifest["metadata"]
    known = EngineRef(WORKFLOW.api_version, WORKFLOW.kind, meta["namespace"], meta["name"])
    run = attrs.evolve(run, status=attrs.evolve(run.status, engine_ref=known))
    return ENGINE.observe(run, {ref_of(manifest, WORKFLOW): {**manifest, "status": status}}).message


def test_a_try_that_a_later_one_made_good_is_not_the_cause_OPS_8() -> None:
    recovered = (
        node("flaky", "Retry", "Succeeded", 3, children=["flaky(0)", "flaky(1)"]),
        node("flaky(0)", "Pod", "Failed", 1),
        node("flaky(1)", "Pod", "Succeeded", 3),
    )
    assert message_of(*recovered, node("work", "Pod", "Failed", 5)) == "work: main: Error (exit code 1)"


def test_of_tries_that_all_failed_the_first_is_told_even_when_they_end_in_one_second_OPS_8() -> None:
    tries = (node("b", "Pod", "Failed", 1, displayName="work(0)"), node("a", "Pod", "Failed", 1, displayName="work(1)"))
    retry = node("work", "Retry", "Failed", 1, children=["b", "a"])
    assert message_of(retry, *tries) == "work(0): main: Error (exit code 1)"
