"""What the simulated helm-controller leaves in a HelmRelease, fact by fact (downstream-status 6.3, 6.4, 7.7)."""

from typing import Any

import pytest

from kubelab.flux import (
    Action,
    FluxBehaviour,
    FluxOutcome,
    FluxSimulator,
    OutcomeKind,
    ReleaseRule,
    SourceFault,
    SourceOutcome,
    SourceRule,
)
from kubelab.flux.artifacts import sha256_of
from kubelab.flux.storage import release_document
from kubelab.inprocess import InProcessKube, run_sync
from purekube.apimachinery.manifest import Manifest, get_path, ref_of
from purekube.apimachinery.resources import (
    CONFIG_MAP,
    HELM_CHART,
    HELM_RELEASE,
    HELM_REPOSITORY,
    OCI_REPOSITORY,
    SECRET,
)
from purekube.ports import KubeRequest, KubeVerb, PatchType, Send
from tests.support.flux_world import (
    NAME,
    ORG,
    URL,
    FluxWorld,
    conditions_by_type,
    helm_release,
    helm_repository,
    left_behind,
    observed_generation,
    oci_repository,
)

DIGESTS = {tag: sha256_of(f"{URL}:{tag}") for tag in ("6.6.0", "6.7.0", "6.8.0")}


def chart_version(tag: str) -> str:
    return f"{tag}+{DIGESTS[tag][7:19]}"


def failing(action: Action, *, times: int | None = None, message: str = "boom", **match: Any) -> FluxBehaviour:
    rule = ReleaseRule(FluxOutcome(OutcomeKind.FAIL, message, times=times), action=action, **match)
    return FluxBehaviour(release_rules=(rule,))


def installed(behaviour: FluxBehaviour | None = None, **spec: Any) -> FluxWorld:
    """A world with a release installed from 6.6.0."""
    world = FluxWorld(behaviour)
    world.apply(oci_repository(), OCI_REPOSITORY)
    world.apply(helm_release(**spec), HELM_RELEASE)
    world.settle()
    assert world.conditions()["Released"] == "True/InstallSucceeded"
    world.states()
    return world


def history(world: FluxWorld) -> list[tuple[int, str, str | None]]:
    return [(item["version"], item["status"], item.get("action")) for item in world.status("history") or ()]


def test_an_install_ends_ready_with_everything_the_release_is_made_of() -> None:
    world = installed()
    status = world.get()["status"]
    assert world.conditions() == {
        "Ready": "True/InstallSucceeded",
        "Released": "True/InstallSucceeded",
        "Drifted": "False/NoDriftDetected",
    }
    expected = f"Helm install succeeded for release org/shop.v1 with chart nextcloud@{chart_version('6.6.0')}"
    assert world.message("Ready") == world.message("Released") == expected
    assert status["observedGeneration"] == status["lastAttemptedGeneration"] == 1
    assert status["lastAttemptedRevision"] == chart_version("6.6.0")
    assert status["lastAttemptedRevisionDigest"] == DIGESTS["6.6.0"]
    assert status["lastAttemptedReleaseAction"] == "install"
    assert status["lastAttemptedReleaseActionDuration"] == "5s"
    assert status["storageNamespace"] == ORG
    entry = status["history"][0]
    assert (entry["chartVersion"], entry["ociDigest"]) == (chart_version("6.6.0"), DIGESTS["6.6.0"])
    assert (entry["name"], entry["namespace"], entry["status"], entry["action"]) == (NAME, ORG, "deployed", "install")
    assert entry["configDigest"] == status["lastAttemptedConfigDigest"] == sha256_of("")


def test_the_states_of_an_install_in_order_conditions_always_before_the_rest() -> None:
    world = FluxWorld()
    world.apply(oci_repository(), OCI_REPOSITORY)
    world.apply(helm_release(), HELM_RELEASE)
    world.settle()
    steps = [
        (
            conditions_by_type(state).get("Ready"),
            conditions_by_type(state).get("Reconciling"),
            bool(get_path(state, "status", "history")),
            observed_generation(state),
        )
        for state in world.states()
    ]
    progressing = "True/Progressing"
    unready, running, ready = "False/SourceNotReady", "Unknown/Progressing", "True/InstallSucceeded"
    seen = [step for index, step in enumerate(steps) if index == 0 or steps[index - 1] != step]
    assert seen == [
        (None, None, False, -1),
        (None, progressing, False, -1),
        (unready, progressing, False, -1),
        (running, progressing, False, -1),
        (ready, progressing, False, -1),  # ready, and its history not yet written
        (ready, progressing, True, -1),
        (ready, None, True, -1),
        (ready, None, True, 1),
    ]


def test_every_interval_says_reconciling_while_ready_stays_true() -> None:
    world = installed()
    before = world.get()["status"]
    world.run(301)
    states = [conditions_by_type(state) for state in world.states()]
    assert [state.get("Reconciling") for state in states] == ["True/Progressing", None]
    assert {state["Ready"] for state in states} == {"True/InstallSucceeded"}
    assert world.get()["status"] == before


def test_between_intervals_nothing_is_written() -> None:
    world = installed()
    world.server.audit.clear()
    version = world.get()["metadata"]["resourceVersion"]
    world.run(200)
    assert world.get()["metadata"]["resourceVersion"] == version
    assert not world.server.audit.writes()


def test_a_new_tag_upgrades_without_moving_the_helm_releases_generation() -> None:
    world = installed()
    world.apply(oci_repository("6.7.0"), OCI_REPOSITORY)
    world.settle()
    manifest = world.get()
    assert manifest["metadata"]["generation"] == 1
    assert get_path(manifest, "status", "lastAttemptedGeneration") == 1
    assert get_path(manifest, "status", "lastAttemptedRevisionDigest") == DIGESTS["6.7.0"]
    assert world.conditions()["Ready"] == "True/UpgradeSucceeded"
    assert history(world) == [(2, "deployed", "upgrade"), (1, "superseded", None)]
    first = world.states()[0]
    assert conditions_by_type(first)["Ready"] == "True/InstallSucceeded", "the old Ready stays until the attempt"


