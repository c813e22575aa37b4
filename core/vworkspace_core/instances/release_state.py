"""The meaning of Flux's report for the operator's latest request (REC-5).

`classify` is the table of REC-5: the first row that matches wins. Flux reports on its last attempt. A report of Ready,
of Stalled or of a failure counts only if that attempt was made for the latest request (`is_ours`); otherwise it belongs
to the request before, and the latest request is under way.

Rows 5 (Ready) and 6 (ChartUnreachable) depend on the sources of the chart. A failed source keeps reporting the failure
until its next attempt has ended, and the HelmRelease repeats the failure even longer. Only reports on the source's
present generation count.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any, Final

import attrs

from purekube.apimachinery.conditions import condition_of, conditions_by_type, conditions_of
from purekube.apimachinery.manifest import Manifest, get_path
from vworkspace_core.instances.observed_release import (
    ObservedRelease,
    ReleaseRequest,
    ReleaseTimeouts,
    deployed_as_wanted,
    failed_uninstall,
    failure_is_ours,
    is_first_pass,
    is_observed,
    is_ours,
    message_of,
    was_released,
)

WAITING = "waiting for Flux to act on the request"
"""The message for the status while Flux has reported nothing about the operator's latest request."""
_NEVER_ATTEMPTED = ("InvalidCELExpression", "AccessDenied")
# The reasons of Ready=False of a pass that ended before or between Helm's actions (helm-controller 1.6.3:
# internal/controller/helmrelease_controller.go, reconcileRelease; internal/reconcile/atomic_release.go, Reconcile).
_HELD_UP = (
    "DependencyNotReady",
    "ChartMutateError",
    "RESTClientError",
    "ResourceManagerError",
    "FactoryError",
    "StateError",
    "ReconcileError",
)
_NONE: Mapping[str, Any] = {}


class ReleaseState(Enum):
    """The state of the requested release; each state is one row of the decision table for HelmReleases (REC-5)."""

    PENDING = "Pending"
    """The state in row 1 of REC-5: the HelmRelease is absent, being deleted, or not processed by Flux yet."""
    SUSPENDED = "Suspended"
    """The state in row 2 of REC-5: the HelmRelease or its source is suspended, by the operator or by a person."""
    STALLED = "Stalled"
    """The state in row 3 of REC-5: Flux has given up on the operator's latest request."""
    ROLLED_BACK = "RolledBack"
    """The state in row 3 of REC-5: Flux has given up and rolled back to the previous release."""
    FAILED = "Failed"
    """The state in row 4 of REC-5: Flux's attempt at the latest request failed; Flux may try again."""
    READY = "Ready"
    """The state in row 5 of REC-5: Flux has deployed the release that the operator requested."""
    CHART_UNREACHABLE = "ChartUnreachable"
    """The state in row 6 of REC-5: Flux cannot fetch the chart."""
    VALUES_MISSING = "ValuesMissing"
    """The state in row 7 of REC-5: Flux cannot read the values."""
    INSTALLING = "Installing"
    """The state in row 8 of REC-5: the latest request is under way, and nothing was released before."""
    UPGRADING = "Upgrading"
    """The state in row 8 of REC-5: the latest request is under way, and an earlier release exists."""

    @property
    def row(self) -> str:
        """The state's name with its row in the decision table for HelmReleases (REC-5), such as `REC-5 row 5 Ready`."""
        return f"REC-5 row {_ROWS[self]} {self.value}"


_ROWS: Final = {
    ReleaseState.PENDING: 1,
    ReleaseState.SUSPENDED: 2,
    ReleaseState.STALLED: 3,
    ReleaseState.ROLLED_BACK: 3,
    ReleaseState.FAILED: 4,
    ReleaseState.READY: 5,
    ReleaseState.CHART_UNREACHABLE: 6,
    ReleaseState.VALUES_MISSING: 7,
    ReleaseState.INSTALLING: 8,
    ReleaseState.UPGRADING: 8,
}


