"""Responses in the form that the client's Accept header selects, compressed if the client accepts that."""

import gzip
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from enum import Enum
from typing import Any, Final
from uuid import uuid4

import attrs
import yaml
from starlette.responses import Response

from kubelab.http.tables.render import partial, table
from kubelab.model.calls import ObjectPage, Reply
from kubelab.model.failure import ApiFailure, status_body
from kubelab.model.records import decode, encode
from kubelab.model.resources import ServedResource


class AnswerForm(Enum):
    """The forms in which the server can answer with an object, a list or a discovery document."""

    OBJECT = "object"
    TABLE = "Table"
    PARTIAL = "PartialObjectMetadata"
    PARTIAL_LIST = "PartialObjectMetadataList"
    DISCOVERY = "APIGroupDiscoveryList"


@attrs.frozen
class AcceptedForm:
    """The form of an answer, such as a Table, that the client's Accept header selects.

    `version` is the API version of that form, such as `v1` for a Table. `yaml` is True for YAML in place of JSON.
    """

    form: AnswerForm
    version: str = "v1"
    yaml: bool = False

    @property
    def content_type(self) -> str:
        """The Content-Type of an answer in this form."""
        if self.form is AnswerForm.DISCOVERY:
            return f"application/json;g=apidiscovery.k8s.io;v={self.version};as={self.form.value}"
        return "application/yaml" if self.yaml else "application/json"


@attrs.frozen
class View:
    """The view of objects that a client requests: the form `accepted`, and what a Table shows of each object.

    `include` says how much of the object a row of a Table contains in addition to its cells: `Metadata`, `None` or
    `Object`. `now` returns the time from which ages in the Table are computed.
    """

    accepted: AcceptedForm
    include: str
    now: Callable[[], datetime]


_ACCEPTABLE: Final = (
    "only the following media types are accepted: application/json, application/yaml, "
    "application/json;as=Table;g=meta.k8s.io;v=v1"
)
# apiserver: endpoints/discovery/aggregated/negotiation.go, IsAggregatedDiscoveryGVK.
_VERSIONS: Final = {AnswerForm.DISCOVERY: ("v2", "v2beta1")}


def media_type(header: str) -> str:
    """Return the media type in `header`, a Content-Type header, without its parameters and in lower case."""
    return header.partition(";")[0].strip().lower()


def wanted_form(accept: str, forms: frozenset[AnswerForm]) -> AcceptedForm:
    """Return the first form in the Accept header that the server can produce.

    The plain object is always possible; `forms` are the other forms that are possible for this request. Raises
    ApiFailure 406 if the header names no possible form.
    """
    # apiserver: handlers/negotiation/negotiate.go, NegotiateMediaTypeOptions takes the first clause that it can serve.
    # kubectl relies on this: it names a Table first, and plain JSON after it.
    for kind, parameters in _clauses(accept or "*/*"):
        if kind not in {"application/json", "application/yaml", "application/*", "*/*"}:
            continue
        named = parameters.get("as")
        if named is None:
            return AcceptedForm(AnswerForm.OBJECT, yaml=kind == "application/yaml")
        form = next((form for form in forms if form.value == named), None)
        version = parameters.get("v", "v1")
        if form is not None and version in _VERSIONS.get(form, ("v1",)):
            return AcceptedForm(form, version)
    raise ApiFailure(406, "NotAcceptable", _ACCEPTABLE)


def wants_gzip(accept_encoding: str) -> bool:
    """Report whether the client's header `accept_encoding` accepts a gzipped answer."""
    # apiserver: handlers/responsewriters/writers.go, negotiateContentEncoding knows gzip only.
    return any(part.partition(";")[0].strip() == "gzip" for part in accept_encoding.split(","))


def audit_id(headers: Mapping[str, str]) -> str:
    """Return the header Audit-Id of the answer to a request with `headers`: that of the request, or a new one.

    kube-apiserver sends it with every answer, so that clients can tell its answers from those of a proxy.
    """
    # apiserver: endpoints/filters/audit_init.go, withAuditInit.
    return headers.get("audit-id") or str(uuid4())