def test_a_release_remembers_when_it_was_first_deployed() -> None:
    world = installed()
    first = world.status("history", 0, "firstDeployed")
    world.retag("6.7.0")
    world.settle()
    assert world.status("history", 0, "firstDeployed") == first
    assert world.status("history", 0, "lastDeployed") > first


def test_the_history_goes_back_to_the_previous_success_and_no_further() -> None:
    world = installed()
    for tag in ("6.7.0", "6.8.0", "6.6.0"):
        world.retag(tag)
        world.settle()
    assert history(world) == [(4, "deployed", "upgrade"), (3, "superseded", None)]
    secrets = run_sync(world.api.list(SECRET, namespace=ORG, label_selector="owner=helm")).items
    assert len(secrets) == 4, "Helm itself keeps ten"


def test_the_same_tag_pushed_again_is_another_revision() -> None:
    world = installed()
    world.flux.behaviour = FluxBehaviour(digest_salts={f"{URL}:6.6.0": "again"})
    world.run(301)
    assert [item["chartVersion"][:6] for item in world.status("history")] == ["6.6.0+", "6.6.0+"]
    assert world.status("history", 0, "ociDigest") == sha256_of(f"{URL}:6.6.0again")


def test_failure_rollback_and_stalled_land_in_one_pass_REC_4() -> None:
    world = installed()
    world.flux.behaviour = failing(Action.UPGRADE)
    world.apply(oci_repository("6.7.0"), OCI_REPOSITORY)
    world.settle()
    assert world.conditions() == {
        "Stalled": "True/RetriesExceeded",
        "Ready": "False/RollbackSucceeded",
        "Released": "False/UpgradeFailed",
        "Remediated": "True/RollbackSucceeded",
        "Drifted": "False/NoDriftDetected",
    }
    old, new = chart_version("6.6.0"), chart_version("6.7.0")
    rolled_back = f"Helm rollback to previous release org/shop.v1 with chart nextcloud@{old} succeeded"
    assert world.message("Ready") == rolled_back, "the failure's own message is in Released"
    assert world.message("Released") == f"Helm upgrade failed for release org/shop with chart nextcloud@{new}: boom"
    assert world.message("Stalled") == "Failed to upgrade after 1 attempt(s)"
    assert history(world) == [(3, "deployed", "rollback"), (2, "failed", "upgrade"), (1, "superseded", "rollback")]
    assert world.status("history", 0).get("ociDigest") is None
    assert world.status("history", 0, "chartVersion") == old
    assert world.status("lastAttemptedRevision") == new
    assert (world.status("failures"), world.status("upgradeFailures")) == (1, 1)
    assert world.status("observedGeneration") == 1


def test_a_stalled_release_is_left_alone_and_its_failure_stays_until_the_next_attempt() -> None:
    world = installed()
    world.flux.behaviour = failing(Action.UPGRADE, version="6.7.0")
    world.apply(oci_repository("6.7.0"), OCI_REPOSITORY)
    world.settle()
    stalled = world.get()["metadata"]["resourceVersion"]
    world.run(3600)
    assert world.get()["metadata"]["resourceVersion"] == stalled
    world.states()
    world.apply(oci_repository("6.8.0"), OCI_REPOSITORY)
    world.settle()
    steps = [conditions_by_type(state) for state in world.states()]
    assert steps[0]["Ready"] == "False/RollbackSucceeded"
    assert steps[0]["Reconciling"] == "True/Progressing"
    assert "Stalled" not in steps[0]
    assert world.conditions() == {
        "Ready": "True/UpgradeSucceeded",
        "Released": "True/UpgradeSucceeded",
        "Drifted": "False/NoDriftDetected",
    }
    assert (world.status("failures"), world.status("upgradeFailures")) == (None, None)


def test_retries_zero_alone_rolls_nothing_back() -> None:
    world = installed(upgrade={"remediation": {"retries": 0}})
    world.flux.behaviour = failing(Action.UPGRADE)
    world.apply(oci_repository("6.7.0"), OCI_REPOSITORY)
    world.settle()
    assert history(world)[0] == (2, "failed", "upgrade")
    assert "Remediated" not in world.conditions()
    assert world.conditions()["Stalled"] == "True/RetriesExceeded"
    assert world.conditions()["Ready"] == "False/UpgradeFailed"


def test_uninstalling_as_the_remedy_of_an_upgrade_installs_afresh() -> None:
    remedy = {"remediation": {"retries": 0, "remediateLastFailure": True, "strategy": "uninstall"}}
    world = installed(upgrade=remedy)
    world.flux.behaviour = failing(Action.UPGRADE, times=1)
    world.retag("6.7.0")
    world.settle()
    reasons = [conditions_by_type(state).get("Remediated") for state in world.states()]
    assert "True/UninstallSucceeded" in reasons
    assert world.conditions()["Ready"] == "True/InstallSucceeded"
    assert history(world) == [(1, "deployed", "install")]


