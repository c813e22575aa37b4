"""Whether the chart can be had (rows 5 and 6 of REC-5): what Flux's sources say of the present request.

A source that failed keeps saying so until its next attempt has ended, and the HelmRelease repeats it for longer. Only
what is said of the source as it stands now counts.
"""

from collections.abc import Mapping
from typing import Any

from vworkspace_core.apimachinery.manifest import Manifest, get_path
from vworkspace_core.instances.observed_release import ObservedRelease, condition_of, is_observed

_NONE: Mapping[str, Any] = {}


def source_failure(source: Manifest | None) -> Mapping[str, Any]:
    """The source's own condition that says what is wrong with it as it stands now; empty when none does."""
    for kind in ("FetchFailed", "Stalled"):
        condition = condition_of(source, kind)
        if condition.get("status") == "True" and _is_of_generation(condition, source):
            return condition
    return _NONE


def chart_failure(observed: ObservedRelease) -> Mapping[str, Any]:
    """What is wrong with the HelmChart that Flux made for this very request; empty when nothing is."""
    chart = observed.chart
    if chart is None or not _is_of_request(chart, observed):
        return _NONE
    for kind in ("FetchFailed", "BuildFailed", "Stalled"):
        condition = condition_of(chart, kind)
        # Waiting for the repository's first artifact is no failure of its own: the repository tells of one.
        if condition.get("status") == "True" and condition.get("reason") != "NoSourceArtifact":
            return condition if _is_of_generation(condition, chart) else _NONE
    return _NONE


def gave_up_on_chart(observed: ObservedRelease) -> str:
    """Flux's reason for not trying again to fetch the chart as it is asked for; empty while it does try (RES-4)."""
    for origin in (observed.source, observed.chart if chart_failure(observed) else None):
        condition = condition_of(origin, "Stalled")
        if condition.get("status") == "True" and _is_of_generation(condition, origin):
            return str(condition.get("reason") or "Stalled")
    return ""


def _is_of_generation(condition: Mapping[str, Any], manifest: Manifest | None) -> bool:
    """Whether a condition speaks of the object as it stands now: Flux leaves the failures of before in place."""
    generation = get_path(manifest, "metadata", "generation")
    return bool(condition.get("observedGeneration", generation) == generation)


def _is_of_request(chart: Manifest, observed: ObservedRelease) -> bool:
    """Whether a HelmChart is what the HelmRelease asks for by now, judged by the index the repository has by now."""
    for field in ("chart", "version"):
        if get_path(chart, "spec", field) != get_path(observed.release, "spec", "chart", "spec", field):
            return False
    looked_at = get_path(chart, "status", "observedSourceArtifactRevision")
    return is_observed(observed.source) and looked_at in (
        None,
        get_path(observed.source, "status", "artifact", "revision"),
    )


def _is_of_before(chart: Manifest, observed: ObservedRelease) -> bool:
    """Whether a HelmChart that Flux has looked at speaks of another request, or of the repository as it was before."""
    looked_at = get_path(chart, "status", "observedSourceArtifactRevision")
    return looked_at is not None and not _is_of_request(chart, observed)


def is_blamed_on_source(observed: ObservedRelease, ready: Mapping[str, Any]) -> bool:
    """Whether Ready=False is about the chart's source, and about the source as it stands now.

    helm-controller looks again after 30 seconds only, and a new tag moves no generation of the HelmRelease: what it
    says of a source that has changed since, or that is well by now, is over.
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
    began = _looked_at_since(origin)
    return began is not None and str(ready.get("lastTransitionTime", "")) >= began


def _looked_at_since(origin: Manifest) -> str | None:
    """When Flux began with the source as it stands now (RFC 3339); None when that has not been yet."""
    conditions = [
        condition for condition in get_path(origin, "status", "conditions") or () if isinstance(condition, Mapping)
    ]
    if not conditions:
        return str(get_path(origin, "metadata", "creationTimestamp") or "")
    times = [
        str(condition.get("lastTransitionTime", "")) for condition in conditions if _is_of_generation(condition, origin)
    ]
    return min(times, default=None)
