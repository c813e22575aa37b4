"""REC-5: what Flux reports, and what it means; a row of the table, a test. First match wins."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import get_path, ref_of
from purekube.apimachinery.resources import HELM_CHART
from tests.support.instance_worlds import (
    CONTEXT,
    DIGEST,
    NAMESPACE,
    NOW,
    OLD_DIGEST,
    RELEASE,
    Scene,
    applied,
    attempted,
    conditions_of,
    decide,
    deployed,
    fetched,
    flux_condition,
    history,
    instance_manifest,
    message_of,
    scene,
    with_meta,
    written,
)
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import IDEMPOTENCY_KEY, RETRY
from vworkspace_core.instances.context import InstanceObserved
from vworkspace_core.overview.summary import OverviewState, summary_of

CHART = f"nextcloud@6.6.0+{DIGEST[7:19]}"
UPGRADE_FAILED = f"Helm upgrade failed for release org-myteam/nextcloud with chart {CHART}: boom"
TRUE, FALSE = "True", "False"


def failed_upgrade(**more: Any) -> dict[str, Any]:
    conditions = [
        flux_condition("Ready", FALSE, "UpgradeFailed", UPGRADE_FAILED),
        flux_condition("Released", FALSE, "UpgradeFailed", UPGRADE_FAILED),
    ]
    old = history("6.5.0", OLD_DIGEST)
    return attempted(conditions, upgradeFailures=1, failures=1, history=[history(status="failed"), old], **more)


def test_row_1_an_absent_release_is_applied_and_said_to_be_installing() -> None:
    decision = decide(instance_manifest(), InstanceObserved(NAMESPACE))

    assert [apply.kind.kind for apply in decision.applies] == ["OCIRepository", "HelmRelease"]
    assert conditions_of(decision) == {
        "Ready": (FALSE, "Installing"),
        "Reconciling": (TRUE, "HelmReleaseInstalling"),
    }


def test_row_1_a_release_that_flux_has_not_looked_at_is_installing() -> None:
    for status in ({"observedGeneration": -1}, {}):
        decision = scene(status).decide()

        assert not decision.writes_downstream
        assert conditions_of(decision)["Ready"] == (FALSE, "Installing")
        assert decision.row == "REC-5 row 1 Pending"
    assert scene({"observedGeneration": 1}).decide().row == "REC-5 row 8 Installing", "Flux has looked"
    attempted_once = {"observedGeneration": -1, "conditions": [flux_condition("Reconciling", TRUE, "Progressing")]}
    assert scene(attempted_once).decide().row == "REC-5 row 8 Installing"


def test_row_1_a_release_that_somebody_is_deleting_is_waited_for_and_not_applied() -> None:
    world = scene(deployed())
    world.observed.objects[RELEASE]["metadata"]["deletionTimestamp"] = "2026-06-01T11:00:00Z"

    decision = world.decide()

    assert decision.applies == ()
    assert conditions_of(decision)["Reconciling"] == (TRUE, "HelmReleaseInstalling")
    assert "being deleted" in message_of(decision, "Reconciling")


def test_row_2_suspended_by_hand_keeps_ready_and_its_old_observed_generation() -> None:
    ready = scene(deployed())
    settled = with_meta(written(ready.manifest, ready.decide()), generation=2)

    decision = scene(deployed(), manifest=settled, suspended_by_hand=True).decide()

    assert conditions_of(decision)["Suspended"] == (TRUE, "ManuallySuspended")
    assert conditions_of(decision)["Ready"] == (TRUE, "HelmReleaseReady")
    generations = {c["type"]: c["observedGeneration"] for c in get_path(decision.status, "status", "conditions")}
    assert (generations["Ready"], generations["Suspended"]) == (1, 2)


def test_row_2_the_command_resumes_the_release_that_was_suspended() -> None:
    message = message_of(scene(deployed(), suspended_by_hand=True).decide(), "Suspended")
    assert f"kubectl patch {RELEASE.kind.crd_name} {RELEASE.name} " in message


def test_row_2_the_command_resumes_the_chart_that_was_suspended() -> None:
    """`flux suspend source chart`: helm-controller leaves the field of the HelmChart alone."""
    address = {"sourceType": "helm", "url": "https://charts.example", "name": "nextcloud", "version": "6.6.0"}
    world = scene(deployed(), manifest=instance_manifest(chart=address))
    chart = HELM_CHART.manifest("org-myteam-nextcloud", "org-myteam")
    chart["metadata"]["generation"] = 2
    chart |= {"spec": {"chart": "nextcloud", "version": "6.6.0", "suspend": True}, "status": {"observedGeneration": 1}}
    objects = {**world.observed.objects, ref_of(chart, HELM_CHART): chart}
    suspended = attrs.evolve(world, observed=attrs.evolve(world.observed, objects=objects))

    message = message_of(suspended.decide(), "Suspended")

    assert f"kubectl patch {HELM_CHART.crd_name} org-myteam-nextcloud -n org-myteam " in message


def test_row_2_suspended_before_the_first_release_is_not_deployed() -> None:
    decision = scene({"observedGeneration": 1}, manifest=instance_manifest(suspend=True)).decide()

    assert conditions_of(decision)["Ready"] == (FALSE, "NotDeployed")
    assert conditions_of(decision)["Suspended"] == (TRUE, "ManuallySuspended")


def test_row_2_resuming_says_so() -> None:
    suspended = scene(deployed(), suspended_by_hand=True)
    manifest = written(suspended.manifest, suspended.decide())

    decision = scene(deployed(), manifest=manifest).decide()

    assert conditions_of(decision)["Suspended"] == (FALSE, "Active")


@pytest.mark.parametrize(
    ("remediated", "reason"),
    [
        ([], "HelmReleaseFailed"),
        ([flux_condition("Remediated", FALSE, "RollbackSucceeded", "rolled back")], "RolledBack"),
    ],
)
def test_row_3_stalled_and_ours(remediated: list[dict[str, Any]], reason: str) -> None:
    status = failed_upgrade()
    status["conditions"][0] = flux_condition("Ready", FALSE, "RollbackSucceeded", "the rollback's own message")
    status["conditions"] += [flux_condition("Stalled", TRUE, "RetriesExceeded", "gave up"), *remediated]

    decision = scene(status).decide()

    assert conditions_of(decision) == {
        "Ready": (FALSE, reason),
        "Reconciling": (FALSE, "Stable"),
        "Stalled": (TRUE, "RetriesExceeded"),
        "Degraded": (TRUE, "HelmReleaseFailed"),
    }
    assert message_of(decision, "Ready") == UPGRADE_FAILED


def test_row_3_a_failed_upgrade_that_could_not_be_rolled_back_says_so_REC_5() -> None:
    """Recorded in killed_while_it_upgrades: helm-controller was killed, forgot the history, and upgraded again."""
    status = failed_upgrade()
    missing = "Failed to perform remediation: missing target release for rollback: cannot remediate failed release"
    status["conditions"].append(flux_condition("Stalled", TRUE, "MissingRollbackTarget", missing))

    decision = scene(status).decide()

    assert conditions_of(decision)["Stalled"] == (TRUE, "MissingRollbackTarget")
    assert message_of(decision, "Ready") == f"{UPGRADE_FAILED}. Nothing was rolled back: {missing}"


def test_row_3_what_kept_flux_from_any_attempt_is_said_and_not_the_success_before_REC_5() -> None:
    status = deployed()
    status["conditions"].append(
        flux_condition("Stalled", TRUE, "AccessDenied", "cross-namespace references are blocked")
    )

    decision = scene(status).decide()

    assert conditions_of(decision)["Stalled"] == (TRUE, "AccessDenied")
    assert message_of(decision, "Ready") == "cross-namespace references are blocked"


def test_row_3_stalled_from_the_previous_attempt_is_progress() -> None:
    status = failed_upgrade(version="6.5.9", digest=OLD_DIGEST)
    status["conditions"].append(flux_condition("Stalled", TRUE, "RetriesExceeded", "gave up"))

    decision = scene(status).decide()

    assert conditions_of(decision)["Ready"] == (FALSE, "Upgrading")
    assert "Stalled" not in conditions_of(decision)


@pytest.mark.parametrize("retrying", [False, True])
def test_row_4_our_attempt_failed(retrying: bool) -> None:
    status = failed_upgrade()
    if retrying:
        status["conditions"].append(flux_condition("Reconciling", TRUE, "ProgressingWithRetry", "retrying"))

    decision = scene(status).decide()

    assert conditions_of(decision)["Ready"] == (FALSE, "HelmReleaseFailed")
    assert conditions_of(decision)["Degraded"] == (TRUE, "HelmReleaseFailed")
    expected = (TRUE, "HelmReleaseUpgrading") if retrying else (FALSE, "Stable")
    assert conditions_of(decision)["Reconciling"] == expected
    assert message_of(decision, "Degraded") == UPGRADE_FAILED


def test_row_4_the_message_is_redacted_and_cut_at_one_kibibyte() -> None:
    status = failed_upgrade()
    status["conditions"][1]["message"] = "password=hunter2 " + "é" * 2000

    decision = scene(status).decide()

    message = message_of(decision, "Degraded")
    assert "hunter2" not in message
    assert len(message.encode()) <= 1024


def test_row_4_an_old_failure_left_in_place_while_the_new_attempt_runs_is_progress() -> None:
    """Flux records the new attempt first, and leaves Released=False of the old one until the action ends."""
    status = failed_upgrade()
    old = UPGRADE_FAILED.replace("6.6.0", "6.5.9")
    for condition in status["conditions"]:
        condition["message"] = old
    status["conditions"].append(flux_condition("Reconciling", TRUE, "Progressing", "Running 'upgrade' action"))
    status |= {"upgradeFailures": 0, "failures": 0}

    decision = scene(status).decide()

    assert conditions_of(decision)["Ready"] == (FALSE, "Upgrading")
    assert message_of(decision, "Ready") == "Running 'upgrade' action"


def test_row_4_a_failure_of_an_earlier_generation_is_progress() -> None:
    status = failed_upgrade(generation=2)
    world = scene(status)
    world.observed.objects[RELEASE]["metadata"]["generation"] = 2

    assert conditions_of(world.decide())["Ready"] == (FALSE, "Upgrading")


def test_row_8_after_an_edit_the_failure_of_the_former_generation_does_not_explain_the_state() -> None:
    """Somebody mended the values: while Flux upgraded, `kubectl get` and `status` still gave the old error."""
    failed = scene(failed_upgrade())
    edited = with_meta(written(failed.manifest, failed.decide()), generation=2)
    assert summary_of(APPLICATION_INSTANCE, edited).reason == "HelmReleaseFailed", "nobody has looked yet"
    status = failed_upgrade() | {"upgradeFailures": 0, "failures": 0}
    status["conditions"] = [
        flux_condition("Reconciling", TRUE, "Progressing", "Running 'upgrade' action"),
        flux_condition("Released", FALSE, "UpgradeFailed", UPGRADE_FAILED),
    ]

    decision = scene(status, manifest=edited).decide()

    assert conditions_of(decision)["Degraded"] == (TRUE, "HelmReleaseFailed"), "until it is Ready"
    told = get_path(decision.status, "status")
    assert (told["reason"], told["message"]) == ("HelmReleaseUpgrading", "Running 'upgrade' action")
    found = summary_of(APPLICATION_INSTANCE, written(edited, decision))
    assert (found.state, found.message) == (OverviewState.PROGRESSING, "Running 'upgrade' action")


def test_row_4_a_failure_of_this_generation_explains_the_state_while_flux_tries_again() -> None:
    status = failed_upgrade()
    status["conditions"].append(flux_condition("Reconciling", TRUE, "ProgressingWithRetry", "again"))
    world = scene(status)

    decision = world.decide()

    assert get_path(decision.status, "status", "reason") == "HelmReleaseFailed"
    assert summary_of(APPLICATION_INSTANCE, written(world.manifest, decision)).state is OverviewState.DEGRADED


def test_row_5_ready_at_its_generation() -> None:
    decision = scene(deployed()).decide()

    assert conditions_of(decision) == {"Ready": (TRUE, "HelmReleaseReady"), "Reconciling": (FALSE, "Stable")}
    reasons = [event.reason for event in decision.events]
    assert reasons == ["ReleaseReady"], "Ready tells that nothing is under way any more (REC-1)"


def test_row_5_stays_ready_while_flux_reconciles_at_its_interval() -> None:
    status = deployed()
    status["conditions"].append(flux_condition("Reconciling", TRUE, "Progressing", "Fulfilling prerequisites"))

    assert conditions_of(scene(status).decide())["Ready"] == (TRUE, "HelmReleaseReady")


@pytest.mark.parametrize(("age", "degraded"), [(59, False), (61, True)])
def test_row_5_a_source_in_trouble_degrades_a_settled_release_only_when_it_lasts(age: int, degraded: bool) -> None:
    moment = NOW.timestamp() - age
    since = NOW.fromtimestamp(moment, NOW.tzinfo).strftime("%Y-%m-%dT%H:%M:%SZ")
    source = fetched()
    source["conditions"].append(
        flux_condition("FetchFailed", TRUE, "OCIArtifactPullFailed", "503", lastTransitionTime=since)
    )

    decision = scene(deployed(), source).decide()

    assert conditions_of(decision)["Ready"] == (TRUE, "HelmReleaseReady")
    assert conditions_of(decision).get("Degraded") == ((TRUE, "ChartUnreachable") if degraded else None)
    assert decision.requeue.after == (None if degraded else 1.0)


def test_row_5_recovers_when_it_had_been_degraded() -> None:
    failed = scene(failed_upgrade())
    manifest = written(failed.manifest, failed.decide())

    decision = scene(deployed(), manifest=manifest).decide()

    assert conditions_of(decision)["Degraded"] == (FALSE, "Recovered")
    changed = [(t.condition.type, t.condition.reason) for t in decision.transitions]
    assert ("Degraded", "Recovered") in changed


def test_row_5_drift_is_said_beside_ready() -> None:
    status = deployed()
    status["conditions"].append(flux_condition("Drifted", TRUE, "DriftDetected", "Deployment changed"))

    decision = scene(status).decide()

    assert conditions_of(decision)["Ready"] == (TRUE, "HelmReleaseReady")
    assert conditions_of(decision)["Degraded"] == (TRUE, "Drifted")


@pytest.mark.parametrize(
    "report",
    [
        pytest.param(deployed("6.5.0", OLD_DIGEST), id="another version"),
        pytest.param(deployed("6.6.0", OLD_DIGEST), id="same tag, other digest"),
        pytest.param(deployed(lastAttemptedGeneration=0), id="attempt of an earlier generation"),
        pytest.param(deployed(observedGeneration=0), id="not observed to the end"),
        pytest.param(deployed(history=[history(status="failed"), history()]), id="newest is not deployed"),
    ],
)
def test_row_5_an_old_ready_is_progress(report: dict[str, Any]) -> None:
    assert conditions_of(scene(report).decide())["Ready"][0] == FALSE


def test_row_5_ready_unknown_for_ever_is_believed_after_a_while_helm_controller_1409() -> None:
    status = deployed()
    status["conditions"][0] = flux_condition("Ready", "Unknown", "Progressing", "running")

    assert conditions_of(scene(status).decide())["Ready"] == (TRUE, "HelmReleaseReady")
    status["conditions"][0]["lastTransitionTime"] = "2026-06-01T11:59:50Z"
    early = scene(status).decide()
    assert conditions_of(early)["Ready"] == (FALSE, "Upgrading")
    assert early.requeue.after == 50.0


def test_row_6_the_sources_own_failure_is_told_at_once() -> None:
    source = {
        "observedGeneration": -1,
        "conditions": [flux_condition("FetchFailed", TRUE, "AuthenticationFailed", "401 from registry")],
    }
    not_ready = attempted(
        [flux_condition("Ready", FALSE, "SourceNotReady", "no artifact")], version="", digest="x" * 20
    )

    decision = scene(not_ready, source).decide()

    assert conditions_of(decision) == {
        "Ready": (FALSE, "ChartUnreachable"),
        "Reconciling": (TRUE, "ChartSourceSyncing"),
        "Degraded": (TRUE, "ChartUnreachable"),
    }
    assert message_of(decision, "Ready") == "401 from registry"


@pytest.mark.parametrize(
    ("since", "reason"), [("2026-06-01T11:59:55Z", "Installing"), ("2026-06-01T11:59:00Z", "ChartUnreachable")]
)
def test_row_6_source_not_ready_is_progress_until_it_lasts(since: str, reason: str) -> None:
    """Flux says it of every release whose source is still being fetched for the first time."""
    not_ready = flux_condition("Ready", FALSE, "SourceNotReady", "no artifact", lastTransitionTime=since)

    decision = scene({"observedGeneration": -1, "conditions": [not_ready]}, {"observedGeneration": -1}).decide()

    assert conditions_of(decision)["Ready"] == (FALSE, reason)
    assert decision.requeue.after == (10.0 if reason == "Installing" else None)


def test_row_7_values_that_cannot_be_had() -> None:
    status = attempted([flux_condition("Ready", FALSE, "ValuesError", "secret org-myteam/v not found")], version="")

    decision = scene(status).decide()

    assert conditions_of(decision)["Ready"] == (FALSE, "WaitingForSecret")
    assert conditions_of(decision)["Reconciling"] == (TRUE, "HelmReleaseInstalling")


@pytest.mark.parametrize(
    ("past", "reason"), [([], "Installing"), ([history("6.5.0", OLD_DIGEST, "superseded")], "Upgrading")]
)
def test_row_8_anything_else_is_progress_in_fluxs_words(past: list[dict[str, Any]], reason: str) -> None:
    status = attempted([flux_condition("Ready", "Unknown", "SomethingNew", "doing what nobody knows")], history=past)

    decision = scene(status).decide()

    assert conditions_of(decision)["Ready"] == (FALSE, reason)
    assert conditions_of(decision)["Reconciling"] == (TRUE, f"HelmRelease{reason}")
    assert message_of(decision, "Ready") == "doing what nobody knows"


@pytest.mark.parametrize(("action", "reason"), [("install", "Installing"), ("upgrade", "Upgrading")])
def test_row_8_a_first_install_stays_one_until_flux_has_observed_it(action: str, reason: str) -> None:
    """Flux records the release while Reconciling, and writes observedGeneration with the last patch of the pass."""
    conditions = [
        flux_condition("Reconciling", TRUE, "Progressing", f"Running '{action}' action with timeout of 5m0s"),
        flux_condition("Ready", TRUE, "InstallSucceeded", "Helm install succeeded"),
    ]
    status = attempted(conditions, history=[history()], lastAttemptedReleaseAction=action)

    decision = scene({**status, "observedGeneration": -1}).decide()

    assert conditions_of(decision)["Ready"] == (FALSE, reason)


def test_a_message_that_changes_alone_waits_some_seconds() -> None:
    """Five writes from creation to Ready leave no room for Flux's running commentary."""
    first = scene(attempted([flux_condition("Ready", "Unknown", "Progressing", "one")]))
    manifest = written(first.manifest, first.decide())

    decision = scene(attempted([flux_condition("Ready", "Unknown", "Progressing", "two")]), manifest=manifest).decide()

    assert decision.is_empty
    assert decision.requeue.after == CONTEXT.settings.message_interval_seconds


