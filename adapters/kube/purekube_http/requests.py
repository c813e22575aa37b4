"""The URL, headers and body of a `KubeRequest` as they are sent over HTTP, without I/O.

Every path segment is quoted and every namespace explicit: lightkube would fall back to the default namespace, and send
`?` in a name as a query.
"""

from functools import lru_cache
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import service_account_user
from purekube.ports import KubeRequest, KubeVerb

METHODS: Final = {
    KubeVerb.GET: "GET",
    KubeVerb.LIST: "GET",
    KubeVerb.WATCH: "GET",
    KubeVerb.CREATE: "POST",
    KubeVerb.UPDATE: "PUT",
    KubeVerb.APPLY: "PATCH",
    KubeVerb.PATCH: "PATCH",
    KubeVerb.DELETE: "DELETE",
}

_JSON: Final = "application/json"
_APPLY_PATCH: Final = "application/apply-patch+yaml"
"""The media type of server-side apply; JSON is valid YAML, so the body is JSON."""

_ONLY_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""The media type of a list with only the metadata of its objects."""
_METADATA_OF_EACH: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""The media type of a watch with only the metadata of its objects."""


def url_of(request: KubeRequest) -> str:
    """Return the path and query of the URL to which `request` is sent, without scheme and host."""
    is_in_path = request.name and (request.verb is not KubeVerb.CREATE or request.subresource)
    # Names of RBAC objects may have colons (`system:node`), which the API server takes unquoted.
    name = f"/{quote(request.name, safe=':')}" if is_in_path else ""
    subresource = f"/{request.subresource}" if request.subresource else ""
    query = _query(tuple(request.params.items())) if request.params else ""
    path = f"{_resource(request.kind, request.namespace)}{name}{subresource}"
    return f"{path}?{query}" if query else path


@lru_cache(maxsize=1024)
def _resource(kind: Kind, namespace: str | None) -> str:
    """Return the URL path of a resource.

    Results are cached, because there are only as many paths as kinds times namespaces.
    """
    group = "/apis/" if kind.group else "/api/"
    place = f"/namespaces/{quote(namespace, safe='')}" if kind.namespaced and namespace else ""
    return f"{group}{kind.api_version}{place}/{kind.plural}"


@lru_cache(maxsize=256)
def _query(params: tuple[tuple[str, str | int | None], ...]) -> str:
    """Return the URL query string. Results are cached, because writes have few distinct queries."""
    return urlencode({key: value for key, value in params if value not in (None, "")})


def headers_of(request: KubeRequest) -> dict[str, str]:
    """Return the headers for the options of `request`: Accept if only metadata is wanted, and the user to impersonate.

    The API server adds the groups of an impersonated account. Naming them in the request would need a right on groups.
    """
    headers = {}
    if request.metadata_only:
        headers["Accept"] = _ONLY_METADATA if request.verb is KubeVerb.LIST else _METADATA_OF_EACH
    if request.account is not None:
        headers["Impersonate-User"] = service_account_user(request.account.namespace, request.account.name)
    return headers


def media_type_of(request: KubeRequest) -> str:
    """Return the media type of the request's body, which for a patch says which type of patch it is."""
    if request.verb is KubeVerb.APPLY:
        return _APPLY_PATCH
    return _JSON if request.patch_type is None else request.patch_type.value


def encoded(request: KubeRequest) -> bytes | None:
    """Return the body as JSON, or None if the request has no body.

    Raises Invalid for values that JSON cannot represent.
    """
    if request.body is None:
        return None
    try:
        return msgspec.json.encode(request.body)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:  # such as half a surrogate pair
        raise Invalid(f"{request}: the content cannot be written as JSON: {type(error).__name__}") from None
