"""`KubeApi` over aiohttp: the operator's only way to a real API server.

aiohttp sends. lightkube reads the kubeconfig or the in-cluster configuration, and knows credential plugins and TLS.
Its own requests are not used: they have edges that must not reach a reconcile (`requests`, `errors`, `watch`).
"""

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

import aiohttp
import anyio
import attrs
from lightkube.config.kubeconfig import SingleConfig

from vworkspace_core.apimachinery.manifest import Kind, Manifest, ObjectRef
from vworkspace_core.ports import ListPage, PatchType, Propagation, WatchEvent
from vworkspace_kube.authorization import MAX_AGE
from vworkspace_kube.dispatch import TooLarge, accepted, at_most, dispatch
from vworkspace_kube.errors import RequestInfo, transport_error
from vworkspace_kube.lines import LineSplitter
from vworkspace_kube.requests import (
    APPLY_PATCH,
    ONLY_METADATA,
    KubeRequest,
    collection,
    delete_options,
    need_namespace,
    object_request,
    strict,
    target_of,
)
from vworkspace_kube.responses import left_of, object_of, page_of, review_of, version_of
from vworkspace_kube.transport import BeforeWrite, ConnectionPool, Observe
from vworkspace_kube.watch import read_events

WATCH_GRACE = 15.0
"""Seconds a watch's read timeout lies above the server's: a half-open connection ends, a quiet one does not."""

_CLOSE_LIMIT = 5.0
_PAGE_BYTES = 2 * 1024 * 1024
"""Bytes of a page of several objects. Decoded it takes six times as much, and a start reads several kinds at once."""


_VERSION = Kind("", "v1", "version", "version", namespaced=False)
"""No resource: a name for messages."""


