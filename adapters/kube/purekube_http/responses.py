"""The check that an answer is the API server's, and about what was requested (RUN-1).

A proxy or a login page answers 200 as well. All answers pass here: objects that were read or written, items of lists,
events of watches.
"""

from typing import Any

import msgspec

from purekube.apimachinery.errors import Unavailable
from purekube.apimachinery.manifest import Manifest, get_path
from purekube.apimachinery.nesting import decode_answer
from purekube.ports import ListPage
from purekube_http.errors import RequestInfo

_EXCERPT = 80


def object_of(info: RequestInfo, body: bytes, *, dry_run: bool = False, metadata_only: bool = False) -> dict[str, Any]:
    """Return the requested object. Raises Unavailable for any other answer."""
    manifest = _decoded(info, body)
    if metadata_only and (problem := typed_again(info, manifest)):
        raise not_the_server(info, problem)
    if problem := why_foreign(info, manifest, versioned=not dry_run):
        raise not_the_server(info, problem)
    return manifest


def version_of(info: RequestInfo, body: bytes) -> str:
    """Return an API server's `gitVersion`. Raises Unavailable for an answer without one."""
    version = _decoded(info, body).get("gitVersion")
    if not isinstance(version, str) or not version:
        raise not_the_server(info, "it has no gitVersion")
    return version


def review_of(info: RequestInfo, body: bytes) -> dict[str, Any]:
    """Return an answered review, which has neither name nor version. Raises Unavailable for any other answer."""
    manifest = _decoded(info, body)
    if problem := _typed(manifest, info.kind.api_version, info.kind.kind):
        raise not_the_server(info, problem)
    return manifest


def left_of(info: RequestInfo, body: bytes) -> Manifest | None:
    """Return the object if finalizers keep it after a deletion, else None. Raises Unavailable for any other answer.

    The API server answers a deletion with a Status or the object; for some built-in kinds with the object even when it
    is gone.
    """
    manifest = _decoded(info, body)
    if not _typed(manifest, "v1", "Status"):
        return None
    if problem := why_foreign(info, manifest):
        raise not_the_server(info, problem)
    is_kept = get_path(manifest, "metadata", "deletionTimestamp") and get_path(manifest, "metadata", "finalizers")
    return manifest if is_kept else None


_PARTIAL = ("meta.k8s.io/v1", "PartialObjectMetadata")


def page_of(info: RequestInfo, body: bytes, *, metadata_only: bool = False) -> ListPage:
    """Return a page of a list: `items: null` is empty, and items of built-in kinds get their type.

    Raises Unavailable for an answer that is no list of that kind, or has other objects in it.
    """
    manifest = _decoded(info, body, "items")
    if metadata_only:
        manifest = _list_typed_again(info, manifest)
    version, token = get_path(manifest, "metadata", "resourceVersion"), get_path(manifest, "metadata", "continue")
    items = manifest.get("items") or []
    if problem := _typed(manifest, info.kind.api_version, f"{info.kind.kind}List"):
        raise not_the_server(info, problem)
    if not version or not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise not_the_server(info, "the answer is not a list")
    for item in items:
        item.setdefault("apiVersion", info.kind.api_version)
        item.setdefault("kind", info.kind.kind)
        if problem := why_foreign(info, item):
            raise not_the_server(info, f"an item of the list: {problem}")
    return ListPage(items, str(version), str(token or ""))


def _list_typed_again(info: RequestInfo, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a list of partial metadata, with the requested kind as the type of the list and its items.

    Raises Unavailable for any other list.
    """
    if problem := _typed(manifest, _PARTIAL[0], f"{_PARTIAL[1]}List"):
        raise not_the_server(info, problem)
    items = manifest.get("items")
    for item in items if isinstance(items, list) else ():
        if problem := typed_again(info, item):
            raise not_the_server(info, f"an item of the list: {problem}")
    return {**manifest, "apiVersion": info.kind.api_version, "kind": f"{info.kind.kind}List"}


def typed_again(info: RequestInfo, partial: Any) -> str:
    """Replace the type of partial metadata, in place, by the requested kind.

    Returns the problem if it is no PartialObjectMetadata, empty otherwise.
    """
    if problem := _typed(partial, *_PARTIAL):
        return problem
    partial.update(apiVersion=info.kind.api_version, kind=info.kind.kind)
    return ""


def why_foreign(info: RequestInfo, manifest: Any, *, versioned: bool = True) -> str:
    """Return why an object is not the requested one; empty if it is."""
    if problem := _typed(manifest, info.kind.api_version, info.kind.kind):
        return problem
    meta = manifest.get("metadata")
    name, namespace = get_path(meta, "name"), get_path(meta, "namespace")
    if not isinstance(name, str) or not name or (info.name and name != info.name):
        return f"it is named {_shown(name)}"
    if info.kind.namespaced and (not namespace or (info.namespace and namespace != info.namespace)):
        return f"it is in namespace {_shown(namespace)}"
    if versioned and not all(isinstance(get_path(meta, key), str) for key in ("uid", "resourceVersion")):
        return "it has no uid or no resourceVersion"
    return ""


def not_the_server(info: RequestInfo, problem: str) -> Unavailable:
    """Build the error of a 200 with an unusable answer; its `status` distinguishes it from a broken connection."""
    message = (
        f"{info}: something other than the API server answered ({problem}); is a proxy or a login page in between?"
    )
    return Unavailable(message, status=200)


def _decoded(info: RequestInfo, body: bytes, *path: str) -> dict[str, Any]:
    try:
        manifest = decode_answer(body, *path)
    except (msgspec.DecodeError, UnicodeDecodeError):
        manifest = None
    if not isinstance(manifest, dict):
        raise not_the_server(info, "the answer is not a JSON object")
    return manifest


def _typed(manifest: Any, api_version: str, kind: str) -> str:
    said = (get_path(manifest, "apiVersion"), get_path(manifest, "kind"))
    return "" if said == (api_version, kind) else f"it says that it is {_shown(said[0])} {_shown(said[1])}"


def _shown(value: Any) -> str:
    """Return an excerpt of a value that may be of any type and length."""
    return repr(value)[:_EXCERPT] if isinstance(value, str) else "nothing" if value is None else "no text"
