"""The ports: what the core asks of the world, and which errors each call may raise.

Adapters implement them (`vworkspace_kube`, `vworkspace_odoo`, `vworkspace_fake`); the app wires them.
All calls may be awaited under any event loop; the in-memory fakes never suspend except in `watch`,
`fetch` with a wait, and `Clock.sleep`. Errors are those of `vworkspace_core.errors`, nothing else.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

import attrs

from vworkspace_core.manifest import Kind, Manifest, ObjectRef

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
    "PatchType",
    "Propagation",
    "Tombstone",
    "WatchEvent",
    "WatchEventType",
]


class PatchType(StrEnum):
    """Media type of a PATCH that is not an apply."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class Propagation(StrEnum):
    """What happens to dependents on delete."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


class WatchEventType(StrEnum):
    """Type of one line of a watch. In-stream ERROR lines become exceptions, they are not events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@attrs.frozen
class WatchEvent:
    """One change. A BOOKMARK's object holds only its type and `metadata.resourceVersion`."""

    type: WatchEventType
    object: Manifest


@attrs.frozen
class ListPage:
    """One page of a list. `continue_token` is empty on the last page."""

    items: Sequence[Manifest]
    resource_version: str
    continue_token: str = ""


class KubeApi(Protocol):
    """A Kubernetes API server. `field_manager` names the writer in managedFields.

    Every call may raise `Forbidden`, `Unauthorized`, `Unavailable` and `Permanent`, and `KindMissing`
    when the kind is not served; further errors are listed with each call.
    """

    async def get(self, ref: ObjectRef) -> Manifest:
        """Read one object. Raises NotFound."""
        ...

    async def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> ListPage:
        """Read one page; `namespace=None` lists all namespaces. Raises Expired for an old token."""
        ...

    def watch(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        timeout_seconds: int = 300,
    ) -> AsyncIterator[WatchEvent]:
        """Changes after `resource_version`, bookmarks included, until the server ends the stream.

        Raises Expired (HTTP 410 and in-stream alike), Unavailable when the connection breaks or a line
        cannot be read, at the first `__anext__` or any later one. A clean end is StopAsyncIteration.
        """
        ...

    async def create(self, manifest: Manifest, *, kind: Kind, field_manager: str) -> Manifest:
        """POST. Raises AlreadyExists, Invalid, NotFound (namespace)."""
        ...

    async def update(self, manifest: Manifest, *, kind: Kind, field_manager: str) -> Manifest:
        """PUT with the manifest's resourceVersion. Raises NotFound, Stale, Invalid."""
        ...

    async def apply(
        self,
        manifest: Manifest,
        *,
        kind: Kind,
        field_manager: str,
        force: bool = False,
        dry_run: bool = False,
    ) -> Manifest:
        """Server-side apply. Raises Conflict, Stale (uid or resourceVersion), Invalid, NotFound (namespace)."""
        ...

    async def apply_status(
        self, manifest: Manifest, *, kind: Kind, field_manager: str, force: bool = False
    ) -> Manifest:
        """Server-side apply to `/status`. Raises NotFound, Conflict, Stale, Invalid."""
        ...

    async def patch(
        self, ref: ObjectRef, patch: Any, *, patch_type: PatchType, field_manager: str, subresource: str = ""
    ) -> Manifest:
        """JSON, merge or strategic patch. Raises NotFound, Stale, Invalid."""
        ...

    async def delete(
        self,
        ref: ObjectRef,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation = Propagation.BACKGROUND,
    ) -> None:
        """DELETE with preconditions. Raises NotFound, Stale (a precondition does not hold)."""
        ...


@attrs.frozen
class Fetched:
    """What a long poll brought. Jobs are raw mappings: the core judges them, so that a bad one is answered.

    `server_time` is the control plane's `Date` header (PULL-12), None when it sent none.
    """

    jobs: Sequence[Any]
    server_time: datetime | None = None


class ControlPlane(Protocol):
    """The vWorkspace control plane, seen from the agent (PULL-1).

    Every call may raise Unauthorized, Forbidden, Unavailable (network, 429 with retry_after, 5xx, a body
    that is not the expected JSON), NotFound and Permanent.
    """

    async def fetch(self, cluster_id: str, wait_seconds: int) -> Fetched:
        """Long poll for jobs; an empty list after `wait_seconds`."""
        ...

    async def ack(self, job_id: str) -> None:
        """Take the job; must come before applying. Raises NotFound when the server has closed it."""
        ...

    async def status(self, job_id: str, body: Mapping[str, Any]) -> None:
        """Progress of an open job."""
        ...

    async def result(self, job_id: str, body: Mapping[str, Any]) -> None:
        """Terminal result. A 409 (accepted before) is success here, not an error (PULL-4)."""
        ...

    async def events(self, batch: Sequence[Mapping[str, Any]]) -> None:
        """A batch of what belongs to no open job. Raises Invalid for a batch refused as malformed."""
        ...

    async def register(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """One-time token for a long-lived credential."""
        ...

    async def rotate(self) -> Mapping[str, Any]:
        """A new credential; the old one stays valid for a grace period."""
        ...


@attrs.frozen
class JobRecord:
    """An open job as it must survive a crash between ack and result (PULL-4)."""

    job_id: str
    raw: Mapping[str, Any]
    state: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class Tombstone:
    """What remains of a closed job: proof that its idempotencyKey had its effect (PULL-3, PULL-4)."""

    idempotency_key: str
    outcome: str
    object_uid: str = ""
    generation: int = 0
    closed_at: str = ""


class JobStore(Protocol):
    """Where open jobs and tombstones live. Raises Unavailable; `put` raises Invalid when a record is too large.

    A record is written before its ack and deleted after its result was accepted; tombstones outlive it.
    """

    async def load(self) -> Sequence[JobRecord]:
        """Every open job."""
        ...

    async def put(self, record: JobRecord) -> None:
        """Write or replace the record of one job."""
        ...

    async def close(self, job_id: str, tombstone: Tombstone | None) -> None:
        """Remove the record and, when given, remember the tombstone. Idempotent."""
        ...

    async def tombstone(self, idempotency_key: str) -> Tombstone | None:
        """The tombstone of a key, if its effect happened."""
        ...

    async def newest(self, object_key: str) -> Tombstone | None:
        """The tombstone of the highest generation whose key is `<object_key>@<generation>`, if there is one.

        `object_key` is `<kind>/<namespace>/<name>`; without it, a late apply would resurrect what a newer
        delete removed, since a deleted object carries no generation any more.
        """
        ...


class Clock(Protocol):
    """Time as a port: real in production, virtual in simulations."""

    def now(self) -> datetime:
        """Wall time, timezone-aware UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Suspend for `seconds`."""
        ...


@attrs.frozen
class KubernetesEvent:
    """A Kubernetes Event to be: who it is about, what happened, and what we were doing (RUN-5)."""

    regarding: ObjectRef
    regarding_uid: str
    type: str
    reason: str
    action: str
    note: str


class EventSink(Protocol):
    """Takes Kubernetes Events. Never raises: an event that cannot be written is counted and dropped."""

    async def emit(self, event: KubernetesEvent) -> None:
        """Publish one event."""
        ...
