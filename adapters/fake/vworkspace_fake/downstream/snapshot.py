"""The CSI snapshotter (facts 7.4): contents, bindings in both directions, errors that pass.

Neither kind has conditions or a phase. `error` stands in the status until a later try succeeds, and no longer.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, dig, metadata
from vworkspace_core.apimachinery.resources import (
    PERSISTENT_VOLUME_CLAIM,
    VOLUME_SNAPSHOT,
    VOLUME_SNAPSHOT_CLASS,
    VOLUME_SNAPSHOT_CONTENT,
)
from vworkspace_fake.downstream.attempts import Attempt, begin, released
from vworkspace_fake.downstream.behaviour import Ending, Rule
from vworkspace_fake.downstream.snapshot_content import CONTENT_PROTECTION, content_manifest, content_name, cut, size_of
from vworkspace_fake.downstream.turns import NOTHING, Controller, Look, Turn, change, uid_of, without_finalizers
from vworkspace_fake.simulation.effects import CreateObject, DeleteObject, Effect, PatchObject
from vworkspace_fake.simulation.queue import FailureBackoff

SOURCE_PROTECTION: Final = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection"
BOUND_PROTECTION: Final = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection"
_DEFAULT_CLASS: Final = "snapshot.storage.kubernetes.io/is-default-class"


@attrs.frozen
class _Memory:
    """The cut of one snapshot. `retry_at` is when a failed one is tried again; `failures` lengthen that."""

    attempt: Attempt | None = None
    used: tuple[Rule, ...] = ()
    retry_at: datetime | None = None
    failures: int = 0


@attrs.frozen
class _Trouble:
    """Why there is no snapshot yet."""

    message: str


def _look(look: Look) -> Turn:
    if look.live is None:
        return NOTHING
    if look.deleting:
        return _delete(look)
    if look.status.get("readyToUse") is True:
        return NOTHING
    memory = look.memory or _Memory()
    if memory.retry_at is not None and look.now < memory.retry_at:
        return Turn(memory=memory, due=memory.retry_at)
    provided = dig(look.spec, "source", "volumeSnapshotContentName")
    return _bind_provided(look, memory, provided) if provided else _provision(look, memory)


def _fail(look: Look, memory: _Memory, message: str) -> Turn:
    """An error that the next try may well take away."""
    backoff = FailureBackoff(look.behaviour.snapshot.retry_seconds, look.behaviour.snapshot.max_retry_seconds)
    retry = look.at(backoff.delay(memory.failures + 1))
    told = dig(look.status, "error", "message") == message
    error = look.status.get("error") if told else {"message": message, "time": look.timestamp()}
    status = {**look.status, "error": error, "readyToUse": False}
    kept = attrs.evolve(memory, attempt=None, retry_at=retry, failures=memory.failures + 1)
    return Turn(change(look, {"status": status}, subresource="status"), kept, retry, error=message)


def _provision(look: Look, memory: _Memory) -> Turn:
    found = _class(look)
    if isinstance(found, _Trouble):
        return _fail(look, memory, found.message)
    claim = _claim(look)
    if isinstance(claim, _Trouble):
        return _fail(look, memory, claim.message)
    attempt = memory.attempt
    if attempt is None or released(look, attempt):
        attempt = begin(look, memory.used, look.behaviour.snapshot.cut_seconds)
        memory = attrs.evolve(memory, attempt=attempt, used=attempt.used_up(memory.used), retry_at=None)
    if look.status.get("boundVolumeSnapshotContentName") is None:
        return Turn(_bind(look, found), memory, attempt.until)
    if attempt.until is None or look.now < attempt.until:
        return Turn(memory=memory, due=attempt.until)
    if attempt.outcome.ending is not Ending.SUCCEED:
        text = attempt.outcome.message or "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
        return _fail(look, memory, f"Failed to check and update snapshot content: failed to take snapshot: {text}")
    return Turn((*cut(look, claim), *_ready(look, size_of(claim, look), content_name(look))))


def _class(look: Look) -> Manifest | _Trouble:
    """The class that is named, or the default one."""
    settings, wanted = look.behaviour.snapshot, look.spec.get("volumeSnapshotClassName")
    classes = {ref.name: item for ref, item in look.all_of(VOLUME_SNAPSHOT_CLASS)}
    if wanted is None:
        marked = (item for item in classes.values() if dig(item, "metadata", "annotations", _DEFAULT_CLASS) == "true")
        found = next(marked, None)
    else:
        found = classes.get(wanted)
    if found is None and not settings.checks_references:
        return {"metadata": {"name": wanted or "default"}, "driver": settings.driver, "deletionPolicy": "Delete"}
    if found is None and wanted is None:
        return _Trouble("Failed to set default snapshot class with error cannot find default snapshot class")
    if found is None:
        missing = f'{VOLUME_SNAPSHOT_CLASS.plural}.{VOLUME_SNAPSHOT_CLASS.group} "{wanted}" not found'
        return _Trouble(f"Failed to create snapshot content with error failed to get snapshot class: {missing}")
    return found


def _claim(look: Look) -> Manifest | _Trouble | None:
    """The claim to cut: it has to be there, and bound. None where that is not asked for."""
    name = str(dig(look.spec, "source", "persistentVolumeClaimName"))
    found = look.world.get(ObjectRef(PERSISTENT_VOLUME_CLAIM, look.ref.namespace, name))
    if not look.behaviour.snapshot.checks_references:
        return found
    prefix = "Failed to create snapshot content with error snapshot controller failed to update"
    if found is None:
        return _Trouble(f'{prefix} {look.ref.name}: persistentvolumeclaims "{name}" not found')
    if dig(found, "status", "phase") != "Bound":
        return _Trouble(
            f"{prefix} {look.ref.name}: the PVC {name} is not yet bound to a PV, will not attempt to take one"
        )
    return found


def _bind(look: Look, class_: Manifest) -> tuple[Effect, ...]:
    """Finalizers, the content, and the status that names it: bound, and not ready."""
    name = str(metadata(class_)["name"])
    # A class by default is written into the spec.
    spec = {**look.spec, "volumeSnapshotClassName": name}
    held = _with_finalizers(look, SOURCE_PROTECTION, BOUND_PROTECTION)
    status = {**look.status, "boundVolumeSnapshotContentName": content_name(look), "readyToUse": False}
    return (
        *change(look, {"metadata": held, "spec": spec}),
        CreateObject(VOLUME_SNAPSHOT_CONTENT, content_manifest(look, class_)),
        *change(look, {"status": status}, subresource="status"),
    )


def _with_finalizers(look: Look, *wanted: str) -> dict[str, Any]:
    meta = metadata(look.live or {})
    present = list(meta.get("finalizers") or ())
    return {**meta, "finalizers": [*present, *(name for name in wanted if name not in present)]}


def _ready(look: Look, size: str, content: str) -> tuple[Effect, ...]:
    """Success: the error of any earlier try is gone."""
    status = {key: value for key, value in look.status.items() if key != "error"}
    status |= {"boundVolumeSnapshotContentName": content, "creationTime": look.timestamp()}
    status |= {"readyToUse": True, "restoreSize": size}
    return change(look, {"status": status}, subresource="status")


def _bind_provided(look: Look, memory: _Memory, name: str) -> Turn:
    """A content that was made by hand has to point back at this snapshot."""
    ref = ObjectRef(VOLUME_SNAPSHOT_CONTENT, None, name)
    content = look.world.get(ref)
    if content is None:
        return _fail(look, memory, f"VolumeSnapshotContent is missing: {name}")
    back = dig(content, "spec", "volumeSnapshotRef") or {}
    if (back.get("namespace"), back.get("name")) != (look.ref.namespace, look.ref.name):
        return _fail(look, memory, f"VolumeSnapshotContent [{name}] is bound to a different snapshot")
    if back.get("uid") not in (None, "", look.uid):
        return _fail(look, memory, f"VolumeSnapshotContent [{name}] is bound to a different snapshot")
    bound = PatchObject(ref, uid_of(content), {"spec": {"volumeSnapshotRef": {"uid": look.uid}}})
    status = {"readyToUse": True, "snapshotHandle": str(dig(content, "spec", "source", "snapshotHandle") or name)}
    reported = PatchObject(ref, uid_of(content), {"status": status}, "status")
    held = change(look, {"metadata": _with_finalizers(look, BOUND_PROTECTION)})
    return Turn((*held, bound, reported, *_ready(look, look.behaviour.snapshot.default_size, name)))


def _delete(look: Look) -> Turn:
    """`deletionPolicy` decides whether the data goes too; the snapshot itself goes either way."""
    name = look.status.get("boundVolumeSnapshotContentName")
    content = look.world.get(ObjectRef(VOLUME_SNAPSHOT_CONTENT, None, str(name)))
    effects: list[Effect] = []
    if content is not None and dig(content, "spec", "deletionPolicy") == "Delete":
        ref = ObjectRef(VOLUME_SNAPSHOT_CONTENT, None, str(name))
        effects += [*without_finalizers(ref, content, CONTENT_PROTECTION), DeleteObject(ref, uid_of(content))]
    return Turn((*effects, *without_finalizers(look.ref, look.live, SOURCE_PROTECTION, BOUND_PROTECTION)))


def _wakes(ref: ObjectRef, world: Mapping[ObjectRef, Manifest]) -> list[ObjectRef]:
    """Snapshots that are not ready, when something they may wait for has changed."""
    if ref.kind not in (PERSISTENT_VOLUME_CLAIM, VOLUME_SNAPSHOT_CLASS, VOLUME_SNAPSHOT_CONTENT):
        return []
    return [
        other
        for other, manifest in world.items()
        if other.kind == VOLUME_SNAPSHOT
        and ref.namespace in (None, other.namespace)
        and dig(manifest, "status", "readyToUse") is not True
    ]


SNAPSHOT_CONTROLLER: Final = Controller(
    "snapshot-controller",
    (VOLUME_SNAPSHOT,),
    _look,
    watches=(PERSISTENT_VOLUME_CLAIM, VOLUME_SNAPSHOT_CLASS, VOLUME_SNAPSHOT_CONTENT),
    wakes=_wakes,
)
"""Its name is the field manager of what it writes."""
