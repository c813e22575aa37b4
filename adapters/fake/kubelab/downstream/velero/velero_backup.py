"""Velero's backups: their queue, their validation, and the run of one backup."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import attrs

from kubelab.downstream.behaviour import Ending
from kubelab.downstream.controller import NOTHING, ObjectView, PassResult, change
from kubelab.downstream.kinds import BACKUP_STORAGE_LOCATION
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
from kubelab.downstream.velero.velero_storage import Stored, at_its_end, in_storage, selected
from kubelab.simulation.effects import PassStep, list_objects
from purekube.apimachinery.durations import go_duration, seconds_of
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    PERSISTENT_VOLUME_CLAIM,
    SECRET,
    VELERO_BACKUP,
)
from purekube.apimachinery.timestamps import format_time

STORAGE_LOCATION: Final = "velero.io/storage-location"
_KEPT: Final = ("Completed", "PartiallyFailed")


@attrs.frozen
class _Waiting:
    """The place of a backup in Velero's queue: the backup with the lowest `ticket` starts first.

    A `ready` backup already counts as a backup in progress.
    """

    ticket: int
    ready: bool = False


def reconcile_backup(view: ObjectView) -> PassStep[PassResult]:
    """Run a reconcile pass over the Backup in `view`, unless it is outside Velero's own namespace.

    The result has what Velero remembers of the Backup, and the time of the next pass.
    """
    if view.ref.namespace != view.behaviour.velero.namespace:
        return NOTHING
    if isinstance(view.memory, Stored):
        return (yield from in_storage(view, view.memory))
    if isinstance(view.memory, VeleroRun):
        return (yield from _run(view, view.memory))
    if view.live is None:
        return NOTHING
    phase = str(view.status.get("phase", ""))
    if phase in FINAL_PHASES:
        return (yield from at_its_end(view))
    if phase in UNDER_WAY:
        return (yield from interrupted(view))
    # A backup in deletion belongs to Velero's DeleteBackupRequest, which the storage controller plays.
    if phase == "Deleting":
        return NOTHING
    return (yield from _before(view, phase))


def _before(view: ObjectView, phase: str) -> PassStep[PassResult]:
    try:
        seconds_of(str(view.spec.get("ttl", "1s")))
    except ValueError as error:
        # The API server accepts any text, but Velero cannot decode the object, and never writes to it.
        return PassResult(error=f"cannot decode Backup {view.ref.namespace}/{view.ref.name}: spec.ttl: {error}")
    if not view.behaviour.velero.queues or phase == "ReadyToStart":
        return (yield from _start_backup(view))
    # pkg/controller/backup_queue_controller.go: a new backup gets the highest position and one more.
    waiting = view.memory if isinstance(view.memory, _Waiting) else _Waiting(1 + max(_tickets(view), default=0))
    ahead = sum(1 for ticket in _tickets(view) if ticket < waiting.ticket)
    if phase == "Queued" and ahead == 0 and _running(view) < view.behaviour.velero.concurrent_backups:
        status = {key: value for key, value in view.status.items() if key != "queuePosition"}
        ready = attrs.evolve(waiting, ready=True)
        yield from change(view, {"status": {**status, "phase": "ReadyToStart"}})
        return PassResult(memory=ready, requeue_at=view.now)
    status = {**view.status, "phase": "Queued", "queuePosition": ahead + 1}
    yield from change(view, {"status": status})
    return PassResult(memory=waiting)


def _others(view: ObjectView) -> list[Any]:
    memories = (known for ref, known in view.memories.items() if ref.kind == VELERO_BACKUP and ref != view.ref)
    return [memory for known in memories for memory in known.values()]


def _tickets(view: ObjectView) -> list[int]:
    return [memory.ticket for memory in _others(view) if isinstance(memory, _Waiting) and not memory.ready]


def _running(view: ObjectView) -> int:
    """Return the number of other backups that are in progress or ready to start."""
    return sum(1 for memory in _others(view) if _takes_a_place(memory))


def _takes_a_place(memory: Any) -> bool:
    return (isinstance(memory, VeleroRun) and memory.phase == "InProgress") or (
        isinstance(memory, _Waiting) and memory.ready
    )


def _start_backup(view: ObjectView) -> PassStep[PassResult]:
    """Write Velero's defaults into the backup's spec, validate the spec, and begin to back up."""
    spec, ttl = _defaulted(view), seconds_of(str(view.spec.get("ttl") or "0s"))
    expires = view.now + timedelta(seconds=ttl or view.behaviour.velero.default_ttl_seconds)
    meta = metadata(view.live or {})
    labels = {**(meta.get("labels") or {}), STORAGE_LOCATION: spec["storageLocation"]}
    status = {"version": 1, "formatVersion": "1.1.0", "expiration": format_time(expires)}
    manifest = {**(view.live or {}), "metadata": {**meta, "labels": labels}, "spec": spec}
    errors = [*_problems(view, spec), *_scripted_problems(view)]
    if errors:
        # Velero writes its defaults into the spec of a refused backup, too: no Velero kind has a status subresource.
        refused = {**status, "phase": "FailedValidation", "validationErrors": errors}
        yield from change(view, {**manifest, "status": refused})
        return NOTHING
    items = yield from _captured(view, spec)
    run = attrs.evolve(start(view, _flow(view), manifest, status), items=items)
    yield from change(view, {**manifest, "status": dict(run.status)})
    return PassResult(memory=run, requeue_at=run.half or run.until)


def _captured(view: ObjectView, spec: Mapping[str, Any]) -> PassStep[tuple[tuple[Kind, Manifest], ...]]:
    """Return every object that the backup contains, in its state at the backup's begin."""
    items: list[tuple[Kind, Manifest]] = []
    for kind in view.behaviour.velero.captured or (yield from _every_kind()):
        for namespace in _namespaces(spec):
            items += [(kind, item) for item in (yield from list_objects(kind, namespace))]
    return tuple(items)


