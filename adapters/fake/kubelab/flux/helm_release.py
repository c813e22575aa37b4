"""One reconciliation of a Helm release: Helm actions follow each other until it is as desired or an action must wait.

A pass runs each type of action at most once, and ends after a remediation (`cleanReleaseStrategy` in helm-controller
1.6.1, `internal/reconcile/atomic_release.go`, whose `Reconcile` this module follows). Therefore a failed upgrade with
`retries: 0` and `remediateLastFailure: true` shows failure, rollback and Stalled in one pass.
"""

from collections.abc import Callable, Mapping
from typing import Final

from kubelab.flux.conditions import READY, RECONCILING, RELEASED, condition, is_ready
from kubelab.flux.helm_actions import install, rollback, run_test, uninstall_remediation, unlock, upgrade
from kubelab.flux.helm_decision import Next, NoAction, Stop, next_action
from kubelab.flux.helm_spec import HelmRequest, active_remediation, active_retry_interval, summarize_release
from kubelab.flux.questions import CorrectDrift, FindDrift
from kubelab.flux.release_history import full_name
from kubelab.simulation.effects import REQUEUE, ControllerResult, PassStep, done, failed, terminal
from purekube.apimachinery.durations import go_duration

_RELEASING: Final = (Next.INSTALL, Next.UPGRADE)
_REMEDIATING: Final = (Next.ROLLBACK, Next.UNINSTALL)


def release(request: HelmRequest, *, forced: bool, ready_stuck_unknown: bool) -> PassStep[ControllerResult]:
    """Run Helm actions until the release is as requested, no action may follow, or an action fails.

    No action may follow in this pass if the state of the release is unknown, if no retries remain, after a remediation,
    or if the next action would be of a type that the pass has run already. The result has the time of the next pass,
    and the error of a failed pass. With `forced`, the first action is taken even if no retries remain. With
    `ready_stuck_unknown` the bug helm-controller#1409 is imitated: after a success Ready stays Unknown.
    """
    performed: set[str] = set()
    while True:
        # The token of a forced release is used up by the first decision, so a retry in the same pass is not forced.
        following = yield from next_action(request, forced=forced and not performed)
        match following:
            case NoAction():
                return _finish(request)
            case Stop():
                return _stop(request, following)
            # helm-controller does each type of action once in a pass, so that a retry is another pass.
            case _ if _ACTIONS[following][0] in performed:
                return _pause(request)
        error = yield from _perform(request, following)
        if error:
            return _retry(request, error)
        if ready_stuck_unknown and following in _RELEASING:
            _lose_released(request)
        if following in _REMEDIATING:
            return _after_remediation(request)
        performed.add(_ACTIONS[following][0])
        yield from request.draft.patch()


def _perform(request: HelmRequest, following: Next) -> PassStep[str]:
    draft = request.draft
    timeout = go_duration(request.spec.timeout(following))
    text = f"Running '{following.value}' action with timeout of {timeout}"
    draft.mark_reconciling("Progressing", text)
    if following in _RELEASING:
        # Only for a release action: a test or a rollback must not hide the failure that Ready reports.
        draft.mark(READY, "Unknown", "Progressing", text)
    yield from draft.patch()
    return (yield from _ACTIONS[following][1](request))


def _correct(request: HelmRequest) -> PassStep[str]:
    # Ready is Unknown for a moment although nothing is installed (docs/flux.md, "A correction of drift";
    # reconcile/correct_cluster_drift.go).
    request.draft.mark(READY, "Unknown", "Progressing", "correcting cluster drift")
    drift = yield from FindDrift(request.draft.ref).ask()
    yield from CorrectDrift(request.draft.ref).ask()
    lines = "\n".join(f"{name.partition('#')[0]} configured" for name in drift)
    release = full_name(request.history[0])
    request.draft.tell("DriftCorrected", f"Cluster state of release {release} has been corrected:\n{lines}")
    return ""


