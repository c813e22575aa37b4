"""Ways to break a valid object, each with the path that must be blamed, shared by all who judge objects.

`CRD` violations are those that the schema or CEL can express: the API server alone must refuse them, and
admission must as well (RES-6). `ADMISSION` violations only admission can see.
"""

import copy
from collections.abc import Mapping
from typing import Any

import attrs

from tests.support.builders import cluster_manifest, instance_manifest, operation_manifest


def instance(**spec: Any) -> dict[str, Any]:
    """A valid managed instance with every field; `spec` replaces fields, None removes them."""
    fields: dict[str, Any] = {
        "mode": "managed",
        "values": {"source": "inline", "inline": {"replicaCount": 2}},
        "suspend": False,
        "integrations": {"ingress": {"enabled": True, "host": "cloud.example.test"}},
        **spec,
    }
    return instance_manifest(**fields)


def placeholder() -> dict[str, Any]:
    """A valid placeholder."""
    return instance(mode="placeholder", chart=None, release=None, values=None)


def operation(**spec: Any) -> dict[str, Any]:
    """A valid backup with every field; `spec` replaces fields, None removes them."""
    fields: dict[str, Any] = {"parameters": {"retention": "30d"}, "timeoutSeconds": 3600, **spec}
    return operation_manifest(**fields)


def cluster(**spec: Any) -> dict[str, Any]:
    """A valid Cluster; `spec` replaces fields, None removes them."""
    fields: dict[str, Any] = {
        "clusterId": "cluster-prod-1",
        "controlPlaneEndpoint": "https://odoo.example.test",
        "policy": {"allowedChartSources": ["oci://r.example.test/"], "forbiddenVersions": ["6.5.0"]},
        **spec,
    }
    return cluster_manifest(**fields)