@attrs.frozen
class ClassifiedRelease:
    """The state of the requested release, derived from what Flux reports, with details for the status.

    `retrying` says that Flux retries automatically. `stalled_reason` is why Flux gave up. `source_trouble`, `drift`,
    `warnings`, and `held_up`, what keeps Flux from acting at all, are further problems. Each text is empty if there is
    none. `requeue_after` is the number of seconds after which the state may change by time alone.
    """

    state: ReleaseState
    message: str = ""
    retrying: bool = False
    released_before: bool = False
    stalled_reason: str = ""
    source_trouble: str = ""
    drift: str = ""
    warnings: str = ""
    held_up: str = ""
    requeue_after: float | None = None


def classify(
    release: Manifest | None,
    source: Manifest | None,
    chart: Manifest | None,
    request: ReleaseRequest,
    now: datetime,
    timeouts: ReleaseTimeouts,
) -> ClassifiedRelease:
    """Return the state of the HelmRelease `release` for the operator's latest request `request`, by the table in REC-5.

    `source` is the OCIRepository or HelmRepository. `chart` is the HelmChart that Flux creates for a HelmRepository;
    only the HelmChart says why a version is missing. Within `timeouts`, some failures still count as progress.
    """
    if release is None:
        return ClassifiedRelease(ReleaseState.PENDING, "the HelmRelease does not exist yet")
    if get_path(release, "metadata", "deletionTimestamp"):
        failure = failed_uninstall(release)
        told = f"; Flux says {failure}" if failure else ""
        message = f"the HelmRelease is being deleted; it is created again once it has gone{told}"
        return ClassifiedRelease(ReleaseState.PENDING, message)
    status = release.get("status") or {}
    if get_path(release, "spec", "suspend") is True:
        # Before row 1's empty status: a release that is suspended before its first attempt is not being installed.
        return ClassifiedRelease(
            ReleaseState.SUSPENDED, "the HelmRelease is suspended", released_before=was_released(status)
        )
    # The CRD of HelmRelease sets observedGeneration to -1 on a new object (helm-controller:
    # api/v2/helmrelease_types.go, the default of the field `status`).
    if not status.get("conditions") and status.get("observedGeneration", -1) == -1:
        return ClassifiedRelease(ReleaseState.PENDING, WAITING)
    conditions = conditions_by_type(release)
    generation = get_path(release, "metadata", "generation") or 0
    return _attempted(ObservedRelease(release, source, chart, request, now, timeouts, status, conditions, generation))


def _attempted(observed: ObservedRelease) -> ClassifiedRelease:
    """Return the state of a HelmRelease that Flux has already processed (rows 3 to 8 of REC-5)."""
    if held := suspended_origin(observed.source, observed.chart):
        message = f"the {get_path(held, 'kind')} is suspended: what it asks for by now is not fetched"
        return ClassifiedRelease(ReleaseState.SUSPENDED, message, released_before=was_released(observed.status))
    ours = is_ours(observed)
    ready = observed.condition("Ready")
    if stalled := _stalled(observed, ours):
        return stalled
    if ours and (failed := _failed(observed, ready)):
        return failed
    if ours and (deployed := _deployed(observed, ready)):
        return deployed
    return _unreachable(observed, ready) or _values_missing(observed, ready) or _under_way(observed, ready)


def _stalled(observed: ObservedRelease, ours: bool) -> ClassifiedRelease | None:
    condition = observed.condition("Stalled")
    if condition.get("status") != "True":
        return None
    # Flux finds these two before any attempt: the condition's own generation must suffice (helm-controller 1.6.1:
    # internal/controller/helmrelease_controller.go, Reconcile and reconcileRelease).
    early = condition.get("reason") in _NEVER_ATTEMPTED and condition.get("observedGeneration") == observed.generation
    if not ours and not early:
        return None
    # A successful rollback leaves Ready=False too: only Remediated shows it (helm-controller 1.6.1:
    # internal/reconcile/release.go, summarize).
    back = observed.condition("Remediated").get("reason") == "RollbackSucceeded"
    return ClassifiedRelease(
        ReleaseState.ROLLED_BACK if back else ReleaseState.STALLED,
        _why_stalled(observed.condition("Released"), observed.condition("TestSuccess"), condition),
        released_before=was_released(observed.status),
        stalled_reason=str(condition.get("reason") or "RetriesExceeded"),
    )