_ACTIONS: Final[Mapping[Next, tuple[str, Callable[[HelmRequest], PassStep[str]]]]] = {
    Next.INSTALL: ("release", install),
    Next.UPGRADE: ("release", upgrade),
    Next.ROLLBACK: ("remediate", rollback),
    Next.UNINSTALL: ("remediate", uninstall_remediation),
    Next.TEST: ("test", run_test),
    Next.UNLOCK: ("unlock", unlock),
    Next.CORRECT_DRIFT: ("drift", _correct),
}
"""The function of each action, with its group: a pass performs at most one action of each group."""


def _finish(request: HelmRequest) -> ControllerResult:
    request.draft.unmark(RECONCILING)
    summarize_release(request.draft, request.spec)
    return done(request.spec.interval)


def _stop(request: HelmRequest, stop: Stop) -> ControllerResult:
    if stop.is_unknown:
        request.draft.mark(READY, "False", stop.reason, stop.message)
        return failed(stop.message)
    request.draft.mark_stalled(stop.reason, stop.message)
    return terminal(stop.message)


def _retry_later(request: HelmRequest) -> ControllerResult | None:
    seconds = active_retry_interval(request.spec, request.draft.status)
    if seconds is None:
        return None
    # The retry is no error to the queue: its delay does not grow, and observedGeneration advances in spite of the
    # failure (helmrelease_controller.go, ErrRetryAfterInterval).
    request.draft.mark_reconciling("ProgressingWithRetry", f"retrying after {go_duration(seconds)}")
    return done(seconds)


def _retry(request: HelmRequest, error: str) -> ControllerResult:
    if (later := _retry_later(request)) is not None:
        return later
    if is_ready(request.draft.object):
        # Only a Ready=True that is left over becomes this error: otherwise Ready has the action's own failure.
        request.draft.mark(READY, "False", "ReconcileError", error)
    return failed(error)


def _go_on(request: HelmRequest) -> ControllerResult:
    ready = condition(request.draft.object, READY) or {}
    request.draft.mark_reconciling("ProgressingWithRetry", str(ready.get("message", "")))
    return REQUEUE


def _pause(request: HelmRequest) -> ControllerResult:
    """Return the result of a pass that must end, because its next Helm action would be one that it has run already."""
    if (later := _retry_later(request)) is not None:
        return later
    remediation = active_remediation(request.spec, request.draft.status)
    if remediation is None or not remediation.exhausted(request.draft.status):
        return _go_on(request)
    request.draft.unmark(RECONCILING)
    return done()


def _after_remediation(request: HelmRequest) -> ControllerResult:
    if (later := _retry_later(request)) is not None:
        return later
    draft = request.draft
    remediation = active_remediation(request.spec, draft.status)
    # An uninstall after a failed upgrade leaves nothing, so an install follows even without retries
    # (IsUninstallAfterUpgrade).
    uninstalls_upgrades = draft.status.get("lastAttemptedReleaseAction") == "upgrade" and (
        remediation is not None and remediation.strategy == "uninstall"
    )
    if remediation is None or not remediation.exhausted(draft.status) or uninstalls_upgrades:
        return _go_on(request)
    action, count = draft.status["lastAttemptedReleaseAction"], remediation.failures(draft.status)
    # With remediateLastFailure the rollback and Stalled arrive in one pass, as measured on helm-controller.
    draft.mark_stalled("RetriesExceeded", f"Failed to {action} after {count} attempt(s)")
    return terminal("exceeded maximum retries")


def _lose_released(request: HelmRequest) -> None:
    """Imitate helm-controller#1409: remove the condition Released=True, and set Ready=Unknown.

    Afterwards only the history shows that the action succeeded.
    """
    draft = request.draft
    if (condition(draft.object, RELEASED) or {}).get("status") == "True":
        draft.unmark(RELEASED)
        action = draft.status["lastAttemptedReleaseAction"]
        timeout = go_duration(request.spec.timeout(action))
        draft.mark(READY, "Unknown", "Progressing", f"Running '{action}' action with timeout of {timeout}")
