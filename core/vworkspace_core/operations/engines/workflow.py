"""The engine `workflow`: it runs an Argo Workflow from a WorkflowTemplate that the platform provides (OPS-8)."""

from collections.abc import Mapping
from typing import Any, Final

from purekube.apimachinery.manifest import Manifest, ObjectRef, canonical_json, get_path
from purekube.apimachinery.resources import WORKFLOW
from purekube.apimachinery.secret_material import redact
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.operation import LogsRef, Operation, OperationType
from vworkspace_core.api.reasons import OperationReason
from vworkspace_core.api.remedies import resume_command
from vworkspace_core.operations.contract import (
    DemoOperation,
    Engine,
    EngineContext,
    EngineController,
    EngineObject,
    EngineStatus,
    EngineTemplate,
    Listing,
    Objects,
    Progress,
    Row,
    always,
    phase_row,
    row_of,
)
from vworkspace_core.operations.engines.job_pods import EVENTS_ACCESS, end_from_events, listings
from vworkspace_core.operations.identity import engine_manifest, own_object, parameters_of, seconds_beyond_deadline
from vworkspace_core.operations.parameter_schemas import ARGUMENT, ARGUMENT_NAME, NAME, mapped, record, with_description
from vworkspace_core.operations.settings import RUNNER

_RUNNING, _SUCCEEDED, _FAILED = Progress.RUNNING, Progress.SUCCEEDED, Progress.FAILED
_TIMEOUT: Final = 4 * 3600
_ENDS: Final = {
    "WorkflowSucceeded": (_SUCCEEDED, "WorkflowSucceeded"),
    "WorkflowFailed": (_FAILED, "WorkflowFailed"),
    "WorkflowTimedOut": (_FAILED, "WorkflowFailed"),
}
"""The reasons of the Events that Argo posts when a Workflow ends, each with whether that end is a success."""
_MOST_OUTPUTS: Final = 32
_LONGEST_OUTPUT: Final = 1024

TABLE: Final = (
    phase_row("", _RUNNING, "WorkflowPending", "not yet seen by Argo"),
    phase_row("Pending", _RUNNING, "WorkflowPending"),
    phase_row("Running", _RUNNING, "WorkflowInProgress"),
    Row(
        "Running, suspended",
        _RUNNING,
        "WorkflowInProgress",
        "somebody has to resume it: Blocked=True/AwaitingResume",
        {"spec": {"suspend": True}, "status": {"phase": "Running"}},
    ),
    phase_row(
        "Succeeded", _SUCCEEDED, "WorkflowSucceeded", "", {"outputs": {"parameters": [{"name": "rows", "value": "42"}]}}
    ),
    phase_row(
        "Failed",
        _FAILED,
        "WorkflowFailed",
        "a step of it failed",
        {"nodes": {"a": {"type": "Pod", "phase": "Failed", "displayName": "migrate", "message": "exit code 3"}}},
    ),
    phase_row("Error", _FAILED, "WorkflowError", "Argo itself could not run it", {"message": "no such template"}),
)


def _desired(operation: Operation, target: ApplicationInstance, context: EngineContext) -> tuple[EngineObject, ...]:
    parameters = parameters_of(operation)
    # The operator sets the run's target: a parameter of the same name cannot replace it.
    arguments = {
        **parameters.get("workflowTemplateParameters", {}),
        "targetName": target.metadata.name,
        "targetNamespace": target.metadata.namespace,
    }
    deadline = operation.spec.timeout_seconds or context.settings.timeout_seconds.get("workflow", _TIMEOUT)
    manifest = engine_manifest(WORKFLOW, operation, target, context)
    manifest["spec"] = {
        "workflowTemplateRef": {"name": parameters["workflowTemplate"]},
        "arguments": {"parameters": [{"name": name, "value": _text(value)} for name, value in arguments.items()]},
        "serviceAccountName": RUNNER,
        # Argo counts it from startedAt, suspended time included, so a Workflow that is never resumed ends too.
        "activeDeadlineSeconds": deadline,
    }
    return (EngineObject(WORKFLOW, manifest),)


def _text(value: Any) -> str:
    """Return a parameter's value as text, as Argo requires. Numbers and booleans are written as in JSON."""
    return value if isinstance(value, str) else canonical_json(value).decode()


def _observe(operation: Operation, objects: Objects) -> EngineStatus:
    engine_object = own_object(operation, objects)
    if engine_object is None:
        return EngineStatus(_RUNNING, "WorkflowMissing")
    ref, live = engine_object
    status = live.get("status") or {}
    row = row_of(TABLE, status.get("phase") or "", unknown="Running")
    suspended = _suspended(ref, live) if row.progress is _RUNNING else ""
    return EngineStatus(
        row.progress,
        row.reason,
        suspended or _message(row, status),
        {"workflowName": ref.name, **(_outputs(status) if row.progress is not _RUNNING else {})},
        LogsRef(WORKFLOW.kind, ref.name, ref.namespace or ""),
        blocked=OperationReason.AWAITING_RESUME if suspended else None,
    )


