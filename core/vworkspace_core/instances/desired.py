"""The objects that the operator creates for an ApplicationInstance, such as a HelmRelease (REC-3, REC-4).

They are computed from the instance, its override (changes that helm Operations request) and the settings.

Every manifest is complete: owner reference, labels, annotations and spec are in one apply. Objects that the HelmRelease
reads are immutable, with names derived from their content (`naming`): the apply of the HelmRelease is the one step in
which chart and values change together.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import attrs

from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, canonical_json, get_path, merge_patch
from purekube.apimachinery.meta import APPLIED_HASH
from purekube.apimachinery.resources import CONFIG_MAP, HELM_CHART, HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY
from purekube.controller.decision import Apply, chained
from purekube.controller.drift import needs_apply, stamp
from vworkspace_core.api.application_instance import ApplicationInstance, Release, ReleaseOverride
from vworkspace_core.api.chart import ChartSource, SourceType
from vworkspace_core.api.labels import downstream_labels
from vworkspace_core.api.release_override import inline_values, integration_values
from vworkspace_core.instances.context import Settings
from vworkspace_core.instances.intent import recall
from vworkspace_core.instances.naming import Names, former_names, names_of, release_account
from vworkspace_core.instances.observed_release import token_of
from vworkspace_core.instances.ownership import owner_reference

DOWNSTREAM_KINDS = (HELM_RELEASE, OCI_REPOSITORY, HELM_REPOSITORY, CONFIG_MAP)
"""The kinds of objects that an instance may own, in the order of deletion: a HelmRelease before what it reads."""

# Flux watches a ConfigMap or Secret of `valuesFrom` only if it has this label (docs/flux.md: without it a change waits
# for the interval; helm-controller: main.go, --watch-configs-label-selector).
_WATCH = "reconcile.fluxcd.io/watch"
_VALUES_KEY = "values.yaml"
# The layer of an OCI artifact that is the chart's archive (source-controller: OCIRepository `layerSelector`).
_CHART_LAYER = {"mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "operation": "copy"}


@attrs.frozen
class DesiredObjects:
    """The objects that an instance should have: `applies` has their manifests, in the order in which they are applied.

    `release` and `source` are the references of the HelmRelease and of the Flux source of its chart. `version` is the
    effective chart version. `retry` is the token of a requested retry; it is empty if there is none.
    """

    applies: tuple[Apply, ...]
    release: ObjectRef
    source: ObjectRef
    version: str
    retry: str

    @cached_property
    def chart(self) -> ObjectRef:
        """The HelmChart that Flux creates for the release if its source is a HelmRepository."""
        return helm_chart_of(self.release)

    @cached_property
    def refs(self) -> frozenset[ObjectRef]:
        """The references of all objects that the instance should have."""
        return frozenset(apply.ref for apply in self.applies)


def source_kind(chart: ChartSource) -> Kind:
    """Return the kind of the Flux source for `chart`: OCIRepository for an OCI chart, HelmRepository for any other.

    A HelmRelease cannot fetch an OCI chart by the `sourceRef` of a HelmRepository.
    """
    return OCI_REPOSITORY if chart.source_type is SourceType.OCI else HELM_REPOSITORY


def desired_objects(
    instance: ApplicationInstance,
    override: ReleaseOverride | None,
    objects: Mapping[ObjectRef, Manifest],
    settings: Settings,
) -> DesiredObjects:
    """Return the objects (HelmRelease, source and others) to apply for an instance that has a chart and a release.

    `override` has the changes that helm Operations request, and `objects` are the live objects. Earlier versions of the
    operator gave these objects other names. As long as their content is as desired, the objects keep the earlier names,
    since new names would make Flux reconcile every instance. The next change of the HelmRelease renames them.
    """
    desired = recall(_desired_objects, instance, override, settings)
    if _source_in_use(objects.get(desired.release_ref)) == desired.release.name:
        former = desired.former
        if not any(
            needs_apply(apply.manifest, objects.get(apply.ref), encoded=apply.encoded) for apply in former.applies
        ):
            return former
    return desired.current


def _source_in_use(helm_release: Manifest | None) -> Any:
    """Return the name of the source from which a HelmRelease takes its chart, or None if it names no source."""
    of_oci = get_path(helm_release, "spec", "chartRef", "name")
    return of_oci or get_path(helm_release, "spec", "chart", "spec", "sourceRef", "name")


def read_refs(instance: ApplicationInstance, objects: Mapping[ObjectRef, Manifest]) -> tuple[ObjectRef, ...]:
    """Return the sources and ConfigMaps that the live HelmRelease reads, even if the instance no longer desires them.

    `objects` are the live objects.
    """
    if (release := instance.spec.release) is None:
        return ()
    namespace = instance.metadata.namespace
    spec = get_path(objects.get(ObjectRef(HELM_RELEASE, namespace, release.name)), "spec")
    sources = {
        OCI_REPOSITORY: get_path(spec, "chartRef"),
        HELM_REPOSITORY: get_path(spec, "chart", "spec", "sourceRef"),
    }
    names = [(kind, get_path(ref, "name")) for kind, ref in sources.items() if get_path(ref, "kind") == kind.kind]
    values = get_path(spec, "valuesFrom")
    for ref in values if isinstance(values, list) else ():
        name = get_path(ref, "name")
        if get_path(ref, "kind") == "ConfigMap" and str(name).startswith(former_names(release).fragment):
            names.append((CONFIG_MAP, name))
    return tuple(ObjectRef(kind, namespace, str(name)) for kind, name in names)


def watched_refs(instance: ApplicationInstance, asked: ReleaseOverride | None = None) -> tuple[ObjectRef, ...]:
    """Return every object that a decision about `instance` looks up by name, whether or not the object exists.

    `asked` is the override (change of the release) that an Operation requests and that is not in the status yet; its
    chart version may need a source of its own.
    """
    release, chart = instance.spec.release, instance.spec.chart
    if release is None or chart is None:
        return ()
    standing = instance.status.release_override
    if standing is None and asked is None:
        return recall(_watched, instance, chart.version)
    versions = [_version(chart, override) for override in (None, standing, asked)]
    return tuple(dict.fromkeys(ref for version in versions for ref in recall(_watched, instance, version)))


def _watched(instance: ApplicationInstance, version: str) -> tuple[ObjectRef, ...]:
    """Return the objects to look up for the chart version `version`: HelmRelease, HelmChart, source and ConfigMap."""
    chart, release = _parts(instance)
    helm_release = ObjectRef(HELM_RELEASE, instance.metadata.namespace, release.name)
    charts = [helm_chart_of(helm_release)] if chart.source_type is SourceType.HELM else []
    names = recall(_names, instance, version)
    source = ObjectRef(source_kind(chart), instance.metadata.namespace, names.source)
    beneath = ObjectRef(CONFIG_MAP, instance.metadata.namespace, names.fragment)
    return (helm_release, *charts, source, *([beneath] if _needs_config_map(instance) else []))


def _parts(instance: ApplicationInstance) -> tuple[ChartSource, Release]:
    chart, release = instance.spec.chart, instance.spec.release
    assert chart is not None
    assert release is not None
    return chart, release


def _names(instance: ApplicationInstance, version: str) -> Names:
    """Return the names of the source and the ConfigMap that the HelmRelease reads at the chart version `version`."""
    chart, release = _parts(instance)
    return names_of(release, _fetched(chart, version), _fragment(instance), instance.metadata.uid)


def _version(chart: ChartSource, override: ReleaseOverride | None) -> str:
    """Return the effective chart version.

    It is that of the override (changes that helm Operations request) if it has one, or else that of `chart`.
    """
    return override.version if override is not None and override.version else chart.version


def _fragment(instance: ApplicationInstance) -> dict[str, Any]:
    """Return the chart values that the instance's integrations (such as its Ingress) imply."""
    return integration_values(instance.spec.integrations)


