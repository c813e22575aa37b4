"""The client of a Kubernetes API server: each call checks its arguments, sends one request, and reads the answer."""

import copy
from collections.abc import AsyncIterator, Mapping
from typing import Any, Self

import attrs

from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import Json, Kind, Manifest, ObjectRef, get_path, ref_of
from purekube.ports.emptied import became_null, second_apply, without_refused_maps
from purekube.ports.kube import (
    KubeRequest,
    KubeTransport,
    KubeVerb,
    Layer,
    LayeredTransport,
    ListPage,
    PatchType,
    Propagation,
    WatchEvent,
    WatchLayer,
)


class KubeApi:
    """A client of the API server to which `transport` leads. In each call, `field_manager` names the writer in
    managedFields.

    Every call may raise `Forbidden`, `Unauthorized`, `Unavailable` and `Permanent`, `KindMissing` if the kind is not
    served, and `Invalid` for a name or namespace that no API server accepts; further errors are listed with each call.
    """

    def __init__(self, transport: KubeTransport, account: ObjectRef | None = None) -> None:
        self.transport = transport
        self._account = account

    def impersonating(self, account: ObjectRef) -> Self:
        """Return a client that makes every call as a ServiceAccount. This needs the right `impersonate`.

        Raises Invalid for a name that no ServiceAccount can have.
        """
        _check("impersonate", account)
        client = copy.copy(self)
        client._account = account
        return client

    def through(self, layer: Layer | None = None, watch_layer: WatchLayer | None = None) -> Self:
        """Return a client that sends requests through `layer` and watches through `watch_layer`.

        A layer is a function around the transport, which may change, refuse or record a request. None adds no layer.
        """
        client = copy.copy(self)
        client.transport = LayeredTransport(self.transport, layer, watch_layer)
        return client

    async def get(self, ref: ObjectRef, *, resource_version: str = "", metadata_only: bool = False) -> Manifest:
        """Read one object as it is now.

        With `resource_version` the server may answer from its cache if the cache is at least as recent ("0": however
        old). With `metadata_only` the server sends only apiVersion, kind and metadata. Raises NotFound if the object
        does not exist.
        """
        params = {"resourceVersion": resource_version} if resource_version else {}
        return await self.transport.send(self._about(KubeVerb.GET, ref, params, metadata_only=metadata_only))

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
        """Read one page of a list; `namespace=None` lists all namespaces. Raises Expired for an old continue token.

        A page has at most `limit` objects (0: the list has only one page). With `metadata_only` the server sends only
        apiVersion, kind and metadata of each object. A continue token determines the resourceVersion already, so
        `resource_version` is not sent with it (W-04).
        """
        params: dict[str, str | int | None] = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "limit": limit or None,
            "continue": continue_token,
            "resourceVersion": "" if continue_token else resource_version,
        }
        answer = await self.transport.send(
            KubeRequest(
                KubeVerb.LIST, kind, namespace, params=params, metadata_only=metadata_only, account=self._account
            )
        )
        meta = answer["metadata"]
        return ListPage(answer["items"], str(meta["resourceVersion"]), str(meta.get("continue") or ""))

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

        With `metadata_only` the server sends only apiVersion, kind and metadata of each object.

        Raises Expired (for HTTP status 410 or an ERROR event with it), and Unavailable if the connection breaks or a
        line cannot be read, at the first `__anext__` or any later one. A clean end is StopAsyncIteration.
        """
        params: dict[str, str | int | None] = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "resourceVersion": resource_version,
            "timeoutSeconds": timeout_seconds,
        }
        return self.transport.watch(
            KubeRequest(
                KubeVerb.WATCH, kind, namespace, params=params, metadata_only=metadata_only, account=self._account
            )
        )

    async def create(self, manifest: Manifest, *, kind: Kind, field_manager: str) -> Manifest:
        """Create the object by POST, and return it as the server stored it.

        Raises AlreadyExists, Invalid if the server refuses the content, and NotFound if the namespace does not exist.
        """
        ref = _target(manifest, kind)
        _need_namespace("create", ref)
        request = KubeRequest(
            KubeVerb.CREATE,
            kind,
            ref.namespace,
            ref.name,
            params=_strict(field_manager),
            body=manifest,
            account=self._account,
        )
        return await self.transport.send(request)

    async def review(self, manifest: Manifest, *, kind: Kind) -> Manifest:
        """Create a review, such as a SubjectAccessReview, and return the answer; the server does not store it."""
        return await self.transport.send(KubeRequest(KubeVerb.CREATE, kind, body=manifest, account=self._account))

    async def update(self, manifest: Manifest, *, kind: Kind, field_manager: str) -> Manifest:
        """Replace the object by PUT, and return it as the server stored it.

        Raises NotFound if it does not exist, Stale if it has changed since the manifest's resourceVersion, and Invalid
        if the server refuses the content.
        """
        ref, params = _target(manifest, kind), _strict(field_manager)
        return await self.transport.send(self._about(KubeVerb.UPDATE, ref, params, body=manifest))

    async def apply(
        self, manifest: Manifest, *, kind: Kind, field_manager: str, force: bool = False, dry_run: bool = False
    ) -> Manifest:
        """Send a server-side apply, and return the resulting object; `dry_run` stores nothing.

        Raises Conflict if other managers hold fields and `force` is False, Stale if the manifest's uid or
        resourceVersion is not the object's, Invalid if the server refuses the content, and NotFound if the namespace
        does not exist.
        """
        params = _strict(field_manager, force="true" if force else None, dryRun="All" if dry_run else None)
        ref = _target(manifest, kind)
        return await self._apply(self._about(KubeVerb.APPLY, ref, params, body=manifest))

    async def apply_status(
        self, manifest: Manifest, *, kind: Kind, field_manager: str, force: bool = False
    ) -> Manifest:
        """Send a server-side apply to `/status`, and return the resulting object.

        With `force` the apply takes over fields of other managers. Raises NotFound if the object does not exist;
        otherwise the same errors as `apply`.
        """
        params = _strict(field_manager, force="true" if force else None)
        ref = _target(manifest, kind)
        return await self._apply(self._about(KubeVerb.APPLY, ref, params, subresource="status", body=manifest))

    async def _apply(self, request: KubeRequest) -> Manifest:
        """Send an apply. If the server stored null for a map that the apply empties, send the same apply a second time
        (S-42).

        The server may refuse such a null. In that case send the first apply without the map. A dry run has no second
        apply.
        """
        try:
            answer = await self.transport.send(request)
        except Invalid as refusal:
            first = without_refused_maps(request.body, refusal)
            if first is None:
                raise
            answer = await self._instead(attrs.evolve(request, body=first), refusal)
        else:
            if not became_null(request.body, answer):
                return answer
        if request.params.get("dryRun"):
            return answer
        return await self.transport.send(attrs.evolve(request, body=second_apply(request.body, answer)))

    async def _instead(self, request: KubeRequest, refusal: Invalid) -> Manifest:
        """Send `request` in place of a request that the server refused with `refusal`. If `request` is invalid too,
        raise `refusal`.
        """
        try:
            return await self.transport.send(request)
        except Invalid:
            raise refusal from None

    async def patch(
        self,
        ref: ObjectRef,
        patch: Any,
        *,
        patch_type: PatchType,
        field_manager: str,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Manifest:
        """Send a JSON, merge or strategic patch, and return the resulting object; `dry_run` stores nothing.

        `patch_type` is the type of `patch`, and `subresource`, if not empty, is patched in place of the object itself.
        Field validation is not strict, because the rest of the object may belong to other writers; in a dry run it is,
        as in a patch of `kubectl apply`. Raises NotFound if the object does not exist, Stale if it is not the one that
        the patch names by uid or resourceVersion, and Invalid if the server refuses the patch.
        """
        params = _strict(field_manager, dryRun="All") if dry_run else {"fieldManager": field_manager}
        request = self._about(KubeVerb.PATCH, ref, params, subresource=subresource, body=patch, patch_type=patch_type)
        return await self.transport.send(request)

    async def delete(
        self,
        ref: ObjectRef,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation = Propagation.BACKGROUND,
    ) -> Manifest | None:
        """Delete the object. Return the object if finalizers or a grace period keep it; None if it is gone.

        `propagation` says what happens to its dependents. Raises NotFound if the object does not exist, and Stale if
        its uid or resourceVersion differs from a given one.
        """
        request = self._about(KubeVerb.DELETE, ref, body=_options(uid, resource_version, propagation))
        return left_of(await self.transport.send(request))

    def _about(
        self,
        verb: KubeVerb,
        ref: ObjectRef,
        params: Mapping[str, str | int | None] = {},
        *,
        subresource: str = "",
        body: Json = None,
        patch_type: PatchType | None = None,
        metadata_only: bool = False,
    ) -> KubeRequest:
        """Return a request with the verb `verb` about one object. `params` are query parameters.

        Raises Invalid for a name or namespace that no API server accepts.
        """
        _check(verb, ref)
        return KubeRequest(
            verb, ref.kind, ref.namespace, ref.name, subresource, params, body, patch_type, metadata_only, self._account
        )


def left_of(answer: Manifest) -> Manifest | None:
    """Return the object in the response to a DELETE if the object still exists. Return None if it is gone.

    Finalizers may keep it, or the grace period of a Pod, in which its containers still run. The API server answers a
    DELETE with a Status or with the object. For some built-in kinds the response has the object even if it no longer
    exists.
    """
    meta = answer.get("metadata")
    # The finalizers of a namespace's content are in its spec (kubernetes: registry/core/namespace/storage/storage.go).
    is_namespace = (answer.get("apiVersion"), answer.get("kind")) == ("v1", "Namespace")
    keepers = (
        get_path(meta, "finalizers"),
        get_path(meta, "deletionGracePeriodSeconds"),  # 0 for what was deleted at once
        is_namespace and get_path(answer, "spec", "finalizers"),
    )
    return answer if get_path(meta, "deletionTimestamp") and any(keepers) else None


def _target(manifest: Manifest, kind: Kind) -> ObjectRef:
    """Return the reference of a manifest's object. Raises Invalid if the manifest is of another kind than `kind`."""
    if (manifest.get("apiVersion"), manifest.get("kind")) != (kind.api_version, kind.kind):
        actual = f"{manifest.get('apiVersion')} {manifest.get('kind')}"
        raise Invalid(f"a manifest of {actual} was given as {kind.api_version} {kind.kind}")
    return ref_of(manifest, kind)


