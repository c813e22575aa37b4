"""What of the states of the engines' objects is compared: the same for real and simulated controllers.

Beside each object's own states stands what the operator says of them, which is what people see. Left out is what
differs from run to run (times, uids, names that are drawn), and what neither the operator nor a person reads.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.resources import (
    CORE_EVENT,
    JOB,
    POD,
    REPLICATION_SOURCE,
    VELERO_BACKUP,
    VOLUME_SNAPSHOT_CONTENT,
    WORKFLOW,
)
from purekube.ports import WatchEventType
from tests.support.engine_stage import EngineStage, verdict
from tests.support.flux_sequence import Sequences, changes
from tests.support.kube_client import Seen
from vworkspace_core.operations.contract import Objects

_LEFT_OUT: Final[Mapping[Kind, tuple[str, ...]]] = {
    JOB: ("uncountedTerminatedPods", "ready", "terminating"),
    REPLICATION_SOURCE: ("lastSyncDuration", "latestMoverStatus"),
    VELERO_BACKUP: ("queuePosition",),
    VOLUME_SNAPSHOT_CONTENT: ("snapshotHandle",),
    WORKFLOW: (
        "artifactGCStatus",
        "artifactRepositoryRef",
        "estimatedDuration",
        "resourcesDuration",
        "storedTemplates",
        "storedWorkflowTemplateSpec",
        "taskResultsCompletionStatus",
    ),
}
"""Bookkeeping of a controller, a driver's own names, and counts that depend on a pod's speed or on other stages."""
_OF_CONTENT: Final = ("deletionPolicy", "driver", "volumeSnapshotClassName")
_POD_RUNNING: Final = "PodRunning"
_OF_NODES: Final = re.compile(r"WorkflowNode\w+|WorkflowRunning")
"""Events of Argo that say nothing of the end. Of other kinds than Job and Workflow the operator reads no Events."""
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z|\b1[0-9]{18}\b")
_DURATION: Final = re.compile(r"\b\d+(?:\.\d+)?s\b")
_CONFLICT: Final = "the object has been modified"
"""VolSync says so of a conflict with the Job controller, and goes on: whether it meets one is chance."""
_NODE_ID: Final = re.compile(r"(<object>)-\d{6,10}\b")


def sequences_of(stage: EngineStage) -> Sequences:
    """Return the states of every object of a stage: the first whole, of the others what changed, None for what went.

    `Operation` has what the operator says in the end of each of them, `Event` the Events on the engine's object.
    """
    sequences: Sequences = {}
    known: dict[str, list[dict[str, Any]]] = {}
    objects: dict[ObjectRef, Manifest] = {}
    for kind, event in _in_order(stage):
        ref, gone = ref_of(event.object, kind), event.type is WatchEventType.DELETED
        if gone:
            del objects[ref]
        else:
            objects[ref] = event.object
        if kind in (stage.ref.kind, VOLUME_SNAPSHOT_CONTENT):
            _add(sequences, known, f"{kind.kind}/{_named(ref.name, stage)}", _state(kind, event.object, gone, stage))
        if stage.ref in objects or "Operation" in known:
            _add_said(sequences, known, stage, objects)
    return {**sequences, "Event": [{"said": line} for line in sorted(set(_events(stage)))]}


def _in_order(stage: EngineStage) -> Iterator[Seen]:
    """Yield what was seen; pods after the Job's first status, whichever controller was faster."""
    held: list[Seen] = []
    begun = False
    for kind, event in stage.seen():
        if event.type is WatchEventType.BOOKMARK:
            continue
        begun = begun or (bool(event.object.get("status")) and ref_of(event.object, kind) == stage.ref)
        if kind == POD and not begun:
            held.append((kind, event))
            continue
        yield kind, event
        if begun:
            yield from held
            held = []


def _add_said(sequences: Sequences, known: dict[str, list[Any]], stage: EngineStage, objects: Objects) -> None:
    """Add what the operator says as long as it looks: until the end, or until the object is gone if it missed that."""
    has_ended = any(state.get("phase", "Running") != "Running" for state in known.get("Operation", ()))
    if not has_ended or stage.ref not in objects:
        _add(sequences, known, "Operation", _said(stage, objects))


