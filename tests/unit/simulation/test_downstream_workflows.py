"""What the simulated workflow controller leaves in a Workflow, fact by fact (downstream-status 7.2)."""

from typing import Any

import pytest

from kubelab.downstream import (
    DownstreamBehaviour,
    DownstreamOutcome,
    DownstreamRule,
    Ending,
    WorkflowBehaviour,
    WorkflowStep,
)
from purekube.apimachinery.resources import WORKFLOW
from tests.support.downstream_world import NS, DownstreamWorld, conditions, workflow
from tests.support.resumed_workflows import resume_patch

TWO = (WorkflowStep("dump"), WorkflowStep("upload"))
APPROVAL = (WorkflowStep("dump"), WorkflowStep("approve", suspend=True), WorkflowStep("apply"))


def begun(*rules: DownstreamRule, settings: WorkflowBehaviour | None = None, **spec: Any) -> DownstreamWorld:
    behaviour = DownstreamBehaviour(rules, workflow=settings or WorkflowBehaviour())
    world = DownstreamWorld(behaviour, names=["workflow"])
    world.create(workflow(**spec), WORKFLOW)
    world.simulator.tick(world.clock.now())
    return world


def ended(*rules: DownstreamRule, settings: WorkflowBehaviour | None = None, **spec: Any) -> dict[str, Any]:
    world = begun(*rules, settings=settings, **spec)
    world.settle()
    return world.status(WORKFLOW, "w")


def leaves(status: dict[str, Any]) -> dict[str, str]:
    nodes = status.get("nodes", {}).values()
    return {node["displayName"]: node["phase"] for node in nodes if node["type"] in ("Pod", "Suspend")}


@pytest.mark.parametrize(
    ("ending", "phase", "message"),
    [
        (Ending.SUCCEED, "Succeeded", None),
        (Ending.FAIL, "Failed", "main: Error (exit code 1)"),
        (Ending.PARTIAL, "Failed", "main: Error (exit code 1)"),
        (Ending.ERROR, "Error", "pod deleted"),
        (Ending.INVALID, "Failed", "invalid spec: templates.main.inputs are not satisfied"),
    ],
)
def test_how_a_workflow_ends(ending: Ending, phase: str, message: str | None) -> None:
    world = begun(DownstreamRule(DownstreamOutcome(ending)))
    world.settle()
    stored = world.get(WORKFLOW, "w")
    status = stored["status"]
    assert (status["phase"], status.get("message")) == (phase, message)
    assert stored["metadata"]["labels"] == {
        "workflows.argoproj.io/completed": "true",
        "workflows.argoproj.io/phase": phase,
    }
    assert conditions(status) == {"PodRunning": "False", "Completed": "True"}
    assert status["finishedAt"] >= status["startedAt"]
    assert world.phases(WORKFLOW) == ["", *(["Running"] if ending is not Ending.INVALID else []), phase]


def test_there_is_no_status_subresource_so_generation_moves_with_the_status() -> None:
    world = begun()
    world.settle()
    generations = [state["metadata"]["generation"] for state in world.states(WORKFLOW)]
    assert generations == sorted(set(generations))
    assert len(generations) > 2


def test_steps_run_one_after_the_other_and_the_first_failure_ends_them() -> None:
    world = begun(DownstreamRule(DownstreamOutcome(steps=TWO)))
    assert leaves(world.status(WORKFLOW, "w")) == {"dump": "Running"}
    world.run(2)
    assert leaves(world.status(WORKFLOW, "w")) == {"dump": "Succeeded", "upload": "Running"}
    assert world.status(WORKFLOW, "w")["progress"] == "1/2"
    world.settle()
    status = world.status(WORKFLOW, "w")
    assert (status["phase"], status["progress"]) == ("Succeeded", "2/2")
    broken = (WorkflowStep("dump", ending=Ending.FAIL, message="disk full"), *TWO[1:])
    status = ended(DownstreamRule(DownstreamOutcome(steps=broken)))
    assert leaves(status) == {"dump": "Failed"}
    failed = next(node for node in status["nodes"].values() if node["displayName"] == "dump")
    assert failed["message"] == "disk full"
    assert status["message"] == f"child '{failed['id']}' failed"


def test_the_nodes_form_a_tree_below_the_workflow_s_own_node() -> None:
    nodes = ended(DownstreamRule(DownstreamOutcome(steps=TWO)))["nodes"]
    assert nodes["w"]["type"] == "Steps"
    assert {node["type"] for node in nodes.values()} == {"Steps", "StepGroup", "Pod"}
    assert all(child in nodes for node in nodes.values() for child in node.get("children", ()))


def test_outputs_are_those_of_the_workflow() -> None:
    status = ended(DownstreamRule(DownstreamOutcome(outputs={"rows": "12"})))
    assert status["outputs"] == {"parameters": [{"name": "rows", "value": "12"}]}


def test_a_suspended_node_is_running_until_somebody_resumes_it() -> None:
    world = begun(DownstreamRule(DownstreamOutcome(steps=APPROVAL)))
    world.run(86_400)
    status = world.status(WORKFLOW, "w")
    assert status["phase"] == "Running"
    assert leaves(status) == {"dump": "Succeeded", "approve": "Running"}
    assert conditions(status) == {"PodRunning": "False"}
    world.patch(WORKFLOW, "w", resume_patch(world.get(WORKFLOW, "w")))
    world.settle()
    assert leaves(world.status(WORKFLOW, "w")) == dict.fromkeys(("dump", "approve", "apply"), "Succeeded")


