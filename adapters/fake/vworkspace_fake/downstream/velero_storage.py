"""What lies in Velero's object storage, and for how long.

Deleting a Backup object deletes no data: the storage sync makes the object again, under another uid.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import attrs

from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef, dig, metadata
from vworkspace_core.apimachinery.resources import VELERO_BACKUP
from vworkspace_fake.downstream.turns import NOTHING, Look, Turn, WipeMemories, moment_of
from vworkspace_fake.simulation.effects import CreateObject, DeleteObject


@attrs.frozen
class Stored:
    """A backup in the object storage. `sync_at` is when its missing object is noticed."""

    manifest: Manifest
    items: tuple[tuple[Kind, Manifest], ...] = ()
    sync_at: datetime | None = None


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


def at_its_end(look: Look) -> Turn:
    """At the end of its time the object goes, and the data with it."""
    expires = moment_of(look.status.get("expiration"))
    if expires is None or look.status.get("phase") == "FailedValidation":
        return NOTHING
    if look.now >= expires:
        return Turn((DeleteObject(look.ref, look.uid), WipeMemories(look.ref)))
    return Turn(due=expires, regular=True)


def in_storage(look: Look, stored: Stored) -> Turn:
    """In the object storage: an object that is missing is made again at the next sync."""
    if look.live is not None:
        return attrs.evolve(at_its_end(look), memory=attrs.evolve(stored, sync_at=None))
    expires = moment_of(dig(stored.manifest, "status", "expiration"))
    if expires is not None and look.now >= expires:
        return NOTHING
    if look.ref in look.world or look.behaviour.velero.sync_seconds <= 0:
        return Turn(memory=stored, due=expires, regular=True)
    if stored.sync_at is None:
        stored = attrs.evolve(stored, sync_at=_next_sync(look))
    if look.now < (stored.sync_at or look.now):
        return Turn(memory=stored, due=stored.sync_at)
    return Turn((CreateObject(VELERO_BACKUP, _synced(look, stored)),), attrs.evolve(stored, sync_at=None))


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