def test_a_remedy_that_fails_is_tried_again() -> None:
    rules = (*failing(Action.INSTALL, times=1).release_rules, *failing(Action.UNINSTALL, times=2).release_rules)
    world = FluxWorld(FluxBehaviour(release_rules=rules))
    world.apply(oci_repository(), OCI_REPOSITORY)
    world.apply(helm_release(), HELM_RELEASE)
    world.settle()
    states = [conditions_by_type(state) for state in world.states()]
    seen = [state.get("Remediated") for state in states]
    failed = [state["Reconciling"] for state in states if state.get("Remediated") == "False/UninstallFailed"]
    assert set(failed) == {"True/Progressing"}, "an error, not an orderly retry"
    assert seen.index("False/UninstallFailed") < seen.index("True/UninstallSucceeded")
    assert world.conditions()["Ready"] == "True/InstallSucceeded"
    assert world.status("failures") == 3


def test_a_release_that_somebody_took_away_cannot_be_uninstalled_as_a_remedy() -> None:
    """Seen in helm-controller 1.6: only the uninstall of a deleted HelmRelease takes that for a success."""
    world, told = FluxWorld(), list[str]()

    async def losing(request: KubeRequest, proceed: Send) -> Any:
        answer = await proceed(request)
        if request.verb is KubeVerb.PATCH and request.kind == HELM_RELEASE and "InstallFailed" in str(request.body):
            told.append("the failure, and then what is done about it")
        if len(told) == 2:
            told.append("once")
            for secret in (await world.api.list(SECRET, namespace=ORG, label_selector="owner=helm")).items:
                await world.api.delete(ref_of(secret, SECRET))
        return answer

    world.flux = FluxSimulator(InProcessKube(world.server).through(losing), failing(Action.INSTALL, times=1))
    world.apply(oci_repository(), OCI_REPOSITORY)
    world.apply(helm_release(), HELM_RELEASE)
    world.settle()

    (message,) = {
        condition["message"]
        for state in world.states()
        for condition in state["status"].get("conditions", ())
        if (condition["type"], condition["reason"]) == ("Remediated", "UninstallFailed")
    }
    assert message.endswith("failed: uninstall: Release not loaded: shop: release: not found")


def test_an_attempt_that_never_happened_is_called_a_success_once_the_old_spec_is_back() -> None:
    world = installed()
    world.flux.behaviour = FluxBehaviour(release_rules=(ReleaseRule(FluxOutcome(OutcomeKind.VALUES_ERROR)),))
    world.apply(helm_release(values={"replicas": "three"}), HELM_RELEASE)
    world.run(60)
    assert world.conditions()["Ready"] == "False/UpgradeFailed"
    world.apply(helm_release(), HELM_RELEASE)
    world.settle()
    assert world.conditions()["Ready"] == "True/UpgradeSucceeded"
    assert history(world) == [(1, "deployed", "install")]


def test_what_was_changed_behind_flux_is_upgraded_over() -> None:
    world = installed()
    entry = {**world.status("history", 0), "digest": sha256_of("another release")}
    world.patch({"status": {"history": [entry]}}, subresource="status")
    world.run(310)
    assert history(world) == [(2, "deployed", "upgrade")]


def test_with_retries_the_last_failure_is_rolled_back_too() -> None:
    world = installed(upgrade={"remediation": {"retries": 1}})
    world.flux.behaviour = failing(Action.UPGRADE)
    world.retag("6.7.0")
    world.settle()
    assert [item[:2] for item in history(world)][:2] == [(5, "deployed"), (4, "failed")]
    assert world.conditions()["Ready"] == "False/RollbackSucceeded"
    assert world.message("Stalled") == "Failed to upgrade after 2 attempt(s)"


def test_a_failed_rollback_is_remediated_false() -> None:
    world = installed()
    rules = (*failing(Action.UPGRADE).release_rules, *failing(Action.ROLLBACK, message="no way back").release_rules)
    world.flux.behaviour = FluxBehaviour(release_rules=rules)
    world.apply(oci_repository("6.7.0"), OCI_REPOSITORY)
    world.settle()
    assert world.conditions()["Remediated"] == "False/RollbackFailed"
    assert world.conditions()["Ready"] == "False/RollbackFailed"
    assert world.message("Ready").endswith("failed: no way back")
    assert history(world)[0] == (3, "failed", "rollback")
    assert world.status("failures") == 2


def test_a_failed_rollback_is_forgotten_once_the_release_is_in_sync() -> None:
    """The conditions of before come back, as with a status that was restored; Helm's release is as wanted."""
    world = installed()
    failed = {"status": "False", "message": "boom", "observedGeneration": 1}
    before = [
        {**failed, "type": type_, "reason": reason, "lastTransitionTime": world.get()["metadata"]["creationTimestamp"]}
        for type_, reason in {
            "Ready": "RollbackFailed",
            "Released": "UpgradeFailed",
            "Remediated": "RollbackFailed",
        }.items()
    ]
    world.patch({"status": {"conditions": before}}, subresource="status")
    world.run(310)
    assert world.conditions() == {
        "Ready": "True/UpgradeSucceeded",
        "Released": "True/UpgradeSucceeded",
        "Drifted": "False/NoDriftDetected",
    }


def test_going_back_to_the_old_tag_turns_remediated_into_a_success() -> None:
    world = installed()
    world.flux.behaviour = failing(Action.UPGRADE)
    world.apply(oci_repository("6.7.0"), OCI_REPOSITORY)
    world.settle()
    world.apply(oci_repository("6.6.0"), OCI_REPOSITORY)
    world.settle()
    assert world.conditions() == {
        "Ready": "True/UpgradeSucceeded",
        "Released": "True/UpgradeSucceeded",
        "Drifted": "False/NoDriftDetected",
    }
    assert history(world)[0] == (3, "deployed", "rollback")


