"""What a snapshot holds: its content, which the CSI driver cuts and reports on."""

from typing import Any, Final

from vworkspace_core.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from vworkspace_core.apimachinery.resources import VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CONTENT
from vworkspace_fake.downstream.controller import ObjectView
from vworkspace_fake.simulation.effects import PassStep, SimulatedPatch

CONTENT_PROTECTION: Final = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"
_GIB: Final = 1024**3


def content_name(view: ObjectView) -> str:
    """The name of the content that is made for a snapshot."""
    return f"snapcontent-{view.uid}"


def content_manifest(view: ObjectView, class_: Manifest) -> dict[str, Any]:
    """The content of a snapshot, bound to it."""
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
    """What the driver's side reports on the content, where that kind is served."""
    status = {
        "error": None,
        "creationTime": round(view.now.timestamp()) * 10**9,
        "readyToUse": True,
        "restoreSize": _bytes(size_of(claim, view)),
        "snapshotHandle": f"snap-{view.uid}",
    }
    # Its name holds the snapshot's uid: it can be no other.
    ref = ObjectRef(VOLUME_SNAPSHOT_CONTENT, None, content_name(view))
    yield SimulatedPatch(ref, "", {"status": status}, "status")


def cut_failed(view: ObjectView, message: str) -> PassStep[None]:
    """Report on the content that the driver could not cut."""
    status = {"readyToUse": False, "error": {"message": message, "time": view.timestamp()}}
    yield SimulatedPatch(ObjectRef(VOLUME_SNAPSHOT_CONTENT, None, content_name(view)), "", {"status": status}, "status")


def size_of(claim: Manifest | None, view: ObjectView) -> str:
    """How large the claim is, which is how large a restored one has to be."""
    size = get_path(claim, "status", "capacity", "storage") or get_path(
        claim, "spec", "resources", "requests", "storage"
    )
    return str(size or view.behaviour.snapshot.default_size)


def _bytes(quantity: str) -> int:
    """A size in bytes; only the binary suffixes that sizes of volumes have."""
    for suffix, factor in (("Ki", 1024), ("Mi", 1024**2), ("Gi", _GIB), ("Ti", 1024**4)):
        if quantity.endswith(suffix):
            return int(float(quantity.removesuffix(suffix)) * factor)
    return int(float(quantity)) if quantity.replace(".", "", 1).isdigit() else _GIB
