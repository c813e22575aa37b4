"""The HelmRelease's schema, part by part (`kubelab.flux.crds` explains what it declares and why)."""

from kubelab.simulation.schema import (
    ANYTHING,
    BOOLEAN,
    CONDITIONS,
    COUNT,
    DATE_TIME,
    DURATION,
    INTEGER,
    STRING,
    STRINGS,
    TEXT_MAP,
    JsonSchema,
    enum,
    items,
    record,
    string,
)


def helm_release_spec() -> JsonSchema:
    """Return the schema of `spec`."""
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
    """Return the fields that install and upgrade have in common."""
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
    """Return the schema of `status`."""
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