class KubeApiClient:
    """A Kubernetes API server, reached as `config` says. An async context manager.

    `request_timeout` bounds connecting, sending and each silence while reading, in seconds (an admission
    webhook may take 30); a watch may be silent for its own timeout and `watch_grace`. Token and
    authority files are read again after `credential_max_age` seconds. `observe` is told of
    every request, `before_write` may stop a writing one. Errors are those of the `KubeApi` port.
    """

    def __init__(
        self,
        config: SingleConfig,
        *,
        request_timeout: float = 35.0,
        connect_timeout: float = 10.0,
        watch_grace: float = WATCH_GRACE,
        connections: int = 64,
        credential_max_age: float = MAX_AGE,
        observe: Observe = lambda method, code, seconds: None,
        before_write: BeforeWrite = lambda: None,
    ) -> None:
        timeout = aiohttp.ClientTimeout(
            connect=request_timeout, sock_connect=connect_timeout, sock_read=request_timeout
        )
        hooks: dict[str, Any] = {
            "timeout": timeout,
            "credential_max_age": credential_max_age,
            "observe": observe,
            "before_write": before_write,
        }
        self._timeout = timeout
        self._watch_grace = watch_grace
        self._requests = ConnectionPool(config, connections=connections, keep=True, **hooks)
        # One connection per watch, as many as there are informers; none is kept, so that a watch never
        # starts on a connection its peer has forgotten.
        self._watches = ConnectionPool(config, connections=0, keep=False, **hooks)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection, watches included."""
        with anyio.move_on_after(_CLOSE_LIMIT, shield=True):  # also while being cancelled
            await self._requests.close()
            await self._watches.close()

    async def get(self, ref: ObjectRef, *, resource_version: str = "") -> Manifest:
        """Read one object."""
        return await self._object(object_request("GET", "get", ref, params={"resourceVersion": resource_version}))

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
        """Read one page. A continue token carries its own resourceVersion, so the other is not sent (W-04).

        A page that is larger than can be held in memory lightly is asked for again with fewer objects.
        """
        params: dict[str, str | int | None] = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "limit": limit or None,
            "continue": continue_token,
            "resourceVersion": "" if continue_token else resource_version,
        }
        accept = ONLY_METADATA if metadata_only else ""
        request = collection("GET", "list", kind, namespace, params=params, accept=accept)
        while limit > 1:
            response = await dispatch(self._requests, attrs.evolve(request, params={**params, "limit": limit}))
            try:
                body = await at_most(request.info, response, _PAGE_BYTES)
                return page_of(request.info, body, metadata_only=metadata_only)
            except TooLarge:
                limit //= 4
        single = {**params, "limit": 1} if params["limit"] else params
        body = await self._send(attrs.evolve(request, params=single))
        return page_of(request.info, body, metadata_only=metadata_only)

    async def watch(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        timeout_seconds: int = 300,
    ) -> AsyncIterator[WatchEvent]:
        """One watch stream, with bookmarks, until the server ends it."""
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "resourceVersion": resource_version,
            "timeoutSeconds": timeout_seconds,
        }
        request = collection("GET", "watch", kind, namespace, params=params)
        timeout = attrs.evolve(self._timeout, sock_read=timeout_seconds + self._watch_grace)
        async for event in self._stream(request, timeout):
            yield event

    async def server_version(self) -> str:
        """What the API server calls its version, such as `v1.36.2`. Not part of the port: people ask."""
        info = RequestInfo("get", _VERSION)
        return version_of(info, await self._send(KubeRequest("GET", info, path="/version")))

    async def review(self, manifest: Manifest, *, kind: Kind) -> Manifest:
        """A question that is answered and not stored (SubjectAccessReview). Not part of the port: people ask.

        Raises Forbidden, Invalid, Unavailable.
        """
        info = RequestInfo("create", kind, None)
        return review_of(info, await self._send(KubeRequest("POST", info, body=manifest)))

    async def pod_log(
        self, pod: ObjectRef, container: str, *, follow: bool = False, tail_lines: int | None = None
    ) -> AsyncIterator[str]:
        """Lines of one container, as they are written with `follow`. Not part of the port: people read logs.

        Raises NotFound, Forbidden, Invalid (the container has not started), Unavailable.
        """
        params = {"container": container, "follow": "true" if follow else "", "tailLines": tail_lines}
        request = object_request("GET", "get the log of", pod, subresource="log", params=params)
        timeout = attrs.evolve(self._timeout, sock_read=None) if follow else self._timeout
        async for line in self._lines(request, timeout):
            yield line

    async def create(self, manifest: Manifest, *, kind: Kind, field_manager: str) -> Manifest:
        """POST."""
        ref = target_of(manifest, kind)
        need_namespace("create", ref)
        params = strict(field_manager)
        request = KubeRequest("POST", RequestInfo("create", kind, ref.namespace), params=params, body=manifest)
        return object_of(RequestInfo("create", kind, ref.namespace, ref.name), await self._send(request))

    async def update(self, manifest: Manifest, *, kind: Kind, field_manager: str) -> Manifest:
        """PUT."""
        ref = target_of(manifest, kind)
        return await self._object(object_request("PUT", "update", ref, params=strict(field_manager), body=manifest))

    async def apply(
        self, manifest: Manifest, *, kind: Kind, field_manager: str, force: bool = False, dry_run: bool = False
    ) -> Manifest:
        """Server-side apply."""
        return await self._apply(manifest, kind, field_manager, force=force, dry_run=dry_run)

    async def apply_status(
        self, manifest: Manifest, *, kind: Kind, field_manager: str, force: bool = False
    ) -> Manifest:
        """Server-side apply to `/status`."""
        return await self._apply(manifest, kind, field_manager, force=force, subresource="status")

    async def patch(
        self, ref: ObjectRef, patch: Any, *, patch_type: PatchType, field_manager: str, subresource: str = ""
    ) -> Manifest:
        """JSON, merge or strategic patch. What else the object holds is not ours to validate."""
        return await self._object(
            object_request(
                "PATCH",
                "patch",
                ref,
                subresource=subresource,
                params={"fieldManager": field_manager},
                body=patch,
                media_type=patch_type.value,
            )
        )

    async def delete(
        self,
        ref: ObjectRef,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation = Propagation.BACKGROUND,
    ) -> Manifest | None:
        """DELETE with preconditions in its body."""
        body = delete_options(uid, resource_version, propagation)
        request = object_request("DELETE", "delete", ref, body=body)
        return left_of(request.info, await self._send(request))

    async def _apply(
        self,
        manifest: Manifest,
        kind: Kind,
        field_manager: str,
        *,
        force: bool,
        dry_run: bool = False,
        subresource: str = "",
    ) -> Manifest:
        params = strict(field_manager, force="true" if force else None, dryRun="All" if dry_run else None)
        request = object_request(
            "PATCH",
            "apply" if not subresource else f"apply {subresource} of",
            target_of(manifest, kind),
            subresource=subresource,
            params=params,
            body=manifest,
            media_type=APPLY_PATCH,
        )
        return object_of(request.info, await self._send(request), dry_run=dry_run)

    async def _object(self, request: KubeRequest) -> dict[str, Any]:
        return object_of(request.info, await self._send(request))

    async def _send(self, request: KubeRequest) -> bytes:
        response = await dispatch(self._requests, request)
        return await accepted(request.info, response)

    async def _lines(self, request: KubeRequest, timeout: aiohttp.ClientTimeout) -> AsyncIterator[str]:
        response = await dispatch(self._watches, request, timeout=timeout)
        try:
            if response.status >= 300:
                await accepted(request.info, response)
            splitter = LineSplitter()
            async for chunk in response.content.iter_any():
                for line in splitter.feed(chunk):
                    yield line.decode(errors="replace")
            if splitter.rest:
                yield splitter.rest.decode(errors="replace")
        except (aiohttp.ClientError, TimeoutError) as error:
            raise transport_error(request.info, error) from None
        finally:
            response.close()

    async def _stream(self, request: KubeRequest, timeout: aiohttp.ClientTimeout) -> AsyncIterator[WatchEvent]:
        response = await dispatch(self._watches, request, timeout=timeout)
        try:
            if response.status >= 300:
                await accepted(request.info, response)
            async for event in read_events(request.info, response):
                yield event
        except (aiohttp.ClientError, TimeoutError) as error:
            raise transport_error(request.info, error) from None
        finally:
            response.close()
