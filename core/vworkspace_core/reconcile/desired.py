"""The downstream objects an ApplicationInstance wants (REC-3, REC-4): a function of the source object alone.

Names and namespaces follow from `spec.release` (REC-6 b). Every manifest is complete: owner reference, labels,
annotations and spec go out in one apply.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from vworkspace_core.kinds.application_instance import (
    ApplicationInstance,
    ChartSource,
    Release,
    ReleaseOverride,
    SourceType,
    Values,
    ValuesSource,
)
from vworkspace_core.kinds.labels import downstream_labels
from vworkspace_core.known import (
    APPLICATION_INSTANCE,
    CONFIG_MAP,
    HELM_CHART,
    HELM_RELEASE,
    HELM_REPOSITORY,
    OCI_REPOSITORY,
)
from vworkspace_core.manifest import Kind, Manifest, ObjectRef, canonical_json
from vworkspace_core.reconcile.decision import Apply, Settings
from vworkspace_core.reconcile.drift import stamp
from vworkspace_core.reconcile.retry import retry_annotations, token_of
from vworkspace_core.reconcile.values import integration_values, merge_patch, overlay

__all__ = ["DOWNSTREAM_KINDS", "Desired", "desired_objects", "helm_chart_of", "source_kind", "watched_refs"]

DOWNSTREAM_KINDS = (HELM_RELEASE, OCI_REPOSITORY, HELM_REPOSITORY, CONFIG_MAP)
"""Every kind an instance may own, in the order of deletion: the release goes before what it reads."""

_WATCH = "reconcile.fluxcd.io/watch"
_VALUES_KEY = "values.yaml"
_CHART_LAYER = {"mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "operation": "copy"}


@attrs.frozen
class Desired:
    """Whole manifests in the order they are applied, and the names a decision needs from them."""

    applies: tuple[Apply, ...]
    release: ObjectRef
    source: ObjectRef
    version: str
    retry: str


def source_kind(chart: ChartSource) -> Kind:
    """Flux's source for that chart: OCI charts cannot go through a HelmRepository's `sourceRef`."""
    return OCI_REPOSITORY if chart.source_type is SourceType.OCI else HELM_REPOSITORY


def desired_objects(
    instance: ApplicationInstance,
    chart: ChartSource,
    release: Release,
    override: ReleaseOverride | None,
    live_release: Manifest | None,
    settings: Settings,
) -> Desired:
    """What is to exist downstream. `chart` and `release` are the instance's own, known to be present."""
    version = override.version if override is not None and override.version else chart.version
    kind = source_kind(chart)
    frame = _Frame(instance, release, settings)
    fragment = integration_values(instance.spec.integrations)
    beneath = _config_map(frame, fragment) if fragment and _referenced(instance.spec.values) else None
    spec = _release_spec(frame, chart, kind, version)
    spec |= _values(instance.spec.values, fragment, override, beneath)
    token = token_of(instance, chart, override)
    helm_release = frame.wrap(HELM_RELEASE, release.name, {"spec": spec}, retry_annotations(token, live_release))
    source = frame.wrap(kind, release.name, {"spec": _source_spec(chart, version, settings)})
    ordered = (source, beneath, helm_release) if beneath is not None else (source, helm_release)
    return Desired(
        applies=ordered,
        release=ObjectRef(HELM_RELEASE, release.namespace, release.name),
        source=ObjectRef(kind, release.namespace, release.name),
        version=version,
        retry=token,
    )


def watched_refs(instance: ApplicationInstance) -> tuple[ObjectRef, ...]:
    """Everything that a decision about `instance` looks up by name, whether or not it exists or is ours."""
    release, chart = instance.spec.release, instance.spec.chart
    if release is None or chart is None:
        return ()
    namespace, name = instance.metadata.namespace, release.name
    refs = [ObjectRef(HELM_RELEASE, namespace, name), ObjectRef(source_kind(chart), namespace, name)]
    if chart.source_type is SourceType.HELM:
        refs.append(helm_chart_of(ObjectRef(HELM_RELEASE, namespace, name)))
    if instance.spec.integrations is not None and _referenced(instance.spec.values):
        refs.append(ObjectRef(CONFIG_MAP, namespace, _config_map_name(release)))
    return tuple(refs)


def helm_chart_of(release: ObjectRef) -> ObjectRef:
    """The HelmChart that Flux makes for a HelmRelease with a HelmRepository; it alone tells what is wrong with it."""
    return ObjectRef(HELM_CHART, release.namespace, f"{release.namespace}-{release.name}")


def _config_map_name(release: Release) -> str:
    return f"{release.name}-integrations"