def test_digest_decides_for_oci_since_a_new_tag_moves_no_generation() -> None:
    source = fetched(DIGEST, generation=1)
    world = scene(deployed(), source)
    world.observed.objects[next(iter(world.observed.objects))]["metadata"]["generation"] = 2

    assert conditions_of(world.decide())["Ready"] == (FALSE, "Upgrading"), "the source has not seen the new tag yet"


def test_every_downstream_object_is_applied_before_its_status_is_believed() -> None:
    """A HelmRelease that still carries the old spec reports on the old request."""
    manifest = instance_manifest(values={"source": "inline", "inline": {"replicas": 3}})
    objects = applied(instance_manifest())
    for ref, live in objects.items():
        live["status"] = deployed() if ref == RELEASE else fetched()

    decision = decide(manifest, InstanceObserved(NAMESPACE, objects))

    assert [apply.kind.kind for apply in decision.applies] == ["HelmRelease"]
    assert conditions_of(decision)["Ready"] == (FALSE, "Upgrading")


def test_a_settled_instance_decides_nothing_REC_6() -> None:
    world = scene(deployed())
    settled = Scene(written(world.manifest, world.decide()), world.observed)

    assert settled.decide().is_empty


def test_a_digest_that_only_begins_alike_is_of_another_release() -> None:
    other = DIGEST[:19] + "1" * 52

    assert conditions_of(scene(deployed(), fetched()).decide())["Ready"][0] == TRUE
    again = deployed(history=[history(digest=other)])
    assert conditions_of(scene(again, fetched()).decide())["Ready"][0] != TRUE


