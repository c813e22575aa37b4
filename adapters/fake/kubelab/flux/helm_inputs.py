"""The inputs of a release: the chart from its source, the values from Secrets, ConfigMaps and the spec."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from kubelab.flux.artifacts import IMAGE_VERSION, chart_version_of_tag, not_found, with_digest_metadata
from kubelab.flux.conditions import READY, STALLED, condition, is_stalled, status_of
from kubelab.flux.draft import Draft
from kubelab.flux.helm_spec import Chart, HelmSpec, HelmValues
from kubelab.simulation.effects import PassStep, get_object
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, canonical_json, get_path, metadata
from purekube.apimachinery.resources import CONFIG_MAP, HELM_CHART, HELM_RELEASE, OCI_REPOSITORY, SECRET


@attrs.frozen
class InputUnavailable:
    """The answer, in Flux's words, that an input of a Helm release, such as its source, is not available."""

    message: str


_FoundSource: TypeAlias = Manifest | InputUnavailable
_ComposedValues: TypeAlias = HelmValues | InputUnavailable


def find_source(draft: Draft, spec: HelmSpec) -> PassStep[_FoundSource]:
    """Return the OCIRepository or HelmChart that provides the chart of a HelmRelease, or InputUnavailable.

    `draft` is the HelmRelease, and `spec` has its settings. The result is InputUnavailable if the source does not
    exist.
    """
    reference = get_path(draft.spec, "chartRef")
    if reference:
        kind = OCI_REPOSITORY if reference.get("kind") == "OCIRepository" else HELM_CHART
        ref = ObjectRef(kind, str(reference.get("namespace") or spec.namespace), str(reference.get("name")))
    else:
        namespace, _, name = str(draft.status.get("helmChart", "")).partition("/")
        ref = ObjectRef(HELM_CHART, namespace, name)
    source = yield from get_object(ref)
    if source is None:
        return InputUnavailable(f"could not get Source object: {not_found(ref.kind, ref.name)}")
    return {"kind": ref.kind.kind, **source}


def source_problem(source: Manifest) -> str:
    """Return why the source is not ready for use, or an empty string if it is ready.

    As in helm-controller, the Ready condition does not matter: a source whose registry is unreachable still serves its
    artifact. A suspended source counts as ready as well, with its old artifact.
    """
    meta = metadata(source)
    subject = f"{source['kind']} '{meta.get('namespace')}/{meta.get('name')}' is not ready: "
    # helmrelease_controller.go, isReady: an artifact of the former generation may be that of another chart.
    if get_path(source, "status", "observedGeneration") != meta.get("generation"):
        ready = condition(source, READY) or {}
        if status_of(source, READY) == "False":
            return subject + str(ready.get("message"))
        return subject + "latest generation of object has not been reconciled"
    if is_stalled(source):
        return subject + str((condition(source, STALLED) or {}).get("message"))
    return "" if get_path(source, "status", "artifact") else subject + "does not have an artifact"


def load_chart(source: Manifest) -> Chart:
    """Return the chart in the source's artifact.

    With an OCI source, the chart's `version` has part of the digest as its build metadata, as in helm-controller.
    """
    revision = str(get_path(source, "status", "artifact", "revision"))
    if source["kind"] == "HelmChart":
        return Chart(str(get_path(source, "status", "observedChartName")), revision, revision)
    tag, _, digest = revision.rpartition("@")
    annotated = get_path(source, "status", "artifact", "metadata", IMAGE_VERSION)
    own = str(annotated or chart_version_of_tag(tag))
    name = str(get_path(source, "spec", "url") or "").rpartition("/")[2]
    return Chart(name, with_digest_metadata(own, digest), own, digest)


def compose_values(draft: Draft, spec: HelmSpec) -> PassStep[_ComposedValues]:
    """Return the values of the HelmRelease in `draft`, or InputUnavailable if a reference in `valuesFrom` is missing.

    `spec` has the HelmRelease's settings. The result has the inline values, and a digest. The content of `valuesFrom`
    is not parsed: it changes only the digest.
    """
    inline = get_path(draft.spec, "values")
    inline = inline if isinstance(inline, Mapping) else {}
    parts: list[Any] = []
    for reference in draft.spec.get("valuesFrom") or ():
        content = yield from _referenced(spec, reference)
        if isinstance(content, InputUnavailable):
            return content
        if content is not None:
            parts.append([reference.get("targetPath", ""), content])
    return HelmValues(inline, _digest(parts, inline))


def _digest(parts: Sequence[Any], inline: Mapping[str, Any]) -> str:
    text = b""
    # No values at all give the digest of no bytes, not of `{}` (fluxcd/pkg: chartutil/digest.go, DigestValues).
    if parts or inline:
        text = canonical_json([parts, inline] if parts else inline)
    return "sha256:" + hashlib.sha256(text).hexdigest()


def _referenced(spec: HelmSpec, reference: Mapping[str, Any]) -> PassStep[str | InputUnavailable | None]:
    kind = _CONFIG_KINDS[str(reference.get("kind"))]
    name, key = str(reference.get("name")), str(reference.get("valuesKey") or "values.yaml")
    config = yield from get_object(ObjectRef(kind, spec.namespace, name))
    content = get_path(config, "data", key)
    if content is not None:
        return str(content)
    if reference.get("optional"):
        return None
    reason = f'{kind.plural} "{name}" not found' if config is None else "key not found"
    subject = f"{kind.kind} chart values reference '{spec.namespace}/{name}' with key '{key}'"
    return InputUnavailable(f"could not resolve {subject}: {reason}")


_CONFIG_KINDS: Mapping[str, Kind] = {"Secret": SECRET, "ConfigMap": CONFIG_MAP}


def unready_dependency(draft: Draft, spec: HelmSpec) -> PassStep[str]:
    """Return a message, in Flux's words, about the first dependency that is not ready; empty if all are ready.

    Dependencies are the HelmReleases in `dependsOn` of the HelmRelease in `draft`, whose settings are `spec`.
    """
    for dependency in draft.spec.get("dependsOn") or ():
        place = str(dependency.get("namespace") or spec.namespace), str(dependency.get("name"))
        release = yield from get_object(ObjectRef(HELM_RELEASE, *place))
        if release is None:
            missing = not_found(HELM_RELEASE, place[1])
            return f"unable to get '{'/'.join(place)}' dependency: {missing}"
        # Both are needed: Ready=True alone may still be that of the former generation (checkDependencies).
        current = get_path(release, "status", "observedGeneration") == metadata(release).get("generation")
        if not current or status_of(release, READY) != "True":
            return f"dependency '{'/'.join(place)}' is not ready"
    return ""
