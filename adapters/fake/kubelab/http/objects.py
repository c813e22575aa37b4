"""The HTTP API of objects: each request becomes a method call on the `ApiServer`, whose result becomes the response."""

import random
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final

import attrs
from starlette.datastructures import Headers, QueryParams
from starlette.requests import Request
from starlette.responses import Response

from kubelab.access.authorization import REVIEWS
from kubelab.access.request_filter import unscoped
from kubelab.http import webhook_rounds as webhooks
from kubelab.http.answers import AnswerForm, View, list_answer, media_type, object_answer, wanted_form
from kubelab.http.protobuf import CONTENT_TYPE as PROTOBUF
from kubelab.http.protobuf import decode_object
from kubelab.http.request_bodies import DecodedBody, check_size, inflate, read_json, read_yaml
from kubelab.http.webhook_calls import Services, converted
from kubelab.model.calls import Caller, DeleteOptions, FieldValidation, RequestTarget, RequestVerb, WriteOptions
from kubelab.model.failure import ApiFailure, bad_request, method_not_allowed, patch_invalid, unsupported_media_type
from kubelab.model.resources import CREATED
from kubelab.server import ApiServer
from kubelab.storage.listing import ListOptions, flag, list_options
from kubelab.writes.deletion import delete_options, query_options
from kubelab.writes.write_options import write_options
from kubelab.writes.writer import WriteCall
from purekube.ports import PatchType

APPLY_PATCH: Final = "application/apply-patch+yaml"
OBJECT_FORMS: Final = frozenset({AnswerForm.TABLE, AnswerForm.PARTIAL, AnswerForm.PARTIAL_LIST})
# apiserver: handlers/get.go, handleWatch: between MinRequestTimeout (server/config.go) and twice that, so that not all
# watches end at once.
_WATCH_SECONDS: Final = (1800.0, 3600.0)
"""The bounds in seconds of a watch without a timeout; kube-apiserver draws one at random between them (W-19)."""
_OBJECT_TYPES: Final = ("application/json", "application/yaml", PROTOBUF)


def wants_watch(request: Request, target: RequestTarget) -> bool:
    """Report whether `request` is a watch: a GET of a collection with the query `watch`."""
    return request.method == "GET" and not target.name and flag(request.query_params, "watch")


def watch_timeout(seconds: float | None) -> float:
    """Return the seconds after which a watch ends (W-19).

    They are `seconds`, which the client requests. If that is None, they are a random number from 1800 to 3600.
    """
    return random.uniform(*_WATCH_SECONDS) if seconds is None else seconds


def view_of(request: Request, now: Callable[[], datetime]) -> View:
    """Return the view of objects that `request` asks for. Raises ApiFailure 406 if its header Accept names none."""
    accepted = wanted_form(request.headers.get("accept", ""), OBJECT_FORMS)
    return View(accepted, request.query_params.get("includeObject") or "Metadata", now)


async def read_body(request: Request) -> bytes:
    """Return the request's body, decompressed if it is gzipped.

    Raises ApiFailure 413 if the body, as sent or decompressed, has more than BODY_LIMIT bytes (3 MiB), and 400 for
    invalid gzip.
    """
    size, parts = 0, []
    async for part in request.stream():
        size += len(part)
        check_size(size)
        parts.append(part)
    raw = b"".join(parts)
    return inflate(raw) if request.headers.get("content-encoding") == "gzip" else raw


async def answer(
    server: ApiServer, request: Request, target: RequestTarget, caller: Caller, raw: bytes, services: Services
) -> Response:
    """Perform a request other than a watch on `server`, and return the response. `raw` is the decompressed body.

    `target` is the object or collection that the URL names, and `caller` the user. The configured admission and
    conversion webhooks are called. `services` maps (namespace, name) of in-cluster services to the base URLs at which
    their webhooks are called. Raises ApiFailure if the request is refused.
    """
    call = _Call(
        server, services, request.query_params, request.headers, target, caller, raw, view_of(request, server.now)
    )
    is_created = target.subresource in CREATED and target.subresource in target.resource.subresources
    match request.method:
        case "POST" if is_created:
            return call.act()
        case _ if is_created:
            raise method_not_allowed()
        case "GET" | "HEAD":
            return await converted(server, call.read, services)
        case "POST" if not target.name:
            return await call.write(RequestVerb.CREATE)
        case "PUT" if target.name:
            return await call.write(RequestVerb.UPDATE)
        case "PATCH" if target.name:
            return await call.patch()
        case "DELETE" if target.name or target.namespace is not None or not target.resource.namespaced:
            return await call.delete()
        case "DELETE":
            raise unscoped(target.resource)
        case _:
            raise method_not_allowed()


