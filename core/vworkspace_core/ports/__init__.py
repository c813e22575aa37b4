"""The ports: what the core asks of the world, and which errors each call may raise.

Adapters implement them (`vworkspace_kube`, `vworkspace_odoo`, `vworkspace_fake`); the app wires them.
All calls may be awaited under any event loop; the in-memory fakes never suspend except in `watch`,
`fetch` with a wait, and `Clock.sleep`. Errors are those of `vworkspace_core.apimachinery.errors`, nothing else.
"""

from vworkspace_core.ports.clock import Clock
from vworkspace_core.ports.control_plane import ControlPlane, Fetched, OversizedJob
from vworkspace_core.ports.events import EventSink, KubernetesEvent
from vworkspace_core.ports.job_store import JobRecord, JobStore, Tombstone
from vworkspace_core.ports.kube import KubeApi, ListPage, PatchType, Propagation, WatchEvent, WatchEventType

__all__ = [
    "Clock",
    "ControlPlane",
    "EventSink",
    "Fetched",
    "JobRecord",
    "JobStore",
    "KubeApi",
    "KubernetesEvent",
    "ListPage",
    "OversizedJob",
    "PatchType",
    "Propagation",
    "Tombstone",
    "WatchEvent",
    "WatchEventType",
]
