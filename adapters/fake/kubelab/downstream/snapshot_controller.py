"""The CSI snapshotter: it binds VolumeSnapshots and their VolumeSnapshotContents, and retries after errors.

As in external-snapshotter's `volumesnapshot/v1/types.go`, neither kind has conditions or a phase. `error` is in the
status only until a later attempt succeeds. Functions in comments are in its
`pkg/common-controller/snapshot_controller.go`; the statuses were recorded of 8.7.0 (tests/conformance/engines).
"""

from typing import Any, Final

import attrs

from kubelab.downstream.behaviour import Ending
from kubelab.downstream.controller import (
    NOTHING,
    DownstreamController,
    ObjectView,
    PassResult,
    Trying,
    change,
    uid_of,
    waiting_for,
    with_finalizers,
    without_finalizers,
)
from kubelab.simulation.effects import PassStep, SimulatedCreate, SimulatedDelete, SimulatedPatch
from kubelab.simulation.queue import FailureBackoff
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import (
    PERSISTENT_VOLUME_CLAIM,
    VOLUME_SNAPSHOT,
    VOLUME_SNAPSHOT_CLASS,
    VOLUME_SNAPSHOT_CONTENT,
)

CONTENT_PROTECTION: Final = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"
_GIB: Final = 1024**3


def content_name(view: ObjectView) -> str:
    """Return the name of the VolumeSnapshotContent that is created for the snapshot in `view`."""
    # The uid makes the name unique, so a snapshot that is deleted and created again gets other content
    # (GetDynamicSnapshotContentNameForSnapshot in pkg/utils/util.go).
    return f"snapcontent-{view.uid}"


def content_manifest(view: ObjectView, class_: Manifest) -> dict[str, Any]:
    """Return the VolumeSnapshotContent to create for the snapshot in `view`, and bound to it.

    `class_` is the snapshot's VolumeSnapshotClass.
    """
    reference = {
        "apiVersion": VOLUME_SNAPSHOT.api_version,
        "kind": VOLUME_SNAPSHOT.kind,
        "name": view.ref.name,
        "namespace": view.ref.namespace,
        "uid": view.uid,
    }
    manifest = VOLUME_SNAPSHOT_CONTENT.manifest(content_name(view))
    claim = get_path(view.spec, "source", "persistentVolumeClaimName")
    return {
        **manifest,
        "spec": {
            "deletionPolicy": class_.get("deletionPolicy", "Delete"),
            "driver": class_.get("driver", view.behaviour.snapshot.driver),
            "source": {"volumeHandle": f"{view.ref.namespace}/{claim}"},
            "sourceVolumeMode": "Filesystem",
            "volumeSnapshotClassName": metadata(class_)["name"],
            "volumeSnapshotRef": reference,
        },
    }


def cut(view: ObjectView, claim: Manifest | None) -> PassStep[None]:
    """Write into the VolumeSnapshotContent of the snapshot in `view` that it has been taken, as the CSI driver does.

    `claim` is the source claim, None if it is unknown. Nothing is written if the API server does not serve
    VolumeSnapshotContents.
    """
    status = {
        "error": None,
        # Nanoseconds since 1970, whereas the VolumeSnapshot has a time as text (updateSnapshotStatus).
        "creationTime": round(view.now.timestamp()) * 10**9,
        "readyToUse": True,
        "restoreSize": _bytes(size_of(claim, view)),
        "snapshotHandle": f"snap-{view.uid}",
    }
    # No uid is needed, as the content's name contains the snapshot's uid.
    ref = ObjectRef(VOLUME_SNAPSHOT_CONTENT, None, content_name(view))
    yield SimulatedPatch(ref, "", {"status": status}, "status")


def cut_failed(view: ObjectView, message: str) -> PassStep[None]:
    """Write the error `message` of a CSI driver that could not take the snapshot in `view`.

    It is written into the status of the snapshot's VolumeSnapshotContent.
    """
    status = {"readyToUse": False, "error": {"message": message, "time": view.timestamp()}}
    yield SimulatedPatch(ObjectRef(VOLUME_SNAPSHOT_CONTENT, None, content_name(view)), "", {"status": status}, "status")


def size_of(claim: Manifest | None, view: ObjectView) -> str:
    """Return the size of a snapshot of `claim`: the claim's capacity or, if unknown, its requested size.

    If the claim has neither, or is None, return the default size in the behaviour of `view`. A claim that is restored
    from the snapshot needs at least this size.
    """
    size = get_path(claim, "status", "capacity", "storage") or get_path(
        claim, "spec", "resources", "requests", "storage"
    )
    return str(size or view.behaviour.snapshot.default_size)


def _bytes(quantity: str) -> int:
    """Return a quantity such as `1Gi` in bytes; only the binary suffixes of volume sizes are supported."""
    for suffix, factor in (("Ki", 1024), ("Mi", 1024**2), ("Gi", _GIB), ("Ti", 1024**4)):
        if quantity.endswith(suffix):
            return int(float(quantity.removesuffix(suffix)) * factor)
    return int(float(quantity)) if quantity.replace(".", "", 1).isdigit() else _GIB


