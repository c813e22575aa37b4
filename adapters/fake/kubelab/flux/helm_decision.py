"""The state of a Helm release in comparison with its HelmRelease, and the decision about the next Helm action.

It follows helm-controller 1.6.1: `DetermineReleaseState` in `internal/reconcile/state.go`, and `actionForState` in
`internal/reconcile/atomic_release.go`. Comments name files below `internal`.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeAlias

import attrs

from kubelab.flux.behaviour import Action
from kubelab.flux.conditions import DRIFTED, RELEASED, REMEDIATED, condition, status_of
from kubelab.flux.helm_spec import (
    HelmRequest,
    active_remediation,
    active_retry_interval,
    remediation_for,
    summarize_release,
)
from kubelab.flux.questions import FindDrift
from kubelab.flux.release_history import full_name, has_failed_test, newest, previous, tested, truncate, versioned_chart
from kubelab.flux.storage import HelmReleaseStatus, StoredRelease, last_release
from kubelab.simulation.effects import PassStep


class Next(StrEnum):
    """The actions that helm-controller can take next in a pass, named as in Flux's messages."""

    INSTALL = "install"
    UPGRADE = "upgrade"
    TEST = "test"
    ROLLBACK = "rollback"
    UNINSTALL = "uninstall"
    UNLOCK = "unlock"
    CORRECT_DRIFT = "correct cluster drift"


@attrs.frozen
class NoAction:
    """The decision that the release needs no further action."""


@attrs.frozen
class Stop:
    """The decision that no action may be tried, although the release is not in the desired state.

    The HelmRelease then stalls, or fails if the state of the release is unknown (`is_unknown`).
    """

    reason: str
    message: str
    is_unknown: bool = False


_Choice: TypeAlias = Next | NoAction | Stop


def next_action(request: HelmRequest, *, forced: bool) -> PassStep[_Choice]:
    """Return the next Helm action for the release of `request`, or NoAction or Stop if none may follow.

    `request` has the HelmRelease with its chart and values; the state of the release in Helm's storage is compared with
    it. With `forced`, exhausted retries are ignored, and a release in the desired state is upgraded again. Like
    helm-controller, the function also changes some conditions and the history while it decides.
    """
    last = last_release((yield from request.load()))
    # A helm-controller that stops during an action leaves a pending release, which the next one unlocks (docs/flux.md).
    if last is not None and last.status.pending:
        return Next.UNLOCK
    if last is None or last.status is HelmReleaseStatus.UNINSTALLED:
        return _unless_exhausted(request, Action.INSTALL, Next.INSTALL, forced)
    if not request.history or not _is_recorded(request.history[0], last):
        # The release is not the one of the history, so Flux takes it over; two HelmReleases of one release do so in
        # turn (docs/flux.md).
        request.set_history([])
        return Next.UPGRADE
    match last.status:
        case HelmReleaseStatus.FAILED:
            return _failed(request, forced)
        # helm-controller compares the values' digest, not the generation: a new generation alone releases nothing
        # (action/verify.go, VerifyRelease).
        case HelmReleaseStatus.DEPLOYED if _differs(request, last):
            return _unless_exhausted(request, Action.UPGRADE, Next.UPGRADE, forced)
        case HelmReleaseStatus.DEPLOYED:
            return (yield from _of_deployed(request, forced))
        case status:
            # The words of the default case in DetermineReleaseState; `uninstalling` is such a status, left by a failed
            # uninstall.
            why = f"unable to determine state for release with status '{status}'"
            return Stop("StateError", f"Could not determine release state: {why}", is_unknown=True)


def _is_recorded(entry: Mapping[str, Any], release: StoredRelease) -> bool:
    # Helm's record has no OCI digest, so the one of the entry is used (action/verify.go, VerifyReleaseObject). Anything
    # else that differs, such as a `helm rollback` by hand, makes the release unmanaged.
    return bool(entry["digest"] == release.digest(entry.get("ociDigest", "")))


def _differs(request: HelmRequest, release: StoredRelease) -> bool:
    desired = (request.chart.name, request.chart.version, request.values.digest)
    return desired != (release.chart_name, release.chart_version, release.config_digest)


def _of_deployed(request: HelmRequest, forced: bool) -> PassStep[_Choice]:
    entry, spec = request.history[0], request.spec
    # The history decides, not Helm's record, since users may run `helm test` by hand; drift is looked for last.
    if spec.tests_enabled:
        if not tested(entry):
            _forget_remediation(request)
            return Next.TEST
        remediation = active_remediation(spec, request.draft.status)
        if remediation and not remediation.ignore_test_failures and has_failed_test(entry):
            return _failed(request, forced)
    if spec.drift_mode in ("enabled", "warn"):
        drift = [name for name in (yield from FindDrift(request.draft.ref).ask()) if not spec.ignores_drift(name)]
        if drift:
            return _drifted(request, drift)
    return _in_sync(request, forced)


