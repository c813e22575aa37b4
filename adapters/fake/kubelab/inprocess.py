"""The `KubeApi` port on an `ApiServer`, without a network: for simulations, property tests and the demo.

Every call returns without suspending, so that a simulation can drive it with `run_sync`. Only `watch` waits, on the
running event loop.
"""

import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import attrs

from kubelab.access.impersonation import Identity, impersonated
from kubelab.model.calls import ADMIN, Caller, DeleteOptions, RequestTarget, WriteOptions
from kubelab.model.errors import core_error
from kubelab.model.failure import ApiFailure
from kubelab.model.requests import FieldValidation
from kubelab.server import ApiServer
from kubelab.storage.listing import ListOptions
from kubelab.storage.watch_iterator import follow
from kubelab.storage.watch_stream import WatchStream
from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, metadata, ref_of
from purekube.apimachinery.resources import service_account_user
from purekube.ports import ListPage, PatchType, Propagation, WatchEvent

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends and return its result.

    Raises RuntimeError if it suspends, since it would wait for an event loop that is not there.
    """
    try:
        coroutine.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    coroutine.close()
    raise RuntimeError("the coroutine suspended: run_sync is for calls that answer at once")


class InProcessKube:
    """An implementation of `KubeApi` for one user of an in-memory API server.

    Writes ask for strict field validation, like the HTTP adapter's. `sleep` is used to end a watch after its
    `timeout_seconds`: the sleep of a virtual clock, or asyncio's when None.
    """

    def __init__(self, server: ApiServer, *, caller: Caller = ADMIN, sleep: Sleep | None = None) -> None:
        self.server = server
        self._caller = caller
        self._identity = Identity()
        self._sleep = sleep

    @property
    def caller(self) -> Caller:
        """The caller of every request. Raises ApiFailure if it may not impersonate its account."""
        return impersonated(self._caller, self._identity, self.server.authorize)

    def impersonating(self, account: ObjectRef) -> "InProcessKube":
        """Return a port that acts as a ServiceAccount, for a caller with the right to impersonate it."""
        api = copy.copy(self)
        api._identity = Identity(service_account_user(account.namespace, account.name))
        return api

    async def get(self, ref: ObjectRef, *, resource_version: str = "", metadata_only: bool = False) -> Manifest:
        """Read one object. `resource_version` is ignored, because there is no cache that could be stale."""
        with self._errors("get", ref.kind, ref):
            manifest = self.server.get(self._at(ref), self.caller).object()
        return _without_content(manifest) if metadata_only else manifest

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
        """
        options = ListOptions(
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            continue_token=continue_token,
            resource_version="" if continue_token else resource_version,
        )
        with self._errors("list", kind):
            listed = self.server.list(self._collection(kind, namespace), options, self.caller)
        objects = listed.objects()
        if metadata_only:
            objects = [_without_content(manifest) for manifest in objects]
        return ListPage(objects, str(listed.page.version), listed.page.continue_token)

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
        """Yield the events of one watch stream, with bookmarks, until the server ends it or the timeout passes."""
        with self._errors("watch", kind):
            stream = self.open_watch(
                kind,
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                resource_version=resource_version,
            )
            async for event in follow(stream, timeout_seconds, lambda: self.server.store.version, self._sleep):
                yield attrs.evolve(event, object=_without_content(event.object)) if metadata_only else event

    def open_watch(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
    ) -> WatchStream:
        """Open the same watch as a stream to poll with `drain`. Raises ApiFailure, not the core's errors."""
        options = ListOptions(
            label_selector=label_selector,
            field_selector=field_selector,
            resource_version=resource_version,
            allow_bookmarks=True,
        )
        return self.server.watch(self._collection(kind, namespace), options, self.caller)

    async def create(self, manifest: Manifest, *, kind: Kind, field_manager: str) -> Manifest:
        """Replace an object (PUT)."""
        with self._errors("create", kind, manifest):
            target = self._collection(kind, _namespace(manifest, kind))
            return self.server.create(target, manifest, _strict(field_manager), self.caller).object()

    async def update(self, manifest: Manifest, *, kind: Kind, field_manager: str) -> Manifest:
        """PUT."""
        with self._errors("update", kind, manifest):
            return self.server.update(self._of(manifest, kind), manifest, _strict(field_manager), self.caller).object()

    async def apply(
        self, manifest: Manifest, *, kind: Kind, field_manager: str, force: bool = False, dry_run: bool = False
    ) -> Manifest:
        """Apply an object server-side."""
        options = _strict(field_manager, force=force, dry_run=dry_run)
        with self._errors("apply", kind, manifest):
            return self.server.apply(self._of(manifest, kind), manifest, options, self.caller).object()

    async def apply_status(
        self, manifest: Manifest, *, kind: Kind, field_manager: str, force: bool = False
    ) -> Manifest:
        """Apply an object's status server-side, to `/status`."""
        options = _strict(field_manager, force=force)
        with self._errors("apply status of", kind, manifest):
            target = self._of(manifest, kind, "status")
            return self.server.apply(target, manifest, options, self.caller).object()

    async def patch(
        self, ref: ObjectRef, patch: Any, *, patch_type: PatchType, field_manager: str, subresource: str = ""
    ) -> Manifest:
        """Send a JSON, merge or strategic merge patch."""
        options = WriteOptions(field_manager)
        with self._errors("patch", ref.kind, ref):
            return self.server.patch(self._at(ref, subresource), patch, patch_type, options, self.caller).object()

    async def delete(
        self,
        ref: ObjectRef,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation = Propagation.BACKGROUND,
    ) -> Manifest | None:
        """Delete an object, with preconditions; return what is left of it, None if it is gone."""
        options = DeleteOptions(uid, resource_version, propagation.value)
        with self._errors("delete", ref.kind, ref):
            left = self.server.delete(self._at(ref), options, self.caller).object()
        return None if left["kind"] == "Status" else left

    def _at(self, ref: ObjectRef, subresource: str = "") -> RequestTarget:
        return RequestTarget(self.server.resource(ref.kind), ref.namespace, ref.name, subresource)

    def _of(self, manifest: Manifest, kind: Kind, subresource: str = "") -> RequestTarget:
        name = str(manifest.get("metadata", {}).get("name", ""))
        return RequestTarget(self.server.resource(kind), _namespace(manifest, kind), name, subresource)

    def _collection(self, kind: Kind, namespace: str | None) -> RequestTarget:
        return RequestTarget(self.server.resource(kind), namespace)

    @contextmanager
    def _errors(self, verb: str, kind: Kind, what: ObjectRef | Manifest | None = None) -> Iterator[None]:
        try:
            yield
        except ApiFailure as failure:
            raise core_error(failure, f"{verb} {_described(kind, what)}", kind) from failure


def _without_content(manifest: Manifest) -> dict[str, Any]:
    return {key: manifest[key] for key in ("apiVersion", "kind", "metadata")}


def _strict(manager: str, *, force: bool = False, dry_run: bool = False) -> WriteOptions:
    return WriteOptions(manager, force, dry_run, FieldValidation.STRICT)


def _namespace(manifest: Manifest, kind: Kind) -> str | None:
    if not kind.namespaced:
        return None
    namespace = metadata(manifest).get("namespace")
    if not namespace:
        raise Invalid(f"{kind.kind} {metadata(manifest).get('name', '')}: the manifest has no metadata.namespace")
    return str(namespace)


def _described(kind: Kind, what: ObjectRef | Manifest | None) -> str:
    if what is None:
        return kind.kind
    return str(what if isinstance(what, ObjectRef) else ref_of(what, kind))
