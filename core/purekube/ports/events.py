"""Kubernetes Events (RUN-5)."""

from typing import Protocol

import attrs

from purekube.apimachinery.manifest import ObjectRef


@attrs.frozen
class KubernetesEvent:
    """A Kubernetes Event to write: the object it is about, what happened, and our action (RUN-5)."""

    regarding: ObjectRef
    regarding_uid: str
    type: str
    reason: str
    action: str
    note: str


class EventSink(Protocol):
    """A receiver of Kubernetes Events. Never raises: an event that cannot be written is counted and dropped."""

    async def emit(self, event: KubernetesEvent) -> None:
        """Publish one event."""
        ...