def test_an_install_is_retried_with_an_uninstall_between_and_stalls_when_retries_are_over() -> None:
    world = FluxWorld(failing(Action.INSTALL))
    world.apply(oci_repository(), OCI_REPOSITORY)
    world.apply(helm_release(), HELM_RELEASE)
    world.settle()
    states = world.states()
    retrying = [
        state for state in states if conditions_by_type(state).get("Reconciling") == "True/ProgressingWithRetry"
    ]
    assert retrying
    assert {observed_generation(state) for state in retrying} == {-1}
    assert {conditions_by_type(state)["Remediated"] for state in retrying} == {"True/UninstallSucceeded"}
    assert {conditions_by_type(state)["Ready"] for state in retrying} == {"False/InstallFailed"}
    assert [get_path(state, "status", "history", 0, "status") for state in retrying][-1] == "uninstalling"
    assert not [state for state in states[:-2] if "Stalled" in conditions_by_type(state)]
    assert world.conditions()["Stalled"] == "True/RetriesExceeded"
    assert world.message("Stalled") == "Failed to install after 4 attempt(s)"
    assert (world.status("installFailures"), observed_generation(world.get())) == (4, 1)
    assert history(world) == [(1, "failed", "install")]


def test_an_install_that_fails_twice_succeeds_at_the_third_attempt() -> None:
    world = FluxWorld(failing(Action.INSTALL, times=2))
    world.apply(oci_repository(), OCI_REPOSITORY)
    world.apply(helm_release(), HELM_RELEASE)
    world.settle()
    assert world.conditions()["Ready"] == "True/InstallSucceeded"
    assert history(world) == [(1, "deployed", "install")]
    assert (world.status("installFailures"), world.status("failures")) == (2, 2), "cleared with the next request"


@pytest.mark.parametrize("kind", [OutcomeKind.RENDER_ERROR, OutcomeKind.VALUES_ERROR])
def test_rendering_errors_store_no_release_and_never_stall(kind: OutcomeKind) -> None:
    world = FluxWorld(FluxBehaviour(release_rules=(ReleaseRule(FluxOutcome(kind, "bad template")),)))
    world.apply(oci_repository(), OCI_REPOSITORY)
    world.apply(helm_release(), HELM_RELEASE)
    world.run(3600)
    assert world.conditions()["Ready"] == "False/InstallFailed"
    assert world.conditions()["Reconciling"] == "True/Progressing"
    assert "Stalled" not in world.conditions()
    assert world.status("history") is None
    assert world.status("installFailures") is None
    assert world.status("failures") > 5
    assert observed_generation(world.get()) == -1
    world.flux.behaviour = FluxBehaviour()
    world.run(1000)
    assert world.conditions()["Ready"] == "True/InstallSucceeded"
    assert world.status("observedGeneration") == 1


def test_missing_values_are_a_values_error_until_they_appear() -> None:
    world = FluxWorld()
    world.apply(oci_repository(), OCI_REPOSITORY)
    reference = {"kind": "ConfigMap", "name": "values", "valuesKey": "v.yaml"}
    world.apply(helm_release(valuesFrom=[reference]), HELM_RELEASE)
    world.run(60)
    assert world.conditions()["Ready"] == "False/ValuesError"
    expected = "could not resolve ConfigMap chart values reference 'org/values' with key 'v.yaml': "
    assert world.message("Ready") == expected + 'configmaps "values" not found'
    assert observed_generation(world.get()) == -1
    assert world.conditions()["Reconciling"] == "True/Progressing"
    config = {**CONFIG_MAP.manifest("values", ORG), "data": {"other": "1"}}
    world.apply(config, CONFIG_MAP)
    world.run(1000)
    assert world.message("Ready") == expected + "key not found"
    config = {**config, "data": {"v.yaml": "replicas: 2"}}
    config["metadata"] = {**config["metadata"], "labels": {"reconcile.fluxcd.io/watch": "Enabled"}}
    world.apply(config, CONFIG_MAP)
    world.settle(horizon=10)
    assert world.conditions()["Ready"] == "True/InstallSucceeded"


def test_a_labelled_values_object_upgrades_at_once_and_a_plain_one_at_the_interval_REC_14() -> None:
    reference = {"kind": "Secret", "name": "values"}
    world = FluxWorld()
    secret = {**SECRET.manifest("values", ORG), "stringData": {"values.yaml": "a: 1"}}
    world.apply(secret, SECRET)
    world.apply(oci_repository(), OCI_REPOSITORY)
    world.apply(helm_release(valuesFrom=[reference]), HELM_RELEASE)
    world.settle()
    world.apply({**secret, "stringData": {"values.yaml": "a: 2"}}, SECRET)
    world.settle()
    assert len(history(world)) == 1
    world.run(310)
    assert history(world)[0] == (2, "deployed", "upgrade")
    labelled = {**secret["metadata"], "labels": {"reconcile.fluxcd.io/watch": "Enabled"}}
    world.apply({**secret, "metadata": labelled, "stringData": {"values.yaml": "a: 3"}}, SECRET)
    world.settle(horizon=10)
    assert history(world)[0] == (3, "deployed", "upgrade")


def test_a_missing_source_is_an_artifact_failure() -> None:
    world = FluxWorld()
    world.apply(helm_release(), HELM_RELEASE)
    world.run(10)
    assert world.conditions()["Ready"] == "False/ArtifactFailed"
    text = 'could not get Source object: OCIRepository.source.toolkit.fluxcd.io "shop" not found'
    assert world.message("Ready") == text
    assert observed_generation(world.get()) == -1
    assert list(world.flux.errors.values()) == [text], "retried with backoff"


def test_a_source_that_is_not_ready_is_looked_at_every_half_minute_and_is_no_error() -> None:
    world = FluxWorld(FluxBehaviour(source_rules=(SourceRule(SourceOutcome(SourceFault.INVALID_URL)),)))
    world.apply(oci_repository(), OCI_REPOSITORY)
    world.apply(helm_release(), HELM_RELEASE)
    world.run(600)
    assert world.conditions()["Ready"] == "False/SourceNotReady"
    assert world.flux.errors == {}
    following = world.flux.next_work()
    assert following is not None
    assert (following - world.clock.now()).total_seconds() <= 30