def _why_stalled(released: Mapping[str, Any], tested: Mapping[str, Any], stalled: Mapping[str, Any]) -> str:
    """Return a message that says why the release failed, and why Flux did not roll it back.

    The cause is in the condition `released` (Released), or in `tested` (TestSuccess) if only the tests of the release
    failed, since the condition Ready reports the rollback. The condition `stalled` (Stalled) says why there was no
    rollback.
    """
    if stalled.get("reason") in _NEVER_ATTEMPTED:
        return message_of(stalled)  # Released speaks of the release before
    failed = next((condition for condition in (released, tested) if condition.get("status") == "False"), _NONE)
    failure = message_of(failed)
    if not failure or stalled.get("reason") != "MissingRollbackTarget":
        return failure or message_of(stalled)
    return f"{failure}. Nothing was rolled back: {message_of(stalled)}"


def _failed(observed: ObservedRelease, ready: Mapping[str, Any]) -> ClassifiedRelease | None:
    released = observed.condition("Released")
    if released.get("status") != "False" or ready.get("status") != "False":
        return None
    reconciling = observed.condition("Reconciling")
    if not failure_is_ours(observed, released):
        return None
    return ClassifiedRelease(
        ReleaseState.FAILED,
        message_of(released) or message_of(ready),
        retrying=reconciling.get("status") == "True",
        released_before=was_released(observed.status),
    )


def _deployed(observed: ObservedRelease, ready: Mapping[str, Any]) -> ClassifiedRelease | None:
    """Return the release state Ready if Flux has deployed the latest request, or None otherwise.

    A deployed release stays Ready while Flux checks it again at its interval, or while its source has a passing
    failure.
    """
    if not deployed_as_wanted(observed):
        return None
    if ready.get("status") != "True":
        return _stuck(observed, ready)
    if ready.get("observedGeneration") != observed.generation:
        return None
    if observed.status.get("observedGeneration") != observed.generation:
        return None
    return _ready(observed, message_of(ready))


def _stuck(observed: ObservedRelease, ready: Mapping[str, Any]) -> ClassifiedRelease | None:
    """Return the release state if Ready is Unknown although Flux's last action succeeded, or None otherwise.

    At first the action counts as still under way. If Ready stays Unknown for long, that is a known defect of
    helm-controller (#1409), and the state is Ready. A hanging upgrade is no such case: its generation is observed only
    when the pass has ended.
    """
    released = observed.condition("Released")
    if ready.get("status") != "Unknown" or released.get("status", "True") != "True":
        return None
    if observed.status.get("observedGeneration") != observed.generation:
        return None
    if released.get("observedGeneration", observed.generation) != observed.generation:
        return None
    left = _seconds_left(observed, ready, observed.timeouts.stuck_ready)
    if left is None:
        return _ready(observed, message_of(released))
    return attrs.evolve(_under_way(observed, ready), requeue_after=left)


def _ready(observed: ObservedRelease, message: str) -> ClassifiedRelease:
    trouble, wait = _source_trouble(observed)
    drifted = observed.condition("Drifted")
    tested = observed.condition("TestSuccess")
    return ClassifiedRelease(
        ReleaseState.READY,
        message,
        released_before=True,
        source_trouble=trouble,
        drift=message_of(drifted) or "drift detected" if drifted.get("status") == "True" else "",
        warnings=message_of(tested) or "tests failed" if tested.get("status") == "False" else "",
        requeue_after=wait,
    )


def _source_trouble(observed: ObservedRelease) -> tuple[str, float | None]:
    """Return a pair: the message of a failure of the Flux source, and the seconds until the failure counts.

    The message is empty until the failure has lasted long enough to count. The seconds are None if it counts already,
    or if there is no failure.
    """
    condition = source_failure(observed.source)
    if not condition:
        return "", None
    left = _seconds_left(observed, condition, observed.timeouts.source_grace)
    return (message_of(condition) or str(condition.get("reason")) if left is None else ""), left


