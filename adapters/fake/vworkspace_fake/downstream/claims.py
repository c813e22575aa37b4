"""The volume provisioner: claims get a volume, also those that are made from a snapshot; deleted ones let it go."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, dig, metadata
from vworkspace_core.apimachinery.resources import PERSISTENT_VOLUME_CLAIM, VOLUME_SNAPSHOT
from vworkspace_fake.downstream.attempts import Attempt, begin, released
from vworkspace_fake.downstream.behaviour import Ending, Rule
from vworkspace_fake.downstream.kinds import PERSISTENT_VOLUME, STORAGE_CLASS
from vworkspace_fake.downstream.turns import NOTHING, Controller, Look, Turn, change, uid_of, without_finalizers
from vworkspace_fake.simulation.effects import CreateObject, DeleteObject, Effect

_PROTECTION: Final = "kubernetes.io/pvc-protection"
_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
_BINDING: Final = {
    "pv.kubernetes.io/bind-completed": "yes",
    "pv.kubernetes.io/bound-by-controller": "yes",
}


@attrs.frozen
class _Memory:
    """The provisioning of one claim."""

    attempt: Attempt | None = None
    used: tuple[Rule, ...] = ()
    retry_at: datetime | None = None


def _look(look: Look) -> Turn:
    if look.live is None or not look.behaviour.snapshot.binds_claims:
        return NOTHING
    if look.deleting:
        return _delete(look)
    if look.status.get("phase") == "Bound":
        return NOTHING
    memory = look.memory or _Memory()
    if _waits_for_a_pod(look) or not _source_is_ready(look):
        return Turn(memory=memory)
    return _provision(look, memory)


def _waits_for_a_pod(look: Look) -> bool:
    """Whether the storage class binds only when a pod uses the claim; none does here."""
    name = look.spec.get("storageClassName")
    found = look.world.get(ObjectRef(STORAGE_CLASS, None, str(name)))
    return bool(dig(found, "volumeBindingMode") == "WaitForFirstConsumer")


def _source_is_ready(look: Look) -> bool:
    source = look.spec.get("dataSource") or look.spec.get("dataSourceRef") or {}
    if source.get("kind") != VOLUME_SNAPSHOT.kind or not look.behaviour.snapshot.checks_references:
        return True
    snapshot = look.world.get(ObjectRef(VOLUME_SNAPSHOT, look.ref.namespace, str(source.get("name"))))
    return dig(snapshot, "status", "readyToUse") is True


def _provision(look: Look, memory: _Memory) -> Turn:
    attempt = memory.attempt
    if memory.retry_at is not None and look.now < memory.retry_at:
        return Turn(memory=memory, due=memory.retry_at)
    if attempt is None or released(look, attempt):
        attempt = begin(look, memory.used, look.behaviour.snapshot.bind_seconds)
        memory = _Memory(attempt, attempt.used_up(memory.used))
    if attempt.until is None or look.now < attempt.until:
        return Turn(memory=memory, due=attempt.until)
    if attempt.outcome.ending is not Ending.SUCCEED:  # the claim stays Pending, only an event tells
        retry = look.at(look.behaviour.snapshot.retry_seconds)
        text = attempt.outcome.message or "failed to provision volume"
        return Turn(memory=_Memory(None, memory.used, retry), due=retry, error=text)
    return Turn(_bind(look))


def _volume_name(look: Look) -> str:
    return look.spec.get("volumeName") or f"pvc-{look.uid}"


def _bind(look: Look) -> tuple[Effect, ...]:
    meta, name = metadata(look.live or {}), _volume_name(look)
    size = dig(look.spec, "resources", "requests", "storage")
    marks = {**_BINDING, _PROVISIONER: look.behaviour.snapshot.driver}
    bound = {"annotations": {**(meta.get("annotations") or {}), **marks}}
    modes = list(look.spec.get("accessModes") or ())
    status = {**look.status, "phase": "Bound", "accessModes": modes, "capacity": {"storage": size}}
    return (
        CreateObject(PERSISTENT_VOLUME, _volume(look, name, size)),
        *change(look, {"metadata": {**meta, **bound}, "spec": {**look.spec, "volumeName": name}}),
        *change(look, {"status": status}, subresource="status"),
    )


def _volume(look: Look, name: str, size: Any) -> dict[str, Any]:
    spec = {
        "accessModes": list(look.spec.get("accessModes") or ()),
        "capacity": {"storage": size},
        "claimRef": {
            "apiVersion": "v1",
            "kind": PERSISTENT_VOLUME_CLAIM.kind,
            "name": look.ref.name,
            "namespace": look.ref.namespace,
            "uid": look.uid,
        },
        "csi": {"driver": look.behaviour.snapshot.driver, "volumeHandle": name},
        "persistentVolumeReclaimPolicy": "Delete",
    }
    if look.spec.get("storageClassName"):
        spec["storageClassName"] = look.spec["storageClassName"]
    return {**PERSISTENT_VOLUME.manifest(name), "spec": spec}


def _delete(look: Look) -> Turn:
    """No pod uses it, so nothing holds it; its volume goes with it."""
    effects: list[Effect] = []
    ref = ObjectRef(PERSISTENT_VOLUME, None, _volume_name(look))
    volume = look.world.get(ref)
    if volume is not None and dig(volume, "spec", "persistentVolumeReclaimPolicy") == "Delete":
        effects.append(DeleteObject(ref, uid_of(volume)))
    return Turn((*effects, *without_finalizers(look.ref, look.live, _PROTECTION)))


def _wakes(ref: ObjectRef, world: Mapping[ObjectRef, Manifest]) -> list[ObjectRef]:
    """Claims that wait for a snapshot, or for another storage class."""
    if ref.kind not in (VOLUME_SNAPSHOT, STORAGE_CLASS):
        return []
    return [
        other
        for other, manifest in world.items()
        if other.kind == PERSISTENT_VOLUME_CLAIM
        and ref.namespace in (None, other.namespace)
        and dig(manifest, "status", "phase") != "Bound"
    ]


VOLUME_PROVISIONER: Final = Controller(
    "persistent-volume-binder",
    (PERSISTENT_VOLUME_CLAIM,),
    _look,
    watches=(VOLUME_SNAPSHOT, STORAGE_CLASS, PERSISTENT_VOLUME),
    wakes=_wakes,
)
"""Its name is the field manager of what it writes."""