def test_only_the_first_word_about_an_instance_may_wait() -> None:
    first = scene({"observedGeneration": -1})
    decision = first.decide()
    told = written(first.manifest, decision)

    assert decision.status_may_wait > 0
    assert scene({"observedGeneration": -1}, manifest=told).decide().status_may_wait == 0
    assert scene(deployed()).decide().status_may_wait == 0


def test_the_first_word_does_not_wait_where_a_retry_follows_the_applies_REC_6() -> None:
    """A pass that leaves its status to a later one must have nothing else to leave."""
    asked = with_meta(instance_manifest(), annotations={RETRY: "token-1"})

    assert decide(instance_manifest(), InstanceObserved(namespace=NAMESPACE)).status_may_wait > 0
    assert decide(asked, InstanceObserved(namespace=NAMESPACE)).status_may_wait == 0
    assert scene({"observedGeneration": -1}, manifest=asked).decide().status_may_wait == 0


def test_a_status_says_which_request_it_is_about_also_where_nothing_else_has_changed_REC_6() -> None:
    there = scene(deployed())
    told = written(there.manifest, there.decide())
    assert decide(told, there.observed).status is None
    asked = with_meta(told, annotations={IDEMPOTENCY_KEY: "key-2"})
    decision = decide(asked, there.observed)

    assert decision.status is not None
    assert decision.status["status"]["observedRequest"] != told["status"].get("observedRequest")
    assert decide(written(asked, decision), there.observed).status is None
