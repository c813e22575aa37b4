"""CRDs of the Flux kinds for a cluster without them, with structural schemas of our own.

They declare the fields that the operator writes, those that users set by hand, and those that the simulated controllers
write into statuses. Names, types, enums, defaults, patterns and rules are Flux's. Unused fields are left out: a server
with these CRDs may prune or refuse what Flux's CRDs accept, but accepts nothing that they refuse.
"""

from typing import Any, Final

from kubelab.simulation.schema import CONDITIONS, INTEGER, definition, object_schema, ruled, string
from purekube.apimachinery.definitions import AGE, Column, condition_path
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import HELM_CHART, HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY
from purekube.schema.builtin.schema_parts import (
    ANY,
    BOOL,
    STRING,
    STRINGS,
    OpenApi,
    choice,
    defaulted,
    each,
    items,
    obj,
    table,
)

_DURATION: Final = string(pattern=r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$")
_SHORT_DURATION: Final = string(pattern=r"^([0-9]+(\.[0-9]+)?(ms|s|m))+$")
_REFERENCE: Final = obj("name!")
_NAME: Final = string(minLength=1, maxLength=253)
_NAMESPACE: Final = string(minLength=1, maxLength=63)
_SERVER_SIDE_APPLY: Final = choice("enabled", "disabled", "auto")


def _helm_release_spec() -> OpenApi:
    one_chart = "(has(self.chart) && !has(self.chartRef)) || (!has(self.chart) && has(self.chartRef))"
    spec = obj(
        "interval! suspend:bool",
        **each(_DURATION, "interval timeout"),
        **each(_NAMESPACE, "storageNamespace targetNamespace"),
        chart=_chart_template(),
        chartRef=_source_reference("OCIRepository", "HelmChart", "ExternalArtifact"),
        dependsOn=items(obj("name! namespace readyExpr")),
        driftDetection=_drift_detection(),
        maxHistory=INTEGER,
        releaseName=string(minLength=1, maxLength=53),
        serviceAccountName=_NAME,
        values=ANY,
        valuesFrom=items(_values_reference()),
        install=obj(**_install()),
        upgrade=obj(**_upgrade()),
        rollback=obj(
            "cleanupOnFail:bool disableHooks:bool disableWait:bool disableWaitForJobs:bool force:bool",
            serverSideApply=_SERVER_SIDE_APPLY,
            timeout=_DURATION,
        ),
        uninstall=obj(
            "disableHooks:bool disableWait:bool keepHistory:bool",
            deletionPropagation=defaulted(choice("background", "foreground", "orphan"), "background"),
            timeout=_DURATION,
        ),
        test=obj("enable:bool ignoreFailures:bool", timeout=_DURATION),
    )
    return ruled(spec, ("either chart or chartRef must be set", one_chart))


def _source_reference(*kinds: str) -> OpenApi:
    return obj("kind! name! apiVersion", kind=choice(*kinds), name=_NAME, namespace=_NAMESPACE)


def _chart_template() -> OpenApi:
    spec = obj(
        "chart! sourceRef! ignoreMissingValuesFiles:bool valuesFiles:strings",
        chart=string(minLength=1, maxLength=2048),
        interval=_DURATION,
        reconcileStrategy=defaulted(choice("ChartVersion", "Revision"), "ChartVersion"),
        sourceRef=_source_reference("HelmRepository", "GitRepository", "Bucket"),
        version=string(default="*"),
    )
    return obj("spec!", metadata=obj("annotations:string-map labels:string-map"), spec=spec)


def _values_reference() -> OpenApi:
    return obj(
        "kind! name! literal:bool optional:bool",
        kind=choice("Secret", "ConfigMap"),
        name=_NAME,
        targetPath=string(maxLength=250, pattern=r"^([a-zA-Z0-9_\-.\\\/]|\[[0-9]{1,5}\])+$"),
        valuesKey=string(maxLength=253, pattern=r"^[\-._a-zA-Z0-9]+$"),
    )


def _drift_detection() -> OpenApi:
    target = obj("annotationSelector group kind labelSelector name namespace version")
    ignored = obj("paths!:strings", target=target)
    return obj(ignore=items(ignored), mode=choice("enabled", "warn", "disabled"))


def _strategy(message: str, rule: str) -> OpenApi:
    name = choice("RemediateOnFailure", "RetryOnFailure")
    return ruled(obj("name!", name=name, retryInterval=_DURATION), (message, rule))


def _releasing(**remediation: OpenApi) -> dict[str, OpenApi]:
    """Return the schemas of the fields that a HelmRelease's `install` and `upgrade` have in common.

    `remediation` are schemas of further fields of their field `remediation`.
    """
    disabled = ("Hooks", "OpenAPIValidation", "SchemaValidation", "TakeOwnership", "Wait", "WaitForJobs")
    return {
        **{f"disable{name}": BOOL for name in disabled},
        "crds": choice("Skip", "Create", "CreateReplace"),
        "remediation": obj("ignoreTestFailures:bool remediateLastFailure:bool", retries=INTEGER, **remediation),
        "timeout": _DURATION,
    }


def _install() -> dict[str, OpenApi]:
    strategy = _strategy(
        ".retryInterval cannot be set when .name is 'RemediateOnFailure'",
        "!has(self.retryInterval) || self.name != 'RemediateOnFailure'",
    )
    return {**_releasing(), **each(BOOL, "createNamespace replace serverSideApply"), "strategy": strategy}


def _upgrade() -> dict[str, OpenApi]:
    strategy = _strategy(
        ".retryInterval can only be set when .name is 'RetryOnFailure'",
        "!has(self.retryInterval) || self.name == 'RetryOnFailure'",
    )
    return {
        **_releasing(strategy=choice("rollback", "uninstall")),
        **each(BOOL, "cleanupOnFail force preserveValues"),
        "chartNameChangeStrategy": choice("InPlaceUpdate", "Reinstall"),
        "serverSideApply": _SERVER_SIDE_APPLY,
        "strategy": strategy,
    }


def _helm_release_status() -> OpenApi:
    return obj(
        "helmChart lastAttemptedConfigDigest lastAttemptedReleaseActionDuration lastAttemptedRevision "
        "lastAttemptedRevisionDigest lastHandledForceAt lastHandledReconcileAt lastHandledResetAt "
        "failures:int64 installFailures:int64 lastAttemptedGeneration:int64 observedGeneration:int64 "
        "upgradeFailures:int64",
        conditions=CONDITIONS,
        history=items(_snapshot()),
        inventory=obj("entries!", entries=items(obj("id! v!"))),
        lastAttemptedReleaseAction=choice("install", "upgrade"),
        storageNamespace=_NAMESPACE,
    )


def _snapshot() -> OpenApi:
    hook = obj("lastCompleted:time lastStarted:time phase")
    return obj(
        "chartName! chartVersion! configDigest! digest! firstDeployed!:time lastDeployed!:time name! namespace! "
        "status! version! action apiVersion appVersion ociDigest deleted:time",
        testHooks=table(hook),
        version=INTEGER,
    )


_COLUMNS: Final = (
    AGE,
    Column("Ready", condition_path("Ready", "status")),
    Column("Status", condition_path("Ready", "message")),
)
_URL_COLUMN: Final = Column("URL", ".spec.url")
_PROVIDER: Final = defaulted(choice("generic", "aws", "azure", "gcp"), "generic")
_ARTIFACT: Final = obj(
    "digest! lastUpdateTime!:time path! revision! url! metadata:string-map size:int64",
    digest=string(pattern=r"^[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[a-zA-Z0-9=_-]+$"),
)


def flux_crds() -> tuple[dict[str, Any], ...]:
    """Return new CustomResourceDefinitions of HelmRelease, OCIRepository, HelmRepository and HelmChart."""
    release = _crd(HELM_RELEASE, "hr", _helm_release_spec(), _helm_release_status())
    return (release, _oci_repository(), _helm_repository(), _helm_chart())


def _crd(kind: Kind, short_name: str, spec: OpenApi, status: OpenApi, *columns: Column) -> dict[str, Any]:
    # As in Flux, a new object has this status until its controller writes another.
    schema = object_schema(spec=spec, status=defaulted(status, {"observedGeneration": -1}))
    return definition(
        kind,
        schema,
        subresources={"status": {}},
        columns=(*columns, *_COLUMNS),
        short_names=(short_name,),
        categories=("all", "fluxcd"),
    )


def _source_status(**fields: OpenApi) -> OpenApi:
    common = each(STRING, "lastHandledReconcileAt url")
    return obj("observedGeneration:int64", artifact=_ARTIFACT, conditions=CONDITIONS, **common, **fields)


def _oci_repository() -> dict[str, Any]:
    selector = obj("mediaType", operation=choice("extract", "copy"))
    spec = obj(
        "interval! url! ignore serviceAccountName insecure:bool suspend:bool",
        **each(_REFERENCE, "certSecretRef proxySecretRef secretRef"),
        interval=_DURATION,
        layerSelector=selector,
        provider=_PROVIDER,
        ref=obj("digest semver semverFilter tag"),
        timeout=defaulted(_SHORT_DURATION, "60s"),
        url=string(pattern="^oci://.*$"),
    )
    status = _source_status(observedIgnore=STRING, observedLayerSelector=selector)
    return _crd(OCI_REPOSITORY, "ocirepo", spec, status, _URL_COLUMN)


def _helm_repository() -> dict[str, Any]:
    spec = obj(
        "url! insecure:bool passCredentials:bool suspend:bool",
        **each(_REFERENCE, "certSecretRef secretRef"),
        interval=_DURATION,
        provider=_PROVIDER,
        timeout=_SHORT_DURATION,
        type=choice("default", "oci"),
        url=string(pattern="^(http|https|oci)://.*$"),
    )
    return _crd(HELM_REPOSITORY, "helmrepo", spec, _source_status(), _URL_COLUMN)


def _helm_chart() -> dict[str, Any]:
    kinds = choice("HelmRepository", "GitRepository", "Bucket")
    spec = obj(
        "chart! interval! sourceRef! ignoreMissingValuesFiles:bool suspend:bool valuesFiles:strings",
        interval=_DURATION,
        reconcileStrategy=defaulted(choice("ChartVersion", "Revision"), "ChartVersion"),
        sourceRef=obj("kind! name! apiVersion", kind=kinds),
        version=string(default="*"),
    )
    observed = each(STRING, "observedChartName observedSourceArtifactRevision")
    columns = (
        Column("Chart", ".spec.chart"),
        Column("Version", ".spec.version"),
        Column("Source Kind", ".spec.sourceRef.kind"),
        Column("Source Name", ".spec.sourceRef.name"),
    )
    return _crd(HELM_CHART, "hc", spec, _source_status(**observed, observedValuesFiles=STRINGS), *columns)
