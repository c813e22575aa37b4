"""CRDs of the Flux kinds for a cluster without them: our own structural schemas, faithful in what they declare.

They declare the fields that the operator writes, those that users set by hand, and those that the simulated controllers
write into statuses. Names, types, enums, defaults, patterns and rules are Flux's; unused fields are left out, so that a
server with these CRDs may prune or refuse what Flux's accept, and never the other way round.
"""

from typing import Any, Final

from kubelab.flux.crd_helm_release import helm_release_spec, helm_release_status
from kubelab.simulation.schema import (
    ARTIFACT,
    BOOLEAN,
    CONDITIONS,
    COUNT,
    DURATION,
    REFERENCE,
    SHORT_DURATION,
    STRING,
    STRINGS,
    JsonSchema,
    crd,
    enum,
    record,
    string,
)
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import HELM_CHART, HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY

_READY: Final = '.status.conditions[?(@.type=="Ready")]'
_COLUMNS: Final = (
    ("Age", "date", ".metadata.creationTimestamp"),
    ("Ready", "string", f"{_READY}.status"),
    ("Status", "string", f"{_READY}.message"),
)
_URL_COLUMN: Final = ("URL", "string", ".spec.url")
_PROVIDER: Final = enum("generic", "aws", "azure", "gcp", default="generic")
_SOURCE_STATUS: Final = {
    "artifact": ARTIFACT,
    "conditions": CONDITIONS,
    "lastHandledReconcileAt": STRING,
    "observedGeneration": COUNT,
    "url": STRING,
}


def flux_crds() -> tuple[dict[str, Any], ...]:
    """Return new CustomResourceDefinitions of HelmRelease, OCIRepository, HelmRepository and HelmChart."""
    release = _crd(HELM_RELEASE, "hr", helm_release_spec(), helm_release_status())
    return (release, _oci_repository(), _helm_repository(), _helm_chart())


def _crd(
    kind: Kind, short_name: str, spec: JsonSchema, status: JsonSchema, *columns: tuple[str, str, str]
) -> dict[str, Any]:
    place = (kind.group, kind.version, kind.kind, kind.plural)
    return crd(*place, short_name=short_name, spec=spec, status=status, columns=(*columns, *_COLUMNS))


def _oci_repository() -> dict[str, Any]:
    selector = record({"mediaType": STRING, "operation": enum("extract", "copy")})
    spec = record(
        {
            "certSecretRef": REFERENCE,
            "ignore": STRING,
            "insecure": BOOLEAN,
            "interval": DURATION,
            "layerSelector": selector,
            "provider": _PROVIDER,
            "proxySecretRef": REFERENCE,
            "ref": record({"digest": STRING, "semver": STRING, "semverFilter": STRING, "tag": STRING}),
            "secretRef": REFERENCE,
            "serviceAccountName": STRING,
            "suspend": BOOLEAN,
            "timeout": {**SHORT_DURATION, "default": "60s"},
            "url": string(pattern="^oci://.*$"),
        },
        ("interval", "url"),
    )
    status = record({**_SOURCE_STATUS, "observedIgnore": STRING, "observedLayerSelector": selector})
    return _crd(OCI_REPOSITORY, "ocirepo", spec, status, _URL_COLUMN)


def _helm_repository() -> dict[str, Any]:
    spec = record(
        {
            "certSecretRef": REFERENCE,
            "insecure": BOOLEAN,
            "interval": DURATION,
            "passCredentials": BOOLEAN,
            "provider": _PROVIDER,
            "secretRef": REFERENCE,
            "suspend": BOOLEAN,
            "timeout": SHORT_DURATION,
            "type": enum("default", "oci"),
            "url": string(pattern="^(http|https|oci)://.*$"),
        },
        ("url",),
    )
    return _crd(HELM_REPOSITORY, "helmrepo", spec, record(_SOURCE_STATUS), _URL_COLUMN)


def _helm_chart() -> dict[str, Any]:
    kinds = enum("HelmRepository", "GitRepository", "Bucket")
    spec = record(
        {
            "chart": STRING,
            "ignoreMissingValuesFiles": BOOLEAN,
            "interval": DURATION,
            "reconcileStrategy": enum("ChartVersion", "Revision", default="ChartVersion"),
            "sourceRef": record({"apiVersion": STRING, "kind": kinds, "name": STRING}, ("kind", "name")),
            "suspend": BOOLEAN,
            "valuesFiles": STRINGS,
            "version": string(default="*"),
        },
        ("chart", "interval", "sourceRef"),
    )
    observed = {"observedChartName": STRING, "observedSourceArtifactRevision": STRING, "observedValuesFiles": STRINGS}
    status = record({**_SOURCE_STATUS, **observed})
    columns = (
        ("Chart", "string", ".spec.chart"),
        ("Version", "string", ".spec.version"),
        ("Source Kind", "string", ".spec.sourceRef.kind"),
        ("Source Name", "string", ".spec.sourceRef.name"),
    )
    return _crd(HELM_CHART, "hc", spec, status, *columns)