def _needs_config_map(instance: ApplicationInstance) -> bool:
    """Report whether the values that integrations imply need a ConfigMap of their own.

    They do if the explicit values are in a Secret or ConfigMap of the user. The operator never reads that object, so it
    cannot merge the two.
    """
    values = instance.spec.values
    return values is not None and values.reference is not None and bool(_fragment(instance))


def helm_chart_of(release: ObjectRef) -> ObjectRef:
    """Return the HelmChart that Flux creates for a HelmRelease whose chart is in a HelmRepository.

    Only the HelmChart reports failures to fetch the chart.
    """
    return ObjectRef(HELM_CHART, release.namespace, f"{release.namespace}-{release.name}")


def _desired_objects(
    instance: ApplicationInstance, override: ReleaseOverride | None, settings: Settings
) -> "_DesiredObjects":
    chart, release = _parts(instance)
    names = recall(_names, instance, _version(chart, override))
    return _DesiredObjects(instance, chart, release, override, settings, names)


@attrs.frozen
class _DesiredObjects:
    """A builder of the objects (HelmRelease, source and others) to apply for one instance.

    `override` is the override in force: the changes that helm Operations request. `names` are the present names of the
    source and the ConfigMap.
    """

    instance: ApplicationInstance
    chart: ChartSource
    release: Release
    override: ReleaseOverride | None
    settings: Settings
    names: Names

    @cached_property
    def version(self) -> str:
        """The effective chart version.

        It is that of the override (changes that helm Operations request) if it has one, or else that of the chart.
        """
        return _version(self.chart, self.override)

    @cached_property
    def release_ref(self) -> ObjectRef:
        """The reference of the HelmRelease."""
        return ObjectRef(HELM_RELEASE, self.instance.metadata.namespace, self.release.name)

    @cached_property
    def current(self) -> DesiredObjects:
        """The desired objects under their present names."""
        return self._objects(self.names)

    @cached_property
    def former(self) -> DesiredObjects:
        """The desired objects under the names of earlier releases of this operator."""
        return self._objects(former_names(self.release))

    def _objects(self, names: Names) -> DesiredObjects:
        kind = source_kind(self.chart)
        spec = _release_spec(self, ObjectRef(kind, self.release.namespace, names.source))
        beneath = names.fragment if _needs_config_map(self.instance) else ""
        spec |= _values(self, beneath)
        helm_release = self.wrap(HELM_RELEASE, self.release.name, {"spec": spec})
        source = self.wrap(kind, names.source, {"spec": _source_spec(self.chart, self.version, self.settings)})
        between = (_config_map(self, beneath),) if beneath else ()
        return DesiredObjects(
            applies=chained((source, *between, helm_release)),
            release=helm_release.ref,
            source=source.ref,
            version=self.version,
            retry=token_of(self.instance, self.chart, self.override),
        )

    def wrap(self, kind: Kind, name: str, body: Mapping[str, Any], labels: Mapping[str, str] | None = None) -> Apply:
        """Return the server-side apply of `body`, an object for the instance, with the metadata that all such objects
        have.
        """
        meta = self.instance.metadata
        marks = {
            "labels": {**downstream_labels(self.instance, self.settings.cluster_id), **(labels or {})},
            "ownerReferences": [owner_reference(self.instance)],
        }
        return Apply(kind, stamp(kind.manifest(name, meta.namespace, marks, **body), APPLIED_HASH))