def _options(uid: str | None, resource_version: str | None, propagation: Propagation) -> dict[str, Any]:
    """Return the body of a DELETE, with uid and resourceVersion as preconditions."""
    expected = {"uid": uid, "resourceVersion": resource_version}
    preconditions = {key: value for key, value in expected.items() if value is not None}
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation.value}
    return {**options, "preconditions": preconditions} if preconditions else options


def _strict(field_manager: str, **more: str | None) -> dict[str, str | int | None]:
    """Return the query parameters of a write by `field_manager` with strict validation.

    With it, the server refuses unknown fields (W-36). `more` are further parameters.
    """
    return {"fieldManager": field_manager, "fieldValidation": "Strict", **more}


def _check(verb: str, ref: ObjectRef) -> None:
    """Raise Invalid for an object whose name or namespace cannot be a segment of a URL path.

    `verb` is for the message.
    """
    if not ref.name or ref.name in (".", "..") or "/" in ref.name or "%" in ref.name:
        raise Invalid(f"{verb} {ref.kind.kind}: {ref.name!r} is not a name an object can have")
    _need_namespace(verb, ref)


def _need_namespace(verb: str, ref: ObjectRef) -> None:
    """Raise Invalid for a namespaced object without a namespace, or with a namespace that no URL path can contain.

    `verb` is for the message.
    """
    if ref.kind.namespaced and (not ref.namespace or set(ref.namespace) & {"/", "%", "."}):
        raise Invalid(
            f"{verb} {ref.kind.kind} {ref.name}: a namespaced object needs a metadata.namespace, not {ref.namespace!r}"
        )
