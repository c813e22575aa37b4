"""Argo's workflow controller (facts 7.2): phases, nodes, suspension, deadlines, removal by `ttlStrategy`.

The kind has no status subresource: what is written here moves the generation.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import attrs

from vworkspace_core.apimachinery.manifest import dig, metadata
from vworkspace_core.apimachinery.resources import WORKFLOW
from vworkspace_fake.downstream.accounts import account_refusal
from vworkspace_fake.downstream.attempts import Attempt, begin
from vworkspace_fake.downstream.behaviour import Ending, Outcome, Rule, WorkflowStep
from vworkspace_fake.downstream.kinds import SERVICE_ACCOUNT
from vworkspace_fake.downstream.turns import NOTHING, Controller, Look, Turn, change, earliest, moment_of
from vworkspace_fake.downstream.workflow_nodes import StepRecord, compressed, node_id, nodes_of, written_nodes
from vworkspace_fake.simulation.effects import DeleteObject, PostEvent

_COMPLETED: Final = "workflows.argoproj.io/completed"
_PHASE: Final = "workflows.argoproj.io/phase"
_FINAL: Final = ("Succeeded", "Failed", "Error")
_PHASES: Final = {Ending.SUCCEED: "Succeeded", Ending.ERROR: "Error"}


@attrs.frozen
class _Memory:
    """A workflow under way. `until` is the end of the running step; None while it stalls or is suspended."""

    attempt: Attempt
    steps: tuple[WorkflowStep, ...]
    records: tuple[StepRecord, ...] = ()
    until: datetime | None = None
    used: tuple[Rule, ...] = ()


@attrs.frozen
class _End:
    """How a workflow ends."""

    phase: str
    message: str = ""


def _look(look: Look) -> Turn:
    if look.live is None or look.deleting:
        return NOTHING
    phase = look.status.get("phase", "")
    if phase in _FINAL or dig(look.live, "metadata", "labels", _COMPLETED) == "true":
        return _completed(look)
    if not phase and (end := _refused(look)) is not None:
        return _write(look, None, end)
    if phase in ("", "Pending") and look.now < (ready := _ready_at(look)):
        message = "Workflow processing has been postponed because too many workflows are already running"
        return Turn(change(look, _object(look, "Pending", {"phase": "Pending", "message": message})), due=ready)
    return _advance(look, look.memory or _begin(look))


def _completed(look: Look) -> Turn:
    """What is completed is never looked at again, but for its removal."""
    ttl, ended = look.spec.get("ttlStrategy") or {}, moment_of(look.status.get("finishedAt"))
    special = "secondsAfterSuccess" if look.status.get("phase") == "Succeeded" else "secondsAfterFailure"
    seconds = ttl.get(special, ttl.get("secondsAfterCompletion"))
    if seconds is None or ended is None:
        return NOTHING
    due = ended + timedelta(seconds=seconds)
    return Turn((DeleteObject(look.ref, look.uid),)) if look.now >= due else Turn(due=due, regular=True)


def _refused(look: Look) -> _End | None:
    """What Argo finds before anything runs."""
    template = dig(look.spec, "workflowTemplateRef", "name")
    if f"{look.ref.namespace}/{template}" in look.behaviour.workflow.missing_templates:
        return _End("Error", f'workflowtemplates.argoproj.io "{template}" not found')
    names = [item.get("name") for item in look.spec.get("templates") or ()]
    if template is None and look.spec.get("entrypoint") not in names:
        return _End("Failed", f"invalid spec: template name '{look.spec.get('entrypoint', '')}' undefined")
    if refused := account_refusal(look, look.spec.get("serviceAccountName")):
        return _End("Error", refused)
    rule = look.behaviour.choose(look.ref, ())
    if rule is not None and rule.outcome.ending is Ending.INVALID:
        return _End("Failed", f"invalid spec: {rule.outcome.message or 'templates.main.inputs are not satisfied'}")
    return None


def _ready_at(look: Look) -> datetime:
    created = moment_of(metadata(look.live or {}).get("creationTimestamp")) or look.now
    return created + timedelta(seconds=look.behaviour.workflow.pending_seconds)


def _begin(look: Look, used: tuple[Rule, ...] = ()) -> _Memory:
    attempt = begin(look, used, look.behaviour.workflow.step_seconds)
    used = attempt.used_up(used)
    return _Memory(attempt, attempt.outcome.steps or _steps_of(look, attempt.outcome), used=used)


def _steps_of(look: Look, outcome: Outcome) -> tuple[WorkflowStep, ...]:
    """The steps that the workflow spells out itself, in order; one step for everything else."""
    templates = {item.get("name"): item for item in look.spec.get("templates") or ()}
    entry = templates.get(look.spec.get("entrypoint")) or {}
    inner = [step for group in entry.get("steps") or () for step in group]
    named = [(step["name"], templates.get(step.get("template")) or {}) for step in inner] or [("main", entry)]
    found = [WorkflowStep(name, outcome.seconds, "suspend" in template) for name, template in named]
    if outcome.ending is not Ending.SUCCEED:
        found[-1] = attrs.evolve(found[-1], ending=outcome.ending, message=outcome.message)
    return tuple(found)


def _advance(look: Look, memory: _Memory) -> Turn:
    """Steps one after the other, until all are through, one fails, or time or patience is up."""
    memory = _let_go(look, memory)
    while True:
        stopped = _stopped(look)
        if memory.records and memory.records[-1].finished is None:
            ending = stopped or _step_end(look, memory)
            if ending is None:
                return _write(look, memory, None)
            memory = _close(look, memory, ending)
        if stopped is not None:
            return _write(look, memory, stopped)
        last = memory.records[-1] if memory.records else None
        if last is not None and last.phase in ("Failed", "Error"):
            alone = len(memory.steps) == 1
            id_ = node_id(look.ref.name, len(memory.records) - 1, len(memory.steps))
            return _write(look, memory, _End(last.phase, last.message if alone else f"child '{id_}' failed"))
        if len(memory.records) == len(memory.steps):
            return _write(look, memory, _End("Succeeded"))
        if look.spec.get("suspend"):
            return _write(look, memory, None)
        memory = _open(look, memory)


def _let_go(look: Look, memory: _Memory) -> _Memory:
    """A step that stalls by a rule which is gone runs to a good end."""
    running = memory.records[-1] if memory.records else None
    rule = memory.attempt.rule
    if running is None or running.finished is not None or running.step.ending is not Ending.STALL:
        return memory
    if rule is None or rule in look.behaviour.rules:
        return memory
    step = attrs.evolve(running.step, ending=Ending.SUCCEED)
    records = (*memory.records[:-1], attrs.evolve(running, step=step))
    return attrs.evolve(memory, records=records, until=look.at(look.behaviour.workflow.step_seconds))


def _stopped(look: Look) -> _End | None:
    """`spec.shutdown` and `spec.activeDeadlineSeconds` end every node that still runs."""
    shutdown = look.spec.get("shutdown")
    if shutdown:
        return _End("Failed", f"Stopped with strategy '{shutdown}'")
    end = _deadline(look)
    if end is not None and look.now >= end:
        return _End("Failed", "Step exceeded its deadline")
    return None


def _deadline(look: Look) -> datetime | None:
    started, seconds = moment_of(look.status.get("startedAt")), look.spec.get("activeDeadlineSeconds")
    return None if started is None or seconds is None else started + timedelta(seconds=seconds)


def _step_end(look: Look, memory: _Memory) -> _End | None:
    """How the running step has ended; None while it runs."""
    record, index = memory.records[-1], len(memory.records) - 1
    if record.step.suspend:
        node = written_nodes(look.live or {}).get(node_id(look.ref.name, index, len(memory.steps))) or {}
        if node.get("phase", "Running") != "Running":
            return _End(str(node["phase"]), str(node.get("message", "")))
    if memory.until is None or look.now < memory.until:
        return None
    ending = record.step.ending
    phase = _PHASES.get(ending, "Failed")
    usual = {"Failed": "Error (exit code 1)", "Error": "pod deleted"}.get(phase, "")
    return _End(phase, record.step.message or usual)


def _close(look: Look, memory: _Memory, end: _End) -> _Memory:
    done = attrs.evolve(memory.records[-1], finished=look.now, phase=end.phase, message=end.message)
    return attrs.evolve(memory, records=(*memory.records[:-1], done), until=None)


def _open(look: Look, memory: _Memory) -> _Memory:
    step = memory.steps[len(memory.records)]
    seconds = step.seconds if step.seconds is not None else look.behaviour.workflow.step_seconds
    endless = step.ending is Ending.STALL or (step.suspend and step.seconds is None)
    records = (*memory.records, StepRecord(step, look.now))
    return attrs.evolve(memory, records=records, until=None if endless else look.at(seconds))


def _write(look: Look, memory: _Memory | None, end: _End | None) -> Turn:
    phase = end.phase if end is not None else "Running"
    records: Sequence[StepRecord] = memory.records if memory is not None else ()
    count = len(memory.steps) if memory is not None else 1
    status = {key: value for key, value in look.status.items() if key not in ("nodes", "compressedNodes", "message")}
    status |= {"phase": phase, "startedAt": look.status.get("startedAt", look.timestamp())}
    nodes = nodes_of(look.ref.name, records, count, phase)
    if nodes:
        packed = look.behaviour.workflow.compresses_nodes
        status |= {"compressedNodes": compressed(nodes)} if packed else {"nodes": nodes}
    done = sum(1 for record in records if record.phase == "Succeeded")
    status["progress"] = f"{done}/{count}"
    status["conditions"] = _conditions(records, end)
    if end is not None:
        status["finishedAt"] = look.timestamp()
        if end.message:
            status["message"] = end.message
        if memory is not None and end.phase == "Succeeded" and memory.attempt.outcome.outputs:
            given = memory.attempt.outcome.outputs.items()
            status["outputs"] = {"parameters": [{"name": name, "value": value} for name, value in given]}
    effects = change(look, _object(look, phase, status))
    if end is not None:
        return Turn((*effects, _told(look, end)))
    assert memory is not None
    deadline = _deadline(look) if look.status.get("startedAt") else None
    return Turn(effects, memory, earliest(memory.until, deadline))


def _conditions(records: Sequence[StepRecord], end: _End | None) -> list[dict[str, str]]:
    running = bool(records) and records[-1].finished is None and not records[-1].step.suspend
    found = [{"type": "PodRunning", "status": "True" if running else "False"}]
    return [*found, {"type": "Completed", "status": "True"}] if end is not None else found


def _told(look: Look, end: _End) -> PostEvent:
    """Argo says how it ended by an Event, which outlives the workflow."""
    good = end.phase == "Succeeded"
    reason, text = ("WorkflowSucceeded", "Workflow completed") if good else ("WorkflowFailed", end.message)
    return PostEvent(look.ref, look.uid, "Normal" if good else "Warning", reason, text, look.timestamp())


def _object(look: Look, phase: str, status: Mapping[str, Any]) -> dict[str, Any]:
    """Labels and status in one write, as Argo updates the whole object."""
    meta = metadata(look.live or {})
    marks = {_PHASE: phase, _COMPLETED: "true" if phase in _FINAL else "false"}
    return {"metadata": {**meta, "labels": {**(meta.get("labels") or {}), **marks}}, "status": dict(status)}


WORKFLOW_CONTROLLER: Final = Controller("workflow-controller", (WORKFLOW,), _look, watches=(SERVICE_ACCOUNT,))
"""Its name is the field manager of what it writes."""
