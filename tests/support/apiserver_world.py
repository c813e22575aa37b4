"""A small API server with two kinds of its own, for tests of the server itself."""

from collections.abc import Mapping
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

from kubelab.model.calls import ADMIN, Caller, RequestTarget, WriteOptions
from kubelab.server import ApiServer
from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NAMESPACE

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GIZMO = Kind("tests.example", "v1", "Gizmo", "gizmos")
RIG = Kind("tests.example", "v1", "Rig", "rigs", namespaced=False)

_SPEC = {
    "type": "object",
    "properties": {
        "size": {"type": "integer"},
        "mode": {"type": "string", "default": "normal"},
        "replicas": {"type": "integer"},
    },
}
_SCHEMA = {
    "type": "object",
    "properties": {"spec": _SPEC, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
}


def crd(kind: Kind, *, versions: tuple[str, ...] = ("v1",)) -> dict[str, Any]:
    """The definition of a kind, to be changed at will; the first version is the stored one."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {"plural": kind.plural, "kind": kind.kind},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == versions[0],
                    "schema": {"openAPIV3Schema": deepcopy(_SCHEMA)},
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                    },
                }
                for version in versions
            ],
        },
    }


def new_server(*, window: int = 10_000, collects: bool = False, **more: Any) -> ApiServer:
    """A server that serves gizmos and rigs."""
    server = ApiServer(now=lambda: NOW, window=window, collects=collects, **more)
    for kind in (GIZMO, RIG):
        server.create(at(server, CUSTOM_RESOURCE_DEFINITION), crd(kind))
    return server


def at(
    server: ApiServer, kind: Kind, name: str = "", namespace: str = "default", subresource: str = ""
) -> RequestTarget:
    """Where a request goes."""
    return RequestTarget(server.resource(kind), namespace if kind.namespaced else None, name, subresource)


def everywhere(server: ApiServer, kind: Kind) -> RequestTarget:
    """The objects of all namespaces."""
    return RequestTarget(server.resource(kind))


def gizmo(name: str, size: int = 1, **metadata: Any) -> dict[str, Any]:
    """A Gizmo."""
    meta = {"name": name, **metadata}
    return {"apiVersion": GIZMO.api_version, "kind": "Gizmo", "metadata": meta, "spec": {"size": size}}


def apply(
    server: ApiServer,
    manifest: Mapping[str, Any],
    kind: Kind = GIZMO,
    *,
    namespace: str = "default",
    manager: str = "m",
    caller: Caller = ADMIN,
) -> dict[str, Any]:
    """Apply an object and return it."""
    target = at(server, kind, manifest["metadata"]["name"], namespace)
    return server.apply(target, manifest, WriteOptions(manager), caller).object()


def owned_by(*owners: Mapping[str, Any], block: bool = False) -> list[dict[str, Any]]:
    """Owner references to these objects."""
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            **({"blockOwnerDeletion": True} if block else {}),
        }
        for owner in owners
    ]


def names(server: ApiServer, kind: Kind = GIZMO) -> list[str]:
    """Names of all objects of a kind, in list order."""
    return [manifest["metadata"]["name"] for manifest in server.list(everywhere(server, kind)).objects()]


def ref(kind: Kind, name: str, namespace: str = "default") -> ObjectRef:
    """A reference to an object."""
    return ObjectRef(kind, namespace if kind.namespaced else None, name)


def config_map(name: str, **metadata: Any) -> dict[str, Any]:
    """A ConfigMap."""
    return {**CONFIG_MAP.manifest(name), "metadata": {"name": name, **metadata}, "data": {"a": "1"}}


def namespace(server: ApiServer, name: str) -> dict[str, Any]:
    """Create a namespace."""
    return server.create(at(server, NAMESPACE), NAMESPACE.manifest(name)).object()
