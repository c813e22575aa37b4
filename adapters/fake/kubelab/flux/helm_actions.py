"""The Helm actions of helm-controller: their effects on Helm's storage, the history and the conditions.

Comments name files of helm-controller 1.6.1, below `internal`. With the prefix "Helm" they name files of Helm 4.2.2,
below `pkg`.
"""

from datetime import datetime
from typing import Final

import attrs

from kubelab.flux.behaviour import Action, ActionAnswer, HelmTarget
from kubelab.flux.conditions import RELEASED, REMEDIATED, TEST_SUCCESS
from kubelab.flux.draft import Draft
from kubelab.flux.helm_spec import (
    FAILURE_COUNTERS,
    HelmRequest,
    HelmSpec,
    active_retry_interval,
    remediation_for,
    summarize_release,
)
from kubelab.flux.questions import Decide, LoadReleases, StoreReleases
from kubelab.flux.release_history import Snapshot, full_name, observe, previous, record, update, versioned_chart
from kubelab.flux.storage import HelmReleaseStatus, StoredRelease, last_release, prune, replace
from kubelab.simulation.effects import PassStep
from purekube.apimachinery.durations import go_duration
from purekube.apimachinery.manifest import get_path

_HOOKS_FAILED: Final = "hooks failed: "


def install(request: HelmRequest) -> PassStep[str]:
    """Install the chart of `request`, and clear the history of any earlier release.

    Return Helm's error if Helm has stored no release. Otherwise return an empty string, even for a failed release,
    because the status reports that failure.
    """
    # So that no later rollback returns to a release of before this install (reconcile/install.go, Reconcile).
    request.set_history([])
    return (yield from _release(request, Action.INSTALL, None))


def upgrade(request: HelmRequest) -> PassStep[str]:
    """Upgrade the Helm release of `request` to the chart and the values in `request`.

    Return Helm's error if Helm has stored no release. Otherwise return an empty string, even for a failed release,
    because the status reports that failure.
    """
    releases = yield from request.load()
    return (yield from _release(request, Action.UPGRADE, _base(releases)))


def _base(releases: tuple[StoredRelease, ...]) -> StoredRelease | None:
    # Helm compares with the last *deployed* revision, not with the failed one after it; only without any it takes the
    # newest (Helm: action/upgrade.go, prepareUpgrade).
    deployed = [item for item in releases if item.status is HelmReleaseStatus.DEPLOYED]
    return last_release(deployed) or last_release(releases)


def _release(request: HelmRequest, action: Action, base: StoredRelease | None) -> PassStep[str]:
    draft = request.draft
    draft.status["lastAttemptedReleaseAction"] = action.value
    draft.unmark(TEST_SUCCESS)
    draft.unmark(REMEDIATED)
    outcome = yield from Decide(action, request.target, request.spec.timeout(action)).ask()
    started = draft.now
    if outcome.stores_release:
        yield from _perform(request, action, outcome, base)
    else:
        yield from draft.sleep(outcome.seconds)
    draft.status["lastAttemptedReleaseActionDuration"] = go_duration((draft.now - started).total_seconds())
    _conclude(request, action, outcome)
    summarize_release(draft, request.spec)
    return "" if outcome.stores_release else outcome.error


def _perform(request: HelmRequest, action: Action, outcome: ActionAnswer, base: StoredRelease | None) -> PassStep[None]:
    releases = yield from request.load()
    newest = last_release(releases)
    release = _pending(request, action, base, newest.version + 1 if newest else 1)
    release = attrs.evolve(release, hooks=outcome.hooks)
    # Room is made before the new record is written (Helm: storage/storage.go, Create), so maxHistory counts the pending
    # one.
    recent_releases = prune(releases, request.spec.max_history)
    yield from request.store_all(replace(recent_releases, release))
    yield from request.draft.sleep(outcome.seconds)
    changed = _ended(release, action, outcome, base if base in recent_releases else None)
    yield from request.store(*changed)
    # After a failure too: the inventory comes from each record that Helm stores (reconcile/state.go, observeInventory).
    _take_inventory(request)
    request.set_history(record(request.history, *changed, action=action.value, oci_digest=request.chart.oci_digest))


def _pending(request: HelmRequest, action: Action, base: StoredRelease | None, version: int) -> StoredRelease:
    now, install = request.draft.now, action is Action.INSTALL
    return StoredRelease(
        name=request.spec.stored_name,
        namespace=request.spec.release_namespace,
        version=version,
        status=HelmReleaseStatus.PENDING_INSTALL if install else HelmReleaseStatus.PENDING_UPGRADE,
        chart_name=request.chart.name,
        chart_version=request.chart.version,
        config=request.values.inline,
        config_digest=request.values.digest,
        first_deployed=base.first_deployed if base else now,
        last_deployed=now,
        description="Initial install underway" if install else "Preparing upgrade",
    )


