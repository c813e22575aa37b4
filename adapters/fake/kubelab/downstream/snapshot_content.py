"""The content of a snapshot, which the CSI driver creates and reports on."""

from typing import Any, Final

from kubelab.downstream.controller import ObjectView
from kubelab.simulation.effects import PassStep, SimulatedPatch
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CONTENT

CONTENT_PROTECTION: Final = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"
_GIB: Final = 1024**3


def content_name(view: ObjectView) -> str:
    """Return the name of the content that is created for a snapshot."""
    return f"snapcontent-{view.uid}"


def content_manifest(view: ObjectView, class_: Manifest) -> dict[str, Any]:
    """Return the content of a snapshot, bound to it."""
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
    """Write the status with which the CSI driver reports a snapshot on its content, if the kind is served."""
    status = {
        "error": None,
        "creationTime": round(view.now.timestamp()) * 10**9,
        "readyToUse": True,
        "restoreSize": _bytes(size_of(claim, view)),
        "snapshotHandle": f"snap-{view.uid}",
    }
    # No uid is needed, as the content's name contains the snapshot's uid.
    ref = ObjectRef(VOLUME_SNAPSHOT_CONTENT, None, content_name(view))
    yield SimulatedPatch(ref, "", {"status": status}, "status")


def cut_failed(view: ObjectView, message: str) -> PassStep[None]:
    """Write the driver's error, that it could not take the snapshot, into the content's status."""
    status = {"readyToUse": False, "error": {"message": message, "time": view.timestamp()}}
    yield SimulatedPatch(ObjectRef(VOLUME_SNAPSHOT_CONTENT, None, content_name(view)), "", {"status": status}, "status")


def size_of(claim: Manifest | None, view: ObjectView) -> str:
    """Return the size of the claim, the least that a restored claim must have."""
    size = get_path(claim, "status", "capacity", "storage") or get_path(
        claim, "spec", "resources", "requests", "storage"
    )
    return str(size or view.behaviour.snapshot.default_size)


def _bytes(quantity: str) -> int:
    """Return a size in bytes; only the binary suffixes of volume sizes are supported."""
    for suffix, factor in (("Ki", 1024), ("Mi", 1024**2), ("Gi", _GIB), ("Ti", 1024**4)):
        if quantity.endswith(suffix):
            return int(float(quantity.removesuffix(suffix)) * factor)
    return int(float(quantity)) if quantity.replace(".", "", 1).isdigit() else _GIB
