"""Velero's backups: queue, validation and the run."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import attrs

from vworkspace_core.apimachinery.manifest import ObjectRef, dig, metadata
from vworkspace_core.apimachinery.resources import VELERO_BACKUP
from vworkspace_core.apimachinery.timestamps import format_time
from vworkspace_fake.downstream.behaviour import Ending
from vworkspace_fake.downstream.kinds import BACKUP_STORAGE_LOCATION
from vworkspace_fake.downstream.turns import NOTHING, Capture, Look, Turn, change
from vworkspace_fake.downstream.velero_run import FINAL_PHASES, UNDER_WAY, Flow, Run, advance, has_ended, start
from vworkspace_fake.downstream.velero_storage import Stored, at_its_end, in_storage, selected
from vworkspace_fake.simulation.durations import go_duration, parse_duration

STORAGE_LOCATION: Final = "velero.io/storage-location"
_KEPT: Final = ("Completed", "PartiallyFailed")
_RESTARTED: Final = 'found a backup with status "InProgress" during the server starting, mark it as "Failed"'


@attrs.frozen
class _Waiting:
    """A place in the queue. One that is `ready` takes a place among those in progress already."""

    ticket: int
    ready: bool = False


def look_at_backup(look: Look) -> Turn:
    """One look at a Backup. One outside Velero's own namespace is ignored."""
    if look.ref.namespace != look.behaviour.velero.namespace:
        return NOTHING
    if isinstance(look.memory, Stored):
        return in_storage(look, look.memory)
    if isinstance(look.memory, Run):
        return _run(look, look.memory)
    if look.live is None:
        return NOTHING
    phase = str(look.status.get("phase", ""))
    if phase in FINAL_PHASES:
        return at_its_end(look)
    if phase in UNDER_WAY:
        return _forsaken(look)
    return NOTHING if phase == "Deleting" else _before(look, phase)


def _forsaken(look: Look) -> Turn:
    """In progress, and nobody is at it: the server began anew meanwhile."""
    status = {**look.status, "phase": "Failed", "failureReason": _RESTARTED, "completionTimestamp": look.timestamp()}
    return Turn(change(look, {"status": status}))


def _before(look: Look, phase: str) -> Turn:
    try:
        parse_duration(str(look.spec.get("ttl", "1s")))
    except ValueError as error:
        # The API server takes any text; Velero cannot read the object at all, and never writes to it.
        return Turn(error=f"cannot decode Backup {look.ref.namespace}/{look.ref.name}: spec.ttl: {error}")
    if not look.behaviour.velero.queues or phase == "ReadyToStart":
        return _begin(look)
    waiting = look.memory if isinstance(look.memory, _Waiting) else _Waiting(1 + max(_tickets(look), default=0))
    ahead = sum(1 for ticket in _tickets(look) if ticket < waiting.ticket)
    if phase == "Queued" and ahead == 0 and _running(look) < look.behaviour.velero.concurrent_backups:
        status = {key: value for key, value in look.status.items() if key != "queuePosition"}
        ready = attrs.evolve(waiting, ready=True)
        return Turn(change(look, {"status": {**status, "phase": "ReadyToStart"}}), ready, look.now)
    status = {**look.status, "phase": "Queued", "queuePosition": ahead + 1}
    return Turn(change(look, {"status": status}), waiting)


def _others(look: Look) -> list[Any]:
    memories = (known for ref, known in look.memories.items() if ref.kind == VELERO_BACKUP and ref != look.ref)
    return [memory for known in memories for memory in known.values()]


def _tickets(look: Look) -> list[int]:
    return [memory.ticket for memory in _others(look) if isinstance(memory, _Waiting) and not memory.ready]


def _running(look: Look) -> int:
    """Backups that take a place: those in progress, and those about to be."""
    return sum(1 for memory in _others(look) if _takes_a_place(memory))


def _takes_a_place(memory: Any) -> bool:
    return (isinstance(memory, Run) and memory.phase == "InProgress") or (isinstance(memory, _Waiting) and memory.ready)


