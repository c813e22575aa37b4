"""Kubernetes Events as manifests of `events.k8s.io/v1` (RUN-5)."""

from datetime import datetime
from typing import Any, Final

from purekube.apimachinery.manifest import ObjectRef, content_hash
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.resources import EVENT
from purekube.apimachinery.secret_material import shown
from purekube.apimachinery.timestamps import microtime
from purekube.ports import KubernetesEvent

LONGEST_NOTE: Final = 1024
"""In bytes of UTF-8: the API server counts these, although its error message says characters."""

_LONGEST_WORD: Final = 128
_CONTROLLER: Final = "vworkspace.io/operator"
_MOST: Final = 2**31 - 1


def event_ref(event: KubernetesEvent, instance: str, first: datetime) -> ObjectRef:
    """Return a unique reference for the Event, in its object's namespace, or in `default` for cluster-scoped ones."""
    ref = event.regarding
    unique = content_hash(
        [instance, microtime(first), event.regarding_uid, event.type, event.reason, event.action, event.note]
    )
    return ObjectRef(EVENT, ref.namespace or "default", f"{bounded_name(ref.name, 220)}.{unique}")


def event_manifest(event: KubernetesEvent, ref: ObjectRef, *, instance: str, first: datetime) -> dict[str, Any]:
    """Build the manifest of an Event that occurred once at `first`; its note fits. `instance` names the process."""
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
    """Return the `series` of a repeated Event: how often it occurred, at least twice, and when last."""
    return {"count": min(count, _MOST), "lastObservedTime": microtime(last)}


def note_of(text: str) -> str:
    """Return `text` without secrets, cut to the longest note between two characters."""
    raw = shown(text, 4 * LONGEST_NOTE).encode("utf-8", "replace")
    if len(raw) <= LONGEST_NOTE:
        return raw.decode()
    return raw[: LONGEST_NOTE - len("…".encode())].decode("utf-8", "ignore") + "…"
