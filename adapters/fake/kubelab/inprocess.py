"""A `KubeApi` that calls an in-memory `ApiServer` directly, without a network: for simulations, property tests, demo.

Every call returns without suspending, so that a simulation can drive it with `run_sync`. Only `watch` waits, on the
running event loop.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar, assert_never

import attrs

from kubelab.access.impersonation import Identity, impersonated
from kubelab.model.calls import (
    ADMIN,
    Caller,
    DeleteOptions,
    FieldValidation,
    ObjectPage,
    RequestTarget,
    RequestVerb,
    WriteOptions,
)
from kubelab.model.failure import ApiFailure, core_error
from kubelab.server import ApiServer
from kubelab.storage.listing import list_options
from kubelab.storage.watch_stream import WatchStream, follow
from kubelab.writes.writer import WriteCall
from purekube.apimachinery.manifest import Kind, Manifest
from purekube.apimachinery.resources import service_account_user
from purekube.ports import KubeApi, KubeRequest, KubeVerb, WatchEvent

T = TypeVar("T")
_WRITES: Final = {
    KubeVerb.CREATE: RequestVerb.CREATE,
    KubeVerb.UPDATE: RequestVerb.UPDATE,
    KubeVerb.APPLY: RequestVerb.PATCH,
    KubeVerb.PATCH: RequestVerb.PATCH,
}
OnOpen = Callable[[KubeRequest, WatchStream], None]


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, and return its result.

    Raises RuntimeError if the coroutine suspends, because there is no event loop that could resume it.
    """
    try:
        coroutine.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    # The cleanup of the coroutine runs here, and not whenever it is collected as garbage.
    coroutine.close()
    raise RuntimeError("the coroutine suspended: run_sync is for calls that answer at once")


class InProcessTransport:
    """A `KubeTransport` that passes the requests of one user, `caller`, to an in-memory API server.

    `on_open` is called with the request and the stream of each new watch.
    """

    def __init__(self, server: ApiServer, caller: Caller, on_open: OnOpen) -> None:
        self._server = server
        self._caller = caller
        self._on_open = on_open

    async def send(self, request: KubeRequest) -> Manifest:
        """Perform one request, and return the decoded answer: an object, a list, or the Status of a deletion.

        Raises an `OperatorError` if the server refuses the request. The `resourceVersion` of a get has no effect,
        because there is no cache.
        """
        try:
            return self._perform(request)
        except ApiFailure as failure:
            raise core_error(failure, str(request), request.kind) from failure

    async def watch(self, request: KubeRequest) -> AsyncIterator[WatchEvent]:
        """Yield the events of one watch stream, with bookmarks, until the server ends it or the timeout passes."""
        seconds = float(request.params.get("timeoutSeconds") or 0)
        try:
            stream = self.open_watch(request)
            self._on_open(request, stream)
            async for event in follow(stream, seconds, lambda: self._server.store.version):
                yield attrs.evolve(event, object=_outline(event.object)) if request.metadata_only else event
        except ApiFailure as failure:
            raise core_error(failure, str(request), request.kind) from failure

    def open_watch(self, request: KubeRequest) -> WatchStream:
        """Open a watch. The caller takes its events from the stream with `drain`.

        Raises ApiFailure as the server does, without translating it into an `OperatorError`.
        """
        return self._server.watch(self._target(request), list_options(_query(request)), self._as(request))

    def _perform(self, request: KubeRequest) -> Manifest:
        target, caller = self._target(request), self._as(request)
        match request.verb:
            case KubeVerb.GET:
                found = self._server.get(target, caller).object()
                return _outline(found) if request.metadata_only else found
            case KubeVerb.LIST | KubeVerb.WATCH:
                return _list_of(self._server.list(target, list_options(_query(request)), caller), request)
            case KubeVerb.CREATE | KubeVerb.UPDATE | KubeVerb.APPLY | KubeVerb.PATCH:
                verb, options = _WRITES[request.verb], _write_options(request)
                call = WriteCall(verb, target, request.body, options, caller, request.patch_type)
                return self._server.perform(call).object()
            case KubeVerb.DELETE:
                return self._server.delete(target, _delete_options(request.body), caller).object()
            case _:
                assert_never(request.verb)

    def _as(self, request: KubeRequest) -> Caller:
        """Return the user in whose name a request is made: the transport's, or the service account that it
        impersonates.

        Raises ApiFailure if impersonation is not allowed.
        """
        account = request.account
        if account is None:
            return self._caller
        identity = Identity(service_account_user(account.namespace, account.name))
        return impersonated(self._caller, identity, self._server.authorize)

    def _target(self, request: KubeRequest) -> RequestTarget:
        # The path of a POST is the collection's; the name is in the body only.
        name = "" if request.verb is KubeVerb.CREATE else request.name
        return RequestTarget(self._server.resource(request.kind), request.namespace, name, request.subresource)


class InProcessKube(KubeApi):
    """A `KubeApi` that passes the requests of one user, `caller`, to an in-memory API server.

    `on_open` is called with the request and the stream of each new watch. A simulation can keep the stream, and later
    end it or make it fail.
    """

    def __init__(
        self, server: ApiServer, *, caller: Caller = ADMIN, on_open: OnOpen = lambda request, stream: None
    ) -> None:
        self._in_process = InProcessTransport(server, caller, on_open)
        super().__init__(self._in_process)
        self.server = server
        self.caller = caller

    def open_watch(
        self, kind: Kind, *, namespace: str | None = None, label_selector: str = "", resource_version: str = ""
    ) -> WatchStream:
        """Open a watch. The caller takes its events from the stream with `drain`.

        Raises ApiFailure as the server does, without translating it into an `OperatorError`.
        """
        params = {"resourceVersion": resource_version, "allowWatchBookmarks": "true", "labelSelector": label_selector}
        return self._in_process.open_watch(KubeRequest(KubeVerb.WATCH, kind, namespace, params=params))


def _query(request: KubeRequest) -> dict[str, str]:
    return {name: str(value) for name, value in request.params.items() if value not in (None, "")}


def _list_of(listed: ObjectPage, request: KubeRequest) -> dict[str, Any]:
    items = listed.objects()
    return {
        "items": [_outline(item) for item in items] if request.metadata_only else items,
        "metadata": {"resourceVersion": str(listed.page.version), "continue": listed.page.continue_token},
    }


def _outline(manifest: Manifest) -> dict[str, Any]:
    return {key: manifest[key] for key in ("apiVersion", "kind", "metadata")}


def _write_options(request: KubeRequest) -> WriteOptions:
    params = request.params
    manager = params.get("fieldManager")
    validation = FieldValidation(str(params.get("fieldValidation", FieldValidation.WARN)))
    return WriteOptions(
        None if manager is None else str(manager), bool(params.get("force")), bool(params.get("dryRun")), validation
    )


def _delete_options(body: Mapping[str, Any]) -> DeleteOptions:
    preconditions = body.get("preconditions", {})
    return DeleteOptions(preconditions.get("uid"), preconditions.get("resourceVersion"), body["propagationPolicy"])
