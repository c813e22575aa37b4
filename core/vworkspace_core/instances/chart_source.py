"""Availability of the chart: what Flux's sources report about the operator's latest request.

It decides rows 5 (Ready) and 6 (ChartUnreachable) of the table of release states in `release_state` (REC-5).

A failed source keeps reporting the failure until its next attempt has ended, and the HelmRelease repeats the failure
even longer. Only reports on the source's present generation count.
"""

from collections.abc import Mapping
from typing import Any

from purekube.apimachinery.manifest import Manifest, get_path
from vworkspace_core.instances.observed_release import ObservedRelease, condition_of, is_observed, message_of

_NONE: Mapping[str, Any] = {}


def source_failure(source: Manifest | None) -> Mapping[str, Any]:
    """Return the condition by which `source`, a Flux source, reports that its present generation failed.

    Return an empty mapping if there is no such condition.
    """
    for kind in ("FetchFailed", "Stalled"):
        condition = condition_of(source, kind)
        if condition.get("status") == "True" and _is_of_generation(condition, source):
            return condition
    return _NONE


def chart_failure(observed: ObservedRelease) -> Mapping[str, Any]:
    """Return the condition that shows that Flux failed to fetch the chart version that the operator requested last.

    The condition is on the HelmChart that Flux creates for a chart in a HelmRepository. Return an empty mapping if
    there is no such condition.
    """
    chart = observed.chart
    if chart is None or not _is_of_request(chart, observed):
        return _NONE
    for kind in ("FetchFailed", "BuildFailed", "Stalled"):
        condition = condition_of(chart, kind)
        # Waiting for the repository's first artifact is no failure of the chart: the repository reports its own.
        if condition.get("status") == "True" and condition.get("reason") != "NoSourceArtifact":
            return condition if _is_of_generation(condition, chart) else _NONE
    return _NONE


def gave_up_on_chart(observed: ObservedRelease) -> str:
    """Return the reason why Flux has stopped retrying to fetch the requested chart, or an empty string while it still
    retries (RES-4).
    """
    for origin in (observed.source, observed.chart if chart_failure(observed) else None):
        condition = condition_of(origin, "Stalled")
        if condition.get("status") == "True" and _is_of_generation(condition, origin):
            return str(condition.get("reason") or "Stalled")
    return ""


def _is_of_generation(condition: Mapping[str, Any], manifest: Manifest | None) -> bool:
    """Report whether `condition` is about the present generation of `manifest`, the object that has it.

    Flux leaves conditions of earlier generations in the status.
    """
    generation = get_path(manifest, "metadata", "generation")
    return bool(condition.get("observedGeneration", generation) == generation)


def _is_of_request(chart: Manifest, observed: ObservedRelease) -> bool:
    """Report whether `chart`, a HelmChart, has the chart and version that the HelmRelease requests now.

    It must also have been looked up in the repository's present index.
    """
    for field in ("chart", "version"):
        if get_path(chart, "spec", field) != get_path(observed.release, "spec", "chart", "spec", field):
            return False
    looked_at = get_path(chart, "status", "observedSourceArtifactRevision")
    return is_observed(observed.source) and looked_at in (
        None,
        get_path(observed.source, "status", "artifact", "revision"),
    )


def _is_of_before(chart: Manifest, observed: ObservedRelease) -> bool:
    """Report whether Flux last processed the HelmChart `chart` for an earlier request, or from an earlier repository
    index.
    """
    looked_at = get_path(chart, "status", "observedSourceArtifactRevision")
    return looked_at is not None and not _is_of_request(chart, observed)


def is_blamed_on_source(observed: ObservedRelease, ready: Mapping[str, Any]) -> bool:
    """Report whether the release's Ready=False is caused by the present state of the chart's source.

    `ready` is the condition Ready of the HelmRelease. Ready=False may also be caused by an earlier state:
    helm-controller checks again only after 30 seconds, and a new tag does not change the HelmRelease's generation.
    """
    reason = ready.get("reason")
    if ready.get("status") != "False" or reason not in ("SourceNotReady", "ArtifactFailed"):
        return False
    if ready.get("observedGeneration", observed.generation) != observed.generation:
        return False
    origin = observed.source if observed.request.oci else observed.chart
    if not observed.request.oci and origin is not None and _is_of_before(origin, observed):
        return False
    if reason == "ArtifactFailed" or origin is None:
        return origin is None or is_observed(origin)
    if is_observed(origin) and get_path(origin, "status", "artifact"):
        return False
    began, reported = _observed_since(origin), str(ready.get("lastTransitionTime", ""))
    # Times have whole seconds. Within one, only the words tell: helm-controller repeats the source's own report.
    return began is not None and (reported > began or (reported == began and _repeats(ready, origin)))


def _repeats(ready: Mapping[str, Any], origin: Manifest) -> bool:
    """Report whether `ready`, the Ready=False of a release, ends with the message of the condition Ready of `origin`.

    `origin` is the release's Flux source or HelmChart, from which helm-controller copies messages.
    """
    return message_of(ready).endswith(message_of(condition_of(origin, "Ready")))


def _observed_since(origin: Manifest) -> str | None:
    """Return when Flux began to process the present generation of `origin`, a Flux source or HelmChart.

    The result is RFC 3339 text, or None if Flux has not begun.
    """
    conditions = [
        condition for condition in get_path(origin, "status", "conditions") or () if isinstance(condition, Mapping)
    ]
    if not conditions:
        return str(get_path(origin, "metadata", "creationTimestamp") or "")
    times = [
        str(condition.get("lastTransitionTime", "")) for condition in conditions if _is_of_generation(condition, origin)
    ]
    return min(times, default=None)
