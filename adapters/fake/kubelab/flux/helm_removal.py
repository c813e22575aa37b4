"""The removal of a release, and the unlocking of one that a crash left locked."""

import attrs

from kubelab.flux.behaviour import Action, ActionAnswer, HelmTarget
from kubelab.flux.conditions import RELEASED, REMEDIATED
from kubelab.flux.draft import Draft
from kubelab.flux.helm_actions import count_failure
from kubelab.flux.helm_request import HelmRequest, summarize_release
from kubelab.flux.helm_spec import HelmSpec
from kubelab.flux.history import Snapshot, full_name, observe, update, versioned_chart
from kubelab.flux.questions import StoreReleases, decide, load_releases
from kubelab.flux.storage import HelmReleaseStatus, StoredRelease, last_release, replace
from kubelab.simulation.effects import PassStep


def uninstall(draft: Draft, spec: HelmSpec) -> PassStep[str]:
    """Uninstall the release that `status.history` records; return the error if that failed, else empty.

    This uses the status alone, since the spec may name another release by now. A missing release counts as uninstalled;
    without a history there is nothing to uninstall.
    """
    history: list[Snapshot] = list(draft.status.get("history") or ())
    if not history:
        summarize_release(draft, spec)
        return ""
    releases = yield from load_releases(draft.status["storageNamespace"], history[0]["name"], draft.ref)
    if not releases:
        text = f"Release {full_name(history[0])} was not found, assuming it is uninstalled"
        draft.mark(RELEASED, "False", "UninstallSucceeded", text)
        summarize_release(draft, spec)
        return ""
    answer = yield from _remove(draft, spec, releases, "uninstall")
    entry = draft.status["history"][0]
    what = f"for release {full_name(entry)} with chart {versioned_chart(entry)}"
    if answer.error:
        draft.status["failures"] = int(draft.status.get("failures", 0)) + 1
        draft.report(RELEASED, "False", "UninstallFailed", f"Helm uninstall failed {what}: {answer.error}")
    else:
        draft.status.pop("inventory", None)
        draft.report(RELEASED, "False", "UninstallSucceeded", f"Helm uninstall succeeded {what}")
    summarize_release(draft, spec)
    return answer.error


def uninstall_remediation(request: HelmRequest) -> PassStep[str]:
    """Uninstall a failed release, so that the next attempt installs it again. Ready still reports the failure."""
    draft = request.draft
    answer = yield from _remove(draft, request.spec, (yield from request.load()), "uninstall-remediation")
    entry = request.history[0]
    what = f"Helm uninstall remediation for release {full_name(entry)} with chart {versioned_chart(entry)}"
    if answer.error:
        count_failure(request)
        draft.report(REMEDIATED, "False", "UninstallFailed", f"{what} failed: {answer.error}")
    else:
        draft.report(REMEDIATED, "True", "UninstallSucceeded", f"{what} succeeded")
    return "" if answer.timed_out else answer.error


def _remove(draft: Draft, spec: HelmSpec, releases: tuple[StoredRelease, ...], action: str) -> PassStep[ActionAnswer]:
    newest, current = releases[-1], draft.status["history"][0]
    target = HelmTarget(newest.namespace, newest.name, newest.chart_name, newest.chart_version.partition("+")[0])
    answer = yield from decide(Action.UNINSTALL, target, spec.timeout(Action.UNINSTALL))
    if answer.error and not answer.timed_out:
        yield from draft.sleep(answer.seconds)
        return answer
    place = (draft.status["storageNamespace"], newest.name)
    leaving = newest.with_status(HelmReleaseStatus.UNINSTALLING, "Deletion in progress (or silently failed)", draft.now)
    yield StoreReleases(*place, replace(releases, leaving), draft.ref)
    draft.status["history"] = update(draft.status["history"], leaving, action)
    yield from draft.sleep(answer.seconds)
    left: tuple[StoredRelease, ...] = ()
    if spec.keep_history:
        # Only a kept record ever has the status `uninstalled`; the last status of a purged one is `uninstalling`.
        gone = leaving.with_status(HelmReleaseStatus.UNINSTALLED, "Uninstallation complete")
        left = replace(releases, gone)
        draft.status["history"] = update(draft.status["history"], gone, action)
    yield StoreReleases(*place, left, draft.ref)
    if not left:
        for purged in releases[:-1]:
            draft.status["history"] = update(draft.status["history"], purged, action)
    return answer if newest.version == current["version"] else _mismatch(answer, newest, current)


def _mismatch(answer: ActionAnswer, newest: StoredRelease, current: Snapshot) -> ActionAnswer:
    """Return the answer for a removed release that another HelmRelease had made meanwhile."""
    taken = f"{newest.namespace}/{newest.name}.v{newest.version}"
    text = f"release mismatch: uninstalled release {taken} != current release {full_name(current)}"
    return attrs.evolve(answer, error=text)


def unlock(request: HelmRequest) -> PassStep[str]:
    """Mark a release as failed that a crash of helm-controller left pending."""
    newest = last_release((yield from request.load()))
    if newest is None or not newest.status.pending:
        return ""
    freed = newest.with_status(HelmReleaseStatus.FAILED, f"Release unlocked from stale '{newest.status}' state")
    yield from request.store(freed)
    known = {entry["version"]: entry for entry in request.history}
    if freed.version in known:
        request.set_history(observe(request.history, freed, known[freed.version].get("action", "")))
    what = f"{freed.namespace}/{freed.name}.v{freed.version} with chart {freed.chart_name}@{freed.chart_version}"
    text = f"Unlocked Helm release {what} in {newest.status} state"
    request.draft.report(RELEASED, "False", "PendingRelease", text)
    summarize_release(request.draft, request.spec)
    return ""
