"""`KubeApi` over aiohttp: the operator's only way to a real API server.

aiohttp sends the requests. lightkube reads the kubeconfig or the in-cluster configuration, and handles credential
plugins and TLS. Its own requests are not used: their faults must not reach a reconciler (`requests`, `errors`,
`watch`).
"""

import copy
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

import aiohttp
import anyio
import attrs
from lightkube.config.kubeconfig import SingleConfig

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.ports import ListPage, PatchType, Propagation, WatchEvent
from purekube_http.authorization import MAX_AGE
from purekube_http.dispatch import TooLarge, accepted, at_most, dispatch
from purekube_http.errors import RequestInfo, transport_error
from purekube_http.lines import LineSplitter
from purekube_http.requests import (
    APPLY_PATCH,
    METADATA_OF_EACH,
    ONLY_METADATA,
    KubeRequest,
    collection,
    delete_options,
    impersonated_user,
    need_namespace,
    object_request,
    strict,
    target_of,
)
from purekube_http.responses import left_of, object_of, page_of, review_of, version_of
from purekube_http.transport import BeforeWrite, ConnectionPool, Observe
from purekube_http.watch import read_events

WATCH_GRACE = 15.0
"""The seconds by which a watch's read timeout exceeds the server's, so that it ends half-open connections only."""

_CLOSE_LIMIT = 5.0
_PAGE_BYTES = 2 * 1024 * 1024
"""The size of a page in bytes. Decoded it takes six times as much memory, and a start reads several kinds at once."""


_VERSION = Kind("", "v1", "version", "version", namespaced=False)
"""A name for messages about `/version`, which is no resource."""
_TOKEN_REQUEST = Kind("authentication.k8s.io", "v1", "TokenRequest", "tokenrequests")


