"""Velero's backups: queue, validation, the run, and what lies in the object storage afterwards.

Deleting a Backup object deletes no data: the storage sync makes the object again, under another uid.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import attrs

from vworkspace_core.known import VELERO_BACKUP
from vworkspace_core.manifest import Kind, Manifest, ObjectRef, dig, metadata
from vworkspace_core.moments import timestamp
from vworkspace_fake.downstream.behaviour import Ending
from vworkspace_fake.downstream.kinds import BACKUP_STORAGE_LOCATION
from vworkspace_fake.downstream.turns import (
    NOTHING,
    Capture,
    Create,
    Delete,
    Erase,
    Look,
    Turn,
    change,
    moment_of,
)
from vworkspace_fake.downstream.velero_run import FINAL_PHASES, UNDER_WAY, Flow, Run, advance, has_ended, start
from vworkspace_fake.flux.durations import go_duration, parse_duration

__all__ = ["STORAGE_LOCATION", "Stored", "look_at_backup", "selected", "stored_data"]

STORAGE_LOCATION: Final = "velero.io/storage-location"
_KEPT: Final = ("Completed", "PartiallyFailed")
_RESTARTED: Final = 'found a backup with status "InProgress" during the server starting, mark it as "Failed"'


@attrs.frozen
class Stored:
    """A backup in the object storage. `sync_at` is when its missing object is noticed."""

    manifest: Manifest
    items: tuple[tuple[Kind, Manifest], ...] = ()
    sync_at: datetime | None = None


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
        return _stored(look, look.memory)
    if isinstance(look.memory, Run):
        return _run(look, look.memory)
    if look.live is None:
        return NOTHING
    phase = str(look.status.get("phase", ""))
    if phase in FINAL_PHASES:
        return _ended(look)
    if phase in UNDER_WAY:
        return _forsaken(look)
    return NOTHING if phase == "Deleting" else _before(look, phase)


def _forsaken(look: Look) -> Turn:
    """In progress, and nobody is at it: the server began anew meanwhile."""
    status = {**look.status, "phase": "Failed", "failureReason": _RESTARTED, "completionTimestamp": look.timestamp()}
    return Turn(change(look, {"status": status}))


# --- before the run ----------------------------------------------------------------------------------------------


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
    status = {"version": 1, "formatVersion": "1.1.0", "expiration": timestamp(expires)}
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


# --- the run, and what is left of it -----------------------------------------------------------------------------


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


def selected(kind: Kind, item: Manifest, spec: Mapping[str, Any]) -> bool:
    """Whether an object belongs into a backup or restore with that spec, by its namespace and its resource."""
    names = {kind.plural, f"{kind.plural}.{kind.group}" if kind.group else kind.plural}
    included, excluded = spec.get("includedResources") or ("*",), spec.get("excludedResources") or ()
    namespace = metadata(item).get("namespace")
    spaces = spec.get("includedNamespaces") or ("*",)
    return (
        ("*" in included or bool(names & set(included)))
        and not names & set(excluded)
        and ("*" in spaces or namespace in spaces)
        and namespace not in (spec.get("excludedNamespaces") or ())
    )


def _ended(look: Look) -> Turn:
    """At the end of its time the object goes, and the data with it."""
    expires = moment_of(look.status.get("expiration"))
    if expires is None or look.status.get("phase") == "FailedValidation":
        return NOTHING
    if look.now >= expires:
        return Turn((Delete(look.ref, look.uid), Erase(look.ref)))
    return Turn(due=expires, regular=True)


def _stored(look: Look, stored: Stored) -> Turn:
    """In the object storage: an object that is missing is made again at the next sync."""
    if look.live is not None:
        return attrs.evolve(_ended(look), memory=attrs.evolve(stored, sync_at=None))
    expires = moment_of(dig(stored.manifest, "status", "expiration"))
    if expires is not None and look.now >= expires:
        return NOTHING
    if look.ref in look.world or look.behaviour.velero.sync_seconds <= 0:
        return Turn(memory=stored, due=expires, regular=True)
    if stored.sync_at is None:
        stored = attrs.evolve(stored, sync_at=_next_sync(look))
    if look.now < (stored.sync_at or look.now):
        return Turn(memory=stored, due=stored.sync_at)
    return Turn((Create(VELERO_BACKUP, _synced(look, stored)),), attrs.evolve(stored, sync_at=None))


def _next_sync(look: Look) -> datetime:
    period = look.behaviour.velero.sync_seconds
    return datetime.fromtimestamp((look.now.timestamp() // period + 1) * period, UTC)


def _synced(look: Look, stored: Stored) -> dict[str, Any]:
    """The object as it lies in the storage, its status included: there is no subresource that would drop it."""
    meta = metadata(stored.manifest)
    kept = {key: meta[key] for key in ("labels", "annotations") if key in meta}
    manifest = VELERO_BACKUP.manifest(look.ref.name, look.ref.namespace)
    return {
        **manifest,
        "metadata": {**manifest["metadata"], **kept},
        "spec": stored.manifest["spec"],
        "status": stored.manifest["status"],
    }


def stored_data(memories: Mapping[ObjectRef, Mapping[str, Any]], backup: ObjectRef) -> Sequence[tuple[Kind, Manifest]]:
    """What lies in the object storage under the name of a Backup."""
    found = [memory for memory in memories.get(backup, {}).values() if isinstance(memory, Stored)]
    return found[-1].items if found else ()
