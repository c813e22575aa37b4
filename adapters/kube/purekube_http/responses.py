"""The check that an answer comes from the API server and is about the requested object (RUN-1).

A proxy or a login page answers 200 as well. Every answer is checked here: objects that were read or written, items of
lists, events of watches.
"""

from typing import Any

import msgspec

from purekube.apimachinery.errors import Unavailable
from purekube.apimachinery.manifest import Kind, Manifest, get_path, metadata
from purekube.apimachinery.nesting import decode_answer
from purekube.ports import KubeRequest, KubeVerb

_EXCERPT = 80


def answer_of(request: KubeRequest, body: bytes) -> Manifest:
    """Return the decoded answer: the object or list, or for a DELETE the deleted object or a Status.

    Raises Unavailable for any other answer.
    """
    match request.verb:
        case KubeVerb.LIST:
            return _list_of(request, body)
        case KubeVerb.DELETE:
            return _remains_of(request, body)
        case KubeVerb.CREATE if request.is_review:
            return review_of(request, body)
        case _:
            return _object_of(request, body)


def _object_of(request: KubeRequest, body: bytes) -> dict[str, Any]:
    manifest = _decoded(request, body)
    if request.metadata_only and (problem := replace_type(request, manifest)):
        raise not_the_server(request, problem)
    if problem := why_foreign(request, manifest, versioned=not request.params.get("dryRun")):
        raise not_the_server(request, problem)
    return manifest


def version_of(request: KubeRequest, body: bytes) -> str:
    """Return the field `gitVersion` of an API server's answer to the request for `/version`.

    `body` is the undecoded answer. Raises Unavailable for an answer without a version.
    """
    version = _decoded(request, body).get("gitVersion")
    if not isinstance(version, str) or not version:
        raise not_the_server(request, "it has no gitVersion")
    return version


def review_of(request: KubeRequest, body: bytes) -> dict[str, Any]:
    """Return the decoded answer to the create of an access review or a TokenRequest, whose result is in its status.

    The answer has no name and no resourceVersion, so only its kind and version are checked. Raises Unavailable for any
    other answer.
    """
    manifest = _decoded(request, body)
    if problem := _typed(manifest, request.kind.api_version, request.kind.kind):
        raise not_the_server(request, problem)
    return manifest


def _remains_of(request: KubeRequest, body: bytes) -> dict[str, Any]:
    """Return the decoded answer to a deletion, which is a Status or the object.

    Raises Unavailable for any other answer.
    """
    manifest = _decoded(request, body)
    # Which of the two is up to the kind: the registry of some returns what it deleted (apiserver:
    # registry/generic/registry/store.go, ReturnDeletedObject), and a finalizer always shows the object.
    if _typed(manifest, "v1", "Status") and (problem := why_foreign(request, manifest)):
        raise not_the_server(request, problem)
    return manifest


_PARTIAL = ("meta.k8s.io/v1", "PartialObjectMetadata")


def _list_of(request: KubeRequest, body: bytes) -> dict[str, Any]:
    """Return a decoded page of a list.

    `items: null` becomes an empty list, and items without apiVersion and kind get them. Raises Unavailable for an
    answer that is not a list of the requested kind, or has other objects in it.
    """
    manifest = _decoded(request, body, "items")
    if request.metadata_only:
        manifest = _replace_list_type(request, manifest)
    items = manifest.get("items") or []
    if problem := _typed_list(request.kind, manifest):
        raise not_the_server(request, problem)
    is_list = isinstance(items, list) and all(isinstance(item, dict) for item in items)
    if not is_list or not get_path(manifest, "metadata", "resourceVersion"):
        raise not_the_server(request, "the answer is not a list")
    for item in items:
        # Items of built-in kinds come without them: Go empties the TypeMeta of what it decodes, and writes that of the
        # list alone. Items of CRDs have them.
        item.setdefault("apiVersion", request.kind.api_version)
        item.setdefault("kind", request.kind.kind)
        if problem := why_foreign(request, item):
            raise not_the_server(request, f"an item of the list: {problem}")
    return {**manifest, "items": items}


def _replace_list_type(request: KubeRequest, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return `manifest`, a PartialObjectMetadataList, as a list of the requested kind.

    The types of its items are replaced in place. Raises Unavailable for any other list.
    """
    if problem := _typed(manifest, _PARTIAL[0], f"{_PARTIAL[1]}List"):
        raise not_the_server(request, problem)
    items = manifest.get("items")
    for item in items if isinstance(items, list) else ():
        if problem := replace_type(request, item):
            raise not_the_server(request, f"an item of the list: {problem}")
    return {**manifest, "apiVersion": request.kind.api_version, "kind": f"{request.kind.kind}List"}


def replace_type(request: KubeRequest, partial: Any) -> str:
    """Replace the type PartialObjectMetadata of `partial` by the requested kind, in place.

    Return an empty string, or a description of the problem if `partial` has another type.
    """
    if problem := _typed(partial, *_PARTIAL):
        return problem
    partial.update(apiVersion=request.kind.api_version, kind=request.kind.kind)
    return ""


def why_foreign(request: KubeRequest, manifest: Any, *, versioned: bool = True) -> str:
    """Return why `manifest` is not the requested object, or an empty string if it is the requested object.

    With `versioned` the object must have a uid and a resourceVersion. The answer to a dry run may lack them.
    """
    if problem := _typed(manifest, request.kind.api_version, request.kind.kind):
        return problem
    meta = metadata(manifest)
    name, namespace = meta.get("name"), meta.get("namespace")
    if not isinstance(name, str) or not name or (request.name and name != request.name):
        return f"it is named {_shown(name)}"
    if request.kind.namespaced and (not namespace or (request.namespace and namespace != request.namespace)):
        return f"it is in namespace {_shown(namespace)}"
    if versioned and not (isinstance(meta.get("uid"), str) and isinstance(meta.get("resourceVersion"), str)):
        return "it has no uid or no resourceVersion"
    return ""


def not_the_server(request: KubeRequest, problem: str) -> Unavailable:
    """Return the error for an answer with status 200 that cannot be from the API server. `problem` says why.

    The `status` in the error distinguishes it from the error of a broken connection.
    """
    message = (
        f"{request}: something other than the API server answered ({problem}); is a proxy or a login page in between?"
    )
    return Unavailable(message, status=200)


def _decoded(request: KubeRequest, body: bytes, *path: str) -> dict[str, Any]:
    try:
        manifest = decode_answer(body, *path)
    except (msgspec.DecodeError, UnicodeDecodeError):
        manifest = None
    if not isinstance(manifest, dict):
        raise not_the_server(request, "the answer is not a JSON object")
    return manifest


def _typed(manifest: Any, api_version: str, kind: str) -> str:
    said = (get_path(manifest, "apiVersion"), get_path(manifest, "kind"))
    return "" if said == (api_version, kind) else f"it says that it is {_shown(said[0])} {_shown(said[1])}"


def _typed_list(kind: Kind, manifest: Any) -> str:
    """Return why `manifest` is not a list of `kind`, or an empty string if it is such a list.

    A CRD may choose the kind of its lists freely (`spec.names.listKind`).
    """
    name = get_path(manifest, "kind")
    is_free = "." in kind.group and isinstance(name, str) and name != kind.kind
    return _typed(manifest, kind.api_version, str(name) if is_free else f"{kind.kind}List")


def _shown(value: Any) -> str:
    """Return an excerpt of a value for error messages. The value may be of any type and length."""
    return repr(value)[:_EXCERPT] if isinstance(value, str) else "nothing" if value is None else "no text"