def _every_kind() -> PassStep[tuple[Kind, ...]]:
    """Return the kinds that a backup contains by default. Kinds that only built-in controllers create are left out."""
    definitions = yield from list_objects(CUSTOM_RESOURCE_DEFINITION)
    custom = [_kind_of(definition["spec"]) for definition in definitions]
    others = (kind for kind in custom if kind.namespaced and kind.group != VELERO_BACKUP.group)
    return (CONFIG_MAP, SECRET, PERSISTENT_VOLUME_CLAIM, *others)


def _kind_of(spec: Mapping[str, Any]) -> Kind:
    version = next(version["name"] for version in spec["versions"] if version["storage"])
    names = spec["names"]
    return Kind(spec["group"], version, names["kind"], names["plural"], namespaced=spec["scope"] == "Namespaced")


def _defaulted(view: ObjectView) -> dict[str, Any]:
    defaults = {
        "csiSnapshotTimeout": "10m0s",
        "defaultVolumesToFsBackup": False,
        "hooks": {},
        "itemOperationTimeout": "4h0m0s",
        "metadata": {},
        "snapshotMoveData": False,
        "storageLocation": "default",
        "ttl": go_duration(view.behaviour.velero.default_ttl_seconds),
    }
    return {**defaults, **view.spec}


def _namespaces(spec: Mapping[str, Any]) -> tuple[str | None, ...]:
    """Return the namespaces that a backup contains. The item None means all namespaces."""
    named = spec.get("includedNamespaces") or ("*",)
    return (None,) if "*" in named else tuple(named)


def _problems(view: ObjectView, spec: Mapping[str, Any]) -> list[str]:
    problems = []
    for what in ("Namespace", "Resource"):
        both = set(spec.get(f"included{what}s") or ()) & set(spec.get(f"excluded{what}s") or ())
        problems += [
            f"Invalid included/excluded {what.lower()} lists: excludes list cannot contain an item in the includes"
            f" list: {name}"
            for name in sorted(both)
        ]
    return [*problems, *_location_problems(view, str(spec["storageLocation"]))]


def _location_problems(view: ObjectView, name: str) -> list[str]:
    location = view.world.get(ObjectRef(BACKUP_STORAGE_LOCATION, view.ref.namespace, name))
    if location is None:
        if name in view.behaviour.velero.storage_locations:
            return []
        # The wrong way round, as recorded of Velero 1.18.3: a location that was named is called the default.
        was_named = "storageLocation" in view.spec
        missing = f"the default {name} was not found" if was_named else f"the server default {name} does not exist"
        advice = "Please address this issue (see `velero backup-location -h` for options) and create a new backup."
        return [
            f"an existing backup storage location was not specified at backup creation time and {missing}. {advice} "
            f'Error: BackupStorageLocation.velero.io "{name}" not found'
        ]
    if get_path(location, "status", "phase") == "Unavailable":
        return [f"backup can't be created because BackupStorageLocation {name} is in Unavailable status."]
    if get_path(location, "spec", "accessMode") == "ReadOnly":
        return [f"backup can't be created because backup storage location {name} is currently in read-only mode"]
    return []


def _scripted_problems(view: ObjectView) -> list[str]:
    rule = view.behaviour.choose(view.ref, ())
    if rule is None or rule.outcome.ending is not Ending.INVALID:
        return []
    return [rule.outcome.message or "encountered labelSelector as well as orLabelSelectors in backup spec"]


def _flow(view: ObjectView) -> Flow:
    return Flow("itemsBackedUp", "backupItemOperations", view.behaviour.velero.backup_seconds, is_backup=True)


def _run(view: ObjectView, run: VeleroRun) -> PassStep[PassResult]:
    run = counted(view, _flow(view), run)
    yield from write_status(view, run)
    run = advance(view, _flow(view), run)
    yield from write_status(view, run)
    if not has_ended(run):
        return under_way(run)
    if run.phase not in _KEPT:
        return PassResult(requeue_at=view.now)
    items = tuple((kind, item) for kind, item in run.items if selected(kind, item, run.manifest.get("spec") or {}))
    stored = Stored({**run.manifest, "status": dict(run.status)}, items)
    return PassResult(memory=stored, requeue_at=view.now)
