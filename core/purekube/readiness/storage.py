"""The readiness of PersistentVolumeClaim, PersistentVolume and VolumeSnapshot."""

from purekube.apimachinery.manifest import Manifest
from purekube.readiness.fields import mapping, text
from purekube.readiness.result import Readiness, failed, progressing, ready


def persistent_volume_claim(manifest: Manifest) -> Readiness:
    """Judge a claim: ready once Bound. A class with WaitForFirstConsumer binds it only when a pod uses it."""
    match text(mapping(manifest, "status"), "phase"):
        case "Bound":
            return ready("Bound", f"bound to {text(mapping(manifest, 'spec'), 'volumeName')}")
        case "Lost":
            return failed("Lost", "the volume that it was bound to is gone")
        case _:
            return progressing("Pending", "no volume is bound yet")


def persistent_volume(manifest: Manifest) -> Readiness:
    """Judge a volume: ready if Available, Bound or Released."""
    status = mapping(manifest, "status")
    match text(status, "phase"):
        case "Available" | "Bound" | "Released" as phase:
            return ready(phase)
        case "Failed":
            return failed("Failed", text(status, "message") or "the volume could not be reclaimed")
        case _:
            return progressing("Pending", "the volume is not available yet")


def volume_snapshot(manifest: Manifest) -> Readiness:
    """Judge a snapshot: ready once usable and bound. An error is transient: the snapshotter retries."""
    status = mapping(manifest, "status")
    if status.get("readyToUse") is True and text(status, "boundVolumeSnapshotContentName"):
        return ready("ReadyToUse")
    error = text(mapping(status, "error"), "message")
    return progressing("SnapshotError" if error else "SnapshotPending", error or "the snapshot is not ready to use yet")