@attrs.frozen
class _Frame:
    """What every downstream object of one instance has in common."""

    instance: ApplicationInstance
    release: Release
    settings: Settings

    def wrap(
        self,
        kind: Kind,
        name: str,
        body: Mapping[str, Any],
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Apply:
        meta = self.instance.metadata
        manifest = kind.manifest(name, meta.namespace)
        manifest["metadata"] |= {
            "labels": {**downstream_labels(self.instance, self.settings.cluster_id), **(labels or {})},
            "ownerReferences": [
                {
                    "apiVersion": APPLICATION_INSTANCE.api_version,
                    "kind": APPLICATION_INSTANCE.kind,
                    "name": meta.name,
                    "uid": meta.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        }
        if annotations:
            manifest["metadata"]["annotations"] = dict(annotations)
        manifest.update(body)
        return Apply(kind, stamp(manifest))


def _source_spec(chart: ChartSource, version: str, settings: Settings) -> dict[str, Any]:
    spec: dict[str, Any] = {"interval": settings.interval}
    if chart.source_type is SourceType.OCI:
        spec["url"] = f"{chart.url.rstrip('/')}/{chart.name}"
        # A tag may not hold a plus sign; Helm itself pushes `1.0.0+x` as `1.0.0_x`.
        spec["ref"] = {"tag": version.replace("+", "_")}
        spec["layerSelector"] = dict(_CHART_LAYER)
    else:
        spec["url"] = chart.url
    if chart.secret_ref is not None:
        spec["secretRef"] = {"name": chart.secret_ref.name}
    if chart.cert_secret_ref is not None:
        spec["certSecretRef"] = {"name": chart.cert_secret_ref.name}
    return spec


def _release_spec(frame: _Frame, chart: ChartSource, kind: Kind, version: str) -> dict[str, Any]:
    release, settings = frame.release, frame.settings
    spec: dict[str, Any] = {
        "interval": settings.interval,
        "timeout": settings.timeout,
        "releaseName": release.name,
        "targetNamespace": release.namespace,
        "storageNamespace": release.namespace,
        "maxHistory": settings.max_history,
        "install": {"remediation": {"retries": 3}},
        # With these three, failure, rollback and Stalled land in one pass of Flux; its default rolls nothing back.
        "upgrade": {
            "cleanupOnFail": True,
            "remediation": {"retries": 0, "remediateLastFailure": True, "strategy": "rollback"},
        },
        "driftDetection": _drift_detection(settings.drift_detection),
    }
    if chart.source_type is SourceType.OCI:
        spec["chartRef"] = {"kind": kind.kind, "name": release.name}
    else:
        reference = {"kind": kind.kind, "name": release.name}
        spec["chart"] = {"spec": {"chart": chart.name, "version": version, "sourceRef": reference}}
    if account := release.service_account_name or settings.default_service_account:
        spec["serviceAccountName"] = account
    if frame.instance.spec.suspend:
        # Sent only when true: an explicit false would conflict with `flux suspend` by hand.
        spec["suspend"] = True
    return spec


def _drift_detection(mode: str) -> dict[str, Any]:
    if mode == "disabled":
        return {"mode": mode}
    return {"mode": mode, "ignore": [{"paths": ["/spec/replicas"]}]}


def _referenced(values: Values | None) -> bool:
    return values is not None and values.source is not ValuesSource.INLINE


def _config_map(frame: _Frame, fragment: Mapping[str, Any]) -> Apply:
    """The integrations as a values file (JSON is YAML), to stand beneath values that we never read."""
    body = {"data": {_VALUES_KEY: canonical_json(fragment).decode()}}
    return frame.wrap(CONFIG_MAP, _config_map_name(frame.release), body, labels={_WATCH: "Enabled"})


def _values(
    values: Values | None, fragment: Mapping[str, Any], override: ReleaseOverride | None, beneath: Apply | None
) -> dict[str, Any]:
    """The `values` and `valuesFrom` of the release; Flux merges in that order, inline last."""
    patch = override.values_patch if override is not None else None
    spec: dict[str, Any] = {}
    inline: Mapping[str, Any] = {}
    if values is None or values.source is ValuesSource.INLINE:
        inline = overlay(fragment, (values.inline if values is not None else None) or {})
    else:
        own = [] if beneath is None else [_value_source("ConfigMap", beneath.ref.name, _VALUES_KEY)]
        spec["valuesFrom"] = [*own, *_explicit(values)]
    inline = merge_patch(inline, patch) if patch else inline
    return {**spec, "values": inline} if inline else spec


def _explicit(values: Values) -> list[dict[str, str]]:
    if values.source is ValuesSource.SECRET_REF and values.secret_ref is not None:
        return [_value_source("Secret", values.secret_ref.name, values.secret_ref.key)]
    if values.config_map_ref is not None:
        return [_value_source("ConfigMap", values.config_map_ref.name, values.config_map_ref.key)]
    return []


def _value_source(kind: str, name: str, key: str) -> dict[str, str]:
    return {"kind": kind, "name": name, "valuesKey": key}
