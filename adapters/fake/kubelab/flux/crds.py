"""CRDs of the Flux kinds for a cluster without them, with structural schemas of our own.

They declare the fields that the operator writes, those that users set by hand, and those that the simulated controllers
write into statuses. Names, types, enums, defaults, patterns and rules are Flux's. Unused fields are left out: a server
with these CRDs may prune or refuse what Flux's CRDs accept, but accepts nothing that they refuse.
"""

from typing import Any, Final

from kubelab.simulation.schema import (
    ANYTHING,
    ARTIFACT,
    BOOLEAN,
    CONDITIONS,
    COUNT,
    DATE_TIME,
    DURATION,
    INTEGER,
    REFERENCE,
    SHORT_DURATION,
    STRING,
    STRINGS,
    TEXT_MAP,
    JsonSchema,
    crd,
    enum,
    items,
    record,
    string,
)
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import HELM_CHART, HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY


def helm_release_spec() -> JsonSchema:
    """Return the schema of a HelmRelease's `spec`."""
    rule = "(has(self.chart) && !has(self.chartRef)) || (!has(self.chart) && has(self.chartRef))"
    return record(
        {
            "chart": _chart_template(),
            "chartRef": _source_reference("OCIRepository", "HelmChart", "ExternalArtifact"),
            "dependsOn": items(record({"name": STRING, "namespace": STRING, "readyExpr": STRING}, ("name",))),
            "driftDetection": _drift_detection(),
            "interval": DURATION,
            "maxHistory": INTEGER,
            "releaseName": string(minLength=1, maxLength=53),
            "serviceAccountName": string(minLength=1, maxLength=253),
            "storageNamespace": string(minLength=1, maxLength=63),
            "suspend": BOOLEAN,
            "targetNamespace": string(minLength=1, maxLength=63),
            "timeout": DURATION,
            "values": ANYTHING,
            "valuesFrom": items(_values_reference()),
            **_actions(),
        },
        ("interval",),
        **{"x-kubernetes-validations": [{"rule": rule, "message": "either chart or chartRef must be set"}]},
    )


def _source_reference(*kinds: str) -> JsonSchema:
    name, namespace = string(minLength=1, maxLength=253), string(minLength=1, maxLength=63)
    fields = {"apiVersion": STRING, "kind": enum(*kinds), "name": name, "namespace": namespace}
    return record(fields, ("kind", "name"))


def _chart_template() -> JsonSchema:
    spec = record(
        {
            "chart": string(minLength=1, maxLength=2048),
            "ignoreMissingValuesFiles": BOOLEAN,
            "interval": DURATION,
            "reconcileStrategy": enum("ChartVersion", "Revision", default="ChartVersion"),
            "sourceRef": _source_reference("HelmRepository", "GitRepository", "Bucket"),
            "valuesFiles": STRINGS,
            "version": string(default="*"),
        },
        ("chart", "sourceRef"),
    )
    return record({"metadata": record({"annotations": TEXT_MAP, "labels": TEXT_MAP}), "spec": spec}, ("spec",))


def _values_reference() -> JsonSchema:
    return record(
        {
            "kind": enum("Secret", "ConfigMap"),
            "literal": BOOLEAN,
            "name": string(minLength=1, maxLength=253),
            "optional": BOOLEAN,
            "targetPath": string(maxLength=250, pattern=r"^([a-zA-Z0-9_\-.\\\/]|\[[0-9]{1,5}\])+$"),
            "valuesKey": string(maxLength=253, pattern=r"^[\-._a-zA-Z0-9]+$"),
        },
        ("kind", "name"),
    )


def _drift_detection() -> JsonSchema:
    selectors = ("annotationSelector", "group", "kind", "labelSelector", "name", "namespace", "version")
    target = record(dict.fromkeys(selectors, STRING))
    ignored = record({"paths": STRINGS, "target": target}, ("paths",))
    return record({"ignore": items(ignored), "mode": enum("enabled", "warn", "disabled")})


def _strategy(message: str, rule: str) -> JsonSchema:
    fields = {"name": enum("RemediateOnFailure", "RetryOnFailure"), "retryInterval": DURATION}
    return record(fields, ("name",), **{"x-kubernetes-validations": [{"message": message, "rule": rule}]})


