"""Bodies of posts about a job: its status and its result (PULL-1). Pure, redacted."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.secret_material import shown
from purekube.apimachinery.timestamps import format_time
from vworkspace_core.jobs.object_status import conditions_of, phase_of, summary_of
from vworkspace_core.jobs.result import JobResult
from vworkspace_core.jobs.state import AppliedRef

_TOLD = ("type", "status", "reason", "message", "lastTransitionTime", "observedGeneration")


def progress(live: Manifest, now: datetime) -> dict[str, Any]:
    """Return the body of `POST jobs/<id>/status` about the object's present state."""
    return {
        "phase": phase_of(live),
        "conditions": [condition_body(condition) for condition in conditions_of(live)],
        "message": summary_of(live),
        "timestamp": format_time(now),
    }


def waiting_body(message: str, now: datetime) -> dict[str, Any]:
    """Return the status of a job that cannot be applied yet."""
    return {"phase": "Pending", "conditions": [], "message": shown(message), "timestamp": format_time(now)}


def condition_body(condition: Mapping[str, Any]) -> dict[str, Any]:
    """Return one condition as it is posted: the standard fields, the message redacted."""
    body = {name: condition[name] for name in _TOLD if name in condition}
    if isinstance(body.get("message"), str):
        body["message"] = shown(body["message"])
    return body


def result_body(result: JobResult, applied: AppliedRef | None, now: datetime) -> dict[str, Any]:
    """Return the body of `POST jobs/<id>/result`."""
    body: dict[str, Any] = {"outcome": result.outcome.value, "timestamp": format_time(now)}
    if result.error:
        body["error"] = result.error
    if applied is not None:
        body["appliedRef"] = _applied_ref(applied)
    return body


def _applied_ref(applied: AppliedRef) -> dict[str, Any]:
    return {
        "apiVersion": applied.ref.kind.api_version,
        "kind": applied.ref.kind.kind,
        "namespace": applied.ref.namespace,
        "name": applied.ref.name,
        "uid": applied.uid,
        "generation": applied.generation,
    }
