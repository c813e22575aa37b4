"""Whether an answer is one of the API server's, to what was asked: a proxy or a login page says 200 as well (RUN-1).

Everything that is believed passes here: objects that were read or written, items of lists, events of watches.
"""

from typing import Any

import msgspec

from vworkspace_core.apimachinery.errors import Unavailable
from vworkspace_core.apimachinery.manifest import dig
from vworkspace_core.apimachinery.nesting import decode_answer
from vworkspace_core.ports import ListPage
from vworkspace_kube.errors import Asked

_EXCERPT = 80


def object_of(asked: Asked, body: bytes, *, dry_run: bool = False) -> dict[str, Any]:
    """The object that was asked for. Raises Unavailable for anything else."""
    found = _decoded(asked, body)
    if problem := belongs(asked, found, versioned=not dry_run):
        raise not_the_server(asked, problem)
    return found


def check_deletion(asked: Asked, body: bytes) -> None:
    """A deletion is answered by a Status, or by the object that goes. Raises Unavailable for anything else."""
    found = _decoded(asked, body)
    if _typed(found, "v1", "Status") and (problem := belongs(asked, found)):
        raise not_the_server(asked, problem)


def page_of(asked: Asked, body: bytes) -> ListPage:
    """A page as the port wants it: `items: null` is empty, and items of built-in kinds get their type.

    Raises Unavailable for what is not a list of that kind, or holds what does not belong there.
    """
    found = _decoded(asked, body, "items")
    version, token = dig(found, "metadata", "resourceVersion"), dig(found, "metadata", "continue")
    items = found.get("items") or []
    if problem := _typed(found, asked.kind.api_version, f"{asked.kind.kind}List"):
        raise not_the_server(asked, problem)
    if not version or not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise not_the_server(asked, "the answer is not a list")
    for item in items:
        item.setdefault("apiVersion", asked.kind.api_version)
        item.setdefault("kind", asked.kind.kind)
        if problem := belongs(asked, item):
            raise not_the_server(asked, f"an item of the list: {problem}")
    return ListPage(items, str(version), str(token or ""))


def belongs(asked: Asked, found: Any, *, versioned: bool = True) -> str:
    """Why an object is not one that was asked for; empty when it is."""
    if problem := _typed(found, asked.kind.api_version, asked.kind.kind):
        return problem
    meta = found.get("metadata")
    name, namespace = dig(meta, "name"), dig(meta, "namespace")
    if not isinstance(name, str) or not name or (asked.name and name != asked.name):
        return f"it is named {_shown(name)}"
    if asked.kind.namespaced and (not namespace or (asked.namespace and namespace != asked.namespace)):
        return f"it is in namespace {_shown(namespace)}"
    if versioned and not all(isinstance(dig(meta, key), str) for key in ("uid", "resourceVersion")):
        return "it has no uid or no resourceVersion"
    return ""


def not_the_server(asked: Asked, problem: str) -> Unavailable:
    """The server said 200 and then nonsense: `status` tells it from a connection that broke."""
    told = f"{asked}: something other than the API server answered ({problem}); is a proxy or a login page in between?"
    return Unavailable(told, status=200)


def _decoded(asked: Asked, body: bytes, *path: str) -> dict[str, Any]:
    try:
        found = decode_answer(body, *path)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = None
    if not isinstance(found, dict):
        raise not_the_server(asked, "the answer is not a JSON object")
    return found


def _typed(found: Any, api_version: str, kind: str) -> str:
    said = (dig(found, "apiVersion"), dig(found, "kind"))
    return "" if said == (api_version, kind) else f"it says that it is {_shown(said[0])} {_shown(said[1])}"


def _shown(value: Any) -> str:
    """As much as tells what it is: it may be anything, and long."""
    return repr(value)[:_EXCERPT] if isinstance(value, str) else "nothing" if value is None else "no text"