SOURCE_PROTECTION: Final = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection"
BOUND_PROTECTION: Final = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection"
_DEFAULT_CLASS: Final = "snapshot.storage.kubernetes.io/is-default-class"


def _reconcile(view: ObjectView) -> PassStep[PassResult]:
    if view.live is None:
        return NOTHING
    if view.deleting:
        return (yield from _delete(view))
    # A ready snapshot is left alone; the real controller takes it again when its content is deleted (docs/flux.md).
    if view.status.get("readyToUse") is True:
        return NOTHING
    memory = view.memory or Trying()
    if memory.retry_at is not None and view.now < memory.retry_at:
        return PassResult(memory=memory, requeue_at=memory.retry_at)
    provided = get_path(view.spec, "source", "volumeSnapshotContentName")
    if provided:
        return (yield from _bind_provided(view, memory, provided))
    return (yield from _provision(view, memory))


def _fail(view: ObjectView, memory: Trying, message: str, *, is_ready_told: bool = True) -> PassStep[PassResult]:
    """Write an error into the snapshot's status, and schedule the next attempt.

    With `is_ready_told` the status also gets `readyToUse: false`. Callers turn that off for a missing snapshot class,
    because the real controller does not set the field then.
    """
    backoff = FailureBackoff(view.behaviour.snapshot.retry_seconds, view.behaviour.snapshot.max_retry_seconds)
    retry = view.at(backoff.delay(memory.failures + 1))
    # The time of an error is that of its first occurrence, so a repetition changes nothing
    # (updateSnapshotErrorStatusWithEvent).
    repeat = get_path(view.status, "error", "message") == message
    error = view.status.get("error") if repeat else {"message": message, "time": view.timestamp()}
    status = {**view.status, "error": error, **({"readyToUse": False} if is_ready_told else {})}
    next_memory = attrs.evolve(memory, attempt=None, retry_at=retry, failures=memory.failures + 1)
    yield from change(view, {"status": status}, subresource="status")
    return PassResult(memory=next_memory, requeue_at=retry, error=message)


def _provision(view: ObjectView, memory: Trying) -> PassStep[PassResult]:
    snapshot_class = _class(view)
    if isinstance(snapshot_class, str):
        return (yield from _fail(view, memory, snapshot_class, is_ready_told=False))
    # Before a claim is looked for: syncSnapshot adds finalizers first (checkandAddSnapshotFinalizers).
    yield from change(view, {"metadata": with_finalizers(view, SOURCE_PROTECTION)})
    claim = _claim(view)
    if isinstance(claim, str):
        return (yield from _fail(view, memory, claim))
    memory, attempt = memory.going_on(view, view.behaviour.snapshot.cut_seconds)
    if view.status.get("boundVolumeSnapshotContentName") is None:
        yield from _bind(view, snapshot_class)
        return PassResult(memory=memory, requeue_at=attempt.until)
    if attempt.until is None or view.now < attempt.until:
        return PassResult(memory=memory, requeue_at=attempt.until)
    if attempt.outcome.ending is not Ending.SUCCEED:
        message = attempt.outcome.message or "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
        if get_path(view.status, "error", "message") != message:
            yield from cut_failed(view, message)
        return (yield from _fail(view, memory, message))
    yield from cut(view, claim)
    yield from _ready(view, size_of(claim, view), content_name(view))
    return NOTHING


def _class(view: ObjectView) -> Manifest | str:
    """Return the VolumeSnapshotClass that the snapshot names or, if the snapshot names none, the default class.

    If that class does not exist, return an error message. Without a check of references, return a made-up class.
    """
    settings, desired = view.behaviour.snapshot, view.spec.get("volumeSnapshotClassName")
    classes = {ref.name: item for ref, item in view.all_of(VOLUME_SNAPSHOT_CLASS)}
    if desired is None:
        marked = (
            item for item in classes.values() if get_path(item, "metadata", "annotations", _DEFAULT_CLASS) == "true"
        )
        snapshot_class = next(marked, None)
    else:
        snapshot_class = classes.get(desired)
    if snapshot_class is None and not settings.checks_references:
        return {"metadata": {"name": desired or "default"}, "driver": settings.driver, "deletionPolicy": "Delete"}
    if snapshot_class is None and desired is None:
        return "Failed to set default snapshot class with error cannot find default snapshot class"
    if snapshot_class is None:
        missing = f'volumesnapshotclass.{VOLUME_SNAPSHOT_CLASS.group} "{desired}" not found'
        return f"Failed to get snapshot class with error {missing}"
    return snapshot_class


def _claim(view: ObjectView) -> Manifest | str | None:
    """Return the PersistentVolumeClaim to take a snapshot of, or an error message if it does not exist or is not bound.

    If references are not checked, return the claim in any state, or None if it does not exist.
    """
    name = str(get_path(view.spec, "source", "persistentVolumeClaimName"))
    claim = view.world.get(ObjectRef(PERSISTENT_VOLUME_CLAIM, view.ref.namespace, name))
    if not view.behaviour.snapshot.checks_references:
        return claim
    prefix = "Failed to create snapshot content with error"
    if claim is None:
        failed = f"snapshot controller failed to update {view.ref.name} on API server"
        return f"{prefix} {failed}: cannot get claim from snapshot"
    if get_path(claim, "status", "phase") != "Bound":
        unbound = f'"the PVC {name} is not yet bound to a PV, will not attempt to take a snapshot"'
        return f"{prefix} failed to get input parameters to create snapshot {view.ref.name}: {unbound}"
    return claim