def _clauses(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    for clause in accept.split(","):
        kind, *parameters = (part.strip() for part in clause.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        yield kind.lower(), {key.strip(): value.strip() for key, _, value in pairs}


JSON: Final = AcceptedForm(AnswerForm.OBJECT)
# apiserver: handlers/responsewriters/writers.go, defaultGzipThresholdBytes.
_COMPRESS_FROM: Final = 128 * 1024
"""The size in bytes from which kube-apiserver compresses an answer."""


def document(content: Any, accepted_form: AcceptedForm = JSON, *, status: int = 200) -> Response:
    """Return a response with `content` as a JSON document, or as YAML if `accepted_form` says so.

    `status` is the HTTP status of the response.
    """
    return _response(encode(content), accepted_form, status)


def failed(failure: ApiFailure) -> Response:
    """Return the response for a failure: a Status, or plain text where kube-apiserver sends plain text (W-38)."""
    if failure.plain:
        return Response(f"{failure.message}\n", failure.status, media_type="text/plain; charset=utf-8")
    response = document(status_body(failure), status=failure.status)
    if failure.retry_after is not None:
        response.headers["retry-after"] = str(failure.retry_after)
    return response


def object_answer(reply: Reply, resource: ServedResource, view: View, warnings: tuple[str, ...]) -> Response:
    """Return a response with the object in `reply`: in full, as a row of a Table, or its metadata only.

    `view` says which of these. `resource` is the object's resource, which defines the columns of the Table. `warnings`
    come before the warnings of `reply`.
    """
    if view.accepted.form is AnswerForm.OBJECT:
        response = _response(reply.raw, view.accepted, reply.status)
    else:
        response = document(shown(reply.object(), resource, view), view.accepted, status=reply.status)
    for text in (*warnings, *reply.warnings):
        warn(response, text)
    return response


def warn(response: Response, text: str) -> None:
    """Add a Warning header with `text` to the response (W-36)."""
    response.headers.append("warning", f'299 - "{_quoted(text)}"')


def list_answer(listed: ObjectPage, view: View) -> Response:
    """Return a response with the objects in `listed`, as `view` says: in full, as a Table, or as a list of metadata."""
    match view.accepted.form:
        case AnswerForm.TABLE:
            content: Any = table(listed.resource, listed.objects(), listed.metadata(), view.include, view.now())
        case AnswerForm.PARTIAL_LIST | AnswerForm.PARTIAL:
            content = {
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": listed.metadata(),
                "items": [partial(manifest) for manifest in listed.objects()],
            }
        case _:
            return _response(listed.raw(), view.accepted, 200)
    return document(content, view.accepted)


def shown(manifest: Mapping[str, Any], resource: ServedResource, view: View) -> Any:
    """Return the object `manifest` in the form of `view`. An object of the kind Status is returned unchanged.

    `resource` is the object's resource, which defines the columns of a Table.
    """
    if manifest.get("kind") == "Status":
        return manifest
    match view.accepted.form:
        case AnswerForm.TABLE:
            # The Table of a watch event has the version of its object, so that a client can resume from it.
            version = {"resourceVersion": manifest["metadata"].get("resourceVersion", "")}
            rows = (manifest,) if "name" in manifest["metadata"] else ()  # a bookmark gets no row
            return table(resource, rows, version, view.include, view.now())
        case AnswerForm.PARTIAL | AnswerForm.PARTIAL_LIST:
            return partial(manifest)
        case _:
            return manifest


def compressed(response: Response) -> Response:
    """Return the response with a gzipped body if the body has at least 128 KiB, and otherwise unchanged."""
    body = bytes(response.body)
    if len(body) < _COMPRESS_FROM:
        return response
    # Level 1 is that of kube-apiserver (defaultGzipContentEncodingLevel). Without a time in the header, equal bodies
    # have equal bytes.
    response.body = gzip.compress(body, compresslevel=1, mtime=0)
    response.headers["content-encoding"] = "gzip"
    response.headers["content-length"] = str(len(response.body))
    response.headers["vary"] = "Accept-Encoding"
    return response


def _response(raw: bytes, accepted_form: AcceptedForm, status: int) -> Response:
    body = yaml.safe_dump(decode(raw), sort_keys=False).encode() if accepted_form.yaml else raw
    return Response(body, status, media_type=accepted_form.content_type)


def _quoted(text: str) -> str:
    """Return the text in a form that is valid in a quoted Warning header: one line of latin-1."""
    plain = " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')
    return plain.encode("latin-1", "replace").decode("latin-1")
