"""What Flux reports, and what it means for the request we made (REC-5).

`classify` is the table of REC-5: the first row that matches wins. Everything hangs on *ours*: whether the
attempt that Flux talks about is the one we asked for. Every old Ready, Stalled or failure that is not ours
belongs to the previous request and counts as progress.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any

import attrs

from vworkspace_core.manifest import Manifest, dig

__all__ = ["WAITING", "Evidence", "Patience", "ReleaseState", "Request", "classify", "condition"]

WAITING = "waiting for Flux to act on the request"
"""What is said while Flux itself says nothing of the request."""

_COUNTED_FAILURES = ("failures", "installFailures", "upgradeFailures")
_CHART_IN_MESSAGE = re.compile(r"\bwith chart \S+?@([0-9A-Za-z.+_-]*[0-9A-Za-z])")
_NONE: Mapping[str, Any] = {}
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
class Request:
    """What we asked Flux for: the effective chart version, where from, and the retry asked for, if any."""

    version: str
    oci: bool
    retry_token: str = ""


@attrs.frozen
class Patience:
    """Seconds during which a report is not yet believed (see `Settings`)."""

    source_grace: float
    source_wait: float
    stuck_ready: float


@attrs.frozen
class Evidence:
    """The row, and what goes with it. `look_again_after` is in seconds, for what only time decides."""

    state: ReleaseState
    message: str = ""
    retrying: bool = False
    released_before: bool = False
    stalled_reason: str = ""
    source_trouble: str = ""
    drift: str = ""
    warnings: str = ""
    look_again_after: float | None = None


def condition(manifest: Manifest | None, kind: str) -> Mapping[str, Any]:
    """The condition of that type, or an empty mapping."""
    found = dig(manifest, "status", "conditions")
    if isinstance(found, list):
        for candidate in found:
            if dig(candidate, "type") == kind:
                return candidate  # type: ignore[no-any-return]
    return {}


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
    status = release.get("status") or _NONE
    if dig(release, "spec", "suspend") is True:
        # Before row 1's empty status: what is suspended before its first release is not being installed.
        return Evidence(ReleaseState.SUSPENDED, "the HelmRelease is suspended", released_before=_released(status))
    if not status.get("conditions") and status.get("observedGeneration", -1) == -1:
        return Evidence(ReleaseState.PENDING, WAITING)
    conditions = {found.get("type", ""): found for found in status.get("conditions") or () if isinstance(found, dict)}
    generation = dig(release, "metadata", "generation") or 0
    return _attempted(_Report(release, source, chart, request, now, patience, status, conditions, generation))


@attrs.frozen
class _Report:
    """One look at Flux, with the questions that the rows ask of it."""

    release: Manifest
    source: Manifest | None
    chart: Manifest | None
    request: Request
    now: datetime
    patience: Patience
    status: Mapping[str, Any]
    conditions: Mapping[str, Mapping[str, Any]]
    generation: int

    def condition(self, kind: str) -> Mapping[str, Any]:
        """A condition of the HelmRelease; empty when it has none of that type."""
        return self.conditions.get(kind, _NONE)

    def seconds_since(self, found: Mapping[str, Any]) -> float:
        return _seconds(found.get("lastTransitionTime"), self.now)


def _attempted(report: _Report) -> Evidence:
    """Rows 3 to 8, for a HelmRelease that Flux has looked at."""
    ours = _is_ours(report)
    ready = report.condition("Ready")
    if stalled := _stalled(report, ours):
        return stalled
    if ours and (failed := _failed(report, ready)):
        return failed
    if ours and (settled := _settled(report, ready)):
        return settled
    return _unreachable(report, ready) or _values_missing(report, ready) or _under_way(report, ready)


def _is_ours(report: _Report) -> bool:
    """Whether the attempt that Flux talks about is the one we asked for."""
    status = report.status
    if status.get("lastAttemptedGeneration") != report.generation:
        return False
    if report.request.retry_token and status.get("lastHandledResetAt") != report.request.retry_token:
        return False
    if not _same_version(status.get("lastAttemptedRevision"), report.request.version):
        return False
    return not report.request.oci or _same_artifact(report)


def _same_artifact(report: _Report) -> bool:
    """For OCI a new tag moves no generation of the HelmRelease: the digest alone tells the attempts apart."""
    wanted = _artifact_digest(report.source)
    if wanted is None:
        return False
    history = dig(report.status, "history", 0, "ociDigest")
    return bool((report.status.get("lastAttemptedRevisionDigest") or history) == wanted)


def _artifact_digest(source: Manifest | None) -> str | None:
    if dig(source, "status", "observedGeneration") != dig(source, "metadata", "generation"):
        return None
    revision = dig(source, "status", "artifact", "revision")
    return revision.partition("@")[2] or None if isinstance(revision, str) else None


def _stalled(report: _Report, ours: bool) -> Evidence | None:
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
        _message(report.condition("Released")) or _message(found),
        released_before=_released(report.status),
        stalled_reason=str(found.get("reason") or "RetriesExceeded"),
    )


def _failed(report: _Report, ready: Mapping[str, Any]) -> Evidence | None:
    released = report.condition("Released")
    if released.get("status") != "False" or ready.get("status") != "False":
        return None
    reconciling = report.condition("Reconciling")
    if not _failure_is_ours(report, released, reconciling):
        return None
    return Evidence(
        ReleaseState.FAILED,
        _message(released) or _message(ready),
        retrying=reconciling.get("status") == "True",
        released_before=_released(report.status),
    )


def _failure_is_ours(report: _Report, released: Mapping[str, Any], reconciling: Mapping[str, Any]) -> bool:
    """Whether Released=False is about this attempt, not the one before.

    Flux records the new attempt before it runs it, and leaves the old Released=False in place meanwhile. The
    message names the chart version it speaks of; where it does not, a counted failure (the counts start anew
    with a new request) or the retry reason tells.
    """
    observed = released.get("observedGeneration")
    if observed is not None and observed != report.generation:
        return False
    named = _CHART_IN_MESSAGE.search(_message(released))
    if named is not None:
        return _same_version(named.group(1), report.request.version)
    counted = any(report.status.get(field) for field in _COUNTED_FAILURES)
    return counted or reconciling.get("reason") != "Progressing"


def _settled(report: _Report, ready: Mapping[str, Any]) -> Evidence | None:
    """Row 5, also while Flux re-checks at its interval and while the source has a passing trouble."""
    if not _deployed_as_wanted(report):
        return None
    if ready.get("status") != "True":
        return _stuck(report, ready)
    if ready.get("observedGeneration") != report.generation:
        return None
    if report.status.get("observedGeneration") != report.generation:
        return None
    return _ready(report, _message(ready))


def _deployed_as_wanted(report: _Report) -> bool:
    newest = dig(report.status, "history", 0)
    if dig(newest, "status") != "deployed" or not _same_version(dig(newest, "chartVersion"), report.request.version):
        return False
    # The same version with other values is another release: Flux keeps a digest of both.
    attempted = report.status.get("lastAttemptedConfigDigest")
    if attempted and dig(newest, "configDigest") not in (None, attempted):
        return False
    return not report.request.oci or dig(newest, "ociDigest") == _artifact_digest(report.source)


def _stuck(report: _Report, ready: Mapping[str, Any]) -> Evidence | None:
    """Ready=Unknown for ever after a success is a known defect of helm-controller (#1409)."""
    released = report.condition("Released")
    if ready.get("status") != "Unknown" or released.get("status", "True") != "True":
        return None
    if released.get("observedGeneration", report.generation) != report.generation:
        return None
    age = report.seconds_since(ready)
    if age >= report.patience.stuck_ready:
        return _ready(report, _message(released))
    return attrs.evolve(_under_way(report, ready), look_again_after=report.patience.stuck_ready - age)


def _ready(report: _Report, message: str) -> Evidence:
    trouble, wait = _source_trouble(report)
    drifted = report.condition("Drifted")
    tested = report.condition("TestSuccess")
    return Evidence(
        ReleaseState.READY,
        message,
        released_before=True,
        source_trouble=trouble,
        drift=_message(drifted) or "drift detected" if drifted.get("status") == "True" else "",
        warnings=_message(tested) or "tests failed" if tested.get("status") == "False" else "",
        look_again_after=wait,
    )


def _source_trouble(report: _Report) -> tuple[str, float | None]:
    """The source's trouble once it has lasted, and until then when it will have."""
    found = _source_failure(report.source)
    if not found:
        return "", None
    age = report.seconds_since(found)
    if age >= report.patience.source_grace:
        return _message(found) or str(found.get("reason")), None
    return "", report.patience.source_grace - age


def _source_failure(source: Manifest | None) -> Mapping[str, Any]:
    for kind, bad in (("FetchFailed", "True"), ("Stalled", "True")):
        found = condition(source, kind)
        if found.get("status") == bad:
            return found
    return {}


def _chart_failure(chart: Manifest | None) -> Mapping[str, Any]:
    for kind in ("FetchFailed", "BuildFailed", "Stalled"):
        found = condition(chart, kind)
        # Waiting for the repository's first artifact is no failure of its own: the repository tells of one.
        if found.get("status") == "True" and found.get("reason") != "NoSourceArtifact":
            return found
    return _NONE


def _unreachable(report: _Report, ready: Mapping[str, Any]) -> Evidence | None:
    """Row 6. A bare SourceNotReady is also what Flux says while the source is being fetched for the first time."""
    failure = _source_failure(report.source) or _chart_failure(report.chart)
    released = _released(report.status)
    if failure:
        return Evidence(ReleaseState.CHART_UNREACHABLE, _message(failure), released_before=released)
    if ready.get("status") != "False" or ready.get("reason") not in ("SourceNotReady", "ArtifactFailed"):
        return None
    age = report.seconds_since(ready)
    if ready["reason"] == "ArtifactFailed" or age >= report.patience.source_wait:
        return Evidence(ReleaseState.CHART_UNREACHABLE, _message(ready), released_before=released)
    return attrs.evolve(_under_way(report, ready), look_again_after=report.patience.source_wait - age)


def _values_missing(report: _Report, ready: Mapping[str, Any]) -> Evidence | None:
    if ready.get("status") != "False" or ready.get("reason") != "ValuesError":
        return None
    return Evidence(ReleaseState.VALUES_MISSING, _message(ready), released_before=_released(report.status))


def _under_way(report: _Report, ready: Mapping[str, Any]) -> Evidence:
    released = _released(report.status)
    reconciling = report.condition("Reconciling")
    # Only what Flux says of the running attempt: an old Ready or failure would be misread as news.
    told = _message(reconciling) if reconciling.get("status") == "True" else ""
    if not told and ready.get("status") == "Unknown":
        told = _message(ready)
    state = ReleaseState.UPGRADING if released else ReleaseState.INSTALLING
    return Evidence(state, told or WAITING, released_before=released)


def _released(status: Mapping[str, Any]) -> bool:
    """Whether any release of it was ever deployed."""
    history = status.get("history")
    if not isinstance(history, list):
        return False
    return any(dig(entry, "status") in ("deployed", "superseded") for entry in history)


def _message(found: Mapping[str, Any]) -> str:
    message = found.get("message")
    return message if isinstance(message, str) else ""


def _same_version(told: Any, wanted: str) -> bool:
    """Equal as semantic versions without build metadata, which Flux replaces by a digest for OCI sources."""
    return isinstance(told, str) and _bare(told) == _bare(wanted)


def _bare(version: str) -> str:
    return version.partition("+")[0].removeprefix("v")


def _seconds(moment: Any, now: datetime) -> float:
    """Seconds since an RFC 3339 time; infinitely long for one that is missing or cannot be read."""
    if not isinstance(moment, str):
        return float("inf")
    try:
        return (now - datetime.fromisoformat(moment)).total_seconds()
    except (ValueError, TypeError):
        return float("inf")
