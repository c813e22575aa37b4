"""The content of Velero's object storage, and its expiration.

Deleting a Backup object deletes no data: the storage sync creates the object again, with another uid.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import attrs

from kubelab.downstream.controller import NOTHING, ObjectView, PassResult
from kubelab.downstream.kinds import DELETE_BACKUP_REQUEST
from kubelab.simulation.effects import PassStep, SimulatedCreate
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import VELERO_BACKUP
from purekube.apimachinery.timestamps import time_or_none


@attrs.frozen
class Stored:
    """A backup in the object storage. It remains there when its Backup object is deleted.

    At `sync_at` Velero synchronizes with the storage, and creates the deleted Backup object again. None means that no
    synchronization is planned.
    """

    manifest: Manifest
    items: tuple[tuple[Kind, Manifest], ...] = ()
    sync_at: datetime | None = None


def selected(kind: Kind, item: Manifest, spec: Mapping[str, Any]) -> bool:
    """Report whether a backup or restore with this `spec` selects `item`, by its namespace and its kind `kind`."""
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


def at_its_end(view: ObjectView) -> PassStep[PassResult]:
    """Create a DeleteBackupRequest if the Backup in `view` has expired, or else schedule a pass for its expiration.

    The result has the time of that pass, or no time if no pass is needed.
    """
    expires = time_or_none(view.status.get("expiration"))
    if expires is None or view.status.get("phase") in ("FailedValidation", "Deleting"):
        return NOTHING
    if view.now >= expires:
        request = DELETE_BACKUP_REQUEST.manifest(f"{view.ref.name}-{view.uid[:5]}", view.ref.namespace)
        yield SimulatedCreate(DELETE_BACKUP_REQUEST, {**request, "spec": {"backupName": view.ref.name}})
        return NOTHING
    return PassResult(requeue_at=expires, interval=True)


def in_storage(view: ObjectView, stored: Stored) -> PassStep[PassResult]:
    """Run the pass in `view` over a Backup whose content, `stored`, is in the object storage.

    When an existing Backup object expires, its deletion is requested. A Backup object that a user has deleted is
    created again by the next synchronization, unless it has expired. The result has what Velero remembers of the
    backup, and the time of the next pass.
    """
    if view.live is not None:
        result = yield from at_its_end(view)
        return attrs.evolve(result, memory=attrs.evolve(stored, sync_at=None))
    expires = time_or_none(get_path(stored.manifest, "status", "expiration"))
    if expires is not None and view.now >= expires:
        return NOTHING
    if view.ref in view.world or view.behaviour.velero.sync_seconds <= 0:
        return PassResult(memory=stored, requeue_at=expires, interval=True)
    if stored.sync_at is None:
        stored = attrs.evolve(stored, sync_at=_next_sync(view))
    if view.now < (stored.sync_at or view.now):
        return PassResult(memory=stored, requeue_at=stored.sync_at)
    yield SimulatedCreate(VELERO_BACKUP, _synced(view, stored))
    return PassResult(memory=attrs.evolve(stored, sync_at=None))


def _next_sync(view: ObjectView) -> datetime:
    period = view.behaviour.velero.sync_seconds
    return datetime.fromtimestamp((view.now.timestamp() // period + 1) * period, UTC)


def _synced(view: ObjectView, stored: Stored) -> dict[str, Any]:
    """Return the Backup object that a synchronization creates for the backup `stored` in the object storage.

    The object keeps its status, because the kind has no status subresource.
    """
    meta = metadata(stored.manifest)
    # The object is made from its JSON in the storage (velero: pkg/controller/backup_sync_controller.go).
    marks = {key: meta[key] for key in ("labels", "annotations") if key in meta}
    manifest = VELERO_BACKUP.manifest(view.ref.name, view.ref.namespace)
    return {
        **manifest,
        "metadata": {**manifest["metadata"], **marks},
        "spec": stored.manifest["spec"],
        "status": stored.manifest["status"],
    }


def stored_data(memories: Mapping[ObjectRef, Mapping[str, Any]], backup: ObjectRef) -> Sequence[tuple[Kind, Manifest]]:
    """Return the objects in the stored backup `backup`, each with its kind. An unknown backup has no objects.

    `memories` has what the simulated controllers remember of each object, by uid: for a backup, its stored content.
    """
    records = [memory for memory in memories.get(backup, {}).values() if isinstance(memory, Stored)]
    return records[-1].items if records else ()