def _seconds_left(observed: ObservedRelease, condition: Mapping[str, Any], lasting: float) -> float | None:
    """Return the seconds until `condition` has lasted for `lasting` seconds, or None if it has."""
    left = lasting - observed.seconds_since(condition)
    return left if left > 0 else None


def _unreachable(observed: ObservedRelease, ready: Mapping[str, Any]) -> ClassifiedRelease | None:
    """Return the release state ChartUnreachable if the chart cannot be fetched, or None otherwise.

    Flux also reports a bare SourceNotReady during the first fetch of a source; within a grace period that is not a
    failure.
    """
    failure = source_failure(observed.source) or chart_failure(observed)
    released = was_released(observed.status)
    if failure:
        given_up = gave_up_on_chart(observed)
        return ClassifiedRelease(
            ReleaseState.CHART_UNREACHABLE, message_of(failure), released_before=released, stalled_reason=given_up
        )
    if not is_blamed_on_source(observed, ready):
        return None
    left = _seconds_left(observed, ready, observed.timeouts.source_wait)
    if ready["reason"] == "ArtifactFailed" or left is None:
        return ClassifiedRelease(ReleaseState.CHART_UNREACHABLE, message_of(ready), released_before=released)
    return attrs.evolve(_under_way(observed, ready), requeue_after=left)


def _values_missing(observed: ObservedRelease, ready: Mapping[str, Any]) -> ClassifiedRelease | None:
    if ready.get("status") != "False" or ready.get("reason") != "ValuesError":
        return None
    if ready.get("observedGeneration", observed.generation) != observed.generation:
        return None  # of the earlier values
    return ClassifiedRelease(
        ReleaseState.VALUES_MISSING, message_of(ready), released_before=was_released(observed.status)
    )


def _under_way(observed: ObservedRelease, ready: Mapping[str, Any]) -> ClassifiedRelease:
    released = was_released(observed.status) and not is_first_pass(observed.status)
    reconciling = observed.condition("Reconciling")
    # Only Flux's report on the running attempt counts: an old Ready or failure would be misread as new. Between two
    # tries it repeats the failure of the last.
    running = reconciling.get("status") == "True" and reconciling.get("reason") != "ProgressingWithRetry"
    state = ReleaseState.UPGRADING if released else ReleaseState.INSTALLING
    if _is_held_up(observed, ready):
        # Until such a pass succeeds, Reconciling only says again and again that a pass has begun.
        message = message_of(ready) or str(ready.get("reason"))
        left = _seconds_left(observed, ready, observed.timeouts.source_grace)
        held_up = message if left is None else ""
        return ClassifiedRelease(state, message, released_before=released, held_up=held_up, requeue_after=left)
    message = message_of(reconciling) if running else ""
    if not message and ready.get("status") == "Unknown":
        message = message_of(ready)
    return ClassifiedRelease(state, message or WAITING, released_before=released)


def _is_held_up(observed: ObservedRelease, ready: Mapping[str, Any]) -> bool:
    """Report whether `ready`, the condition Ready, says what keeps Flux from acting on the HelmRelease's present
    generation, such as a right that the release's service account lacks.
    """
    if ready.get("status") != "False" or ready.get("reason") not in _HELD_UP:
        return False
    return bool(ready.get("observedGeneration", observed.generation) == observed.generation)


# --- the chart's source -----------------------------------------------------------------------------------------------


def suspended_origin(*origins: Manifest | None) -> Manifest | None:
    """Return the first of `origins`, Flux objects from which a release gets its chart, that is suspended and has not
    fetched its present generation. Return None if there is none.
    """
    for origin in origins:
        if get_path(origin, "spec", "suspend") is True and not is_observed(origin):
            return origin
    return None


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
    conditions = conditions_of(origin)
    if not conditions:
        return str(get_path(origin, "metadata", "creationTimestamp") or "")
    times = [
        str(condition.get("lastTransitionTime", "")) for condition in conditions if _is_of_generation(condition, origin)
    ]
    return min(times, default=None)