@attrs.frozen
class _Call:
    """One request about objects, with all that is needed to answer it. Each method answers one HTTP method."""

    _server: ApiServer
    _services: Services
    _query: QueryParams
    _headers: Headers
    _target: RequestTarget
    _caller: Caller
    _raw: bytes
    _view: View

    @property
    def _media(self) -> str:
        return media_type(self._headers.get("content-type", ""))

    def read(self) -> Response:
        if self._target.name:
            return self._object(self._server.get(self._target, self._caller, self._query.get("resourceVersion", "")))
        listed = self._server.list(self._target, list_options(self._query), self._caller)
        return list_answer(listed, self._view)

    async def write(self, verb: RequestVerb) -> Response:
        options = write_options(self._query, f"{verb.value.capitalize()}Options")
        body, warnings = self._manifest(options.field_validation)
        return await self._written(verb, body, options, warnings)

    def act(self) -> Response:
        """Perform the POST of a Binding or an Eviction of a pod."""
        options = write_options(self._query, "CreateOptions")
        body, warnings = self._manifest(options.field_validation)
        return self._object(self._server.act(self._target, body, options, self._caller), warnings)

    async def patch(self) -> Response:
        options = write_options(self._query, "PatchOptions")
        if self._media == APPLY_PATCH:
            body, warnings = self._checked(read_yaml(self._raw), options.field_validation)
            return await self._written(RequestVerb.PATCH, body, options, warnings)
        kind = self._patch_type()
        body, warnings = self._checked(_patch_body(self._raw), options.field_validation, refuse=patch_invalid)
        return await self._written(RequestVerb.PATCH, body, options, warnings, kind)

    async def _written(
        self,
        verb: RequestVerb,
        body: Any,
        options: WriteOptions,
        warnings: tuple[str, ...],
        patch_type: PatchType | None = None,
    ) -> Response:
        call = WriteCall(verb, self._target, body, options, self._caller, patch_type)
        asks_others = self._server.has_webhooks or self._target.resource.converts
        # Webhooks and conversions need the network, and so a write in several steps; all other writes are one call.
        if asks_others and self._target.resource.storage not in REVIEWS:
            return self._object(await webhooks.perform(self._server, call, self._services), warnings)
        return self._object(self._server.perform(call), warnings)

    async def delete(self) -> Response:
        body = self._deletion()
        if not isinstance(body, Mapping):
            raise bad_request("the DeleteOptions of a delete are an object")
        options = delete_options(body)
        selector = list_options(self._query)
        if self._server.has_webhooks:
            asked = webhooks.DeleteCall(self._target, selector, options, self._caller)
            await webhooks.admit_delete(self._server, asked, self._services)
        return await converted(self._server, partial(self._deleted, selector, options), self._services)

    def _deleted(self, selector: ListOptions, options: DeleteOptions) -> Response:
        if self._target.name:
            return self._object(self._server.delete(self._target, options, self._caller))
        listed = self._server.delete_collection(self._target, selector, options, self._caller)
        return list_answer(listed, self._view)

    def _deletion(self) -> Any:
        """Return the DeleteOptions of the request: those in the body, or else those in the query.

        Typed clients send the body as protobuf.
        """
        # apiserver: handlers/delete.go, DeleteResource reads the query only if there is no body. With a body even
        # `?dryRun=All` is ignored.
        if not self._raw.strip():
            return query_options(self._query)
        return decode_object(self._raw) if self._media == PROTOBUF else read_yaml(self._raw).value

    def _object(self, reply: Any, warnings: tuple[str, ...] = ()) -> Response:
        return object_answer(reply, self._target.resource, self._view, warnings)

    def _manifest(self, validation: FieldValidation) -> tuple[Any, tuple[str, ...]]:
        """Return two values: the object in a POST's or PUT's body, and warnings about keys that occur twice in it."""
        if self._media not in ("", *_OBJECT_TYPES):
            raise unsupported_media_type(_OBJECT_TYPES)
        # A CRD has no protobuf message.
        if self._media == PROTOBUF and not self._target.resource.custom:
            return decode_object(self._raw), ()
        if not self._raw.strip():
            raise _unrecognized(
                self._target, "couldn't get version/kind; json parse error: unexpected end of JSON input"
            )
        return self._checked(read_yaml(self._raw) if "yaml" in self._media else read_json(self._raw), validation)

    def _checked(
        self, body: DecodedBody, validation: FieldValidation, refuse: Callable[[str], ApiFailure] = bad_request
    ) -> tuple[Any, tuple[str, ...]]:
        """Return two values: the value in `body`, and the warnings about keys that occur twice in it (S-14).

        If `validation` is Strict, raises the ApiFailure that `refuse` builds from the message about such keys.
        """
        texts = tuple(f'duplicate field "{path}"' for path in body.duplicates)
        if texts and validation is FieldValidation.STRICT:
            kind, version = self._target.resource.kind, self._target.resource.version
            problems = ", ".join(texts)
            raise refuse(
                f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: {problems}'
            )
        return body.value, texts if validation is FieldValidation.WARN else ()

    def _patch_type(self) -> PatchType:
        # apiserver: handlers/patch.go, PatchResource compares the media type before it reads the body, so a wrong one
        # is 415 even for an object that does not exist.
        types = [PatchType.JSON, PatchType.MERGE]
        if not self._target.resource.custom:
            types.append(PatchType.STRATEGIC)
        if self._media not in [kind.value for kind in types]:
            raise unsupported_media_type((*(kind.value for kind in types), APPLY_PATCH))
        return PatchType(self._media)


def _patch_body(raw: bytes) -> DecodedBody:
    try:
        return read_json(raw)
    except ApiFailure as failure:
        raise bad_request(f"error decoding patch: {failure.message}") from failure


def _unrecognized(target: RequestTarget, why: str) -> ApiFailure:
    return bad_request(f"the object provided is unrecognized (must be of type {target.resource.kind}): {why} (<empty>)")