def test_a_suspended_node_can_go_on_by_itself() -> None:
    assert (
        ended(DownstreamRule(DownstreamOutcome(steps=(WorkflowStep("wait", seconds=30, suspend=True),))))["phase"]
        == "Succeeded"
    )


def test_a_suspended_workflow_is_running_and_begins_no_step() -> None:
    world = begun(suspend=True)
    world.run(600)
    assert world.status(WORKFLOW, "w")["phase"] == "Running"
    assert leaves(world.status(WORKFLOW, "w")) == {}
    world.patch(WORKFLOW, "w", resume_patch(world.get(WORKFLOW, "w")))
    world.settle()
    assert world.status(WORKFLOW, "w")["phase"] == "Succeeded"


@pytest.mark.parametrize("strategy", ["Terminate", "Stop"])
def test_a_shutdown_fails_what_still_runs(strategy: str) -> None:
    world = begun(DownstreamRule(DownstreamOutcome(steps=APPROVAL)))
    world.run(10)
    world.patch(WORKFLOW, "w", {"spec": {"shutdown": strategy}})
    world.settle()
    status = world.status(WORKFLOW, "w")
    assert (status["phase"], status["message"]) == ("Failed", f"Stopped with strategy '{strategy}'")
    assert leaves(status) == {"dump": "Succeeded", "approve": "Failed"}


def test_the_deadline_ends_a_workflow_that_stalls() -> None:
    world = begun(DownstreamRule(DownstreamOutcome(Ending.STALL)), activeDeadlineSeconds=60)
    world.run(59)
    assert world.status(WORKFLOW, "w")["phase"] == "Running"
    world.run(1)
    assert world.status(WORKFLOW, "w")["phase"] == "Failed"


def test_a_stalled_workflow_goes_on_when_its_rule_goes() -> None:
    world = begun(DownstreamRule(DownstreamOutcome(steps=(WorkflowStep("hang", ending=Ending.STALL),))))
    world.run(86_400)
    assert world.status(WORKFLOW, "w")["phase"] == "Running"
    world.behave(DownstreamBehaviour())
    world.settle()
    assert world.status(WORKFLOW, "w")["phase"] == "Succeeded"


def test_a_template_that_is_missing_is_an_error_and_not_a_failure() -> None:
    status = ended(settings=WorkflowBehaviour(missing_templates=frozenset({f"{NS}/nightly"})))
    assert status["phase"] == "Error"
    assert status["message"] == 'workflowtemplates.argoproj.io "nightly" not found'


def test_a_workflow_that_must_wait_is_pending() -> None:
    world = begun(settings=WorkflowBehaviour(pending_seconds=30))
    world.settle()
    assert world.phases(WORKFLOW) == ["", "Pending", "Running", "Succeeded"]


@pytest.mark.parametrize(
    ("ending", "ttl", "seconds"),
    [
        (Ending.SUCCEED, {"secondsAfterCompletion": 50}, 50),
        (Ending.SUCCEED, {"secondsAfterCompletion": 50, "secondsAfterSuccess": 10}, 10),
        (Ending.FAIL, {"secondsAfterFailure": 20, "secondsAfterSuccess": 10}, 20),
        (Ending.FAIL, {"secondsAfterSuccess": 10}, None),
        (Ending.ERROR, {"secondsAfterFailure": 20}, None),
        (Ending.ERROR, {"secondsAfterFailure": 20, "secondsAfterCompletion": 50}, 50),
    ],
)
def test_a_completed_workflow_is_removed_by_its_ttl(ending: Ending, ttl: dict[str, int], seconds: int | None) -> None:
    world = begun(DownstreamRule(DownstreamOutcome(ending)), ttlStrategy=ttl)
    world.settle()
    world.run((seconds or 10_000) - 1)
    assert world.find(WORKFLOW, "w") is not None
    world.run(1)
    assert (world.find(WORKFLOW, "w") is None) == (seconds is not None)


def test_nodes_may_be_compressed_and_a_workflow_resumes_all_the_same() -> None:
    world = begun(DownstreamRule(DownstreamOutcome(steps=APPROVAL)), settings=WorkflowBehaviour(compresses_nodes=True))
    world.run(10)
    status = world.status(WORKFLOW, "w")
    assert "nodes" not in status
    assert status["compressedNodes"]
    world.patch(WORKFLOW, "w", resume_patch(world.get(WORKFLOW, "w")))
    world.settle()
    assert world.status(WORKFLOW, "w")["phase"] == "Succeeded"


def inline(**entry: Any) -> dict[str, Any]:
    templates = [
        {"name": "main", **entry},
        {"name": "gate", "suspend": {}},
        {"name": "work", "container": {"image": "tool:1"}},
    ]
    return {"workflowTemplateRef": None, "entrypoint": "main", "templates": templates}


def test_a_workflow_that_spells_out_its_steps_has_those() -> None:
    steps = [[{"name": "one", "template": "work"}], [{"name": "ask", "template": "gate"}]]
    world = begun(**inline(steps=steps))
    world.run(10)
    assert leaves(world.status(WORKFLOW, "w")) == {"one": "Succeeded", "ask": "Running"}


def test_an_entrypoint_that_is_not_there_is_an_invalid_spec() -> None:
    status = ended(**{**inline(container={"image": "tool:1"}), "entrypoint": "ghost"})
    assert (status["phase"], status["message"]) == ("Failed", "invalid spec: template name 'ghost' undefined")


def test_what_is_completed_is_never_written_again() -> None:
    world = begun()
    world.settle()
    world.writes()
    world.simulator.crash()
    world.run(3600)
    assert world.writes() == 0
