"""The port to a Kubernetes API server: requests as values, the transport that sends them, and layers around it.

`kube_api` builds the requests. A layer is a function `(request, next) -> answer`: it may refuse the request, change it,
delay it, or look at the answer.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

import attrs

from purekube.apimachinery.manifest import Json, Kind, Manifest, ObjectRef


class PatchType(StrEnum):
    """The media type of a PATCH that is not an apply."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class Propagation(StrEnum):
    """The `propagationPolicy` of a delete: what happens to the object's dependents."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


class WatchEventType(StrEnum):
    """The type of a watch event. ERROR is missing, since an ERROR line of the stream becomes an exception."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@attrs.frozen
class WatchEvent:
    """One event of a watch. The object of a BOOKMARK has only apiVersion, kind and `metadata.resourceVersion`."""

    type: WatchEventType
    object: Manifest


@attrs.frozen
class ListPage:
    """One page of a list. `continue_token` is empty on the last page."""

    items: Sequence[Manifest]
    resource_version: str
    continue_token: str = ""


class KubeVerb(StrEnum):
    """The verb of a request. The API server authorizes APPLY as a patch, and also as a create for a new object."""

    GET = "get"
    LIST = "list"
    WATCH = "watch"
    CREATE = "create"
    UPDATE = "update"
    APPLY = "apply"
    PATCH = "patch"
    DELETE = "delete"


WRITES: Final = frozenset((KubeVerb.CREATE, KubeVerb.UPDATE, KubeVerb.APPLY, KubeVerb.PATCH, KubeVerb.DELETE))
"""The verbs of requests that may change objects."""
_REVIEWS: Final = ("authorization.k8s.io", "authentication.k8s.io")
"""The API groups whose objects are reviews, which are answered and not stored."""


@attrs.frozen
class KubeRequest:
    """A request to an API server about one object or, without a name, about a collection.

    `params` are the query parameters; parameters that are None or "" are not sent.
    """

    verb: KubeVerb
    kind: Kind
    namespace: str | None = None
    name: str = ""
    subresource: str = ""
    params: Mapping[str, str | int | None] = attrs.field(factory=dict)
    body: Json = attrs.field(default=None, repr=False)
    patch_type: PatchType | None = None
    metadata_only: bool = False
    """True to receive only apiVersion, kind and metadata of each object (PartialObjectMetadata)."""
    account: ObjectRef | None = None
    """The ServiceAccount to impersonate, if any."""

    @property
    def action(self) -> str:
        """The verb and the subresource as text, such as `apply status`."""
        return f"{self.verb} {self.subresource}" if self.subresource else self.verb.value

    @property
    def ref(self) -> ObjectRef:
        """The reference of the request's object."""
        return ObjectRef(self.kind, self.namespace, self.name)

    @property
    def is_review(self) -> bool:
        """True for a request that the API server answers without storing an object, such as a SubjectAccessReview."""
        return self.verb is KubeVerb.CREATE and not self.subresource and self.kind.group in _REVIEWS

    @property
    def writes(self) -> bool:
        """True if the request may change objects: it is a write, but neither a dry run nor a review."""
        return self.verb in WRITES and not self.is_review and not self.params.get("dryRun")

    def __str__(self) -> str:
        action = f"{self.action} of" if self.subresource else self.action
        where = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{action} {self.kind.kind} {where}".rstrip()


class KubeTransport(Protocol):
    """A connection to an API server. It raises only the errors that `KubeApi` documents."""

    async def send(self, request: KubeRequest) -> Manifest:
        """Send a request, and return the response: the object or list; for a delete, a Status or the object."""
        ...

    def watch(self, request: KubeRequest) -> AsyncIterator[WatchEvent]:
        """Send a watch request, and yield its events until the server ends the watch."""
        ...


Send: TypeAlias = Callable[[KubeRequest], Awaitable[Manifest]]
"""A function that passes a request on, to the next layer or to the transport. A `Layer` gets it as its second argument.
"""
Watch: TypeAlias = Callable[[KubeRequest], AsyncIterator[WatchEvent]]
"""A function that passes a watch on, to the next layer or to the transport. A `WatchLayer` gets it as its second
argument.
"""
Layer: TypeAlias = Callable[[KubeRequest, Send], Awaitable[Manifest]]
"""A function around `KubeTransport.send`, which gets the request and the next `send`, and returns the answer."""
WatchLayer: TypeAlias = Callable[[KubeRequest, Watch], AsyncIterator[WatchEvent]]
"""A function around `KubeTransport.watch`, which gets the request and the next `watch`, and yields the events."""


@attrs.frozen
class LayeredTransport:
    """A transport that passes requests through `layer` and watches through `watch_layer` to the transport `inner`.

    A layer is a function that may change, refuse or record a request. Without a layer (None), requests pass unchanged.
    """

    inner: KubeTransport
    layer: Layer | None = None
    watch_layer: WatchLayer | None = None

    async def send(self, request: KubeRequest) -> Manifest:
        """Send a request through `layer`, and return the answer."""
        if self.layer is None:
            return await self.inner.send(request)
        return await self.layer(request, self.inner.send)

    def watch(self, request: KubeRequest) -> AsyncIterator[WatchEvent]:
        """Send a watch request through `watch_layer`, and yield its events."""
        return self.inner.watch(request) if self.watch_layer is None else self.watch_layer(request, self.inner.watch)
