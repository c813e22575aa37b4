"""Velero's restores: objects made again from a backup, without status, with uids of their own."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, dig, metadata
from vworkspace_core.apimachinery.resources import NAMESPACE, VELERO_BACKUP
from vworkspace_fake.downstream.behaviour import Ending
from vworkspace_fake.downstream.turns import NOTHING, Look, Turn, change
from vworkspace_fake.downstream.velero_run import FINAL_PHASES, UNDER_WAY, Flow, Run, advance, has_ended, start
from vworkspace_fake.downstream.velero_storage import selected, stored_data
from vworkspace_fake.simulation.effects import CreateObject, Effect, PatchObject

_NEVER_RESTORED: Final = (
    "nodes",
    "events",
    "events.events.k8s.io",
    "backups.velero.io",
    "restores.velero.io",
    "resticrepositories.velero.io",
    "csinodes.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "backuprepositories.velero.io",
)
_DROPPED: Final = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "deletionTimestamp")
_RESTARTED: Final = 'found a restore with status "InProgress" during the server starting, mark it as "Failed"'


def look_at_restore(look: Look) -> Turn:
    """One look at a Restore. One outside Velero's own namespace is ignored."""
    if look.ref.namespace != look.behaviour.velero.namespace:
        return NOTHING
    if isinstance(look.memory, Run):
        return _run(look, look.memory)
    if look.live is None or look.status.get("phase", "") in FINAL_PHASES:
        return NOTHING
    if look.status.get("phase", "") in UNDER_WAY:
        failed = {"phase": "Failed", "failureReason": _RESTARTED, "completionTimestamp": look.timestamp()}
        return Turn(change(look, {"status": {**look.status, **failed}}))
    return _begin(look)


def _backup_of(look: Look) -> ObjectRef:
    return ObjectRef(VELERO_BACKUP, look.ref.namespace, str(look.spec.get("backupName", "")))


def _begin(look: Look) -> Turn:
    excluded = [*(look.spec.get("excludedResources") or ())]
    spec = {
        "itemOperationTimeout": "4h0m0s",
        "hooks": {},
        **look.spec,
        "excludedResources": [*excluded, *(name for name in _NEVER_RESTORED if name not in excluded)],
    }
    errors = list(_problems(look))
    if errors:
        refused = {"phase": "FailedValidation", "validationErrors": errors}
        return Turn(change(look, {"spec": spec, "status": {**look.status, **refused}}))
    run = start(look, _flow(look), {**(look.live or {}), "spec": spec}, look.status)
    items = tuple(pair for pair in stored_data(look.memories, _backup_of(look)) if selected(*pair, spec))
    run = attrs.evolve(run, items=items)
    return Turn(change(look, {"spec": spec, "status": dict(run.status)}), run, run.half or run.until)


def _problems(look: Look) -> Iterator[str]:
    name, schedule = look.spec.get("backupName"), look.spec.get("scheduleName")
    if bool(name) == bool(schedule):
        yield "Either a backup or schedule must be specified as a source for the restore, but not both"
    elif name and _backup_of(look) not in look.world:
        yield f'Error retrieving backup: backup.velero.io "{name}" not found'
    rule = look.behaviour.choose(look.ref, ())
    if rule is not None and rule.outcome.ending is Ending.INVALID:
        yield rule.outcome.message or "Invalid included/excluded namespace lists"


def _flow(look: Look) -> Flow:
    return Flow("itemsRestored", "restoreItemOperations", look.behaviour.velero.restore_seconds)


def _run(look: Look, run: Run) -> Turn:
    working = run.phase == "InProgress"
    unusable = working and run.until is not None and look.now >= run.until and _unusable(look, run)
    if unusable:
        failed = {"phase": "Failed", "failureReason": unusable, "completionTimestamp": look.timestamp()}
        effects = () if look.live is None else change(look, {"status": {**run.status, **failed}})
        return Turn(effects)
    run, turn = advance(look, _flow(look), run)
    if working and run.phase not in ("InProgress", "Failed"):
        turn = attrs.evolve(turn, effects=(*_restored(look, run), *turn.effects))
    return attrs.evolve(turn, memory=None) if has_ended(run) else turn


def _unusable(look: Look, run: Run) -> str:
    """Only a backup that is complete, if with errors, can be read."""
    name = dig(run.manifest, "spec", "backupName")
    backup = look.world.get(ObjectRef(VELERO_BACKUP, look.ref.namespace, str(name)))
    if dig(backup, "status", "phase") in ("Completed", "PartiallyFailed"):
        return ""
    return f"error downloading backup: the contents of backup {name} are not in the object storage"


def _restored(look: Look, run: Run) -> Iterator[Effect]:
    """Namespaces first. What exists stays as it is, or is updated where the restore says so."""
    spec = run.manifest.get("spec") or {}
    mapping: Mapping[str, str] = spec.get("namespaceMapping") or {}
    spaces = sorted({str(metadata(item).get("namespace")) for _, item in run.items})
    for space in spaces:
        yield CreateObject(NAMESPACE, NAMESPACE.manifest(mapping.get(space, space)))
    for kind, item in run.items:
        manifest = _fresh(look, item, mapping, str(spec.get("backupName")))
        yield CreateObject(kind, manifest)
        if spec.get("existingResourcePolicy") == "update":
            ref = ObjectRef(kind, manifest["metadata"]["namespace"], manifest["metadata"]["name"])
            body: dict[str, Any] = {key: manifest[key] for key in ("spec", "data") if key in manifest}
            yield PatchObject(ref, "", {**body, "metadata": {"labels": manifest["metadata"]["labels"]}})


def _fresh(look: Look, item: Manifest, mapping: Mapping[str, str], backup: str) -> dict[str, Any]:
    """As a new object: nothing of the server's own, no status, no owner's uid to hold on to."""
    meta = {key: value for key, value in metadata(item).items() if key not in _DROPPED}
    space = str(meta["namespace"])
    marks = {"velero.io/backup-name": backup, "velero.io/restore-name": look.ref.name}
    meta |= {"namespace": mapping.get(space, space), "labels": {**(meta.get("labels") or {}), **marks}}
    return {**{key: value for key, value in item.items() if key != "status"}, "metadata": meta}
