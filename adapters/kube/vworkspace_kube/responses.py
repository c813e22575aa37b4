"""Whether an answer is one of the API server's, to what was asked: a proxy or a login page says 200 as well (RUN-1).

Everything that is believed passes here: objects that were read or written, items of lists, events of watches.
"""

from typing import Any

import msgspec

from vworkspace_core.apimachinery.errors import Unavailable
from vworkspace_core.apimachinery.manifest import Manifest, get_path
from vworkspace_core.apimachinery.nesting import decode_answer
from vworkspace_core.ports import ListPage
from vworkspace_kube.errors import RequestInfo

_EXCERPT = 80


def object_of(info: RequestInfo, body: bytes, *, dry_run: bool = False) -> dict[str, Any]:
    """The object that was asked for. Raises Unavailable for anything else."""
    manifest = _decoded(info, body)
    if problem := why_foreign(info, manifest, versioned=not dry_run):
        raise not_the_server(info, problem)
    return manifest


def version_of(info: RequestInfo, body: bytes) -> str:
    """The `gitVersion` of an API server. Raises Unavailable where somebody else answered."""
    version = _decoded(info, body).get("gitVersion")
    if not isinstance(version, str) or not version:
        raise not_the_server(info, "it has no gitVersion")
    return version


def review_of(info: RequestInfo, body: bytes) -> dict[str, Any]:
    """An answered review, which has neither name nor version. Raises Unavailable for anything else."""
    manifest = _decoded(info, body)
    if problem := _typed(manifest, info.kind.api_version, info.kind.kind):
        raise not_the_server(info, problem)
    return manifest


def left_of(info: RequestInfo, body: bytes) -> Manifest | None:
    """What a deletion has left: the object, while finalizers keep it. Raises Unavailable for what is no answer to one.

    It is answered by a Status, or by the object; of some built-in kinds also when the object has gone.
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
    """A page as the port wants it: `items: null` is empty, and items of built-in kinds get their type.

    Raises Unavailable for what is not a list of that kind, or holds what does not belong there.
    """
    manifest = _decoded(info, body, "items")
    if metadata_only:
        manifest = _typed_again(info, manifest)
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


def _typed_again(info: RequestInfo, manifest: dict[str, Any]) -> dict[str, Any]:
    """A list of metadata as a list of the kind whose metadata it is. Raises Unavailable for any other list."""
    if problem := _typed(manifest, _PARTIAL[0], f"{_PARTIAL[1]}List"):
        raise not_the_server(info, problem)
    items = manifest.get("items")
    for item in items if isinstance(items, list) else ():
        if problem := _typed(item, *_PARTIAL):
            raise not_the_server(info, f"an item of the list: {problem}")
        item.update(apiVersion=info.kind.api_version, kind=info.kind.kind)
    return {**manifest, "apiVersion": info.kind.api_version, "kind": f"{info.kind.kind}List"}


def why_foreign(info: RequestInfo, manifest: Any, *, versioned: bool = True) -> str:
    """Why an object is not one that was asked for; empty when it is."""
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
    """The server said 200 and then nonsense: `status` tells it from a connection that broke."""
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
    """As much as tells what it is: it may be anything, and long."""
    return repr(value)[:_EXCERPT] if isinstance(value, str) else "nothing" if value is None else "no text"
