"""Addresses of the page, relative to its root: it works behind any path of a proxy."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

from vworkspace_core.apimachinery.manifest import ObjectRef
from vworkspace_core.overview.fleet import FleetQuery

OBJECT: Final = "/object/"
EVENTS: Final = "/events"
STREAMS: Final = frozenset((EVENTS,))
"""Paths whose answers last."""
CLUSTER_SCOPED: Final = "-"


def object_path(ref: ObjectRef) -> str:
    """Where one object is shown."""
    parts = (ref.kind.crd_name, ref.namespace or CLUSTER_SCOPED, ref.name)
    return OBJECT + "/".join(quote(part, safe="") for part in parts)


def fleet_query(query: Mapping[str, str]) -> FleetQuery:
    """What is asked for; what is no number of a page is the first."""
    page = query.get("page", "")
    number = int(page) if page.isascii() and page.isdigit() and len(page) < 7 else 1
    return FleetQuery(
        query.get("kind", ""), query.get("state", ""), query.get("namespace", ""), query.get("q", ""), number
    )


def fleet_path(query: FleetQuery, **changes: str | int) -> str:
    """The fleet with some filters changed; another filter begins with the first page."""
    said = {
        "kind": query.kind, "state": query.state, "namespace": query.namespace, "q": query.text, "page": "",
        **{name: str(value) for name, value in changes.items()},
    }  # fmt: skip
    said = {name: value for name, value in said.items() if value and (name, value) != ("page", "1")}
    return "/" + (f"?{urlencode(said)}" if said else "")


def root_of(path: str) -> str:
    """The way from a path to the root."""
    return "../" * (path.count("/") - 1) or "./"
