"""What Flux reports, and what it means for the request we made (REC-5).

`classify` is the table of REC-5: the first row that matches wins. Everything hangs on *ours*: whether the
attempt that Flux talks about is the one we asked for. Every old Ready, Stalled or failure that is not ours
belongs to the previous request and counts as progress.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any

import attrs

from vworkspace_core.apimachinery.manifest import Manifest, dig
from vworkspace_core.instances.chart_source import (
    chart_failure,
    gave_up_on_chart,
    is_blamed_on_source,
    source_failure,
)
from vworkspace_core.instances.observed_release import (
    Patience,
    Report,
    Request,
    deployed_as_wanted,
    failure_is_ours,
    is_first_pass,
    is_observed,
    is_ours,
    message_of,
    was_released,
)

WAITING = "waiting for Flux to act on the request"
"""What is said while Flux itself says nothing of the request."""

_NEVER_ATTEMPTED = ("InvalidCELExpression", "AccessDenied")


class ReleaseState(Enum):
    """The rows of REC-5."""

    PENDING = "row 1: absent, being deleted by somebody, or not yet looked at by Flux"
    SUSPENDED = "row 2: suspended, by us or by hand"
    STALLED = "row 3: Flux has given up on our request"
    ROLLED_BACK = "row 3: Flux has given up and gone back to the previous release"
    FAILED = "row 4: our attempt failed"
    READY = "row 5: Flux confirmed the release we asked for"
    CHART_UNREACHABLE = "row 6: the chart cannot be had"
    VALUES_MISSING = "row 7: the values cannot be had"
    INSTALLING = "row 8: under way, nothing was released before"
    UPGRADING = "row 8: under way, over an earlier release"


@attrs.frozen
class Evidence:
    """The row, and what goes with it. `requeue_after` is in seconds, for what only time decides."""

    state: ReleaseState
    message: str = ""
    retrying: bool = False
    released_before: bool = False
    stalled_reason: str = ""
    source_trouble: str = ""
    drift: str = ""
    warnings: str = ""
    requeue_after: float | None = None


def classify(
    release: Manifest | None,
    source: Manifest | None,
    chart: Manifest | None,
    request: Request,
    now: datetime,
    patience: Patience,
) -> Evidence:
    """The row of REC-5 that the HelmRelease is in.

    `source` is the OCIRepository or HelmRepository, `chart` the HelmChart that Flux makes for a HelmRepository
    (it alone tells why a version is missing).
    """
    if release is None:
        return Evidence(ReleaseState.PENDING, "the HelmRelease does not exist yet")
    if dig(release, "metadata", "deletionTimestamp"):
        return Evidence(ReleaseState.PENDING, "the HelmRelease is being deleted; it is created again once it has gone")
    status = release.get("status") or {}
    if dig(release, "spec", "suspend") is True:
        # Before row 1's empty status: what is suspended before its first release is not being installed.
        return Evidence(ReleaseState.SUSPENDED, "the HelmRelease is suspended", released_before=was_released(status))
    if not status.get("conditions") and status.get("observedGeneration", -1) == -1:
        return Evidence(ReleaseState.PENDING, WAITING)
    conditions = {found.get("type", ""): found for found in status.get("conditions") or () if isinstance(found, dict)}
    generation = dig(release, "metadata", "generation") or 0
    return _attempted(Report(release, source, chart, request, now, patience, status, conditions, generation))


def _attempted(report: Report) -> Evidence:
    """Rows 3 to 8, for a HelmRelease that Flux has looked at."""
    if dig(report.source, "spec", "suspend") is True and not is_observed(report.source):
        told = f"the {dig(report.source, 'kind')} is suspended: what it asks for by now is not fetched"
        return Evidence(ReleaseState.SUSPENDED, told, released_before=was_released(report.status))
    ours = is_ours(report)
    ready = report.condition("Ready")
    if stalled := _stalled(report, ours):
        return stalled
    if ours and (failed := _failed(report, ready)):
        return failed
    if ours and (settled := _settled(report, ready)):
        return settled
    return _unreachable(report, ready) or _values_missing(report, ready) or _under_way(report, ready)


def _stalled(report: Report, ours: bool) -> Evidence | None:
    found = report.condition("Stalled")
    if found.get("status") != "True":
        return None
    # These two are found before any attempt is made: the condition's own generation has to do.
    early = found.get("reason") in _NEVER_ATTEMPTED and found.get("observedGeneration") == report.generation
    if not ours and not early:
        return None
    back = report.condition("Remediated").get("reason") == "RollbackSucceeded"
    return Evidence(
        ReleaseState.ROLLED_BACK if back else ReleaseState.STALLED,
        # After a rollback Ready's message is the rollback's; the failure's own is in Released.
        message_of(report.condition("Released")) or message_of(found),
        released_before=was_released(report.status),
        stalled_reason=str(found.get("reason") or "RetriesExceeded"),
    )


def _failed(report: Report, ready: Mapping[str, Any]) -> Evidence | None:
    released = report.condition("Released")
    if released.get("status") != "False" or ready.get("status") != "False":
        return None
    reconciling = report.condition("Reconciling")
    if not failure_is_ours(report, released):
        return None
    return Evidence(
        ReleaseState.FAILED,
        message_of(released) or message_of(ready),
        retrying=reconciling.get("status") == "True",
        released_before=was_released(report.status),
    )


def _settled(report: Report, ready: Mapping[str, Any]) -> Evidence | None:
    """Row 5, also while Flux re-checks at its interval and while the source has a passing trouble."""
    if not deployed_as_wanted(report):
        return None
    if ready.get("status") != "True":
        return _stuck(report, ready)
    if ready.get("observedGeneration") != report.generation:
        return None
    if report.status.get("observedGeneration") != report.generation:
        return None
    return _ready(report, message_of(ready))


def _stuck(report: Report, ready: Mapping[str, Any]) -> Evidence | None:
    """Ready=Unknown for ever after a success is a known defect of helm-controller (#1409).

    It is the same while an upgrade hangs, but for the generation: that is observed when a pass has ended.
    """
    released = report.condition("Released")
    if ready.get("status") != "Unknown" or released.get("status", "True") != "True":
        return None
    if report.status.get("observedGeneration") != report.generation:
        return None
    if released.get("observedGeneration", report.generation) != report.generation:
        return None
    age = report.seconds_since(ready)
    if age >= report.patience.stuck_ready:
        return _ready(report, message_of(released))
    return attrs.evolve(_under_way(report, ready), requeue_after=report.patience.stuck_ready - age)


def _ready(report: Report, message: str) -> Evidence:
    trouble, wait = _source_trouble(report)
    drifted = report.condition("Drifted")
    tested = report.condition("TestSuccess")
    return Evidence(
        ReleaseState.READY,
        message,
        released_before=True,
        source_trouble=trouble,
        drift=message_of(drifted) or "drift detected" if drifted.get("status") == "True" else "",
        warnings=message_of(tested) or "tests failed" if tested.get("status") == "False" else "",
        requeue_after=wait,
    )


def _source_trouble(report: Report) -> tuple[str, float | None]:
    """The source's trouble once it has lasted, and until then when it will have."""
    found = source_failure(report.source)
    if not found:
        return "", None
    age = report.seconds_since(found)
    if age >= report.patience.source_grace:
        return message_of(found) or str(found.get("reason")), None
    return "", report.patience.source_grace - age


def _unreachable(report: Report, ready: Mapping[str, Any]) -> Evidence | None:
    """Row 6. A bare SourceNotReady is also what Flux says while the source is being fetched for the first time."""
    failure = source_failure(report.source) or chart_failure(report)
    released = was_released(report.status)
    if failure:
        given_up = gave_up_on_chart(report)
        return Evidence(
            ReleaseState.CHART_UNREACHABLE, message_of(failure), released_before=released, stalled_reason=given_up
        )
    if not is_blamed_on_source(report, ready):
        return None
    age = report.seconds_since(ready)
    if ready["reason"] == "ArtifactFailed" or age >= report.patience.source_wait:
        return Evidence(ReleaseState.CHART_UNREACHABLE, message_of(ready), released_before=released)
    return attrs.evolve(_under_way(report, ready), requeue_after=report.patience.source_wait - age)


def _values_missing(report: Report, ready: Mapping[str, Any]) -> Evidence | None:
    if ready.get("status") != "False" or ready.get("reason") != "ValuesError":
        return None
    if ready.get("observedGeneration", report.generation) != report.generation:
        return None  # of the values that were asked for before
    return Evidence(ReleaseState.VALUES_MISSING, message_of(ready), released_before=was_released(report.status))


def _under_way(report: Report, ready: Mapping[str, Any]) -> Evidence:
    released = was_released(report.status) and not is_first_pass(report.status)
    reconciling = report.condition("Reconciling")
    # Only what Flux says of the running attempt: an old Ready or failure would be misread as news. Between two tries
    # it repeats the failure of the last.
    running = reconciling.get("status") == "True" and reconciling.get("reason") != "ProgressingWithRetry"
    told = message_of(reconciling) if running else ""
    if not told and ready.get("status") == "Unknown":
        told = message_of(ready)
    state = ReleaseState.UPGRADING if released else ReleaseState.INSTALLING
    return Evidence(state, told or WAITING, released_before=released)
