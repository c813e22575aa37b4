"""Velero's restores: objects created again from a backup, without status and with new uids."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from kubelab.downstream.behaviour import Ending
from kubelab.downstream.controller import NOTHING, ObjectView, PassResult, change, with_finalizers, without_finalizers
from kubelab.downstream.velero.velero_run import (
    FINAL_PHASES,
    UNDER_WAY,
    Flow,
    VeleroRun,
    advance,
    counted,
    has_ended,
    interrupted,
    start,
    under_way,
    write_status,
)
from kubelab.downstream.velero.velero_storage import selected, stored_data
from kubelab.simulation.effects import PassStep, SimulatedCreate, SimulatedPatch
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import NAMESPACE, VELERO_BACKUP

# Velero adds these to `excludedResources` in the spec of each Restore (pkg/controller/restore_controller.go,
# nonRestorableResources).
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
# pkg/restore/restore.go, resetMetadata and resetStatus: what the API server sets itself.
_DROPPED: Final = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "deletionTimestamp")
_FINALIZER: Final = "restores.velero.io/external-resources-finalizer"


def reconcile_restore(view: ObjectView) -> PassStep[PassResult]:
    """Run a reconcile pass over the Restore in `view`, unless it is outside Velero's own namespace.

    The result has what Velero remembers of the Restore, and the time of the next pass.
    """
    if view.ref.namespace != view.behaviour.velero.namespace:
        return NOTHING
    if view.deleting:
        yield from without_finalizers(view.ref, view.live, _FINALIZER)
        return NOTHING
    if isinstance(view.memory, VeleroRun):
        return (yield from _run(view, view.memory))
    if view.live is None or view.status.get("phase", "") in FINAL_PHASES:
        return NOTHING
    if view.status.get("phase", "") in UNDER_WAY:
        return (yield from interrupted(view))
    return (yield from _start_restore(view))


def _backup_of(view: ObjectView) -> ObjectRef:
    return ObjectRef(VELERO_BACKUP, view.ref.namespace, str(view.spec.get("backupName", "")))


def _start_restore(view: ObjectView) -> PassStep[PassResult]:
    # The finalizer keeps the Restore until its logs are gone from the object storage (docs/flux.md, "The engines of
    # Operations"; pkg/controller/restore_controller.go, ExternalResourcesFinalizer).
    yield from change(view, {"metadata": with_finalizers(view, _FINALIZER)})
    excluded = [*(view.spec.get("excludedResources") or ())]
    spec = {
        "itemOperationTimeout": "4h0m0s",
        "hooks": {},
        **view.spec,
        "excludedResources": [*excluded, *(name for name in _NEVER_RESTORED if name not in excluded)],
    }
    errors = list(_problems(view))
    if errors:
        refused = {"phase": "FailedValidation", "validationErrors": errors}
        yield from change(view, {"spec": spec, "status": {**view.status, **refused}})
        return NOTHING
    run = start(view, _flow(view), {**(view.live or {}), "spec": spec}, view.status)
    items = tuple(pair for pair in stored_data(view.memories, _backup_of(view)) if selected(*pair, spec))
    run = attrs.evolve(run, items=items)
    yield from change(view, {"spec": spec, "status": dict(run.status)})
    return PassResult(memory=run, requeue_at=run.half or run.until)


def _problems(view: ObjectView) -> Iterator[str]:
    name, schedule = view.spec.get("backupName"), view.spec.get("scheduleName")
    if bool(name) == bool(schedule):
        yield "Either a backup or schedule must be specified as a source for the restore, but not both"
    elif name and _backup_of(view) not in view.world:
        place = f"{view.ref.namespace}/{name}"
        yield f'Error retrieving backup: can\'t find backup {place}: Backup.velero.io "{name}" not found'
    rule = view.behaviour.choose(view.ref, ())
    if rule is not None and rule.outcome.ending is Ending.INVALID:
        yield rule.outcome.message or "Invalid included/excluded namespace lists"


def _flow(view: ObjectView) -> Flow:
    return Flow("itemsRestored", "restoreItemOperations", view.behaviour.velero.restore_seconds, is_backup=False)


def _run(view: ObjectView, run: VeleroRun) -> PassStep[PassResult]:
    working = run.phase == "InProgress"
    unusable = working and run.until is not None and view.now >= run.until and _unusable(view, run)
    if unusable:
        failed = {"phase": "Failed", "failureReason": unusable, "completionTimestamp": view.timestamp()}
        yield from write_status(view, attrs.evolve(run, status={**run.status, **failed}))
        return NOTHING
    run = counted(view, _flow(view), run)
    yield from write_status(view, run)
    run = advance(view, _flow(view), run)
    if working and run.phase not in ("InProgress", "Failed"):
        yield from _restored(view, run)
    yield from write_status(view, run)
    return NOTHING if has_ended(run) else under_way(run)


def _unusable(view: ObjectView, run: VeleroRun) -> str:
    """Return why the data of the backup cannot be read.

    An empty string means that the backup is Completed or PartiallyFailed, and so can be read.
    """
    name = get_path(run.manifest, "spec", "backupName")
    backup = view.world.get(ObjectRef(VELERO_BACKUP, view.ref.namespace, str(name)))
    if get_path(backup, "status", "phase") in ("Completed", "PartiallyFailed"):
        return ""
    return f"error downloading backup: the contents of backup {name} are not in the object storage"


def _restored(view: ObjectView, run: VeleroRun) -> PassStep[None]:
    """Create the namespaces of the backed-up objects, then the objects.

    Existing objects remain, or are updated if `existingResourcePolicy` says so.
    """
    spec = run.manifest.get("spec") or {}
    mapping: Mapping[str, str] = spec.get("namespaceMapping") or {}
    spaces = sorted({str(metadata(item).get("namespace")) for _, item in run.items})
    for space in spaces:
        yield SimulatedCreate(NAMESPACE, NAMESPACE.manifest(mapping.get(space, space)))
    for kind, item in run.items:
        manifest = _fresh(view, item, mapping, str(spec.get("backupName")))
        yield SimulatedCreate(kind, manifest)
        if spec.get("existingResourcePolicy") == "update":
            ref = ObjectRef(kind, manifest["metadata"]["namespace"], manifest["metadata"]["name"])
            body: dict[str, Any] = {key: manifest[key] for key in ("spec", "data") if key in manifest}
            yield SimulatedPatch(ref, "", {**body, "metadata": {"labels": manifest["metadata"]["labels"]}})


def _fresh(view: ObjectView, item: Manifest, mapping: Mapping[str, str], backup: str) -> dict[str, Any]:
    """Return the object that a restore creates for the stored object `item`.

    It has no uid, no status and none of the metadata that the server sets. Its namespace is mapped by `mapping`, and
    labels name the backup and the restore.
    """
    meta = {key: value for key, value in metadata(item).items() if key not in _DROPPED}
    space = str(meta["namespace"])
    marks = {"velero.io/backup-name": backup, "velero.io/restore-name": view.ref.name}
    meta |= {"namespace": mapping.get(space, space), "labels": {**(meta.get("labels") or {}), **marks}}
    return {**{key: value for key, value in item.items() if key != "status"}, "metadata": meta}