def test_a_source_in_passing_trouble_still_counts_as_ready_with_the_artifact_it_has() -> None:
    world = installed()
    world.flux.behaviour = FluxBehaviour(source_rules=(SourceRule(SourceOutcome(SourceFault.UNAVAILABLE)),))
    world.run(700)
    assert world.conditions(OCI_REPOSITORY)["Ready"] == "False/OCIArtifactPullFailed"
    assert world.conditions()["Ready"] == "True/InstallSucceeded"
    world.apply(oci_repository("6.7.0"), OCI_REPOSITORY)
    world.run(400)
    assert world.conditions()["Ready"] == "False/SourceNotReady"
    assert "failed to determine artifact digest" in world.message("Ready")
    assert world.conditions()["Reconciling"] == "True/Progressing"
    assert world.conditions()["Released"] == "True/InstallSucceeded"


def test_suspended_says_observed_and_keeps_the_old_ready() -> None:
    world = installed()
    world.apply(helm_release(suspend=True, values={"replicas": 3}), HELM_RELEASE)
    world.settle()
    manifest = world.get()
    assert manifest["metadata"]["generation"] == 2
    assert get_path(manifest, "status", "observedGeneration") == 2
    ready = next(item for item in get_path(manifest, "status", "conditions") if item["type"] == "Ready")
    assert (ready["status"], ready["observedGeneration"]) == ("True", 1)
    assert get_path(manifest, "status", "lastAttemptedGeneration") == 1
    world.apply(helm_release(values={"replicas": 3}), HELM_RELEASE)
    world.settle()
    assert history(world)[0] == (2, "deployed", "upgrade")


def test_created_suspended_it_says_observed_and_nothing_else() -> None:
    world = FluxWorld()
    world.apply(oci_repository(), OCI_REPOSITORY)
    world.apply(helm_release(suspend=True), HELM_RELEASE)
    world.settle()
    assert world.get()["status"] == {"observedGeneration": 1}


def test_deletion_uninstalls_and_then_lets_go_REC_10() -> None:
    world = installed()
    assert [item.release for item in world.flux.workloads] == [NAME]
    world.delete()
    world.run(1)
    assert world.find(HELM_RELEASE) is not None, "the uninstall takes two seconds"
    world.settle()
    assert world.find(HELM_RELEASE) is None
    assert world.flux.workloads == ()
    assert left_behind(world.flux) == ()


def test_deleting_a_suspended_one_leaves_the_workload_behind_REC_10() -> None:
    world = installed()
    world.patch({"spec": {"suspend": True}})
    world.settle()
    world.delete()
    world.settle()
    assert world.find(HELM_RELEASE) is None
    left = left_behind(world.flux)
    assert [(item.namespace, item.release, item.chart, item.version) for item in left] == [
        (ORG, NAME, "nextcloud", chart_version("6.6.0"))
    ]


def test_without_its_service_account_it_lets_go_without_an_uninstall() -> None:
    world = installed(serviceAccountName="deployer")
    world.flux.behaviour = FluxBehaviour(missing_service_accounts=frozenset({f"{ORG}/deployer"}))
    world.delete()
    world.settle()
    assert world.find(HELM_RELEASE) is None
    assert len(left_behind(world.flux)) == 1


def test_what_happened_at_the_newer_generation_is_what_ready_says() -> None:
    world = installed()
    world.flux.behaviour = failing(Action.UPGRADE)
    world.retag("6.7.0")
    world.settle()
    assert world.conditions()["Ready"] == "False/RollbackSucceeded"
    world.flux.behaviour = failing(Action.UNINSTALL)
    world.delete()
    world.run(10)
    assert world.conditions()["Ready"] == "False/UninstallFailed"


def test_a_kept_history_outlives_the_release() -> None:
    world = installed(uninstall={"keepHistory": True})
    world.delete()
    world.settle()
    secrets = run_sync(world.api.list(SECRET, namespace=ORG, label_selector="owner=helm")).items
    assert [item["metadata"]["labels"]["status"] for item in secrets] == ["uninstalled"]
    assert world.flux.workloads == ()


def test_an_uninstall_that_hangs_has_taken_everything_away_when_it_fails() -> None:
    world = installed(
        FluxBehaviour(release_rules=(ReleaseRule(FluxOutcome(OutcomeKind.HANG), action=Action.UNINSTALL),))
    )
    world.delete()
    world.run(300.5)
    assert world.conditions()["Released"] == "False/UninstallFailed"
    assert world.message("Released").endswith("context deadline exceeded")
    world.settle()
    assert world.find(HELM_RELEASE) is None
    assert left_behind(world.flux) == ()


def test_a_failing_uninstall_is_retried_and_holds_the_object() -> None:
    world = installed(failing(Action.UNINSTALL, times=2))
    world.delete()
    world.run(2)
    assert world.conditions()["Released"] == "False/UninstallFailed"
    world.settle()
    assert world.find(HELM_RELEASE) is None


def test_requested_at_and_reset_at_retry_a_stalled_release_REC_14() -> None:
    world = installed()
    world.flux.behaviour = failing(Action.UPGRADE, times=1)
    world.apply(oci_repository("6.7.0"), OCI_REPOSITORY)
    world.settle()
    world.annotate(requestedAt="t1")
    world.settle()
    assert world.conditions()["Stalled"] == "True/RetriesExceeded", "requestedAt alone resets no failures"
    assert world.status("lastHandledReconcileAt") == "t1"
    world.annotate(requestedAt="t2", resetAt="other")
    world.settle()
    assert world.conditions()["Stalled"] == "True/RetriesExceeded", "the tokens must be equal"
    world.annotate(requestedAt="t3", resetAt="t3")
    world.settle()
    assert world.conditions()["Ready"] == "True/UpgradeSucceeded"
    assert (world.status("lastHandledReconcileAt"), world.status("lastHandledResetAt")) == ("t3", "t3")
    assert world.get()["metadata"]["generation"] == 1