def running(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """`manifest` as an Operation whose run has started."""
    return {**manifest, "status": {"phase": "Running", "startedAt": "2030-01-31T12:00:00Z"}}


def changed(manifest: Mapping[str, Any], **parts: Any) -> dict[str, Any]:
    """`manifest` with nested parts of spec replaced: `chart__version="1.0.0"`; None removes."""
    result = copy.deepcopy(dict(manifest))
    for name, value in parts.items():
        *path, last = name.split("__")
        place = result["spec"]
        for step in path:
            place = place[step]
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
    return result


@attrs.frozen
class Violation:
    """A broken object, what it replaces (None when it is new), and the paths that must be blamed."""

    name: str
    manifest: Mapping[str, Any]
    paths: tuple[str, ...]
    old: Mapping[str, Any] | None = None


def _new(name: str, manifest: Mapping[str, Any], *paths: str) -> Violation:
    return Violation(name, manifest, paths)


def _update(name: str, old: Mapping[str, Any], manifest: Mapping[str, Any], *paths: str) -> Violation:
    return Violation(name, manifest, paths, old)


_CREATES = (
    _new("no appRef", instance(appRef=None), "spec.appRef"),
    _new("empty catalogId", instance(appRef={"catalogId": ""}), "spec.appRef.catalogId"),
    _new("unknown mode", instance(mode="both"), "spec.mode"),
    _new("managed without chart", instance(chart=None), "spec.chart"),
    _new("managed without release", instance(release=None), "spec.release"),
    _new("managed without both", instance(chart=None, release=None), "spec.chart", "spec.release"),
    _new(
        "placeholder with all",
        instance(mode="placeholder"),
        "spec.chart",
        "spec.release",
        "spec.values",
    ),
    _new("unknown source type", changed(instance(), chart__sourceType="git"), "spec.chart.sourceType"),
    _new("oci with https", changed(instance(), chart__url="https://r.example.test"), "spec.chart.url"),
    _new("helm with oci", changed(instance(), chart__sourceType="helm"), "spec.chart.url"),
    _new("helm with ftp", changed(instance(), chart__sourceType="helm", chart__url="ftp://r"), "spec.chart.url"),
    _new("scheme without host", changed(instance(), chart__url="oci://"), "spec.chart.url"),
    _new("password in url", changed(instance(), chart__url="oci://ada:pw@r.example.test"), "spec.chart.url"),
    *(
        _new(f"url {url!r}", changed(instance(), chart__url=f"oci://r.example.test/{url}"), "spec.chart.url")
        for url in ("a/../b", "..", "a/./b", "a//b", "a/%2e%2e/b", "a?x=b", "a#b", "a\\b")
    ),
    *(
        _new(f"chart name {name!r}", changed(instance(), chart__name=name), "spec.chart.name")
        for name in ("../evil/x", "a/..", ".", "a//b", "/a", "a?b")
    ),
    _new("url with a blank", changed(instance(), chart__url="oci://r.example.test/a b"), "spec.chart.url"),
    _new("endless url", changed(instance(), chart__url="oci://r/" + "a" * 2048), "spec.chart.url"),
    _new("empty chart name", changed(instance(), chart__name=""), "spec.chart.name"),
    _new("digest in chart name", changed(instance(), chart__name="n@sha256:00"), "spec.chart.name"),
    *(
        _new(f"version {version!r}", changed(instance(), chart__version=version), "spec.chart.version")
        for version in ("latest", "", "6", "6.6", "6.6.x", "^6.6.0", ">=6.6.0", "6.6.0 - 7", "*", "06.6.0", "6.6.0\n")
    ),
    _new("no version", changed(instance(), chart__version=None), "spec.chart.version"),
    _new("endless version", changed(instance(), chart__version="1.0.0-" + "a" * 128), "spec.chart.version"),
    _new("bad secret name", changed(instance(), chart__secretRef={"name": "Not_A_Name"}), "spec.chart.secretRef.name"),
    _new("long release name", changed(instance(), release__name="n" * 54), "spec.release.name"),
    _new("odd release name", changed(instance(), release__name="Nextcloud"), "spec.release.name"),
    _new("release name ends in dash", changed(instance(), release__name="n-"), "spec.release.name"),
    _new("no release namespace", changed(instance(), release__namespace=None), "spec.release.namespace"),
    _new(
        "empty service account",
        changed(instance(), release__serviceAccountName=""),
        "spec.release.serviceAccountName",
    ),
    _new("unknown values source", changed(instance(), values__source="vault"), "spec.values.source"),
    _new(
        "secretRef with inline",
        changed(instance(), values__source="secretRef"),
        "spec.values.inline",
        "spec.values.secretRef",
    ),
    _new(
        "two siblings",
        changed(instance(), values__configMapRef={"name": "v", "key": "values.yaml"}),
        "spec.values.configMapRef",
    ),
    _new(
        "key with a slash",
        instance(values={"source": "secretRef", "secretRef": {"name": "v", "key": "a/b"}}),
        "spec.values.secretRef.key",
    ),
    _new("inline is a list", changed(instance(), values__inline=[1]), "spec.values.inline"),
    _new("suspend as text", instance(suspend="yes"), "spec.suspend"),
    _new(
        "ingress without host", changed(instance(), integrations__ingress__host=None), "spec.integrations.ingress.host"
    ),
    _new(
        "ingress with an odd host",
        changed(instance(), integrations__ingress__host="cloud_example"),
        "spec.integrations.ingress.host",
    ),
    _new("operation without target", operation(targetRef=None), "spec.targetRef"),
    _new("target of another kind", changed(operation(), targetRef__kind="Deployment"), "spec.targetRef.kind"),
    _new("target of another group", changed(operation(), targetRef__apiVersion="v1"), "spec.targetRef.apiVersion"),
    _new("unknown type", operation(type="Teleport"), "spec.type"),
    _new("unknown engine", operation(engine="magic"), "spec.engine"),
    _new("no time at all", operation(timeoutSeconds=0), "spec.timeoutSeconds"),
    _new("timeout as text", operation(timeoutSeconds="1h"), "spec.timeoutSeconds"),
    _new("timeout of two years", operation(timeoutSeconds=63_072_000), "spec.timeoutSeconds"),
    _new("parameters as list", operation(parameters=["a"]), "spec.parameters"),
    _new("approved at noon", operation(approvals={"approvedAt": "noon"}), "spec.approvals.approvedAt"),
    _new(
        "approved in month 13", operation(approvals={"approvedAt": "2030-13-01T12:00:00Z"}), "spec.approvals.approvedAt"
    ),
    _new("endless claim", operation(approvals={"claim": "v" * 8193}), "spec.approvals.claim"),
    _new("cluster without id", cluster(clusterId=None), "spec.clusterId"),
    _new("cluster id that is no label", cluster(clusterId="-x"), "spec.clusterId"),
    _new("endpoint without scheme", cluster(controlPlaneEndpoint="odoo.example.test"), "spec.controlPlaneEndpoint"),
    _new("a source twice", cluster(policy={"allowedChartSources": ["a", "a"]}), "spec.policy.allowedChartSources[1]"),
    _new("an empty source", cluster(policy={"allowedChartSources": ["a", ""]}), "spec.policy.allowedChartSources[1]"),
)

_UPDATES = (
    _update("managed to placeholder", instance(), placeholder(), "spec.mode"),
    _update("release renamed", instance(), changed(instance(), release__name="other"), "spec.release.name"),
    _update("another target", operation(), changed(operation(), targetRef__name="other"), "spec.targetRef"),
    _update("another type", operation(), operation(type="Restore"), "spec.type"),
    _update("another engine", operation(), operation(engine="volsync"), "spec.engine"),
    _update("everything else", operation(), operation(type="Restore", engine="job"), "spec.type", "spec.engine"),
    _update(
        "parameters of a running one changed",
        running(operation()),
        running(operation(parameters={"retention": "1d"})),
        "spec.parameters",
    ),
    _update(
        "parameters of a running one changed deep inside",
        running(operation(parameters={"a": {"b": [1, 2]}})),
        running(operation(parameters={"a": {"b": [1, 3]}})),
        "spec.parameters",
    ),
    _update(
        "parameters of a running one removed",
        running(operation()),
        running(operation(parameters=None)),
        "spec.parameters",
    ),
    _update(
        "parameters added to a running one",
        running(operation(parameters=None)),
        running(operation()),
        "spec.parameters",
    ),
    _update(
        "a parameter added to a running one",
        running(operation()),
        running(operation(parameters={"retention": "30d", "snapshotVolumes": True})),
        "spec.parameters",
    ),
)

CRD = (*_CREATES, *_UPDATES)

ADMISSION = (
    _new("release in another namespace", changed(instance(), release__namespace="other"), "spec.release.namespace"),
    _update(
        "release moved",
        instance(),
        changed(instance(), release__namespace="other"),
        "spec.release.namespace",
    ),
    _new("http", changed(instance(), chart__sourceType="helm", chart__url="http://r.example.test"), "spec.chart.url"),
    _new(
        "a password in values",
        changed(instance(), values__inline={"db": {"password": "hunter2"}}),
        "spec.values.inline.db.password",
    ),
    _new(
        "a token in a list",
        changed(instance(), values__inline={"env": [{"a": 1}, {"TOKEN": "abc"}]}),
        "spec.values.inline.env[1].TOKEN",
    ),
    _new(
        "a private key",
        changed(instance(), values__inline={"tls": "-----BEGIN PRIVATE KEY-----\nMIIE"}),
        "spec.values.inline.tls",
    ),
    _new("too many values", changed(instance(), values__inline={"a": "x" * 600_000}), "spec.values.inline"),
    _new("too many parameters", operation(parameters={"a": "x" * 300_000}), "spec.parameters"),
    _new(
        "a password in a values patch",
        operation(type="Upgrade", engine="helm", parameters={"valuesPatch": {"adminPassword": "hunter2"}}),
        "spec.parameters.valuesPatch.adminPassword",
    ),
    _update(
        # The API server's equality of free objects does not see this one: it compares sizes, then the keys of one side.
        "a parameter of a running one renamed",
        running(operation()),
        running(operation(parameters={"ttl": "30d"})),
        "spec.parameters",
    ),
    _new("an unknown field", instance(replicas=3), "spec.replicas"),
    _new("an unknown field deep inside", changed(instance(), chart__tag="6"), "spec.chart.tag"),
)