def _fetched(chart: ChartSource, version: str) -> dict[str, Any]:
    """Return the part of a source's spec that says which artifact is fetched, from where and with which credentials."""
    spec: dict[str, Any] = {"url": chart.url}
    if chart.source_type is SourceType.OCI:
        spec["url"] = f"{chart.url.rstrip('/')}/{chart.name}"
        # A tag may not hold a plus sign; Helm itself pushes `1.0.0+x` as `1.0.0_x` (Helm 4.2.2:
        # pkg/registry/reference.go).
        spec["ref"] = {"tag": version.replace("+", "_")}
    if chart.secret_ref is not None:
        spec["secretRef"] = {"name": chart.secret_ref.name}
    if chart.cert_secret_ref is not None:
        spec["certSecretRef"] = {"name": chart.cert_secret_ref.name}
    return spec


def _source_spec(chart: ChartSource, version: str, settings: Settings) -> dict[str, Any]:
    spec = {"interval": settings.interval, **_fetched(chart, version)}
    return {**spec, "layerSelector": dict(_CHART_LAYER)} if chart.source_type is SourceType.OCI else spec


def _release_spec(desired: _DesiredObjects, source: ObjectRef) -> dict[str, Any]:
    chart, release, settings = desired.chart, desired.release, desired.settings
    spec: dict[str, Any] = {
        "interval": settings.interval,
        "timeout": settings.timeout,
        "releaseName": release.name,
        "targetNamespace": release.namespace,
        "storageNamespace": release.namespace,
        "maxHistory": settings.max_history,
        # Flux's default is no retry, so that one slow pull would stall the release; between retries it uninstalls
        # (api/v2/helmrelease_types.go, InstallRemediation).
        "install": {"remediation": {"retries": 3}},
        # With these three, failure, rollback and Stalled land in one pass of Flux; its default rolls nothing back
        # (helm-controller: api/v2/helmrelease_types.go, UpgradeRemediation.MustRemediateLastFailure).
        "upgrade": {
            "cleanupOnFail": True,
            "remediation": {"retries": 0, "remediateLastFailure": True, "strategy": "rollback"},
        },
        "driftDetection": _drift_detection(settings.drift_detection),
    }
    reference = {"kind": source.kind.kind, "name": source.name}
    if chart.source_type is SourceType.OCI:
        spec["chartRef"] = reference
    else:
        spec["chart"] = {"spec": {"chart": chart.name, "version": desired.version, "sourceRef": reference}}
    if account := release_account(release, settings):
        spec["serviceAccountName"] = account
    if desired.instance.spec.suspend:
        # Sent only when true: an explicit false would conflict with `flux suspend` by hand.
        spec["suspend"] = True
    return spec