def _add(sequences: Sequences, known: dict[str, list[dict[str, Any]]], key: str, state: dict[str, Any]) -> None:
    """Add a state to a sequence unless the object was in it before: how often is not compared."""
    states = known.setdefault(key, [{}])
    if state in states or _CONFLICT in str(state):
        return
    sequences.setdefault(key, []).append(changes(states[-1], state))
    states.append(state)


def _state(kind: Kind, manifest: Manifest, gone: bool, stage: EngineStage) -> dict[str, Any]:
    if gone:
        return {"gone": True}
    meta, status = manifest["metadata"], manifest.get("status") or {}
    state: dict[str, Any] = {"finalizers": sorted(meta["finalizers"])} if meta.get("finalizers") else {}
    if meta.get("deletionTimestamp"):
        state["deleting"] = True
    shown = {field: value for field, value in status.items() if field not in _LEFT_OUT.get(kind, ())}
    if kind == VOLUME_SNAPSHOT_CONTENT:
        shown |= {field: manifest["spec"][field] for field in _OF_CONTENT}
    if "nodes" in shown:
        shown["nodes"] = sorted(map(_node, shown["nodes"].values()))
    if isinstance(shown.get("conditions"), list | tuple):
        listed = sorted(_condition(item) for item in shown.pop("conditions") if item["type"] != _POD_RUNNING)
        shown |= {"conditions": listed} if listed else {}
    return state | {field: _replaced(value, stage) for field, value in shown.items()}


def _condition(item: Mapping[str, Any]) -> str:
    return f"{item['type']}={item['status']}/{item.get('reason', '')}: {item.get('message', '')}"


def _node(item: Mapping[str, Any]) -> str:
    """Return a node in one line; whether its pod is seen pending, and then running, depends on how fast it is."""
    phase = "Running" if item["phase"] == "Pending" else item["phase"]
    outputs = f" exit code {item['outputs']['exitCode']}" if get_path(item, "outputs", "exitCode") else ""
    return f"{item['type']} {item['displayName']} {phase}{outputs}: {item.get('message', '')}"


def _said(stage: EngineStage, objects: Objects) -> dict[str, Any]:
    """Return what the operator says, in the words of the Operation's status."""
    said = verdict(stage.operation, objects)
    told = {"phase": said.phase.value, "reason": said.reason, "message": said.message, "outputs": dict(said.outputs)}
    if said.blocked is not None:
        told["blocked"] = str(said.blocked)
    return {key: _replaced(value, stage) for key, value in told.items()}


def _events(stage: EngineStage) -> Iterator[str]:
    uid = stage.operation.status.engine_ref.uid if stage.operation.status.engine_ref else ""
    for kind, event in stage.seen():
        if kind == CORE_EVENT and get_path(event.object, "involvedObject", "uid") == uid:
            found = event.object
            if _OF_NODES.fullmatch(found["reason"]) or stage.ref.kind not in (JOB, WORKFLOW):
                continue
            yield _named(f"{found['type']} {found['reason']}: {found['message']}", stage)


def _replaced(value: Any, stage: EngineStage) -> Any:
    if isinstance(value, str | int) and not isinstance(value, bool):
        text = _named(str(value), stage)
        return text if text != str(value) else value
    if isinstance(value, list | tuple):
        return [_replaced(item, stage) for item in value]
    return {key: _replaced(item, stage) for key, item in value.items()} if isinstance(value, Mapping) else value


def _named(text: str, stage: EngineStage) -> str:
    """Return the text with what is drawn in each run replaced by what it stands for."""
    uid = stage.operation.status.engine_ref.uid if stage.operation.status.engine_ref else "?"
    name = stage.ref.name
    text = re.sub(rf"{name}-[a-z0-9]{{5}}\b", "<pod>", text)
    drawn = ((name, "<object>"), (uid, "<uid>"), (stage.uid, "<operation>"), (stage.namespace, "<namespace>"))
    for actual, meaning in drawn:
        text = text.replace(actual, meaning)
    return _DURATION.sub("<duration>", _NODE_ID.sub(r"<node>", _TIME.sub("<time>", text)))
