"""The ports: the interfaces that the core requires of its surroundings, and the errors that their calls may raise.

Adapters such as `purekube_http` (HTTP) and `kubelab` (a cluster in memory) implement the ports; applications connect
them to the core. All calls may be awaited under any event loop; the in-memory fakes never suspend except in `watch`,
`fetch` with a wait, and `Clock.sleep`. The calls raise no other errors than those that this package exports.
"""

from purekube.apimachinery.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    FieldConflict,
    Forbidden,
    Invalid,
    JobClosed,
    KindMissing,
    NotFound,
    OperatorError,
    Permanent,
    Stale,
    StatusCause,
    Unauthorized,
    Unavailable,
)
from purekube.ports.environment import Clock, Entropy, EventSink, KubernetesEvent
from purekube.ports.kube import (
    KubeRequest,
    KubeTransport,
    KubeVerb,
    Layer,
    ListPage,
    PatchType,
    Propagation,
    Send,
    Watch,
    WatchEvent,
    WatchEventType,
    WatchLayer,
)
from purekube.ports.kube_api import KubeApi

__all__ = [
    "AlreadyExists",
    "Clock",
    "Conflict",
    "Entropy",
    "EventSink",
    "Expired",
    "FieldConflict",
    "Forbidden",
    "Invalid",
    "JobClosed",
    "KindMissing",
    "KubeApi",
    "KubeRequest",
    "KubeTransport",
    "KubeVerb",
    "KubernetesEvent",
    "Layer",
    "ListPage",
    "NotFound",
    "OperatorError",
    "PatchType",
    "Permanent",
    "Propagation",
    "Send",
    "Stale",
    "StatusCause",
    "Unauthorized",
    "Unavailable",
    "Watch",
    "WatchEvent",
    "WatchEventType",
    "WatchLayer",
]
