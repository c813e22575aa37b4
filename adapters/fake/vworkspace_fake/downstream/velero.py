"""Velero as one controller: backups, restores, requests to delete a backup, storage locations."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, dig
from vworkspace_core.apimachinery.resources import VELERO_BACKUP, VELERO_RESTORE
from vworkspace_fake.downstream.behaviour import Ending
from vworkspace_fake.downstream.kinds import BACKUP_STORAGE_LOCATION, DELETE_BACKUP_REQUEST
from vworkspace_fake.downstream.turns import NOTHING, Controller, Look, Turn, WipeMemories, change, moment_of, uid_of
from vworkspace_fake.downstream.velero_backup import look_at_backup
from vworkspace_fake.downstream.velero_restore import look_at_restore
from vworkspace_fake.downstream.velero_run import FINAL_PHASES, restarted
from vworkspace_fake.simulation.effects import DeleteObject, PatchObject

_VALIDATION_SECONDS: Final = 60.0


def _look(look: Look) -> Turn:
    if look.ref.kind == VELERO_BACKUP:
        return look_at_backup(look)
    if look.ref.kind == VELERO_RESTORE:
        return look_at_restore(look)
    if look.live is None or look.ref.namespace != look.behaviour.velero.namespace:
        return NOTHING
    return _look_at_request(look) if look.ref.kind == DELETE_BACKUP_REQUEST else _look_at_location(look)


def _look_at_request(look: Look) -> Turn:
    """The only way to delete a backup's data. A backup in progress is not stopped for it."""
    name = str(look.spec.get("backupName", ""))
    ref = ObjectRef(VELERO_BACKUP, look.ref.namespace, name)
    backup, phase = look.world.get(ref), look.status.get("phase", "")
    if phase == "Processed":
        return NOTHING
    if backup is None:
        return _processed(look, "backup not found")
    if phase == "InProgress":
        return Turn((DeleteObject(ref, uid_of(backup)), WipeMemories(ref), DeleteObject(look.ref, look.uid)))
    if dig(backup, "status", "phase") not in (*FINAL_PHASES, "Deleting"):
        return _processed(look, "backup is still in progress")
    marked = PatchObject(ref, uid_of(backup), {"status": {"phase": "Deleting"}})
    begun = change(look, {"status": {**look.status, "phase": "InProgress"}})
    return Turn((*begun, marked), due=look.at(1.0))


def _processed(look: Look, error: str) -> Turn:
    return Turn(change(look, {"status": {**look.status, "phase": "Processed", "errors": [error]}}))


def _look_at_location(look: Look) -> Turn:
    """Validated once a minute; each time is written down."""
    last = moment_of(look.status.get("lastValidationTime"))
    rule = look.behaviour.choose(look.ref, ())
    broken = rule is not None and rule.outcome.ending is not Ending.SUCCEED
    phase = "Unavailable" if broken else "Available"
    following = None if last is None else last + timedelta(seconds=_VALIDATION_SECONDS)
    if following is not None and look.now < following and look.status.get("phase") == phase:
        return Turn(due=following, regular=True)
    status: dict[str, Any] = {key: value for key, value in look.status.items() if key != "message"}
    status |= {"phase": phase, "lastValidationTime": look.timestamp()}
    if broken and rule is not None:
        status["message"] = rule.outcome.message or "rpc error: the bucket cannot be listed"
    return Turn(change(look, {"status": status}), due=look.at(_VALIDATION_SECONDS), regular=True)


def _wakes(ref: ObjectRef, world: Mapping[ObjectRef, Manifest]) -> list[ObjectRef]:
    """Backups that stand in the queue, and requests to delete one."""
    if ref.kind != VELERO_BACKUP:
        return []
    queued = ("Queued", "ReadyToStart", "New", "", None)
    return [
        other
        for other, manifest in world.items()
        if other != ref
        and other.namespace == ref.namespace
        and (
            (other.kind == VELERO_BACKUP and dig(manifest, "status", "phase") in queued)
            or (other.kind == DELETE_BACKUP_REQUEST and dig(manifest, "status", "phase") == "InProgress")
        )
    ]


VELERO: Final = Controller(
    "velero-server",
    (VELERO_BACKUP, VELERO_RESTORE, DELETE_BACKUP_REQUEST, BACKUP_STORAGE_LOCATION),
    _look,
    wakes=_wakes,
    restarted=restarted,
)
"""Its name is the field manager of what it writes."""