def _ended(
    release: StoredRelease, action: Action, outcome: ActionAnswer, base: StoredRelease | None
) -> tuple[StoredRelease, ...]:
    if outcome.error:
        # Helm: action/install.go and action/upgrade.go, failRelease.
        verb = "Release" if action is Action.INSTALL else "Upgrade"
        text = f'{verb} "{release.name}" failed: {outcome.error}'
        failed = release.with_status(HelmReleaseStatus.FAILED, text)
        # Helm writes the former release again if objects were refused or not ready, but not if a hook failed (Helm:
        # action/upgrade.go, releasingUpgrade). The observer thus sees it, and its entry in the history is renewed.
        return (failed,) if base is None or _HOOKS_FAILED in outcome.error else (failed, base)
    done = release.with_status(HelmReleaseStatus.DEPLOYED, f"{action.value.capitalize()} complete")
    return (done,) if base is None else (done, base.with_status(HelmReleaseStatus.SUPERSEDED))


def _take_inventory(request: HelmRequest) -> None:
    name = f"{request.spec.release_namespace}_{request.spec.stored_name}"
    request.draft.status["inventory"] = {
        "entries": [{"id": f"{name}__Service", "v": "v1"}, {"id": f"{name}_apps_Deployment", "v": "v1"}]
    }


def count_failure(draft: Draft) -> None:
    """Increment `status.failures` of the HelmRelease, which counts its failed actions of every type."""
    draft.status["failures"] = int(draft.status.get("failures", 0)) + 1


def _conclude(request: HelmRequest, action: Action, outcome: ActionAnswer) -> None:
    draft, name = request.draft, action.value.capitalize()
    if not outcome.error:
        entry = request.history[0]
        # A success names release, revision and stored chart version; a failure names what was asked, as there may be no
        # record.
        text = f"Helm {action.value} succeeded for release {full_name(entry)} with chart {versioned_chart(entry)}"
        draft.report(RELEASED, "True", f"{name}Succeeded", text)
        if active_retry_interval(request.spec, draft.status) is not None:
            # Only with RetryOnFailure: otherwise a failed test after the success still counts against the retries
            # (reconcile/upgrade.go, Upgrade.success).
            for counter in FAILURE_COUNTERS:
                draft.status.pop(counter, None)
        _await_tests(request)
        return
    count_failure(request.draft)
    place = f"{request.spec.release_namespace}/{request.spec.release_name}"
    chart = f"{request.chart.name}@{request.chart.version}"
    text = f"Helm {action.value} failed for release {place} with chart {chart}: {outcome.error}"
    draft.report(RELEASED, "False", f"{name}Failed", text)
    if outcome.stores_release:
        # Errors in rendering store no release and are not counted, so they never stall (reconcile/install.go and
        # upgrade.go, Reconcile).
        counter = remediation_for(request.spec, action).counter
        draft.status[counter] = int(draft.status.get(counter, 0)) + 1


def _await_tests(request: HelmRequest) -> None:
    if request.spec.tests_enabled:
        entry = request.history[0]
        text = f"Helm release {full_name(entry)} with chart {versioned_chart(entry)} is awaiting tests"
        request.draft.mark(TEST_SUCCESS, "Unknown", "AwaitingTests", text)


def run_test(request: HelmRequest) -> PassStep[str]:
    """Run the Helm tests of the request's chart. A failure counts against the retries unless the spec ignores it.

    Always return an empty string: a failure is reported only in the status.
    """
    draft, entry = request.draft, request.history[0]
    outcome = yield from Decide(Action.TEST, request.target, request.spec.timeout(Action.TEST)).ask()
    yield from draft.sleep(outcome.seconds)
    what = f"release {full_name(entry)} with chart {versioned_chart(entry)}"
    # An empty map means that the chart has no tests, a missing one that they have not run (api/v2/snapshot_types.go,
    # HasBeenTested).
    hooks = {}
    if outcome.error:
        times = {"lastStarted": draft.timestamp(), "lastCompleted": draft.timestamp()}
        hooks = {f"{entry['name']}-test": {**times, "phase": "Failed"}}
    request.set_history([{**entry, "testHooks": hooks}, *request.history[1:]])
    if outcome.error:
        count_failure(request.draft)
        draft.report(TEST_SUCCESS, "False", "TestFailed", f"Helm test failed for {what}: {outcome.error}")
        _count_failed_test(request)
    else:
        draft.report(TEST_SUCCESS, "True", "TestSucceeded", f"Helm test succeeded for {what}: no test hooks")
    summarize_release(draft, request.spec)
    return ""


