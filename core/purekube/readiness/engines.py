"""Readiness rules for the kinds of Flux, Velero, Argo and VolSync. An unknown phase counts as progressing."""

from collections.abc import Mapping
from typing import Final

from purekube.apimachinery.manifest import Manifest
from purekube.readiness.result import Conditions, Readiness, failed, mapping, number, progressing, ready, text

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
    """Return the readiness of a Velero Backup. It is ready if completed, even partially: a partial backup is usable."""
    return _phased(manifest, frozenset(("Completed", "PartiallyFailed")), _VELERO_FAILED, "backup")


def velero_restore(manifest: Manifest) -> Readiness:
    """Return the readiness of a Velero Restore. It is ready if completed; a partial restore counts as failed."""
    return _phased(manifest, frozenset(("Completed",)), _VELERO_FAILED | {"PartiallyFailed"}, "restore")


def backup_storage_location(manifest: Manifest) -> Readiness:
    """Return the readiness of a BackupStorageLocation. It is ready while Available, and progressing otherwise."""
    return _phased(manifest, frozenset(("Available",)), frozenset(), "storage location")


def workflow(manifest: Manifest) -> Readiness:
    """Return the readiness of an Argo Workflow.

    It is ready in the phase `Succeeded`, and failed in the phases `Failed` and `Error`.
    """
    return _phased(manifest, frozenset(("Succeeded",)), frozenset(("Failed", "Error")), "workflow")


def replication(manifest: Manifest) -> Readiness:
    """Return the readiness of a VolSync object. It is ready once its manual trigger or a scheduled sync has succeeded.

    After a failed sync the object is progressing, not failed, since VolSync tries again.
    """
    spec, status = mapping(manifest, "spec"), mapping(manifest, "status")
    manual = text(mapping(spec, "trigger"), "manual")
    result = text(mapping(status, "latestMoverStatus"), "result")
    # VolSync deletes and recreates the Job of a failing mover while Synchronizing stays True
    # (tests/conformance/engines/sync_mover_fails.json).
    if result == "Failed":
        return progressing("MoverFailed", "the last sync has failed; VolSync tries again")
    done = text(status, "lastManualSync") == manual if manual else bool(text(status, "lastSyncTime"))
    if done and result == "Successful":
        return ready("Synchronized")
    return Conditions.of(manifest).progressing("Synchronizing", "no sync has ended yet", "SyncPending")


def _judged(manifest: Manifest) -> Readiness:
    conditions, generation = Conditions.of(manifest), number(mapping(manifest, "metadata"), "generation")
    if conditions.holds("Stalled"):
        return conditions.failed("Stalled", "Flux has given up")
    observed = conditions.observed("Ready")
    if conditions.holds("Ready") and (observed is None or generation is None or observed >= generation):
        return ready(conditions.reason("Ready") or "Ready")
    otherwise = conditions.message_or_reason("Reconciling", "Flux has not observed it yet")
    return conditions.progressing("Ready", otherwise, conditions.reason("Reconciling") or "Pending")


def _suspended(manifest: Manifest) -> bool:
    return mapping(manifest, "spec").get("suspend") is True


def helm_release(manifest: Manifest) -> Readiness:
    """Return the readiness of a HelmRelease by its condition Ready at the present generation. A suspended HelmRelease
    is not ready, as its controller ignores a new spec and leaves Ready as it was.
    """
    # helm-controller returns early for a suspended object: observedGeneration moves, Ready stays as it was
    # (internal/controller/helmrelease_controller.go, Reconcile; 1.6.1).
    if _suspended(manifest):
        return progressing("Suspended", "the HelmRelease is suspended")
    return _judged(manifest)


def kustomization(manifest: Manifest) -> Readiness:
    """Return the readiness of a Kustomization, by the same rules as for a HelmRelease."""
    if _suspended(manifest):
        return progressing("Suspended", "the Kustomization is suspended")
    return _judged(manifest)


def source(manifest: Manifest) -> Readiness:
    """Return the readiness of a Flux source. It is ready if its condition Ready is True and it has an artifact.

    A suspended source is not ready if its artifact is that of an earlier generation.
    """
    generation = number(mapping(manifest, "metadata"), "generation")
    # source-controller sets Ready and observedGeneration of a suspended source to the new generation too; only a fetch
    # sets this condition (1.9.3: internal/reconcile/summarize/summary.go, SummarizeAndPatch).
    fetched = Conditions.of(manifest).observed("ArtifactInStorage")
    if _suspended(manifest) and fetched is not None and generation is not None and fetched < generation:
        told = f"the {text(manifest, 'kind')} is suspended: what it asks for by now is not fetched"
        return progressing("Suspended", told)
    readiness = _judged(manifest)
    artifact = mapping(manifest, "status", "artifact")
    if readiness.is_ready and not artifact:
        return progressing("NoArtifact", "it has no artifact yet")
    return readiness


def helm_repository(manifest: Manifest) -> Readiness:
    """Return the readiness of a HelmRepository. It follows the rule of a Flux source, except that a repository of type
    `oci` is ready once it exists.
    """
    return ready("Exists") if text(mapping(manifest, "spec"), "type") == "oci" else source(manifest)