def _nodes(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the readable nodes (steps) in the status of an Argo Workflow.

    There are none for a large Workflow, whose nodes are compressed or stored elsewhere.
    """
    nodes = status.get("nodes")
    return [node for node in nodes.values() if isinstance(node, Mapping)] if isinstance(nodes, Mapping) else []


def _suspended(ref: ObjectRef, live: Manifest) -> str:
    """Return a message that the Workflow or one of its steps waits to be resumed, and how to resume it.

    The message is empty if nothing waits.
    """
    if get_path(live, "spec", "suspend") is True:
        return f"the Workflow is suspended. To fix: {resume_command(ref)}"
    if any(
        node.get("type") == "Suspend" and node.get("phase") == "Running" for node in _nodes(live.get("status") or {})
    ):
        return f"a step of {ref} waits to be resumed with Argo: in its UI, or with `argo resume {ref.name}`"
    return ""


def _message(row: Row, status: Mapping[str, Any]) -> str:
    """Return the message for a Workflow whose phase has the row `row`.

    For a failed Workflow, that is the message of the first node (step) whose failure was not caused by another one: a
    failing step makes the steps around it fail too. A failed try is left out if a later try succeeded.
    """
    if row.progress is not _FAILED:
        return row.meaning if row.phase != "Running" else ""
    nodes = _nodes(status)
    good = [node for node in nodes if (node.get("type"), node.get("phase")) == ("Retry", "Succeeded")]
    retried = [child for node in good if isinstance(children := node.get("children"), list) for child in children]
    failed = [
        node
        for node in nodes
        if node.get("phase") in ("Failed", "Error") and node.get("message") and node.get("id") not in retried
    ]
    leaves = [node for node in failed if node.get("type") in ("Pod", "Container", "HTTP", "Plugin", "Suspend")]
    order = sorted(leaves or failed, key=lambda node: (str(node.get("finishedAt") or "~"), _title(node)))
    if order:
        return f"{_title(order[0])}: {order[0]['message']}"
    return str(status.get("message") or row.meaning)


def _title(node: Mapping[str, Any]) -> str:
    return str(node.get("displayName") or node.get("name"))


def _outputs(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Workflow's output parameters, with secrets redacted and long strings cut."""
    parameters = get_path(status, "outputs", "parameters") or ()
    outputs = {
        str(get_path(parameter, "name")): str(get_path(parameter, "value"))[:_LONGEST_OUTPUT]
        for parameter in parameters
        if get_path(parameter, "value") is not None
    }
    return {"parameters": redact(dict(list(outputs.items())[:_MOST_OUTPUTS]))} if outputs else {}


def _diagnostics(operation: Operation, objects: Objects) -> tuple[Listing, ...]:
    """Return the request to list the Events of a Workflow that was removed before its end was seen.

    The result is empty for any other Workflow.
    """
    known = operation.status.engine_ref
    if known is None or not known.uid or own_object(operation, objects) is not None:
        return ()
    return listings(known.namespace, known.uid, pods=False)


_WORKFLOW: Final = record(
    ("workflowTemplate",),
    workflowTemplate=with_description("The WorkflowTemplate in the Operation's namespace that is run.", NAME),
    workflowTemplateParameters=with_description(
        "Arguments of the workflow; `targetName` and `targetNamespace` are added, and win.",
        mapped(ARGUMENT_NAME, ARGUMENT),
    ),
)

ENGINE: Final = Engine(
    name="workflow",
    kinds=always(WORKFLOW),
    desired=_desired,
    observe=_observe,
    tables={"Workflow": TABLE},
    timeout_seconds=_TIMEOUT,
    # Argo then runs the exit handlers of the Workflow, and keeps it with its logs.
    needs_seconds=seconds_beyond_deadline,
    diagnostics=_diagnostics,
    final_status=lambda operation, objects: end_from_events(operation, objects, _ENDS),
    templates=(
        EngineTemplate(
            OperationType.MIGRATION,
            _WORKFLOW,
            example={"workflowTemplate": "move-storage", "workflowTemplateParameters": {"bucket": "new"}},
            refused=({"workflowTemplateParameters": {"bucket": "{{workflow.uid}}"}},),
            needs_ready_target=True,
        ),
        EngineTemplate(
            OperationType.RUNBOOK,
            _WORKFLOW,
            example={"workflowTemplate": "clear-caches"},
            refused=({"workflowTemplate": "a; b"},),
            needs_ready_target=True,
        ),
    ),
    controller=EngineController(
        "workflow-controller", (WORKFLOW,), "Argo Workflows (https://argo-workflows.readthedocs.io)"
    ),
    tenant_access=(EVENTS_ACCESS,),
    demo=DemoOperation("checkup", OperationType.RUNBOOK, {"workflowTemplate": "nextcloud-checkup"}),
)
