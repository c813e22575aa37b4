"""Argo's workflow controller: phases, nodes, suspension, deadlines, removal by `ttlStrategy`.

Phases and conditions are those of Argo's `pkg/apis/workflow/v1alpha1`. The kind has no status subresource: writes of
the status increment the generation.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import attrs

from kubelab.downstream.behaviour import DownstreamOutcome, Ending, WorkflowStep
from kubelab.downstream.controller import (
    NOTHING,
    Attempt,
    DownstreamController,
    ObjectView,
    PassResult,
    account_refusal,
    begin,
    change,
    earliest,
)
from kubelab.downstream.workflow_nodes import StepRecord, compressed, node_id, nodes_of, written_nodes
from kubelab.simulation.effects import PassStep, PostEvent, SimulatedDelete
from purekube.apimachinery.manifest import get_path, metadata
from purekube.apimachinery.resources import SERVICE_ACCOUNT, WORKFLOW
from purekube.apimachinery.timestamps import time_or_none

_COMPLETED: Final = "workflows.argoproj.io/completed"
_PHASE: Final = "workflows.argoproj.io/phase"
_FINAL: Final = ("Succeeded", "Failed", "Error")
_PHASES: Final = {Ending.SUCCEED: "Succeeded", Ending.ERROR: "Error"}


@attrs.frozen
class _Memory:
    """The controller's memory of a workflow in progress.

    `until` is the end of the running step; it is None while the step is stalled or suspended.
    """

    attempt: Attempt
    steps: tuple[WorkflowStep, ...]
    records: tuple[StepRecord, ...] = ()
    until: datetime | None = None


@attrs.frozen
class _End:
    """The phase and message with which a workflow, or one of its steps, ends.

    If the workflow is stopped during a step, `node` is the message of that step.
    """

    phase: str
    message: str = ""
    node: str = ""


def _reconcile(view: ObjectView) -> PassStep[PassResult]:
    if view.live is None or view.deleting:
        return NOTHING
    phase = view.status.get("phase", "")
    if phase in _FINAL or get_path(view.live, "metadata", "labels", _COMPLETED) == "true":
        return (yield from _completed(view))
    if not phase and (end := _refused(view)) is not None:
        refused = _close(view, _open(view, _start_attempt(view)), _of_node(end)) if end.node else None
        return (yield from _write(view, refused, end))
    if phase in ("", "Pending") and view.now < (ready := _ready_at(view)):
        message = "Workflow processing has been postponed because too many workflows are already running"
        yield from change(view, _object(view, "Pending", {"phase": "Pending", "message": message}))
        return PassResult(requeue_at=ready)
    return (yield from _advance(view, view.memory or _start_attempt(view)))


def _completed(view: ObjectView) -> PassStep[PassResult]:
    """Delete a completed workflow once its TTL has passed. A completed workflow changes in no other way."""
    ttl, ended = view.spec.get("ttlStrategy") or {}, time_or_none(view.status.get("finishedAt"))
    # An Error is neither a success nor a failure here (workflow/gccontroller/gc_controller.go, ttl).
    special = {"Succeeded": "secondsAfterSuccess", "Failed": "secondsAfterFailure"}.get(view.status.get("phase", ""))
    seconds = ttl.get(special, ttl.get("secondsAfterCompletion"))
    if seconds is None or ended is None:
        return NOTHING
    due = ended + timedelta(seconds=seconds)
    if view.now < due:
        return PassResult(requeue_at=due, interval=True)
    # Deleted with everything in its status, so the operator records the result before (docs/engines.md).
    yield SimulatedDelete(view.ref, view.uid)
    return NOTHING


def _refused(view: ObjectView) -> _End | None:
    """Return the end of a workflow that Argo refuses before any step runs, for example because a template is missing.

    Return None if Argo does not refuse the workflow.
    """
    template = get_path(view.spec, "workflowTemplateRef", "name")
    if f"{view.ref.namespace}/{template}" in view.behaviour.workflow.missing_templates:
        return _End("Error", f'workflowtemplates.argoproj.io "{template}" not found')
    names = [item.get("name") for item in view.spec.get("templates") or ()]
    # Failed, where a missing WorkflowTemplate is Error: as recorded of workflow-controller 3.7.4
    # (tests/conformance/engines/workflow_template_is_missing.json).
    if template is None and view.spec.get("entrypoint") not in names:
        return _End("Failed", f"invalid spec: template name '{view.spec.get('entrypoint', '')}' undefined")
    if refused := account_refusal(view, view.spec.get("serviceAccountName"), view.ref.name):
        return _End("Error", f"error in entry template execution: {refused}", refused)
    rule = view.behaviour.choose(view.ref, ())
    if rule is not None and rule.outcome.ending is Ending.INVALID:
        return _End("Failed", f"invalid spec: {rule.outcome.message or 'templates.main.inputs are not satisfied'}")
    return None


def _ready_at(view: ObjectView) -> datetime:
    created = time_or_none(metadata(view.live or {}).get("creationTimestamp")) or view.now
    return created + timedelta(seconds=view.behaviour.workflow.pending_seconds)


def _start_attempt(view: ObjectView) -> _Memory:
    attempt = begin(view, (), view.behaviour.workflow.step_seconds)
    return _Memory(attempt, attempt.outcome.steps or _steps_of(view, attempt.outcome))


def _steps_of(view: ObjectView, outcome: DownstreamOutcome) -> tuple[WorkflowStep, ...]:
    """Return the steps in the workflow's spec, in order, or one step if the spec has none.

    The last step ends as `outcome` says.
    """
    templates = {item.get("name"): item for item in view.spec.get("templates") or ()}
    entry = templates.get(view.spec.get("entrypoint")) or {}
    inner = [step for group in entry.get("steps") or () for step in group]
    named = [(step["name"], templates.get(step.get("template")) or {}) for step in inner] or [("main", entry)]
    steps = [WorkflowStep(name, outcome.seconds, "suspend" in template) for name, template in named]
    if outcome.ending is not Ending.SUCCEED:
        steps[-1] = attrs.evolve(steps[-1], ending=outcome.ending, message=outcome.message)
    return tuple(steps)


def _advance(view: ObjectView, memory: _Memory) -> PassStep[PassResult]:
    """Run the workflow's steps one after the other, and write the status.

    The pass ends when all steps are done, a step has failed, or a step needs more time.
    """
    memory = _let_go(view, memory)
    while True:
        stopped = _stopped(view)
        if memory.records and memory.records[-1].finished is None:
            ending = _of_node(stopped) if stopped is not None else _step_end(view, memory)
            if ending is None:
                return (yield from _write(view, memory, None))
            memory = _close(view, memory, ending)
        if stopped is not None:
            return (yield from _write(view, memory, stopped))
        last = memory.records[-1] if memory.records else None
        if last is not None and last.phase in ("Failed", "Error"):
            alone = len(memory.steps) == 1
            id_ = node_id(view.ref.name, len(memory.records) - 1, len(memory.steps))
            return (
                yield from _write(view, memory, _End(last.phase, last.message if alone else f"child '{id_}' failed"))
            )
        if len(memory.records) == len(memory.steps):
            return (yield from _write(view, memory, _End("Succeeded")))
        if view.spec.get("suspend"):
            return (yield from _write(view, memory, None))
        memory = _open(view, memory)


def _let_go(view: ObjectView, memory: _Memory) -> _Memory:
    """Return `memory` changed so that a stalled step succeeds, once the rule that stalled the step has been removed.

    Return `memory` unchanged if no step is stalled, or if the rule still exists.
    """
    running = memory.records[-1] if memory.records else None
    rule = memory.attempt.rule
    if running is None or running.finished is not None or running.step.ending is not Ending.STALL:
        return memory
    if rule is None or rule in view.behaviour.rules:
        return memory
    step = attrs.evolve(running.step, ending=Ending.SUCCEED)
    records = (*memory.records[:-1], attrs.evolve(running, step=step))
    return attrs.evolve(memory, records=records, until=view.at(view.behaviour.workflow.step_seconds))


def _stopped(view: ObjectView) -> _End | None:
    """Return the end of a workflow that is stopped by `spec.shutdown` or by `spec.activeDeadlineSeconds`.

    Return None if neither applies yet.
    """
    shutdown = view.spec.get("shutdown")
    if shutdown:
        # The node's message has two spaces after the colon, as Argo writes it (workflow/controller/exec_control.go).
        return _End("Failed", f"Stopped with strategy '{shutdown}'", f"workflow shutdown with strategy:  {shutdown}")
    end = _deadline(view)
    if end is not None and view.now >= end:
        return _End("Failed", "Step exceeded its deadline", "Step exceeded its deadline")
    return None


def _of_node(end: _End) -> _End:
    """Return the end of the running step of a workflow that is stopped.

    `end` is the end of the workflow. The step gets the same phase, and `end.node` as its message.
    """
    return _End(end.phase, end.node, end.node)


def _deadline(view: ObjectView) -> datetime | None:
    started, seconds = time_or_none(view.status.get("startedAt")), view.spec.get("activeDeadlineSeconds")
    return None if started is None or seconds is None else started + timedelta(seconds=seconds)


def _step_end(view: ObjectView, memory: _Memory) -> _End | None:
    """Return the phase and message with which the running step has ended, or None while the step runs."""
    record, index = memory.records[-1], len(memory.records) - 1
    if record.step.suspend:
        node = written_nodes(view.live or {}).get(node_id(view.ref.name, index, len(memory.steps))) or {}
        if node.get("phase", "Running") != "Running":
            return _End(str(node["phase"]), str(node.get("message", "")))
    if memory.until is None or view.now < memory.until:
        return None
    ending = record.step.ending
    phase = _PHASES.get(ending, "Failed")
    usual = {"Failed": "main: Error (exit code 1)", "Error": "pod deleted"}.get(phase, "")
    return _End(phase, record.step.message or usual)


def _close(view: ObjectView, memory: _Memory, end: _End) -> _Memory:
    done = attrs.evolve(
        memory.records[-1], finished=view.now, phase=end.phase, message=end.message, stopped=bool(end.node)
    )
    return attrs.evolve(memory, records=(*memory.records[:-1], done), until=None)


def _open(view: ObjectView, memory: _Memory) -> _Memory:
    step = memory.steps[len(memory.records)]
    seconds = step.seconds if step.seconds is not None else view.behaviour.workflow.step_seconds
    endless = step.ending is Ending.STALL or (step.suspend and step.seconds is None)
    records = (*memory.records, StepRecord(step, view.now))
    return attrs.evolve(memory, records=records, until=None if endless else view.at(seconds))


def _write(view: ObjectView, memory: _Memory | None, end: _End | None) -> PassStep[PassResult]:
    phase = end.phase if end is not None else "Running"
    records: Sequence[StepRecord] = memory.records if memory is not None else ()
    count = len(memory.steps) if memory is not None else 1
    status = {key: value for key, value in view.status.items() if key not in ("nodes", "compressedNodes", "message")}
    status |= {"phase": phase, "startedAt": view.status.get("startedAt", view.timestamp())}
    nodes = nodes_of(view.ref.name, records, count, phase)
    if nodes:
        # Argo compresses the nodes of large workflows; readers must use `status.outputs` then (downstream-status, 7.2).
        packed = view.behaviour.workflow.compresses_nodes
        status |= {"compressedNodes": compressed(nodes)} if packed else {"nodes": nodes}
    done = sum(1 for record in records if record.phase == "Succeeded")
    status["progress"] = f"{done}/{len(records)}"
    status["conditions"] = _conditions(records, end)
    if end is not None:
        status["finishedAt"] = view.timestamp()
        if end.message:
            status["message"] = end.message
        if memory is not None and end.phase == "Succeeded" and memory.attempt.outcome.outputs:
            given = memory.attempt.outcome.outputs.items()
            status["outputs"] = {"parameters": [{"name": name, "value": value} for name, value in given]}
    yield from change(view, _object(view, phase, status))
    if end is not None:
        yield _end_event(view, end)
        return NOTHING
    assert memory is not None
    deadline = _deadline(view) if view.status.get("startedAt") else None
    return PassResult(memory=memory, requeue_at=earliest(memory.until, deadline))


def _conditions(records: Sequence[StepRecord], end: _End | None) -> list[dict[str, str]]:
    running = bool(records) and records[-1].finished is None and not records[-1].step.suspend
    conditions = [{"type": "PodRunning", "status": "True" if running else "False"}]
    return [*conditions, {"type": "Completed", "status": "True"}] if end is not None else conditions


def _end_event(view: ObjectView, end: _End) -> PostEvent:
    """Return the Event that Argo posts about the workflow's end. The Event remains when the workflow is deleted."""
    good = end.phase == "Succeeded"
    reason, text = ("WorkflowSucceeded", "Workflow completed") if good else ("WorkflowFailed", end.message)
    return PostEvent(view.ref, view.uid, "Normal" if good else "Warning", reason, text, view.timestamp())


def _object(view: ObjectView, phase: str, status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch that writes `status` into a workflow, and sets the labels by which Argo marks the phase."""
    meta = metadata(view.live or {})
    # Labels and status are one write, as the kind has no status subresource (workflow/controller/operator.go,
    # markWorkflowPhase).
    marks = {_PHASE: phase, _COMPLETED: "true" if phase in _FINAL else "false"}
    return {"metadata": {**meta, "labels": {**(meta.get("labels") or {}), **marks}}, "status": dict(status)}


WORKFLOW_CONTROLLER: Final = DownstreamController(
    "workflow-controller", (WORKFLOW,), _reconcile, watches=(SERVICE_ACCOUNT,)
)
"""Argo's workflow controller; its name is the field manager of its writes."""
