"""The OpenAPI documents of the API server, built from the schemas of the served kinds.

There is a document of v3 for each group and version, and as much of v2 as kubectl needs.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubelab.http.protobuf import text_field
from kubelab.lifecycle.registry import ResourceRegistry
from kubelab.model.failure import not_served
from kubelab.model.records import encode
from kubelab.model.resources import ServedResource
from purekube.schema.objectmeta import OBJECT_META_OPENAPI

OPENAPI_V2_ACCEPTED: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""The media type by which a client requests OpenAPI v2 as protobuf in its Accept header.

The Content-Type of the answer has a `.` in place of the `@`, which is invalid there.
"""
OPENAPI_V2_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
OBJECT_META_NAME: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_INFO: Final = {"title": "Kubernetes", "version": "v1.36.3"}
_PATCH_TYPES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_WRITE_QUERY: Final = ("dryRun", "fieldManager", "fieldValidation")


def openapi_v3_index(registry: ResourceRegistry) -> dict[str, Any]:
    """Return `/openapi/v3`: the URL of each group and version's document, with a hash of its content."""
    paths = {}
    for root in sorted({_root(resource) for resource in registry}):
        # Clients cache a document by its URL, so the hash has to change whenever the content does.
        digest = hashlib.sha256(encode(_document(registry, root))).hexdigest()[:32].upper()
        paths[root] = {"serverRelativeURL": f"/openapi/v3/{root}?hash={digest}"}
    return {"paths": paths}


def openapi_v3(registry: ResourceRegistry, root: str) -> dict[str, Any]:
    """Return the document `/openapi/v3/{root}`, where `root` is `api/v1` or `apis/{group}/{version}`.

    Raises ApiFailure 404 in plain text for other roots (W-38).
    """
    if not any(_root(resource) == root for resource in registry):
        raise not_served()
    return _document(registry, root)


def openapi_v2(registry: ResourceRegistry) -> dict[str, Any]:
    """Return the document `/openapi/v2`, with every schema by its name, and without paths."""
    definitions = {_schema_name(resource): _schema(resource) for resource in registry}
    return {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": definitions}


def openapi_v2_protobuf() -> bytes:
    """Return `/openapi/v2` as a gnostic protobuf message, which is the form that kubectl requests.

    The message has no paths and no definitions, so kubectl validates nothing with it. Without an answer to this request
    kubectl would fail.
    """
    # The numbers are those of gnostic's messages Document and Info (openapiv2/OpenAPIv2.proto).
    info = text_field(1, _INFO["title"]) + text_field(2, _INFO["version"])
    return text_field(1, "2.0") + text_field(2, info) + text_field(8, b"")


def _root(resource: ServedResource) -> str:
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"


def _document(registry: ResourceRegistry, root: str) -> dict[str, Any]:
    resources = [resource for resource in registry if _root(resource) == root]
    paths: dict[str, Any] = {}
    for resource in resources:
        paths.update(_paths(resource, root))
    schemas = {_schema_name(resource): _schema(resource) for resource in resources}
    schemas[OBJECT_META_NAME] = _patchable(OBJECT_META_OPENAPI)
    return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": schemas}}


def _paths(resource: ServedResource, root: str) -> Iterator[tuple[str, Any]]:
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"/{root}{scope}/{resource.plural}"
    yield collection, _operations(resource, {"get": "list", "post": "create", "delete": "deletecollection"})
    object_verbs = {"get": "get", "put": "update", "patch": "patch", "delete": "delete"}
    yield f"{collection}/{{name}}", _operations(resource, object_verbs)
    for subresource in resource.subresources:
        verbs = {"get": "get", "put": "update", "patch": "patch"}
        yield f"{collection}/{{name}}/{subresource}", _operations(resource, verbs)


def _operations(resource: ServedResource, verbs: Mapping[str, str]) -> dict[str, Any]:
    return {method: _operation(resource, method, verb) for method, verb in verbs.items() if verb in resource.verbs}


def _operation(resource: ServedResource, method: str, verb: str) -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{_schema_name(resource)}"}
    media = _patch_types(resource) if method == "patch" else ("application/json",)
    operation: dict[str, Any] = {
        "x-kubernetes-action": verb,
        "x-kubernetes-group-version-kind": _gvk(resource),
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}},
    }
    if method in ("post", "put", "patch"):
        names = (*_WRITE_QUERY, "force") if method == "patch" else _WRITE_QUERY
        operation["parameters"] = [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}} for name in names
        ]
        operation["requestBody"] = {"content": {kind: {"schema": reference} for kind in media}}
    return operation


def _patch_types(resource: ServedResource) -> tuple[str, ...]:
    """Return the media types that PATCH accepts. Clients choose the strategic merge patch if it is accepted (S-11)."""
    return tuple(kind for kind in _PATCH_TYPES if not (resource.custom and "strategic" in kind))


def _gvk(resource: ServedResource) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _schema_name(resource: ServedResource) -> str:
    """Return the name of a resource's schema in OpenAPI documents.

    The name is `test.example.v1.Widget` for the group `example.test`, `io.k8s.api.core.v1.ConfigMap` for the core
    group.
    """
    if not resource.custom:
        group = (resource.group or "core").removesuffix(".k8s.io").split(".")[0]
        return f"io.k8s.api.{group}.{resource.version}.{resource.kind}"
    # apiextensions-apiserver: pkg/controller/openapi/builder/builder.go.
    return ".".join((*reversed(resource.group.split(".")), resource.version, resource.kind))


def _schema(resource: ServedResource) -> dict[str, Any]:
    declared = resource.definition.openapi
    shown = declared if resource.custom else _patchable(declared)
    type_meta = {
        "apiVersion": {"type": "string", "description": "Version of the schema of this representation."},
        "kind": {"type": "string", "description": "Kind of this object."},
        "metadata": {
            "allOf": [{"$ref": f"#/components/schemas/{OBJECT_META_NAME}"}],
            "default": {},
            "description": "Standard object metadata.",
        },
    }
    return {
        **shown,
        "properties": {**(shown.get("properties") or {}), **type_meta},
        "x-kubernetes-group-version-kind": [_gvk(resource)],
    }


def _patchable(schema: Any) -> Any:
    """Return a built-in schema in which each list has the patch strategy and merge key of strategic merge patches."""
    if isinstance(schema, list):
        return [_patchable(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    shown = {key: _patchable(value) for key, value in schema.items()}
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    merge_key = schema.get("x-kubernetes-patch-merge-key") or (keys[0] if keys else "")
    if merge_key:
        shown["x-kubernetes-patch-merge-key"] = merge_key
    # The Go structs of built-in kinds have these keywords as tags; kubectl reads them to compute a strategic merge
    # patch.
    if merge_key or schema.get("x-kubernetes-list-type") == "set":
        shown["x-kubernetes-patch-strategy"] = "merge"
    return shown
