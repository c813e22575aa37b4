"""Kubernetes Events as manifests of `events.k8s.io/v1` (RUN-5)."""

from datetime import datetime
from typing import Any, Final

from vworkspace_core.apimachinery.manifest import ObjectRef, content_hash
from vworkspace_core.apimachinery.names import bounded_name
from vworkspace_core.apimachinery.resources import EVENT
from vworkspace_core.apimachinery.secret_material import shown
from vworkspace_core.apimachinery.timestamps import microtime
from vworkspace_core.ports import KubernetesEvent

LONGEST_NOTE: Final = 1024
"""In bytes of UTF-8: that is what the API server counts, whatever its message says."""

_LONGEST_WORD: Final = 128
_CONTROLLER: Final = "vworkspace.io/operator"
_MOST: Final = 2**31 - 1


def event_ref(event: KubernetesEvent, instance: str, first: datetime) -> ObjectRef:
    """Where the Event lies, under a name of its own: beside its object, or in `default` for cluster-scoped ones."""
    ref = event.regarding
    unique = content_hash(
        [instance, microtime(first), event.regarding_uid, event.type, event.reason, event.action, event.note]
    )
    return ObjectRef(EVENT, ref.namespace or "default", f"{bounded_name(ref.name, 220)}.{unique}")


def event_manifest(event: KubernetesEvent, ref: ObjectRef, *, instance: str, first: datetime) -> dict[str, Any]:
    """The manifest of an Event seen once, whose note fits. `instance` names the process, `first` when it happened."""
    about = event.regarding
    regarding = {"apiVersion": about.kind.api_version, "kind": about.kind.kind, "name": about.name}
    if about.namespace:
        regarding["namespace"] = about.namespace
    if event.regarding_uid:
        regarding["uid"] = event.regarding_uid
    return {
        **EVENT.manifest(ref.name, ref.namespace),
        "eventTime": microtime(first),
        "reportingController": _CONTROLLER,
        "reportingInstance": bounded_name(instance, _LONGEST_WORD),
        "action": event.action,
        "reason": event.reason,
        "regarding": regarding,
        "note": event.note,
        "type": event.type,
    }


def series_of(count: int, last: datetime) -> dict[str, Any]:
    """What a repeated Event says beside: how often it was seen, twice at least, and when last."""
    return {"count": min(count, _MOST), "lastObservedTime": microtime(last)}


def note_of(text: str) -> str:
    """`text` without secrets, cut to what fits, between two characters."""
    raw = shown(text, 4 * LONGEST_NOTE).encode("utf-8", "replace")
    if len(raw) <= LONGEST_NOTE:
        return raw.decode()
    return raw[: LONGEST_NOTE - len("…".encode())].decode("utf-8", "ignore") + "…"
