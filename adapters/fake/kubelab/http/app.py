"""The HTTP handler: an ASGI application that serves an in-memory `ApiServer` over HTTP."""

from collections.abc import Callable, Mapping
from functools import partial
from ipaddress import ip_address
from typing import Any, Final

import attrs
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from kubelab.access.impersonation import Identity, impersonated
from kubelab.http import discovery
from kubelab.http.answers import (
    AnswerForm,
    View,
    audit_id,
    compressed,
    document,
    failed,
    shown,
    wanted_form,
    wants_gzip,
    warn,
)
from kubelab.http.objects import answer, read_body, view_of, wants_watch, watch_timeout
from kubelab.http.openapi import (
    OPENAPI_V2_ACCEPTED,
    OPENAPI_V2_PROTOBUF,
    openapi_v2,
    openapi_v2_protobuf,
    openapi_v3,
    openapi_v3_index,
)
from kubelab.http.watch_responses import send_watch
from kubelab.http.webhook_calls import Services, converted
from kubelab.model.calls import ADMIN, Caller, RequestTarget, RequestVerb
from kubelab.model.failure import ApiFailure, bad_request, method_not_allowed, not_served, unauthorized
from kubelab.model.records import decode, encode
from kubelab.server import ApiServer
from kubelab.storage.listing import list_options
from kubelab.storage.watch_stream import Line, timed

_NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})


@attrs.frozen
class ResourcePath:
    """The parts of a URL path under `/api` or `/apis`. `group` is empty for the core group.

    An empty `plural` means the discovery document of the group and version. An empty `name` means a collection, and an
    empty `subresource` the object itself.
    """

    group: str
    version: str
    plural: str = ""
    namespace: str | None = None
    name: str = ""
    subresource: str = ""


def parse_path(path: str) -> ResourcePath | None:
    """Parse a path under `/api` or `/apis`. Return None for any other path."""
    parts = path.strip("/").split("/")
    match parts:
        case ["api", version, *rest]:
            return _resource("", version, rest)
        case ["apis", group, version, *rest]:
            return _resource(group, version, rest)
        case _:
            return None


def _resource(group: str, version: str, rest: list[str]) -> ResourcePath | None:
    match rest:
        case []:
            return ResourcePath(group, version)
        # The path of a namespace's subresource looks like that of a collection in the namespace; the real router knows
        # these by name, too.
        case ["namespaces", name, subresource] if not group and subresource in _NAMESPACE_SUBRESOURCES:
            return ResourcePath(group, version, "namespaces", None, name, subresource)
        case ["namespaces", namespace, plural, *names] if len(names) <= 2:
            return ResourcePath(group, version, plural, namespace, *names)
        case [plural, *names] if len(names) <= 2:
            return ResourcePath(group, version, plural, None, *names)
        case _:
            return None


def refuse_web_pages(request: Request) -> None:
    """Raise ApiFailure 403 for a request from a web page of another origin, or with a foreign header Host.

    A Host is foreign if it is a DNS name other than localhost. Refusing it prevents DNS rebinding.
    """
    host, origin = request.headers.get("host", ""), request.headers.get("origin", "")
    if origin and origin.partition("://")[2] != host:
        raise _refused(f"a request from {origin} is taken with a token only")
    if not _is_local(_name(host)):
        raise _refused(f"Host {host}: without a token only addresses and localhost are answered")


def _name(host: str) -> str:
    name, _, port = host.rpartition(":")
    return (name if port.isdecimal() else host).strip("[]")


def _is_local(name: str) -> bool:
    if name in ("", "localhost"):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _refused(message: str) -> ApiFailure:
    return ApiFailure(403, "Forbidden", message)


_OPEN: Final = ("/healthz", "/livez", "/readyz")
"""Paths that are answered without a token, including all paths below them."""
_VERBS: Final = {
    "POST": RequestVerb.CREATE,
    "PUT": RequestVerb.UPDATE,
    "PATCH": RequestVerb.PATCH,
    "DELETE": RequestVerb.DELETE,
}
_EXTRA: Final = "impersonate-extra-"
_DISCOVERY: Final = frozenset({AnswerForm.DISCOVERY})


