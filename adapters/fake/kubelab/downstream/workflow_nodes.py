"""The nodes of an Argo workflow, which are its steps and groups of steps, as Argo writes them into its status."""

import base64
import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import attrs

from kubelab.downstream.behaviour import WorkflowStep
from purekube.apimachinery.manifest import Manifest, canonical_json, get_path
from purekube.apimachinery.timestamps import format_time

_FAILURES: Final = ("Failed", "Error")


@attrs.frozen
class StepRecord:
    """A workflow step that has begun. `finished` is None while the step runs; a `stopped` step has no exit code."""

    step: WorkflowStep
    started: datetime
    finished: datetime | None = None
    phase: str = "Running"
    message: str = ""
    stopped: bool = False


def node_id(workflow: str, index: int, count: int) -> str:
    """Return the id of the node for the step at `index`, in a workflow with `count` steps.

    A workflow with only one step has a single node, named like the workflow.
    """
    if count == 1:
        return workflow
    # Argo uses FNV-1a of the node's name (workflow_types.go, NodeID), which no client may rely on.
    return f"{workflow}-{zlib.crc32(f'{workflow}[{index}]'.encode())}"


def nodes_of(workflow: str, records: Sequence[StepRecord], count: int, phase: str) -> dict[str, Any]:
    """Return the nodes in the status of a Workflow with the name `workflow` and the phase `phase`, by id.

    The workflow has `count` steps, and `records` are those that have begun. Without any, the result is empty.
    """
    if count == 1:
        return {workflow: _leaf(workflow, workflow, workflow, records[0])} if records else {}
    nodes: dict[str, Any] = {}
    for index, record in enumerate(records):
        id_, group = node_id(workflow, index, count), f"{workflow}[{index}]"
        leaf = _leaf(id_, f"{group}.{record.step.name}", record.step.name, record)
        nodes[id_] = {**leaf, "boundaryID": workflow}
        gid = f"{workflow}-{zlib.crc32(group.encode()) ^ 1}"
        nodes[gid] = {
            **_group(gid, group, f"[{index}]", "StepGroup", record),
            "boundaryID": workflow,
            "children": [id_],
        }
    if records:
        nodes[workflow] = _root(workflow, records, count, phase)
    return nodes


def _leaf(id_: str, name: str, display: str, record: StepRecord) -> dict[str, Any]:
    kind = "Suspend" if record.step.suspend else "Pod"
    node = {**_group(id_, name, display, kind, record), "templateName": record.step.name}
    if record.message:
        node["message"] = record.message
    if kind == "Pod":
        node["progress"] = "1/1" if record.phase == "Succeeded" else "0/1"
        if record.phase in ("Succeeded", "Failed") and not record.stopped:
            node["outputs"] = {"exitCode": "0" if record.phase == "Succeeded" else "1"}
    return node


def _group(id_: str, name: str, display: str, kind: str, record: StepRecord) -> dict[str, Any]:
    node = {
        "id": id_,
        "name": name,
        "displayName": display,
        "type": kind,
        "phase": record.phase,
        "startedAt": format_time(record.started),
    }
    if record.finished is not None:
        node["finishedAt"] = format_time(record.finished)
    return node


def _root(workflow: str, records: Sequence[StepRecord], count: int, phase: str) -> dict[str, Any]:
    last = records[-1]
    whole = attrs.evolve(records[0], finished=last.finished if phase != "Running" else None, phase=phase)
    node = {**_group(workflow, workflow, workflow, "Steps", whole), "templateName": "main"}
    if last.phase in _FAILURES:
        node["message"] = f"child '{node_id(workflow, len(records) - 1, count)}' failed"
    return {**node, "children": [f"{workflow}-{zlib.crc32(f'{workflow}[0]'.encode()) ^ 1}"]}


def compressed(nodes: Mapping[str, Any]) -> str:
    """Return the nodes as the compressed text that large workflows have in `status.compressedNodes`."""
    return base64.b64encode(gzip.compress(canonical_json(nodes), mtime=0)).decode()


def written_nodes(workflow: Manifest) -> Mapping[str, Any]:
    """Return the nodes in a Workflow's status by their ids, even if the status has them compressed."""
    packed = get_path(workflow, "status", "compressedNodes")
    if isinstance(packed, str):
        nodes = json.loads(gzip.decompress(base64.b64decode(packed)))
    else:
        nodes = get_path(workflow, "status", "nodes")
    return nodes if isinstance(nodes, Mapping) else {}