class KubeApiClient:
    """A client of the API server in `config`; an async context manager.

    `request_timeout` bounds connecting, sending and each silence while reading, in seconds (an admission webhook may
    take 30); a watch may be silent for its own timeout plus `watch_grace`. Token and authority files are read again
    after `credential_max_age` seconds. `observe` is called for every request; `before_write` may stop a write by
    raising an error. Errors are those of the `KubeApi` port.
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
        self._user = ""
        self._timeout = timeout
        self._watch_grace = watch_grace
        self._requests = ConnectionPool(config, connections=connections, keep=True, **hooks)
        # One connection per watch, as many as there are informers. None is kept, so that a watch never starts on a
        # connection that the peer has already closed.
        self._watches = ConnectionPool(config, connections=0, keep=False, **hooks)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def impersonating(self, account: ObjectRef) -> "KubeApiClient":
        """Return a client that acts as a ServiceAccount over the same connections. Closing either closes both."""
        client = copy.copy(self)
        client._user = impersonated_user(account)
        return client

    async def close(self) -> None:
        """Close every connection, including those of watches."""
        with anyio.move_on_after(_CLOSE_LIMIT, shield=True):  # even while being cancelled
            await self._requests.close()
            await self._watches.close()

    async def get(self, ref: ObjectRef, *, resource_version: str = "", metadata_only: bool = False) -> Manifest:
        """Read one object."""
        accept = METADATA_OF_EACH if metadata_only else ""
        request = object_request("GET", "get", ref, params={"resourceVersion": resource_version}, accept=accept)
        return object_of(request.info, await self._send(request), metadata_only=metadata_only)

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
        """Read one page.

        A continue token implies its resourceVersion, so `resource_version` is not sent with it (W-04).

        A page of too many bytes is requested again with fewer objects.
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
            asked = attrs.evolve(request, params={**params, "limit": limit})
            response = await dispatch(self._requests, asked, user=self._user)
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
        metadata_only: bool = False,
    ) -> AsyncIterator[WatchEvent]:
        """Yield the events of one watch stream, with bookmarks, until the server ends it."""
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "resourceVersion": resource_version,
            "timeoutSeconds": timeout_seconds,
        }
        accept = METADATA_OF_EACH if metadata_only else ""
        request = collection("GET", "watch", kind, namespace, params=params, accept=accept)
        timeout = attrs.evolve(self._timeout, sock_read=timeout_seconds + self._watch_grace)
        async for event in self._stream(request, timeout, metadata_only=metadata_only):
            yield event

    async def server_version(self) -> str:
        """Return the API server's version, such as `v1.36.2`. Not part of the port: it is for messages to users."""
        info = RequestInfo("get", _VERSION)
        return version_of(info, await self._send(KubeRequest("GET", info, path="/version")))

    async def review(self, manifest: Manifest, *, kind: Kind) -> Manifest:
        """Create a review, which is answered and not stored (SubjectAccessReview). Not part of the port.

        Raises Forbidden, Invalid, Unavailable.
        """
        info = RequestInfo("create", kind, None)
        return review_of(info, await self._send(KubeRequest("POST", info, body=manifest)))

    async def token_of(self, account: ObjectRef, seconds: int) -> str:
        """Return a new token of a service account, valid for `seconds` (TokenRequest). Not part of the port.

        Raises NotFound, Forbidden, Unavailable.
        """
        request = {"apiVersion": _TOKEN_REQUEST.api_version, "kind": _TOKEN_REQUEST.kind}
        body = {**request, "spec": {"expirationSeconds": seconds}}
        asked = object_request("POST", "create a token of", account, subresource="token", body=body)
        answer = review_of(attrs.evolve(asked.info, kind=_TOKEN_REQUEST), await self._send(asked))
        return str(answer["status"]["token"])

    async def pod_log(
        self, pod: ObjectRef, container: str, *, follow: bool = False, tail_lines: int | None = None
    ) -> AsyncIterator[str]:
        """Yield the lines of a container's log, with `follow` as they are written. Not part of the port."""
        params = {"container": container, "follow": "true" if follow else "", "tailLines": tail_lines}
        request = object_request("GET", "get the log of", pod, subresource="log", params=params)
        timeout = attrs.evolve(self._timeout, sock_read=None) if follow else self._timeout
        async for line in self._lines(request, timeout):
            yield line

    async def create(self, manifest: Manifest, *, kind: Kind, field_manager: str) -> Manifest:
        """Create an object (POST)."""
        ref = target_of(manifest, kind)
        need_namespace("create", ref)
        params = strict(field_manager)
        request = KubeRequest("POST", RequestInfo("create", kind, ref.namespace), params=params, body=manifest)
        return object_of(RequestInfo("create", kind, ref.namespace, ref.name), await self._send(request))

    async def update(self, manifest: Manifest, *, kind: Kind, field_manager: str) -> Manifest:
        """Replace an object (PUT)."""
        ref = target_of(manifest, kind)
        return await self._object(object_request("PUT", "update", ref, params=strict(field_manager), body=manifest))

    async def apply(
        self, manifest: Manifest, *, kind: Kind, field_manager: str, force: bool = False, dry_run: bool = False
    ) -> Manifest:
        """Apply an object server-side."""
        return await self._apply(manifest, kind, field_manager, force=force, dry_run=dry_run)

    async def apply_status(
        self, manifest: Manifest, *, kind: Kind, field_manager: str, force: bool = False
    ) -> Manifest:
        """Apply an object's status server-side, to `/status`."""
        return await self._apply(manifest, kind, field_manager, force=force, subresource="status")

    async def patch(
        self, ref: ObjectRef, patch: Any, *, patch_type: PatchType, field_manager: str, subresource: str = ""
    ) -> Manifest:
        """Send a JSON, merge or strategic merge patch.

        Field validation is not strict, because the rest of the object may belong to other writers.
        """
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
        """Delete an object, with preconditions in the request's body."""
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
        response = await dispatch(self._requests, request, user=self._user)
        return await accepted(request.info, response)

    async def _lines(self, request: KubeRequest, timeout: aiohttp.ClientTimeout) -> AsyncIterator[str]:
        response = await dispatch(self._watches, request, timeout=timeout, user=self._user)
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

    async def _stream(
        self, request: KubeRequest, timeout: aiohttp.ClientTimeout, *, metadata_only: bool
    ) -> AsyncIterator[WatchEvent]:
        response = await dispatch(self._watches, request, timeout=timeout, user=self._user)
        try:
            if response.status >= 300:
                await accepted(request.info, response)
            async for event in read_events(request.info, response, metadata_only=metadata_only):
                yield event
        except (aiohttp.ClientError, TimeoutError) as error:
            raise transport_error(request.info, error) from None
        finally:
            response.close()
