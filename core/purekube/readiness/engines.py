"""The readiness of engine objects of Operations: Velero, Argo, VolSync. An unknown phase counts as progress."""

from collections.abc import Mapping
from typing import Final

from purekube.apimachinery.manifest import Manifest
from purekube.readiness.fields import Conditions, mapping, text
from purekube.readiness.result import Readiness, failed, progressing, ready

_VELERO_FAILED: Final = frozenset(("Failed", "FailedValidation"))


def _failure_message(status: Mapping[str, object], otherwise: str) -> str:
    problems = status.get("validationErrors")
    first = problems[0] if isinstance(problems, list) and problems and isinstance(problems[0], str) else ""
    return text(status, "failureReason") or text(status, "message") or first[:1_024] or otherwise


def _phased(manifest: Manifest, done: frozenset[str], bad: frozenset[str], what: str) -> Readiness:
    status = mapping(manifest, "status")
    phase = text(status, "phase")
    if phase in done:
        return ready(phase)
    if phase in bad:
        return failed(phase, _failure_message(status, f"the {what} has failed"))
    return progressing(phase or "Pending", f"the {what} is {phase or 'not begun'}")


def velero_backup(manifest: Manifest) -> Readiness:
    """Judge a Velero Backup: a partial backup is usable, so it is ready."""
    return _phased(manifest, frozenset(("Completed", "PartiallyFailed")), _VELERO_FAILED, "backup")


def velero_restore(manifest: Manifest) -> Readiness:
    """Judge a Velero Restore: a partial restore is a failure."""
    return _phased(manifest, frozenset(("Completed",)), _VELERO_FAILED | {"PartiallyFailed"}, "restore")


def backup_storage_location(manifest: Manifest) -> Readiness:
    """Judge a storage location: ready while Available; Velero checks an unavailable one again."""
    return _phased(manifest, frozenset(("Available",)), frozenset(), "storage location")


def workflow(manifest: Manifest) -> Readiness:
    """Judge an Argo Workflow: ready if Succeeded. `Error` is Argo's own failure, `Failed` that of a step."""
    return _phased(manifest, frozenset(("Succeeded",)), frozenset(("Failed", "Error")), "workflow")


def replication(manifest: Manifest) -> Readiness:
    """Judge a VolSync object: ready once its manual trigger, or a scheduled sync, has succeeded. It never fails."""
    spec, status = mapping(manifest, "spec"), mapping(manifest, "status")
    manual = text(mapping(spec, "trigger"), "manual")
    result = text(mapping(status, "latestMoverStatus"), "result")
    # VolSync deletes and recreates the Job of a failing mover while Synchronizing stays True.
    if result == "Failed":
        return progressing("MoverFailed", "the last sync has failed; VolSync tries again")
    done = text(status, "lastManualSync") == manual if manual else bool(text(status, "lastSyncTime"))
    if done and result == "Successful":
        return ready("Synchronized")
    conditions = Conditions.of(manifest)
    return progressing(
        conditions.reason("Synchronizing") or "SyncPending",
        conditions.message_or_reason("Synchronizing", "no sync has ended yet"),
    )