def _unless_exhausted(request: HelmRequest, action: Action, following: Next, forced: bool) -> _Choice:
    if remediation_for(request.spec, action).exhausted(request.draft.status) and not forced:
        return _exhausted(request)
    return following


def _exhausted(request: HelmRequest) -> Stop:
    status = request.draft.status
    remediation = active_remediation(request.spec, status)
    count = remediation.failures(status) if remediation else 0
    # The message counts the failures of the last attempted action, even if the retries of the other one are exhausted
    # (atomic_release.go, Reconcile).
    return Stop("RetriesExceeded", f"Failed to {status.get('lastAttemptedReleaseAction')} after {count} attempt(s)")


def _in_sync(request: HelmRequest, forced: bool) -> _Choice:
    draft, spec = request.draft, request.spec
    if active_retry_interval(spec, draft.status) is not None:
        request.set_history(newest(request.history))
    else:
        remediation = active_remediation(spec, draft.status)
        # The entry before the present one is kept: a test may fail later, and the rollback needs a target.
        ignore = remediation.ignore_test_failures if remediation else spec.ignores_test_failures
        request.set_history(truncate(request.history, ignore_tests=ignore))
    if forced:
        return Next.UPGRADE
    _forget_remediation(request)
    _confirm_release(request)
    if spec.drift_mode in ("enabled", "warn"):
        draft.mark(DRIFTED, "False", "NoDriftDetected", "No drift detected against the cluster state")
    return NoAction()


def _forget_remediation(request: HelmRequest) -> None:
    """Replace the condition Remediated=True by Released=True.

    The function is called if the release to which Flux rolled back is the release that is desired now.
    """
    draft = request.draft
    if status_of(draft.object, REMEDIATED) == "True":
        draft.unmark(REMEDIATED)
        draft.mark(RELEASED, "True", "UpgradeSucceeded", _success(request, "upgrade"))


def _confirm_release(request: HelmRequest) -> None:
    """Set Released=True if this condition still reports a failed action.

    The function is called if the release is as requested now.
    """
    draft = request.draft
    reason = (condition(draft.object, RELEASED) or {}).get("reason")
    for action in ("install", "upgrade"):
        if reason == f"{action.capitalize()}Failed":
            draft.mark(RELEASED, "True", f"{action.capitalize()}Succeeded", _success(request, action))
            summarize_release(draft, request.spec)


def _success(request: HelmRequest, action: str) -> str:
    entry = request.history[0]
    return f"Helm {action} succeeded for release {full_name(entry)} with chart {versioned_chart(entry)}"


def _drifted(request: HelmRequest, drift: Sequence[str]) -> _Choice:
    lines = "\n".join(f"{name.partition('#')[0]} changed (0 additions, 1 changes, 0 removals)" for name in drift)
    release = full_name(request.history[0])
    text = f"Cluster state of release {release} has drifted from the desired state:\n{lines}"
    request.draft.report(DRIFTED, "True", "DriftDetected", text)
    # In mode `warn` the pass ends as without drift: Ready stays True, and only Drifted and the Event tell of it.
    return Next.CORRECT_DRIFT if request.spec.drift_mode == "enabled" else NoAction()


def _failed(request: HelmRequest, forced: bool) -> _Choice:
    status = request.draft.status
    remediation = active_remediation(request.spec, status)
    if active_retry_interval(request.spec, status) is not None:
        request.set_history(newest(request.history))
        return Next.UPGRADE
    # No counted failure means that generation, chart or values have changed since then: they deserve an attempt.
    if remediation is None or remediation.failures(status) <= 0 or forced:
        return Next.UPGRADE
    # `retries: 0` alone means no rollback; the default for upgrades is true only with retries
    # (api/v2/helmrelease_types.go, UpgradeRemediation.MustRemediateLastFailure).
    if remediation.exhausted(status) and not remediation.remediate_last_failure:
        return _exhausted(request)
    ignore = remediation.ignore_test_failures
    request.set_history(truncate(request.history, ignore_tests=ignore))
    if remediation.strategy == "uninstall":
        return Next.UNINSTALL
    if previous(request.history, ignore_tests=ignore) is None:
        text = "missing target release for rollback: cannot remediate failed release"
        # The end of an upgrade whose controller was restarted: the history was cleared when it unlocked the release
        # (docs/flux.md).
        return Stop("MissingRollbackTarget", f"Failed to perform remediation: {text}")
    return Next.ROLLBACK
