"""Requests to an API server as values, without I/O.

Every path segment is quoted and every namespace explicit: lightkube would fall back to the default namespace, and send
`?` in a name as a query.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlencode

import attrs
import msgspec

from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import Json, Kind, Manifest, ObjectRef, ref_of
from purekube.apimachinery.resources import service_account_user
from purekube.ports import Propagation
from purekube_http.errors import RequestInfo

APPLY_PATCH = "application/apply-patch+yaml"
"""The media type of server-side apply; JSON is valid YAML, so the body is JSON."""

ONLY_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""The media type of a list with only the metadata of its objects."""
METADATA_OF_EACH = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""The media type of a watch with only the metadata of its objects."""


@attrs.frozen
class KubeRequest:
    """One request. `params` with None or "" are left out; `body` is any JSON value, None for none."""

    method: str
    info: RequestInfo
    subresource: str = ""
    params: Mapping[str, str | int | None] = attrs.field(factory=dict)
    body: Json = None
    media_type: str = "application/json"
    accept: str = ""
    """The media type of the answer, if it is not plain JSON."""
    path: str = ""
    """The path of a request that is about no resource, such as `/version`."""

    @property
    def target(self) -> str:
        """The path and query."""
        info = self.info
        name = f"/{quote(info.name, safe=':')}" if info.name else ""
        subresource = f"/{self.subresource}" if self.subresource else ""
        query = _query(tuple(self.params.items())) if self.params else ""
        path = self.path or f"{_resource(info.kind, info.namespace)}{name}{subresource}"
        return f"{path}?{query}" if query else path

    def encoded(self) -> bytes | None:
        """Return the body as JSON, None for none. Raises Invalid for values that JSON cannot represent."""
        if self.body is None:
            return None
        try:
            return msgspec.json.encode(self.body)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:  # such as half a surrogate pair
            raise Invalid(f"{self.info}: the content cannot be written as JSON: {type(error).__name__}") from None


@lru_cache(maxsize=1024)
def _resource(kind: Kind, namespace: str | None) -> str:
    """Return the path of a resource. Cached: there are as many as kinds times namespaces."""
    group = "/apis/" if kind.group else "/api/"
    place = f"/namespaces/{quote(namespace, safe='')}" if kind.namespaced and namespace else ""
    return f"{group}{kind.api_version}{place}/{kind.plural}"


@lru_cache(maxsize=256)
def _query(params: tuple[tuple[str, str | int | None], ...]) -> str:
    """Return the query string. Cached: writes have few distinct queries."""
    return urlencode({key: value for key, value in params if value not in (None, "")})


def collection(method: str, verb: str, kind: Kind, namespace: str | None, **parts: Any) -> KubeRequest:
    """Return a request to a collection: list, watch, create."""
    return KubeRequest(method, RequestInfo(verb, kind, namespace), **parts)


def object_request(method: str, verb: str, ref: ObjectRef, **parts: Any) -> KubeRequest:
    """Return a request to one object. Raises Invalid for a name or namespace that no API server accepts."""
    _check(verb, ref)
    return KubeRequest(method, RequestInfo(verb, ref.kind, ref.namespace, ref.name), **parts)


def target_of(manifest: Manifest, kind: Kind) -> ObjectRef:
    """Return the reference of a manifest's object. Raises Invalid if it is of another kind than `kind`."""
    if (manifest.get("apiVersion"), manifest.get("kind")) != (kind.api_version, kind.kind):
        actual = f"{manifest.get('apiVersion')} {manifest.get('kind')}"
        raise Invalid(f"a manifest of {actual} was given as {kind.api_version} {kind.kind}")
    return ref_of(manifest, kind)


def delete_options(uid: str | None, resource_version: str | None, propagation: Propagation) -> dict[str, Any]:
    """Return the body of a DELETE; lightkube sends none, so that preconditions would be lost."""
    wanted = {"uid": uid, "resourceVersion": resource_version}
    preconditions = {key: value for key, value in wanted.items() if value is not None}
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation.value}
    return {**options, "preconditions": preconditions} if preconditions else options


def need_namespace(verb: str, ref: ObjectRef) -> None:
    """Raise Invalid for a namespaced object without a namespace, or with one that no path can hold."""
    if ref.kind.namespaced and (not ref.namespace or set(ref.namespace) & {"/", "%", "."}):
        raise Invalid(
            f"{verb} {ref.kind.kind} {ref.name}: a namespaced object needs a metadata.namespace, not {ref.namespace!r}"
        )


def strict(field_manager: str, **more: str | None) -> dict[str, str | int | None]:
    """Return the parameters of a write of our own content: unknown fields are refused, not dropped (W-36)."""
    return {"fieldManager": field_manager, "fieldValidation": "Strict", **more}


def impersonated_user(account: ObjectRef) -> str:
    """Return the user name of a ServiceAccount. Raises Invalid for a name that no ServiceAccount can have.

    The API server adds the groups of the account. Naming them in the request would need a right on groups.
    """
    _check("impersonate", account)
    return service_account_user(account.namespace, account.name)


def _check(verb: str, ref: ObjectRef) -> None:
    """Raise Invalid for names that cannot be one path segment."""
    if not ref.name or ref.name in (".", "..") or set(ref.name) & {"/", "%"}:
        raise Invalid(f"{verb} {ref.kind.kind}: {ref.name!r} is not a name an object can have")
    need_namespace(verb, ref)
