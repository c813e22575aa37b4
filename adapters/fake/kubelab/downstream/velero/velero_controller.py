"""The simulated Velero as one controller of backups, restores, requests to delete a backup, and storage locations."""

from datetime import timedelta
from typing import Any, Final

from kubelab.downstream.behaviour import Ending
from kubelab.downstream.controller import (
    NOTHING,
    DownstreamController,
    ObjectView,
    PassResult,
    WipeMemories,
    change,
    uid_of,
    waiting_for,
)
from kubelab.downstream.kinds import BACKUP_STORAGE_LOCATION, DELETE_BACKUP_REQUEST
from kubelab.downstream.velero.velero_backup import reconcile_backup
from kubelab.downstream.velero.velero_restore import reconcile_restore
from kubelab.downstream.velero.velero_run import FINAL_PHASES, restarted
from kubelab.simulation.effects import PassStep, SimulatedDelete, SimulatedPatch
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import VELERO_BACKUP, VELERO_RESTORE
from purekube.apimachinery.timestamps import time_or_none

# Velero's default (pkg/cmd/server/config/config.go, defaultStoreValidationFrequency). Without a status subresource
# each validation increments the generation.
_VALIDATION_SECONDS: Final = 60.0


def _reconcile(view: ObjectView) -> PassStep[PassResult]:
    if view.ref.kind == VELERO_BACKUP:
        return (yield from reconcile_backup(view))
    if view.ref.kind == VELERO_RESTORE:
        return (yield from reconcile_restore(view))
    if view.live is None or view.ref.namespace != view.behaviour.velero.namespace:
        return NOTHING
    if view.ref.kind == DELETE_BACKUP_REQUEST:
        return (yield from _reconcile_request(view))
    return (yield from _reconcile_location(view))


def _reconcile_request(view: ObjectView) -> PassStep[PassResult]:
    """Handle a request to delete a backup, the only way to delete its data. A backup in progress is not stopped."""
    name = str(view.spec.get("backupName", ""))
    ref = ObjectRef(VELERO_BACKUP, view.ref.namespace, name)
    backup, phase = view.world.get(ref), view.status.get("phase", "")
    if phase == "Processed":
        return NOTHING
    if backup is None:
        return (yield from _processed(view, "backup not found"))
    if phase == "InProgress":
        # The data goes with the Backup only here: deleting the object alone leaves the data, and the next sync
        # re-creates the object.
        yield SimulatedDelete(ref, uid_of(backup))
        yield WipeMemories(ref)
        yield SimulatedDelete(view.ref, view.uid)
        return NOTHING
    # pkg/controller/backup_deletion_controller.go: the request is answered, not retried; a client must ask again.
    if get_path(backup, "status", "phase") not in (*FINAL_PHASES, "Deleting"):
        return (yield from _processed(view, "backup is still in progress"))
    yield from change(view, {"status": {**view.status, "phase": "InProgress"}})
    yield SimulatedPatch(ref, uid_of(backup), {"status": {"phase": "Deleting"}})
    return PassResult(requeue_at=view.at(1.0))


def _processed(view: ObjectView, error: str) -> PassStep[PassResult]:
    yield from change(view, {"status": {**view.status, "phase": "Processed", "errors": [error]}})
    return NOTHING


def _reconcile_location(view: ObjectView) -> PassStep[PassResult]:
    """Validate a storage location once a minute, and write the result into its status."""
    last = time_or_none(view.status.get("lastValidationTime"))
    rule = view.behaviour.choose(view.ref, ())
    broken = rule is not None and rule.outcome.ending is not Ending.SUCCEED
    phase = "Unavailable" if broken else "Available"
    following = None if last is None else last + timedelta(seconds=_VALIDATION_SECONDS)
    if following is not None and view.now < following and view.status.get("phase") == phase:
        return PassResult(requeue_at=following, interval=True)
    status: dict[str, Any] = {key: value for key, value in view.status.items() if key != "message"}
    status |= {"phase": phase, "lastValidationTime": view.timestamp()}
    if broken and rule is not None:
        status["message"] = rule.outcome.message or "rpc error: the bucket cannot be listed"
    yield from change(view, {"status": status})
    return PassResult(requeue_at=view.at(_VALIDATION_SECONDS), interval=True)


def _waits(manifest: Manifest, _: ObjectRef) -> bool:
    """Report whether a Backup is queued, or a DeleteBackupRequest in progress: each may wait for another Backup."""
    phase = get_path(manifest, "status", "phase")
    if manifest.get("kind") == DELETE_BACKUP_REQUEST.kind:
        return bool(phase == "InProgress")
    return phase in ("Queued", "ReadyToStart", "New", "", None)


VELERO: Final = DownstreamController(
    "velero-server",
    (VELERO_BACKUP, VELERO_RESTORE, DELETE_BACKUP_REQUEST, BACKUP_STORAGE_LOCATION),
    _reconcile,
    wakes=waiting_for((VELERO_BACKUP,), (VELERO_BACKUP, DELETE_BACKUP_REQUEST), _waits),
    restarted=restarted,
)
"""Velero; its name is the field manager of its writes."""
