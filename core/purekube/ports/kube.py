"""The port to a Kubernetes API server."""

from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from typing import Any, Protocol

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef


class PatchType(StrEnum):
    """The media type of a PATCH that is not an apply."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class Propagation(StrEnum):
    """The treatment of dependents on delete."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


class WatchEventType(StrEnum):
    """The type of one line of a watch. In-stream ERROR lines become exceptions; they are not events."""

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

    def impersonating(self, account: ObjectRef) -> "KubeApi":
        """Return the same API server with every call made as a ServiceAccount, which takes the right `impersonate`."""
        ...

    async def get(self, ref: ObjectRef, *, resource_version: str = "", metadata_only: bool = False) -> Manifest:
        """Read one object as it is now; with `resource_version` from the server's cache, no older than it ("0": any).

        Raises NotFound.
        """
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
        metadata_only: bool = False,
    ) -> ListPage:
        """Read one page; `namespace=None` lists all namespaces. Raises Expired for an old token.

        With `metadata_only` the server sends only type and metadata of each object.
        """
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
        metadata_only: bool = False,
    ) -> AsyncIterator[WatchEvent]:
        """Yield changes after `resource_version`, bookmarks included, until the server ends the stream.

        With `metadata_only` the server sends type and metadata of each object and nothing of its content.

        Raises Expired (HTTP 410 and in-stream alike), and Unavailable if the connection breaks or a line cannot be
        read, at the first `__anext__` or any later one. A clean end is StopAsyncIteration.
        """
        ...

    async def create(self, manifest: Manifest, *, kind: Kind, field_manager: str) -> Manifest:
        """POST the object. Raises AlreadyExists, Invalid, NotFound (namespace)."""
        ...

    async def update(self, manifest: Manifest, *, kind: Kind, field_manager: str) -> Manifest:
        """PUT the object with its resourceVersion. Raises NotFound, Stale, Invalid."""
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
        """Send a server-side apply. Raises Conflict, Stale (uid or resourceVersion), Invalid, NotFound (namespace)."""
        ...

    async def apply_status(
        self, manifest: Manifest, *, kind: Kind, field_manager: str, force: bool = False
    ) -> Manifest:
        """Send a server-side apply to `/status`. Raises NotFound, Conflict, Stale, Invalid."""
        ...

    async def patch(
        self, ref: ObjectRef, patch: Any, *, patch_type: PatchType, field_manager: str, subresource: str = ""
    ) -> Manifest:
        """Send a JSON, merge or strategic patch. Raises NotFound, Stale, Invalid."""
        ...

    async def delete(
        self,
        ref: ObjectRef,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation = Propagation.BACKGROUND,
    ) -> Manifest | None:
        """DELETE with preconditions. Return the object if finalizers keep it, None if it is gone.

        Raises NotFound, Stale (a precondition does not hold).
        """
        ...