def _count_failed_test(request: HelmRequest) -> None:
    status = request.draft.status
    remediation = remediation_for(request.spec, Action(status["lastAttemptedReleaseAction"]))
    if not remediation.ignore_test_failures:
        status[remediation.counter] = remediation.failures(status) + 1


def rollback(request: HelmRequest) -> PassStep[str]:
    """Roll the Helm release of `request` back to its previous successful revision, as a new revision.

    A successful rollback sets Remediated=True and Ready=False. Always return an empty string: a failure is reported
    only in the status.
    """
    draft, spec = request.draft, request.spec
    target = previous(request.history, ignore_tests=remediation_for(spec, Action.UPGRADE).ignore_test_failures)
    if target is None:
        raise AssertionError("the decision to roll back checked its target")
    outcome = yield from Decide(Action.ROLLBACK, request.target, spec.timeout(Action.ROLLBACK)).ask()
    releases = yield from request.load()
    fresh = _restored(releases, target["version"], draft.now)
    yield from request.store_all(replace(prune(releases, spec.max_history), fresh))
    # The new entry has no OCI digest until the next release, although the chart came from OCI (rollback_remediation.go,
    # observeRollback).
    request.set_history(observe(request.history, fresh, ""))
    yield from draft.sleep(outcome.seconds)
    changed = _rolled_back(releases, fresh, outcome)
    yield from request.store(*changed)
    for item in changed:
        request.set_history(observe(request.history, item, Action.ROLLBACK.value))
    _tell_rollback(request, outcome, f"{full_name(target)} with chart {versioned_chart(target)}")
    summarize_release(draft, spec)
    return ""


def _restored(releases: tuple[StoredRelease, ...], version: int, now: datetime) -> StoredRelease:
    current, goal = releases[-1], next(item for item in releases if item.version == version)
    return attrs.evolve(
        goal,
        version=current.version + 1,
        status=HelmReleaseStatus.PENDING_ROLLBACK,
        # All else is of the goal, but these times are not (Helm: action/rollback.go, prepareRollback).
        first_deployed=current.first_deployed,
        last_deployed=now,
        description=f"Rollback to {version}",
    )


def _rolled_back(
    releases: tuple[StoredRelease, ...], fresh: StoredRelease, outcome: ActionAnswer
) -> tuple[StoredRelease, ...]:
    if outcome.error:
        text = f'Release "{fresh.name}" failed: {outcome.error}'
        # The failed upgrade is written again and stays failed, if the objects were not ready in time (Helm:
        # action/rollback.go, performRollback).
        return (releases[-1], fresh.with_status(HelmReleaseStatus.FAILED, text))
    # All deployed revisions, not only the newest: earlier failures may have left several (helm#2941).
    old = (item for item in releases if item.status is HelmReleaseStatus.DEPLOYED)
    return (
        *(item.with_status(HelmReleaseStatus.SUPERSEDED) for item in old),
        fresh.with_status(HelmReleaseStatus.DEPLOYED),
    )


def _tell_rollback(request: HelmRequest, outcome: ActionAnswer, what: str) -> None:
    text = f"Helm rollback to previous release {what}"
    if outcome.error:
        count_failure(request.draft)
        # False, although Flux's page on HelmReleases says that Remediated is True with this reason
        # (reconcile/rollback_remediation.go, failure).
        request.draft.report(REMEDIATED, "False", "RollbackFailed", f"{text} failed: {outcome.error}")
    else:
        request.draft.report(REMEDIATED, "True", "RollbackSucceeded", f"{text} succeeded")


def uninstall(draft: Draft, spec: HelmSpec) -> PassStep[str]:
    """Uninstall the release that the HelmRelease in `draft` records in `status.history`.

    Return Helm's error, or an empty string for a success. `spec` has the HelmRelease's settings, such as the timeout.
    It is not used to find the release, because a changed spec may name another one. A missing release counts as
    uninstalled; without a history there is nothing to uninstall.
    """
    history: list[Snapshot] = list(draft.status.get("history") or ())
    if not history:
        summarize_release(draft, spec)
        return ""
    releases = yield from LoadReleases(draft.status["storageNamespace"], history[0]["name"], draft.ref).ask()
    if not releases:
        # Another client has uninstalled it, or deleted Helm's Secrets: the objects of the latter stay (docs/flux.md).
        text = f"Release {full_name(history[0])} was not found, assuming it is uninstalled"
        draft.mark(RELEASED, "False", "UninstallSucceeded", text)
        summarize_release(draft, spec)
        return ""
    answer = yield from _remove(draft, spec, releases, "uninstall")
    entry = draft.status["history"][0]
    what = f"for release {full_name(entry)} with chart {versioned_chart(entry)}"
    if answer.error:
        count_failure(draft)
        draft.report(RELEASED, "False", "UninstallFailed", f"Helm uninstall failed {what}: {answer.error}")
    else:
        draft.status.pop("inventory", None)
        draft.report(RELEASED, "False", "UninstallSucceeded", f"Helm uninstall succeeded {what}")
    summarize_release(draft, spec)
    return answer.error


