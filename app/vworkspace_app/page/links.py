"""Addresses of the page, relative to its root: it works under any path of a proxy."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

from purekube.apimachinery.manifest import ObjectRef
from vworkspace_core.overview.object_list import ListQuery

OBJECT: Final = "/object/"
EVENTS: Final = "/events"
STREAMS: Final = frozenset((EVENTS,))
"""Paths whose answers are streams, open for as long as the browser follows."""
CLUSTER_SCOPED: Final = "-"


def object_path(ref: ObjectRef) -> str:
    """Return the address of the page of one object."""
    parts = (ref.kind.crd_name, ref.namespace or CLUSTER_SCOPED, ref.name)
    return OBJECT + "/".join(quote(part, safe="") for part in parts)


def list_query(query: Mapping[str, str]) -> ListQuery:
    """Return the filters of an address; a page number that is invalid becomes 1."""
    page = query.get("page", "")
    number = int(page) if page.isascii() and page.isdigit() and len(page) < 7 else 1
    return ListQuery(
        query.get("kind", ""), query.get("state", ""), query.get("namespace", ""), query.get("q", ""), number
    )


def list_path(query: ListQuery, **changes: str | int) -> str:
    """Return the address of the fleet with some filters changed; changed filters begin at page 1."""
    said = {
        "kind": query.kind, "state": query.state, "namespace": query.namespace, "q": query.text, "page": "",
        **{name: str(value) for name, value in changes.items()},
    }  # fmt: skip
    said = {name: value for name, value in said.items() if value and (name, value) != ("page", "1")}
    return "/" + (f"?{urlencode(said)}" if said else "")


def root_of(path: str) -> str:
    """Return the relative URL from the page at `path` to the root of the page's addresses, such as `../../`."""
    return "../" * (path.count("/") - 1) or "./"