def _drift_detection(mode: str) -> dict[str, Any]:
    if mode == "disabled":
        return {"mode": mode}
    # A HorizontalPodAutoscaler and `kubectl scale` change it for good reasons; Flux would report, or undo, every
    # change.
    return {"mode": mode, "ignore": [{"paths": ["/spec/replicas"]}]}


def _config_map(desired: _DesiredObjects, name: str) -> Apply:
    """Return the apply of the ConfigMap with the integrations' values as a values file (JSON is YAML)."""
    body = {"data": {_VALUES_KEY: canonical_json(_fragment(desired.instance)).decode()}}
    return desired.wrap(CONFIG_MAP, name, body, labels={_WATCH: "Enabled"})


def _values(desired: _DesiredObjects, beneath: str) -> dict[str, Any]:
    """Return the fields `valuesFrom` and `values` of the HelmRelease's spec. Flux merges `values` over `valuesFrom`.

    `beneath` is the name of the ConfigMap with the values that integrations imply; "" if there is no such ConfigMap.
    """
    values, patch = (
        desired.instance.spec.values,
        desired.override.values_patch if desired.override is not None else None,
    )
    spec: dict[str, Any] = {}
    inline: Mapping[str, Any] = inline_values(desired.instance.spec)
    if values is not None and values.reference is not None:
        kind, key_ref = values.reference
        own = [_value_source("ConfigMap", beneath, _VALUES_KEY)] if beneath else []
        spec["valuesFrom"] = [*own, _value_source(kind, key_ref.name, key_ref.key)]
    inline = merge_patch(inline, patch) if patch else inline
    return {**spec, "values": inline} if inline else spec


def _value_source(kind: str, name: str, key: str) -> dict[str, str]:
    return {"kind": kind, "name": name, "valuesKey": key}
