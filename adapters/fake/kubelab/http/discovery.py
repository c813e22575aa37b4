"""The discovery documents, which list the served groups, versions and resources, built from the registry of resources.

Each document has a classic form and an aggregated form, which has the resources of all groups in one document.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kubelab.lifecycle.registry import ResourceRegistry
from kubelab.model.failure import not_served
from kubelab.model.resources import CREATED, ServedResource

# apimachinery: version/helpers.go, CompareKubeAwareVersionStrings.
_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


def version_info() -> dict[str, str]:
    """Return the document `/version`, with the release of Kubernetes whose behaviour is imitated."""
    return {
        "major": "1",
        "minor": "36",
        "gitVersion": "v1.36.3+kubelab",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "in-memory",
    }


def api_versions(host: str) -> dict[str, Any]:
    """Return the document `/api`, with the versions of the core group.

    `host` is the header Host of the request: the document names it as the server's address.
    """
    # apiserver: endpoints/discovery/addresses.go.
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def api_groups(registry: ResourceRegistry) -> dict[str, Any]:
    """Return the document `/apis`, with all groups except the core group."""
    groups = [_group(registry, name) for name in _groups(registry) if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(registry: ResourceRegistry, name: str) -> dict[str, Any]:
    """Return the document `/apis/{group}`. Raises ApiFailure 404 in plain text if the group is not served (W-38)."""
    if not name or name not in _groups(registry):
        raise not_served()
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(registry, name)}


def api_resources(registry: ResourceRegistry, group: str, version: str) -> dict[str, Any]:
    """Return the discovery document `/api/v1` or `/apis/{group}/{version}`, which lists the resources of one version.

    Raises ApiFailure 404 for a version that is not served (W-38).
    """
    resources = _served(registry, group, version)
    if not resources:
        raise registry.missing(group)
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": [entry for resource in resources for entry in _entries(resource)],
    }


def aggregated(registry: ResourceRegistry, *, core: bool, version: str) -> dict[str, Any]:
    """Return the aggregated discovery document of `/api` if `core` is True, and otherwise that of `/apis`.

    `version` is the version of the document, `v2` or `v2beta1`.
    """
    groups = [name for name in _groups(registry) if (name == "") is core]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [_group_discovery(registry, name) for name in groups],
    }


def versions_of(registry: ResourceRegistry, group: str) -> list[str]:
    """Return the served versions of a group, the preferred version first."""
    versions = {resource.version for resource in registry if resource.group == group}
    return sorted(versions, key=_priority)


def _groups(registry: ResourceRegistry) -> list[str]:
    custom = {resource.group for resource in registry if resource.custom}
    names = {resource.group for resource in registry}
    # The real order is by GroupPriorityMinimum: that of a CRD's group is 1000 (kubernetes:
    # controlplane/controller/crdregistration), and built-in groups have higher ones.
    return sorted(names, key=lambda name: (name in custom, name))


def _priority(version: str) -> tuple[int, int, int, str]:
    """Return a key that sorts versions in the order v2, v1, v1beta2, v1beta1, v1alpha1, then any others by name."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (3, 0, 0, version)
    major, stage, minor = match.groups()
    rank = {None: 0, "beta": 1, "alpha": 2}[stage]
    return (rank, -int(major), -int(minor or 0), version)


def _group(registry: ResourceRegistry, name: str) -> dict[str, Any]:
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions_of(registry, name)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _served(registry: ResourceRegistry, group: str, version: str) -> list[ServedResource]:
    resources = [resource for resource in registry if (resource.group, resource.version) == (group, version)]
    return sorted(resources, key=lambda resource: resource.plural)


def _entries(resource: ServedResource) -> Iterable[dict[str, Any]]:
    common = {"namespaced": resource.namespaced, "kind": resource.kind}
    names = {"shortNames": resource.definition.short_names, "categories": resource.definition.categories}
    yield {
        "name": resource.plural,
        "singularName": resource.definition.singular,
        **common,
        "verbs": list(resource.verbs),
        **{key: list(value) for key, value in names.items() if value},
    }
    for subresource in resource.subresources:
        other = _OTHER_KINDS.get(subresource, {})
        kind = {"kind": other["kind"]} if other and other["group"] == resource.group else other
        verbs = _verbs_of(subresource)
        yield {"name": f"{resource.plural}/{subresource}", "singularName": "", **common, **kind, "verbs": verbs}


_OTHER_KINDS: Final = {**CREATED, "scale": {"group": "autoscaling", "version": "v1", "kind": "Scale"}}
"""The kinds of subresources that are not of the kind of their object."""


def _verbs_of(subresource: str) -> list[str]:
    if subresource in CREATED:
        return ["create"]
    # kubernetes: registry/core/namespace/storage/storage.go, FinalizeREST has neither Get nor Patch.
    return ["update"] if subresource == "finalize" else ["get", "patch", "update"]


def _group_discovery(registry: ResourceRegistry, name: str) -> dict[str, Any]:
    versions = [
        {
            "version": version,
            "resources": [_resource_discovery(resource) for resource in _served(registry, name, version)],
            "freshness": "Current",
        }
        for version in versions_of(registry, name)
    ]
    return {"metadata": {"name": name, "creationTimestamp": None}, "versions": versions}


def _resource_discovery(resource: ServedResource) -> dict[str, Any]:
    definition = resource.definition
    entry: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": _kind_of(resource),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": definition.singular,
        "verbs": list(resource.verbs),
        "shortNames": list(definition.short_names),
        "categories": list(definition.categories),
        "subresources": [_subresource_discovery(resource, name) for name in resource.subresources],
    }
    # An empty singularResource is sent, because its JSON tag does not say omitempty.
    return {key: value for key, value in entry.items() if value or key == "singularResource"}


def _subresource_discovery(resource: ServedResource, name: str) -> dict[str, Any]:
    return {
        "subresource": name,
        "responseKind": _OTHER_KINDS.get(name) or _kind_of(resource),
        "verbs": _verbs_of(name),
    }


def _kind_of(resource: ServedResource) -> Mapping[str, str]:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}
