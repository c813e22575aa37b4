"""Rendering of a Decision as JSON-like data: for people, for `plan`, and for comparing decisions byte for byte."""

from typing import Any

from purekube.apimachinery.manifest import ObjectRef
from purekube.controller.decision import Decision
from purekube.controller.requeue import RequeuePace
from purekube.ports import KubernetesEvent


def as_data(decision: Decision) -> dict[str, Any]:
    """Return every effect of `decision` except empty ones; keys are in the order of execution."""
    body: dict[str, Any] = {}
    if decision.dry_runs:
        body["dryRun"] = [{"object": _object(dry_run.ref)} for dry_run in decision.dry_runs]
    if decision.finalizer is not None:
        body["finalizer"] = decision.finalizer.value
    if decision.annotations:
        body["annotations"] = dict(decision.annotations)
    if decision.patches:
        body["patch"] = [{"object": _object(patch.ref), "mergePatch": patch.patch} for patch in decision.patches]
    if decision.applies:
        body["apply"] = [
            {"force": True, "manifest": apply.manifest} if apply.force else {"manifest": apply.manifest}
            for apply in decision.applies
        ]
    if decision.creates:
        body["create"] = [{"manifest": create.manifest} for create in decision.creates]
    if decision.deletes:
        body["delete"] = [{"object": _object(delete.ref), "uid": delete.uid} for delete in decision.deletes]
    if decision.status is not None:
        body["status"] = decision.status["status"]
    if decision.events:
        body["events"] = [_event(event) for event in decision.events]
    if decision.requeue.pace is not RequeuePace.NONE:
        body["requeue"] = decision.requeue.pace.name.lower()
    if decision.requeue.after is not None:
        body["lookAgainAfterSeconds"] = decision.requeue.after
    return body


def _object(ref: ObjectRef) -> dict[str, Any]:
    where = {"namespace": ref.namespace} if ref.namespace else {}
    return {"apiVersion": ref.kind.api_version, "kind": ref.kind.kind, **where, "name": ref.name}


def _event(event: KubernetesEvent) -> dict[str, str]:
    return {"type": event.type, "reason": event.reason, "action": event.action, "note": event.note}