def _bind(view: ObjectView, class_: Manifest) -> PassStep[None]:
    """Bind the snapshot to a new VolumeSnapshotContent, not ready yet: write finalizers, the content and a status."""
    name = str(metadata(class_)["name"])
    # The default class is written into the spec (SetDefaultSnapshotClass), so a later default does not change it.
    spec = {**view.spec, "volumeSnapshotClassName": name}
    status = {**view.status, "boundVolumeSnapshotContentName": content_name(view), "readyToUse": False}
    yield from change(view, {"spec": spec})
    yield SimulatedCreate(VOLUME_SNAPSHOT_CONTENT, content_manifest(view, class_))
    yield from change(view, {"status": status}, subresource="status")
    # It is added after the creation, as by the real controller (addContentFinalizer), so readers see a content without
    # it.
    held = {"finalizers": [CONTENT_PROTECTION]}
    yield SimulatedPatch(ObjectRef(VOLUME_SNAPSHOT_CONTENT, None, content_name(view)), "", {"metadata": held})
    yield from change(view, {"metadata": with_finalizers(view, SOURCE_PROTECTION, BOUND_PROTECTION)})


def _ready(view: ObjectView, size: str, content: str) -> PassStep[None]:
    """Write a status that says that the snapshot is ready, without the error of an earlier attempt."""
    status = {key: value for key, value in view.status.items() if key != "error"}
    status |= {"boundVolumeSnapshotContentName": content, "creationTime": view.timestamp()}
    status |= {"readyToUse": True, "restoreSize": size}
    yield from change(view, {"status": status}, subresource="status")


def _bind_provided(view: ObjectView, memory: Trying, name: str) -> PassStep[PassResult]:
    """Bind the snapshot to `name`, a VolumeSnapshotContent that a user created.

    If it does not exist, or refers to another snapshot, write that error into the snapshot's status.
    """
    ref = ObjectRef(VOLUME_SNAPSHOT_CONTENT, None, name)
    content = view.world.get(ref)
    if content is None:
        return (yield from _fail(view, memory, f"VolumeSnapshotContent is missing: {name}"))
    back = get_path(content, "spec", "volumeSnapshotRef") or {}
    if (back.get("namespace"), back.get("name")) != (view.ref.namespace, view.ref.name):
        return (yield from _fail(view, memory, f"VolumeSnapshotContent [{name}] is bound to a different snapshot"))
    # A content without uid waits for any snapshot of that name; with another uid it belongs to a deleted one
    # (checkandBindSnapshotContent).
    if back.get("uid") not in (None, "", view.uid):
        return (yield from _fail(view, memory, f"VolumeSnapshotContent [{name}] is bound to a different snapshot"))
    status = {"readyToUse": True, "snapshotHandle": str(get_path(content, "spec", "source", "snapshotHandle") or name)}
    yield from change(view, {"metadata": with_finalizers(view, BOUND_PROTECTION)})
    yield SimulatedPatch(ref, uid_of(content), {"spec": {"volumeSnapshotRef": {"uid": view.uid}}})
    yield SimulatedPatch(ref, uid_of(content), {"status": status}, "status")
    yield from _ready(view, view.behaviour.snapshot.default_size, name)
    return NOTHING


def _delete(view: ObjectView) -> PassStep[PassResult]:
    """Finish the deletion of a snapshot: remove its finalizers.

    Its VolumeSnapshotContent is also deleted if the `deletionPolicy` says so.
    """
    name = view.status.get("boundVolumeSnapshotContentName")
    content = view.world.get(ObjectRef(VOLUME_SNAPSHOT_CONTENT, None, str(name)))
    if content is not None and get_path(content, "spec", "deletionPolicy") == "Delete":
        ref = ObjectRef(VOLUME_SNAPSHOT_CONTENT, None, str(name))
        yield from without_finalizers(ref, content, CONTENT_PROTECTION)
        yield SimulatedDelete(ref, uid_of(content))
    yield from without_finalizers(view.ref, view.live, SOURCE_PROTECTION, BOUND_PROTECTION)
    return NOTHING


_AWAITED: Final = (PERSISTENT_VOLUME_CLAIM, VOLUME_SNAPSHOT_CLASS, VOLUME_SNAPSHOT_CONTENT)
"""The kinds for which a snapshot that is not ready may wait."""

SNAPSHOT_CONTROLLER: Final = DownstreamController(
    "snapshot-controller",
    (VOLUME_SNAPSHOT,),
    _reconcile,
    watches=_AWAITED,
    wakes=waiting_for(
        _AWAITED, (VOLUME_SNAPSHOT,), lambda snapshot, _: get_path(snapshot, "status", "readyToUse") is not True
    ),
)
"""The snapshot controller; its name is the field manager of its writes."""
