"""Requests to an API server, described as values: pure.

Every path part is quoted and every namespace explicit: lightkube itself would fall back to the default namespace
(its edge 1) and send `?` in a name as a query.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlencode

import attrs
import msgspec

from vworkspace_core.apimachinery.errors import Invalid
from vworkspace_core.apimachinery.manifest import Json, Kind, Manifest, ObjectRef, ref_of
from vworkspace_core.ports import Propagation
from vworkspace_kube.errors import RequestInfo

APPLY_PATCH = "application/apply-patch+yaml"
"""Media type of server-side apply; JSON is YAML, so the body is JSON."""

ONLY_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Media type of a list without the content of its objects."""


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
    """Media type of the answer, where it is not plain JSON."""
    path: str = ""
    """Of what is no resource, such as `/version`."""

    @property
    def target(self) -> str:
        """Path and query."""
        info = self.info
        name = f"/{quote(info.name, safe=':')}" if info.name else ""
        subresource = f"/{self.subresource}" if self.subresource else ""
        query = _query(tuple(self.params.items())) if self.params else ""
        path = self.path or f"{_resource(info.kind, info.namespace)}{name}{subresource}"
        return f"{path}?{query}" if query else path

    def encoded(self) -> bytes | None:
        """The body as JSON, None for none. Raises Invalid for what JSON cannot hold."""
        if self.body is None:
            return None
        try:
            return msgspec.json.encode(self.body)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:  # a text with half a surrogate pair
            raise Invalid(f"{self.info}: the content cannot be written as JSON: {type(error).__name__}") from None


@lru_cache(maxsize=1024)
def _resource(kind: Kind, namespace: str | None) -> str:
    """The path of a resource, of which there are as many as kinds and namespaces."""
    group = "/apis/" if kind.group else "/api/"
    place = f"/namespaces/{quote(namespace, safe='')}" if kind.namespaced and namespace else ""
    return f"{group}{kind.api_version}{place}/{kind.plural}"


@lru_cache(maxsize=256)
def _query(params: tuple[tuple[str, str | int | None], ...]) -> str:
    """Writes have the same few queries."""
    return urlencode({key: value for key, value in params if value not in (None, "")})


def collection(method: str, verb: str, kind: Kind, namespace: str | None, **parts: Any) -> KubeRequest:
    """A request to a whole resource: list, watch, create."""
    return KubeRequest(method, RequestInfo(verb, kind, namespace), **parts)


def object_request(method: str, verb: str, ref: ObjectRef, **parts: Any) -> KubeRequest:
    """A request to one object. Raises Invalid for a reference no API server could hold."""
    _check(verb, ref)
    return KubeRequest(method, RequestInfo(verb, ref.kind, ref.namespace, ref.name), **parts)


def target_of(manifest: Manifest, kind: Kind) -> ObjectRef:
    """Where a manifest goes. Raises Invalid when it is of another kind than `kind`."""
    if (manifest.get("apiVersion"), manifest.get("kind")) != (kind.api_version, kind.kind):
        actual = f"{manifest.get('apiVersion')} {manifest.get('kind')}"
        raise Invalid(f"a manifest of {actual} was given as {kind.api_version} {kind.kind}")
    return ref_of(manifest, kind)


def delete_options(uid: str | None, resource_version: str | None, propagation: Propagation) -> dict[str, Any]:
    """The body of a DELETE; lightkube sends none, so preconditions would be lost."""
    wanted = {"uid": uid, "resourceVersion": resource_version}
    preconditions = {key: value for key, value in wanted.items() if value is not None}
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation.value}
    return {**options, "preconditions": preconditions} if preconditions else options


def need_namespace(verb: str, ref: ObjectRef) -> None:
    """Raises Invalid for an object of a namespaced kind without a namespace, or with one that no path can hold."""
    if ref.kind.namespaced and (not ref.namespace or set(ref.namespace) & {"/", "%", "."}):
        raise Invalid(
            f"{verb} {ref.kind.kind} {ref.name}: a namespaced object needs a metadata.namespace, not {ref.namespace!r}"
        )


def strict(field_manager: str, **more: str | None) -> dict[str, str | int | None]:
    """Parameters of a write whose content we own: unknown fields are refused, not dropped (W-36)."""
    return {"fieldManager": field_manager, "fieldValidation": "Strict", **more}


def _check(verb: str, ref: ObjectRef) -> None:
    """Names that cannot be one path segment never leave the process."""
    if not ref.name or ref.name in (".", "..") or set(ref.name) & {"/", "%"}:
        raise Invalid(f"{verb} {ref.kind.kind}: {ref.name!r} is not a name an object can have")
    need_namespace(verb, ref)