def _begin(look: Look) -> Turn:
    """Velero writes its defaults into the spec, judges it, and begins."""
    spec, ttl = _defaulted(look), parse_duration(str(look.spec.get("ttl") or "0s"))
    expires = look.now + timedelta(seconds=ttl or look.behaviour.velero.default_ttl_seconds)
    meta = metadata(look.live or {})
    labels = {**(meta.get("labels") or {}), STORAGE_LOCATION: spec["storageLocation"]}
    status = {"version": 1, "formatVersion": "1.1.0", "expiration": format_time(expires)}
    manifest = {**(look.live or {}), "metadata": {**meta, "labels": labels}, "spec": spec}
    errors = [*_problems(look, spec), *_scripted_problems(look)]
    if errors:
        refused = {**status, "phase": "FailedValidation", "validationErrors": errors}
        return Turn(change(look, {**manifest, "status": refused}))
    run = start(look, _flow(look), manifest, status)
    capture = Capture(look.behaviour.velero.captured, _namespaces(spec))
    return Turn((capture, *change(look, {**manifest, "status": dict(run.status)})), run, run.half or run.until)


def _defaulted(look: Look) -> dict[str, Any]:
    defaults = {
        "csiSnapshotTimeout": "10m0s",
        "defaultVolumesToFsBackup": False,
        "hooks": {},
        "itemOperationTimeout": "4h0m0s",
        "metadata": {},
        "snapshotMoveData": False,
        "storageLocation": "default",
        "ttl": go_duration(look.behaviour.velero.default_ttl_seconds),
    }
    return {**defaults, **look.spec}


def _namespaces(spec: Mapping[str, Any]) -> tuple[str, ...]:
    named = spec.get("includedNamespaces") or ("*",)
    return () if "*" in named else tuple(named)


def _problems(look: Look, spec: Mapping[str, Any]) -> list[str]:
    found = []
    for what in ("Namespace", "Resource"):
        both = set(spec.get(f"included{what}s") or ()) & set(spec.get(f"excluded{what}s") or ())
        found += [
            f"Invalid included/excluded {what.lower()} lists: excludes list cannot contain an item in the includes"
            f" list: {name}"
            for name in sorted(both)
        ]
    return [*found, *_location_problems(look, str(spec["storageLocation"]))]


def _location_problems(look: Look, name: str) -> list[str]:
    location = look.world.get(ObjectRef(BACKUP_STORAGE_LOCATION, look.ref.namespace, name))
    if location is None:
        if name in look.behaviour.velero.storage_locations:
            return []
        missing = f'backupstoragelocations.velero.io "{name}" not found'
        return [f"an existing backup storage location was not specified at backup creation time: {missing}"]
    if dig(location, "status", "phase") == "Unavailable":
        return [f"backup can't be created because BackupStorageLocation {name} is in Unavailable status."]
    if dig(location, "spec", "accessMode") == "ReadOnly":
        return [f"backup can't be created because backup storage location {name} is currently in read-only mode"]
    return []


def _scripted_problems(look: Look) -> list[str]:
    rule = look.behaviour.choose(look.ref, ())
    if rule is None or rule.outcome.ending is not Ending.INVALID:
        return []
    return [rule.outcome.message or "encountered labelSelector as well as orLabelSelectors in backup spec"]


def _flow(look: Look) -> Flow:
    return Flow("itemsBackedUp", "backupItemOperations", look.behaviour.velero.backup_seconds)


def _run(look: Look, run: Run) -> Turn:
    run, turn = advance(look, _flow(look), run)
    if not has_ended(run):
        return turn
    if run.phase not in _KEPT:
        return attrs.evolve(turn, memory=None, due=look.now)
    items = tuple((kind, item) for kind, item in run.items if selected(kind, item, run.manifest.get("spec") or {}))
    stored = Stored({**run.manifest, "status": dict(run.status)}, items)
    return attrs.evolve(turn, memory=stored, due=look.now)
