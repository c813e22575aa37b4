"""The URL of an object's page on the operator's web server, for that server and for links to the page (SEE-3)."""

from string import ascii_letters, digits
from typing import Final

from purekube.apimachinery.manifest import ObjectRef

OBJECT: Final = "/object/"
CLUSTER_SCOPED: Final = "-"
_UNRESERVED: Final = frozenset((ascii_letters + digits + "-._~").encode())
"""The bytes that are not percent-encoded in a part of a URL path (RFC 3986)."""


def object_path(ref: ObjectRef) -> str:
    """Return the URL path of the page of the object `ref`."""
    return OBJECT + "/".join(map(_quoted, (ref.kind.crd_name, ref.namespace or CLUSTER_SCOPED, ref.name)))


def page_link(base: str, ref: ObjectRef) -> str:
    """Return the URL of the page of the object `ref` below the base URL `base`; empty if `base` is empty."""
    return base.rstrip("/") + object_path(ref) if base else ""


def _quoted(part: str) -> str:
    """Return a part of a path, percent-encoded except for unreserved characters."""
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in part.encode())