def test_force_at_upgrades_what_is_in_sync() -> None:
    world = installed()
    world.annotate(requestedAt="f1", forceAt="f1")
    world.settle()
    assert history(world)[0] == (2, "deployed", "upgrade")
    assert world.status("lastHandledForceAt") == "f1"
    world.run(301)
    assert history(world)[0] == (2, "deployed", "upgrade")


def test_drift_is_told_and_in_warn_mode_left() -> None:
    world = installed()
    world.flux.behaviour = FluxBehaviour(drifted={f"{ORG}/{NAME}": ("Deployment/org/shop",)})
    world.run(301)
    assert world.conditions()["Drifted"] == "True/DriftDetected"
    assert "Deployment/org/shop changed" in world.message("Drifted")
    assert world.conditions()["Ready"] == "True/InstallSucceeded"
    assert len(history(world)) == 1


def test_drift_in_enabled_mode_is_put_right() -> None:
    world = installed(driftDetection={"mode": "enabled"})
    world.flux.behaviour = FluxBehaviour(drifted={f"{ORG}/{NAME}": ("Deployment/org/shop",)})
    world.run(301)
    assert world.conditions()["Drifted"] == "False/NoDriftDetected"
    assert world.conditions()["Ready"] == "True/InstallSucceeded"


@pytest.mark.parametrize("change", [{"releaseName": "other"}, {"targetNamespace": "elsewhere"}])
def test_another_release_name_or_namespace_uninstalls_and_installs_again(change: dict[str, str]) -> None:
    world = installed()
    world.apply(helm_release(**change), HELM_RELEASE)
    world.settle()
    assert history(world) == [(1, "deployed", "install")]
    workloads = world.flux.workloads
    assert len(workloads) == 1
    assert (workloads[0].release, workloads[0].namespace) == (
        change.get("releaseName", "elsewhere-shop"),
        change.get("targetNamespace", ORG),
    )


def test_a_spec_that_changes_during_an_upgrade_is_seen_after_it_and_ready_is_ahead_of_it() -> None:
    world = installed()
    world.apply(helm_release(values={"a": 1}), HELM_RELEASE)
    world.run(2)
    world.apply(helm_release(values={"a": 2}), HELM_RELEASE)
    world.states()
    world.settle()
    ahead = [
        state
        for state in world.states()
        for item in get_path(state, "status", "conditions")
        if item["type"] == "Ready" and item["status"] == "True" and item["observedGeneration"] == 3
        if get_path(state, "status", "lastAttemptedGeneration") == 2
    ]
    assert ahead, "Ready=True at generation 3 speaks of the upgrade to generation 2 (facts 6.4)"
    assert history(world)[0] == (3, "deployed", "upgrade")
    assert world.status("observedGeneration") == 3


def test_a_hanging_upgrade_holds_everything_up_until_its_timeout() -> None:
    world = installed()
    hang = ReleaseRule(FluxOutcome(OutcomeKind.HANG), action=Action.UPGRADE, version="6.7.0")
    world.flux.behaviour = FluxBehaviour(release_rules=(hang,))
    world.apply(oci_repository("6.7.0"), OCI_REPOSITORY)
    world.run(60)
    world.apply(oci_repository("6.8.0"), OCI_REPOSITORY)
    world.run(200)
    assert world.status("lastAttemptedRevision") == chart_version("6.7.0")
    assert world.conditions()["Ready"] == "Unknown/Progressing"
    world.settle()
    assert world.conditions()["Ready"] == "True/UpgradeSucceeded"
    assert world.status("lastAttemptedRevision") == chart_version("6.8.0")
    told = [get_path(state, "status", "conditions") for state in world.states()]
    assert "timeout waiting for: [Deployment/" in str(told)


def test_ready_may_stay_unknown_after_a_success_for_good() -> None:
    world = FluxWorld(FluxBehaviour(ready_stuck_unknown=True))
    world.apply(oci_repository(), OCI_REPOSITORY)
    world.apply(helm_release(), HELM_RELEASE)
    world.settle()
    world.run(3600)
    assert world.conditions()["Ready"] == "Unknown/Progressing"
    assert world.message("Ready") == "Running 'install' action with timeout of 5m0s"
    assert "Released" not in world.conditions()
    assert history(world) == [(1, "deployed", "install")]
    assert world.status("observedGeneration") == 1
    world.flux.behaviour = FluxBehaviour()
    world.apply(oci_repository("6.7.0"), OCI_REPOSITORY)
    world.settle()
    assert world.conditions()["Ready"] == "True/UpgradeSucceeded"


def test_a_crash_in_the_middle_of_an_upgrade_is_unlocked_and_finished() -> None:
    world = installed()
    world.apply(oci_repository("6.7.0"), OCI_REPOSITORY)
    world.run(3)
    assert world.conditions()["Ready"] == "Unknown/Progressing"
    world.flux.crash()
    world.settle()
    assert "False/PendingRelease" in [conditions_by_type(state).get("Released") for state in world.states()]
    assert world.conditions()["Ready"] == "True/UpgradeSucceeded"
    assert world.status("history", 0, "chartVersion") == chart_version("6.7.0")