class HttpHandler:
    """The ASGI application that serves one `ApiServer`.

    `tokens` maps bearer tokens to callers; without `tokens` every caller is the administrator. Watches get a bookmark
    every `bookmark_interval` seconds. `services` maps (namespace, name) of in-cluster services to the base URLs at
    which admission and conversion webhooks are called.
    """

    def __init__(
        self,
        server: ApiServer,
        *,
        tokens: Mapping[str, Caller] | None = None,
        bookmark_interval: float = 30.0,
        services: Services | None = None,
    ) -> None:
        self._server = server
        self._services = {} if services is None else services
        self._tokens = tokens
        server.account_tokens.known = tokens or {}
        self._bookmark_interval = bookmark_interval

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request. Other scopes (lifespan, websocket) raise NotImplementedError."""
        if scope["type"] != "http":
            raise NotImplementedError(f"an API server has no {scope['type']} scope")
        request = Request(scope, receive)
        try:
            if self._tokens is None:
                refuse_web_pages(request)
            response = await self._respond(request, send)
        except ApiFailure as failure:
            if not failure.audited:
                self._log(request, failure.status)
            response = failed(failure)
        except RecursionError:
            # kube-apiserver accepts a few thousand levels; the code that walks objects here is recursive.
            response = failed(bad_request("the object is nested too deeply: this server takes some 200 levels"))
        if response is not None:
            if wants_gzip(request.headers.get("accept-encoding", "")):
                response = compressed(response)
            response.headers["audit-id"] = audit_id(request.headers)
            await response(scope, receive, send)

    async def _respond(self, request: Request, send: Send) -> Response | None:
        """Return the response to a request, or None if it has already been sent, as the response to a watch is."""
        path = request.scope["path"]
        if path.startswith(_OPEN):
            # kubernetes: the ClusterRole system:public-info-viewer opens these paths to everybody.
            return PlainTextResponse("ok")
        known = self._known(request)
        if known is None:
            raise unauthorized()
        caller = impersonated(known, _identity(request.headers), self._server.authorize)
        parsed = parse_path(path)
        # Discovery needs no right here: the ClusterRole system:discovery gives it to every authenticated user.
        if parsed is None or not parsed.plural:
            response = self._meta(request, parsed)
            self._log(request, response.status_code)
            return response
        target = self._target(parsed)
        if wants_watch(request, target):
            await self._watch(request, send, target, caller)
            return None
        # The body is read before the request is authorized, unlike on a kube-apiserver: a caller without a right gets
        # the 403 only after sending it.
        raw = await read_body(request)
        response = await answer(self._server, request, target, caller, raw, self._services)
        if target.resource.definition.deprecated:
            warn(response, f"{target.resource.api_version} {target.resource.kind} is deprecated")
        return response

    def _known(self, request: Request) -> Caller | None:
        agent = request.headers.get("user-agent", "")
        if self._tokens is None:
            return Caller(ADMIN.user, ADMIN.groups, agent)
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        known = self._tokens.get(token) or (self._server.account_tokens.caller(token) if token else None)
        return None if known is None else Caller(known.user, known.groups, agent)

    def _log(self, request: Request, status: int) -> None:
        """Write an audit entry for a request that is not about an object: 401, discovery, an unreadable body."""
        verb = _VERBS.get(request.method, RequestVerb.GET)
        self._server.request_filter.elsewhere(verb, request.method, request.scope["path"], self._known(request), status)

    def _target(self, path: ResourcePath) -> RequestTarget:
        resource = self._server.registry.at(path.group, path.version, path.plural)
        return RequestTarget(resource, path.namespace, path.name, path.subresource)

    def _meta(self, request: Request, path: ResourcePath | None) -> Response:
        """Return the response to a request that is not about objects: discovery, OpenAPI or the version."""
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        registry = self._server.registry
        if path is not None:
            return document(discovery.api_resources(registry, path.group, path.version))
        match request.scope["path"].strip("/").split("/"):
            case ["version"]:
                return document(discovery.version_info())
            case ["api"] | ["apis"] as root:
                return self._roots(request, core=root == ["api"])
            case ["apis", group]:
                return document(discovery.api_group(registry, group))
            case ["openapi", "v2"]:
                if OPENAPI_V2_ACCEPTED in request.headers.get("accept", ""):
                    return Response(openapi_v2_protobuf(), media_type=OPENAPI_V2_PROTOBUF)
                return document(openapi_v2(registry))
            case ["openapi", "v3"]:
                return document(openapi_v3_index(registry))
            case ["openapi", "v3", *root]:
                return document(openapi_v3(registry, "/".join(root)))
            case _:
                raise not_served()

    def _roots(self, request: Request, *, core: bool) -> Response:
        registry = self._server.registry
        accepted_form = wanted_form(request.headers.get("accept", ""), _DISCOVERY)
        if accepted_form.form is AnswerForm.DISCOVERY:
            return document(discovery.aggregated(registry, core=core, version=accepted_form.version), accepted_form)
        if core:
            return document(discovery.api_versions(request.headers.get("host", "")))
        return document(discovery.api_groups(registry))

    async def _watch(self, request: Request, send: Send, target: RequestTarget, caller: Caller) -> None:
        view = view_of(request, self._server.now)
        options = list_options(request.query_params)
        services = self._services
        stream = await converted(self._server, partial(self._server.watch, target, options, caller), services)

        async def take() -> list[Line]:
            return await converted(self._server, stream.take, services) if target.resource.converts else stream.take()

        await send_watch(
            stream,
            request.receive,
            send,
            audit_id=audit_id(request.headers),
            take=take,
            render=_renderer(target, view),
            content_type=view.accepted.content_type.encode(),
            timing=timed(
                stream,
                watch_timeout(options.timeout_seconds),
                lambda: stream.bookmark(self._server.store.version),
                self._bookmark_interval,
            ),
        )


def _renderer(target: RequestTarget, view: View) -> Callable[[Line], bytes]:
    if view.accepted.form is AnswerForm.OBJECT:
        return lambda line: b'{"type":"%b","object":%b}\n' % (line[0].value.encode(), line[1])
    first = [True]

    def render(line: Line) -> bytes:
        content: Any = shown(decode(line[1]), target.resource, view)
        if view.accepted.form is AnswerForm.TABLE and not first[0]:
            content["columnDefinitions"] = None  # only the first event describes the columns (W-21)
        first[0] = False
        return encode({"type": line[0].value, "object": content}) + b"\n"

    return render


def _identity(headers: Headers) -> Identity:
    """Return the identity in the `Impersonate-` headers of a request. Without such headers the identity is empty."""
    extra = {
        name.removeprefix(_EXTRA): headers.getlist(name) for name in dict.fromkeys(headers) if name.startswith(_EXTRA)
    }
    user, uid = headers.get("impersonate-user", ""), headers.get("impersonate-uid", "")
    return Identity(user, headers.getlist("impersonate-group"), uid, extra)