def uninstall_remediation(request: HelmRequest) -> PassStep[str]:
    """Uninstall the failed release of `request`, so that the next attempt installs it again.

    Ready=False still reports the failure. Return Helm's error, or an empty string for a success and for a timeout.
    """
    draft = request.draft
    answer = yield from _remove(draft, request.spec, (yield from request.load()), "uninstall-remediation")
    entry = request.history[0]
    what = f"Helm uninstall remediation for release {full_name(entry)} with chart {versioned_chart(entry)}"
    if answer.error:
        count_failure(request.draft)
        draft.report(REMEDIATED, "False", "UninstallFailed", f"{what} failed: {answer.error}")
    else:
        draft.report(REMEDIATED, "True", "UninstallSucceeded", f"{what} succeeded")
    # There is no summary here, contrary to all other actions: Ready keeps the failure that led to the remediation.
    # After a timeout the record has changed, which counts as a remediation (reconcile/uninstall_remediation.go).
    return "" if answer.timed_out else answer.error


def _remove(draft: Draft, spec: HelmSpec, releases: tuple[StoredRelease, ...], action: str) -> PassStep[ActionAnswer]:
    current = draft.status["history"][0]
    if not releases:
        return ActionAnswer(f"uninstall: Release not loaded: {current['name']}: release: not found", 0.0)
    newest = releases[-1]
    target = HelmTarget(newest.namespace, newest.name, newest.chart_name, newest.chart_version.partition("+")[0])
    answer = yield from Decide(Action.UNINSTALL, target, spec.timeout(Action.UNINSTALL)).ask()
    if answer.error and not answer.timed_out:
        yield from draft.sleep(answer.seconds)
        return answer
    place = (draft.status["storageNamespace"], newest.name)
    leaving = newest.with_status(HelmReleaseStatus.UNINSTALLING, "Deletion in progress (or silently failed)", draft.now)
    yield StoreReleases(*place, replace(releases, leaving), draft.ref)
    draft.status["history"] = update(draft.status["history"], leaving, action)
    yield from draft.sleep(answer.seconds)
    left: tuple[StoredRelease, ...] = ()
    if get_path(spec.raw, "uninstall", "keepHistory"):
        # Only a kept record ever has the status `uninstalled`; the last status of a purged one is `uninstalling` (Helm:
        # action/uninstall.go, Run).
        gone = leaving.with_status(HelmReleaseStatus.UNINSTALLED, "Uninstallation complete")
        left = replace(releases, gone)
        draft.status["history"] = update(draft.status["history"], gone, action)
    yield StoreReleases(*place, left, draft.ref)
    if not left:
        # Each purged record is observed, so all entries of the history name the uninstall (storage/observer.go,
        # Delete).
        for purged in releases[:-1]:
            draft.status["history"] = update(draft.status["history"], purged, action)
    return answer if newest.version == current["version"] else _mismatch(answer, newest, current)


def _mismatch(answer: ActionAnswer, newest: StoredRelease, current: Snapshot) -> ActionAnswer:
    """Return `answer`, the outcome of an uninstall, with the error that Helm has uninstalled the wrong release.

    Helm uninstalled `newest`, the newest release in its storage. The HelmRelease's history names an older release,
    `current`, because another HelmRelease has created `newest` since then.
    """
    taken = f"{newest.namespace}/{newest.name}.v{newest.version}"
    text = f"release mismatch: uninstalled release {taken} != current release {full_name(current)}"
    return attrs.evolve(answer, error=text)


def unlock(request: HelmRequest) -> PassStep[str]:
    """Set the status of the request's Helm release to failed, if a crash of helm-controller left it pending.

    Always return an empty string, since this action cannot fail.
    """
    newest = last_release((yield from request.load()))
    if newest is None or not newest.status.pending:
        return ""
    freed = newest.with_status(HelmReleaseStatus.FAILED, f"Release unlocked from stale '{newest.status}' state")
    yield from request.store(freed)
    known = {entry["version"]: entry for entry in request.history}
    # A revision without an entry gets none, unlike in a rollback. A killed controller has recorded none, so the release
    # is unmanaged next and its history is cleared (reconcile/unlock.go, observeUnlock; docs/flux.md).
    if freed.version in known:
        request.set_history(observe(request.history, freed, known[freed.version].get("action", "")))
    what = f"{freed.namespace}/{freed.name}.v{freed.version} with chart {freed.chart_name}@{freed.chart_version}"
    text = f"Unlocked Helm release {what} in {newest.status} state"
    request.draft.report(RELEASED, "False", "PendingRelease", text)
    summarize_release(request.draft, request.spec)
    return ""