def test_unlocking_has_the_timeout_of_the_release_not_of_its_install() -> None:
    world = installed(install={"timeout": "1m"}, upgrade={"timeout": "2m"})
    world.retag("6.7.0")
    world.run(3)
    world.states()
    world.flux.crash()
    world.settle()
    shown = {item["message"] for state in world.states() for item in get_path(state, "status", "conditions") or ()}
    assert "Running 'unlock' action with timeout of 5m0s" in shown
    assert "Running 'upgrade' action with timeout of 2m0s" in shown


def test_a_crash_in_the_middle_of_the_first_install_is_forgotten_by_a_deletion() -> None:
    world = FluxWorld()
    world.apply(oci_repository(), OCI_REPOSITORY)
    world.apply(helm_release(), HELM_RELEASE)
    world.run(4)
    world.flux.crash()
    world.delete()
    world.settle()
    assert world.find(HELM_RELEASE) is None
    assert len(left_behind(world.flux)) == 1, "without a history there is nothing to uninstall"


def test_a_status_that_was_lost_makes_flux_upgrade_what_it_no_longer_knows() -> None:
    world = installed()
    world.patch({"status": {"history": None}}, subresource="status")
    world.run(310)
    assert history(world) == [(2, "deployed", "upgrade")]


def test_without_a_previous_success_there_is_no_way_back() -> None:
    world = installed(failing(Action.UPGRADE))
    world.patch({"status": {"history": None}}, subresource="status")
    world.run(310)
    assert world.conditions()["Stalled"] == "True/MissingRollbackTarget"
    assert world.conditions()["Ready"] == "False/UpgradeFailed"


def test_helm_tests_decide_readiness_when_they_are_enabled() -> None:
    world = installed(test={"enable": True})
    assert world.conditions()["Ready"] == "True/TestSucceeded"
    assert world.conditions()["TestSuccess"] == "True/TestSucceeded"
    assert world.status("history", 0, "testHooks") == {}
    world.flux.behaviour = failing(Action.TEST)
    world.apply(oci_repository("6.7.0"), OCI_REPOSITORY)
    world.settle()
    assert world.conditions()["TestSuccess"] == "False/TestFailed"
    assert world.conditions()["Ready"] == "False/RollbackSucceeded"


def test_retry_on_failure_retries_at_its_interval_and_never_stalls() -> None:
    strategy = {"strategy": {"name": "RetryOnFailure", "retryInterval": "2m"}}
    world = FluxWorld(failing(Action.INSTALL))
    world.apply(oci_repository(), OCI_REPOSITORY)
    world.apply(helm_release(install=strategy, upgrade=strategy), HELM_RELEASE)
    world.run(100)
    assert world.conditions()["Reconciling"] == "True/ProgressingWithRetry"
    assert world.message("Reconciling") == "retrying after 2m0s"
    assert world.conditions()["Ready"] == "False/InstallFailed"
    world.run(60)
    assert world.conditions()["Ready"] == "True/UpgradeSucceeded"


def test_a_success_after_retries_on_failure_clears_the_counters_and_five_entries_remain() -> None:
    strategy = {"strategy": {"name": "RetryOnFailure", "retryInterval": "2m"}}
    world = FluxWorld(failing(Action.UPGRADE, times=7))
    world.apply(oci_repository(), OCI_REPOSITORY)
    world.apply(helm_release(upgrade=strategy), HELM_RELEASE)
    world.settle()
    world.retag("6.7.0")
    world.run(700)
    assert world.status("failures") == world.status("upgradeFailures") == 6
    assert [version for version, *_ in history(world)] == [7, 6, 5, 4, 3]
    world.run(600)
    assert world.conditions()["Ready"] == "True/UpgradeSucceeded"
    assert world.status("failures") is world.status("upgradeFailures") is None
    assert [version for version, *_ in history(world)] == [9, 8, 7, 6, 5]


@pytest.mark.parametrize(("action", "verb"), [(Action.INSTALL, "Release"), (Action.UPGRADE, "Upgrade")])
def test_a_failed_release_is_described_in_the_words_of_helm(action: Action, verb: str) -> None:
    world = FluxWorld(failing(action))
    world.apply(oci_repository(), OCI_REPOSITORY)
    world.apply(helm_release(install={}, upgrade={}), HELM_RELEASE)
    world.settle()
    world.retag("6.7.0")
    world.settle()
    revision = 1 if action is Action.INSTALL else 2
    secret = world.get(SECRET, f"sh.helm.release.v1.{NAME}.v{revision}")
    assert release_document(secret)["info"]["description"] == f'{verb} "{NAME}" failed: boom'


def test_a_dependency_must_be_ready_first() -> None:
    world = FluxWorld()
    world.apply(oci_repository(), OCI_REPOSITORY)
    first = helm_release(dependsOn=[{"name": "database"}])
    world.apply(first, HELM_RELEASE)
    world.run(10)
    assert world.conditions()["Ready"] == "False/DependencyNotReady"
    database = {**helm_release(), "metadata": {"name": "database", "namespace": ORG}}
    world.apply(database, HELM_RELEASE)
    world.run(60)
    assert world.conditions()["Ready"] == "True/InstallSucceeded"