_SERVER_SIDE_APPLY = enum("enabled", "disabled", "auto")


def _booleans(*names: str) -> dict[str, JsonSchema]:
    return dict.fromkeys(names, BOOLEAN)


def _actions() -> dict[str, JsonSchema]:
    return {
        "install": record(_install()),
        "upgrade": record(_upgrade()),
        "rollback": record(
            {
                **_booleans("cleanupOnFail", "disableHooks", "disableWait", "disableWaitForJobs", "force"),
                "serverSideApply": _SERVER_SIDE_APPLY,
                "timeout": DURATION,
            }
        ),
        "uninstall": record(
            {
                **_booleans("disableHooks", "disableWait", "keepHistory"),
                "deletionPropagation": enum("background", "foreground", "orphan", default="background"),
                "timeout": DURATION,
            }
        ),
        "test": record({**_booleans("enable", "ignoreFailures"), "timeout": DURATION}),
    }


def _releasing(**remediation: JsonSchema) -> dict[str, JsonSchema]:
    """Return the schemas of the fields that a HelmRelease's `install` and `upgrade` have in common.

    `remediation` are schemas of further fields of their field `remediation`.
    """
    disabled = ("Hooks", "OpenAPIValidation", "SchemaValidation", "TakeOwnership", "Wait", "WaitForJobs")
    counted = {**_booleans("ignoreTestFailures", "remediateLastFailure"), "retries": INTEGER}
    return {
        **_booleans(*(f"disable{name}" for name in disabled)),
        "crds": enum("Skip", "Create", "CreateReplace"),
        "remediation": record({**counted, **remediation}),
        "timeout": DURATION,
    }


def _install() -> dict[str, JsonSchema]:
    strategy = _strategy(
        ".retryInterval cannot be set when .name is 'RemediateOnFailure'",
        "!has(self.retryInterval) || self.name != 'RemediateOnFailure'",
    )
    return {**_releasing(), **_booleans("createNamespace", "replace", "serverSideApply"), "strategy": strategy}


def _upgrade() -> dict[str, JsonSchema]:
    strategy = _strategy(
        ".retryInterval can only be set when .name is 'RetryOnFailure'",
        "!has(self.retryInterval) || self.name == 'RetryOnFailure'",
    )
    return {
        **_releasing(strategy=enum("rollback", "uninstall")),
        **_booleans("cleanupOnFail", "force", "preserveValues"),
        "chartNameChangeStrategy": enum("InPlaceUpdate", "Reinstall"),
        "serverSideApply": _SERVER_SIDE_APPLY,
        "strategy": strategy,
    }


def helm_release_status() -> JsonSchema:
    """Return the schema of a HelmRelease's `status`."""
    texts = (
        "helmChart",
        "lastAttemptedConfigDigest",
        "lastAttemptedReleaseActionDuration",
        "lastAttemptedRevision",
        "lastAttemptedRevisionDigest",
        "lastHandledForceAt",
        "lastHandledReconcileAt",
        "lastHandledResetAt",
    )
    counts = ("failures", "installFailures", "lastAttemptedGeneration", "observedGeneration", "upgradeFailures")
    entry = record({"id": STRING, "v": STRING}, ("id", "v"))
    return record(
        {
            **dict.fromkeys(texts, STRING),
            **dict.fromkeys(counts, COUNT),
            "conditions": CONDITIONS,
            "history": items(_snapshot()),
            "inventory": record({"entries": items(entry)}, ("entries",)),
            "lastAttemptedReleaseAction": enum("install", "upgrade"),
            "storageNamespace": string(minLength=1, maxLength=63),
        }
    )


def _snapshot() -> JsonSchema:
    required = ("chartName", "chartVersion", "configDigest", "digest", "name", "namespace", "status")
    hook = record({"lastCompleted": DATE_TIME, "lastStarted": DATE_TIME, "phase": STRING})
    return record(
        {
            **dict.fromkeys((*required, "action", "apiVersion", "appVersion", "ociDigest"), STRING),
            **dict.fromkeys(("deleted", "firstDeployed", "lastDeployed"), DATE_TIME),
            "testHooks": {"type": "object", "additionalProperties": hook},
            "version": INTEGER,
        },
        (*required, "firstDeployed", "lastDeployed", "version"),
    )


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