def test_of_a_classic_repository_flux_makes_a_helm_chart_and_keeps_the_plain_version() -> None:
    world = FluxWorld()
    world.apply(helm_repository(), HELM_REPOSITORY)
    world.apply(helm_release(classic="6.6.0"), HELM_RELEASE)
    world.settle()
    chart = world.get(HELM_CHART, f"{ORG}-{NAME}")
    assert chart["metadata"]["labels"] == {
        "helm.toolkit.fluxcd.io/name": NAME,
        "helm.toolkit.fluxcd.io/namespace": ORG,
    }
    assert "ownerReferences" not in chart["metadata"]
    assert world.conditions(HELM_CHART, f"{ORG}-{NAME}")["Ready"] == "True/ChartPullSucceeded"
    assert get_path(chart, "status", "observedSourceArtifactRevision") == (
        world.status("artifact", "revision", kind=HELM_REPOSITORY)
    )
    assert world.status("helmChart") == f"{ORG}/{ORG}-{NAME}"
    assert world.status("lastAttemptedRevision") == world.status("history", 0, "chartVersion") == "6.6.0"
    assert world.status("lastAttemptedRevisionDigest") is None
    assert world.message("Ready") == "Helm install succeeded for release org/shop.v1 with chart nextcloud@6.6.0"
    world.apply(helm_release(classic="6.7.0"), HELM_RELEASE)
    world.settle()
    assert (world.status("lastAttemptedGeneration"), world.status("history", 0, "chartVersion")) == (2, "6.7.0")
    world.delete()
    world.settle()
    assert world.find(HELM_CHART, f"{ORG}-{NAME}") is None


def test_a_missing_chart_version_shows_on_the_helm_chart_and_only_as_source_not_ready_on_the_release() -> None:
    world = FluxWorld(FluxBehaviour(published={"nextcloud": ("6.6.0",)}))
    world.apply(helm_repository(), HELM_REPOSITORY)
    world.apply(helm_release(classic="9.9.9"), HELM_RELEASE)
    world.run(120)
    chart = world.conditions(HELM_CHART, f"{ORG}-{NAME}")
    assert chart["Stalled"] == chart["FetchFailed"] == "True/InvalidChartReference"
    assert world.conditions()["Ready"] == "False/SourceNotReady"
    assert "no 'nextcloud' chart with version matching '9.9.9' found" in world.message("Ready")
    assert "Stalled" not in world.conditions()
    world.flux.behaviour = FluxBehaviour(index_revision=2)
    world.run(400)
    assert world.conditions()["Ready"] == "True/InstallSucceeded"


_ANEW = [(1, "deployed", "install")]
_IN_PLACE = [(2, "deployed", "upgrade"), (1, "superseded", None)]


@pytest.mark.parametrize(("strategy", "expected"), [(None, _ANEW), ("Reinstall", _ANEW), ("InPlaceUpdate", _IN_PLACE)])
def test_another_chart_is_installed_anew_unless_the_release_asks_for_an_update_in_place(
    strategy: str | None, expected: list[tuple[int, str, str | None]]
) -> None:
    upgrade: dict[str, Any] = {} if strategy is None else {"upgrade": {"chartNameChangeStrategy": strategy}}
    world = installed(**upgrade)
    world.apply(oci_repository(url="oci://registry.example/charts/owncloud"), OCI_REPOSITORY)
    world.settle()
    assert world.status("history", 0, "chartName") == "owncloud"
    assert history(world) == expected


def test_from_a_classic_repository_to_oci_the_helm_chart_goes_REC_14() -> None:
    world = FluxWorld()
    world.apply(helm_repository(), HELM_REPOSITORY)
    world.apply(helm_release(classic="6.6.0"), HELM_RELEASE)
    world.settle()
    world.apply(oci_repository("6.7.0"), OCI_REPOSITORY)
    world.apply(helm_release(), HELM_RELEASE)
    world.settle()
    assert world.find(HELM_CHART, f"{ORG}-{NAME}") is None
    assert world.status("helmChart") is None
    assert world.status("history", 0, "chartVersion") == chart_version("6.7.0")


def test_writes_carry_flux_field_managers_and_the_status_subresource() -> None:
    world = installed()
    entries = {
        (entry["manager"], entry["operation"], entry.get("subresource", ""))
        for manifest in (world.get(), world.get(OCI_REPOSITORY))
        for entry in manifest["metadata"]["managedFields"]
    }
    assert {
        ("helm-controller", "Update", ""),
        ("helm-controller", "Update", "status"),
        ("source-controller", "Update", ""),
        ("source-controller", "Update", "status"),
        ("vworkspace-operator", "Apply", ""),
    } == entries


def test_helm_keeps_its_releases_in_secrets_and_a_new_simulator_finds_them() -> None:
    world = installed()
    page = run_sync(world.api.list(SECRET, namespace=ORG, label_selector="owner=helm"))
    assert [item["metadata"]["name"] for item in page.items] == ["sh.helm.release.v1.shop.v1"]
    assert page.items[0]["type"] == "helm.sh/release.v1"
    known = world.status("history")
    world.flux = FluxSimulator(world.api)
    world.run(310)
    assert world.status("history") == known
    assert [item.release for item in world.flux.workloads] == [NAME]
    world.delete()
    world.settle()
    assert not run_sync(world.api.list(SECRET, namespace=ORG, label_selector="owner=helm")).items


def test_a_conflicting_write_makes_flux_look_again() -> None:
    undisturbed = installed().clock.now()
    world = FluxWorld()
    rounds = [2, 1, 0]

    async def interfere(request: KubeRequest, proceed: Send) -> Manifest:
        """Somebody else writes to the object whenever Flux is about to write its conditions."""
        if rounds and request.verb is KubeVerb.PATCH and get_path(request.body, "status", "conditions"):
            label = {"metadata": {"labels": {"round": str(rounds.pop(0))}}}
            await world.api.patch(request.ref, label, patch_type=PatchType.MERGE, field_manager="somebody")
        return await proceed(request)

    world.flux = FluxSimulator(InProcessKube(world.server).through(interfere))
    world.apply(oci_repository(), OCI_REPOSITORY)
    world.apply(helm_release(), HELM_RELEASE)
    world.settle()
    assert world.clock.now() == undisturbed, "at once, not as a failed pass"
    assert world.conditions()["Ready"] == "True/InstallSucceeded"
    assert world.get()["metadata"]["labels"]["round"] == "0"
    assert not world.flux.errors
