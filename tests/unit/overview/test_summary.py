"""How one object stands, in one word, with the command that helps (SEE-1)."""

from datetime import UTC, datetime
from typing import Any

import pytest

from purekube.apimachinery.definitions import BROUGHT_TO, OPERATOR_BOX, PIN
from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP, HELM_RELEASE, OCI_REPOSITORY
from purekube.boxes.rollouts.reasons import ACCEPTED, PERMITTED, SERVING, RolloutPhase
from purekube.graph.account import GraphReason
from tests.support.builders import NAME, NAMESPACE, cluster_manifest, condition, instance_manifest, operation_manifest
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION
from vworkspace_core.api.labels import IDEMPOTENCY_KEY, MANAGED_BY, MANAGED_BY_VALUE
from vworkspace_core.overview.actions import PlannedAction, retry
from vworkspace_core.overview.remedy import help_for
from vworkspace_core.overview.severity import needs_person
from vworkspace_core.overview.summary import OverviewState, Summary, summary_of, summary_of_child

SHOP = Kind("shops.example.com", "v1", "Shop", "shops")
MANIFESTS = {
    APPLICATION_INSTANCE: instance_manifest(),
    OPERATION: operation_manifest(),
    CLUSTER: cluster_manifest(),
    SHOP: SHOP.manifest("corner", "team"),
    OPERATOR_BOX: OPERATOR_BOX.manifest("shops"),
}


def with_conditions(kind: Kind, *conditions: dict[str, Any], generation: int = 1, observed: int = 1) -> dict[str, Any]:
    """An object of that kind with this status."""
    manifest = MANIFESTS[kind]
    meta = {**manifest["metadata"], "generation": generation}
    return {**manifest, "metadata": meta, "status": {"observedGeneration": observed, "conditions": list(conditions)}}


NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
READY = condition("Ready", "True", "HelmReleaseReady")


@pytest.mark.parametrize(
    ("kind", "conditions", "state", "reason"),
    [
        (OPERATOR_BOX, (condition("Accepted", "False", "Invalid"),), OverviewState.STALLED, "Invalid"),
        (OPERATOR_BOX, (condition("Serving", "False", "Starting"),), OverviewState.PROGRESSING, "Starting"),
        (OPERATOR_BOX, (condition("RolledOut", "False", "Undone"),), OverviewState.DEGRADED, "Undone"),
        (OPERATOR_BOX, (condition("RolledOut", "False", "NoSuchRevision"),), OverviewState.DEGRADED, "NoSuchRevision"),
        (APPLICATION_INSTANCE, (), OverviewState.UNSEEN, ""),
        (APPLICATION_INSTANCE, (READY,), OverviewState.READY, "HelmReleaseReady"),
        (
            APPLICATION_INSTANCE,
            (condition("Ready", "False", "Installing"), condition("Reconciling", "True", "HelmReleaseInstalling")),
            OverviewState.PROGRESSING,
            "HelmReleaseInstalling",
        ),
        (
            APPLICATION_INSTANCE,
            (READY, condition("Blocked", "True", "FieldConflict")),
            OverviewState.WAITING,
            "FieldConflict",
        ),
        (
            APPLICATION_INSTANCE,
            (
                READY,
                condition("Stalled", "True", "RetriesExceeded"),
                condition("Degraded", "True", "HelmReleaseFailed"),
            ),
            OverviewState.STALLED,
            "RetriesExceeded",
        ),
        (APPLICATION_INSTANCE, (READY, condition("Degraded", "True", "Drifted")), OverviewState.DEGRADED, "Drifted"),
        (
            APPLICATION_INSTANCE,
            (READY, condition("Degraded", "False", "Recovered")),
            OverviewState.READY,
            "HelmReleaseReady",
        ),
        (
            APPLICATION_INSTANCE,
            (READY, condition("Suspended", "True", "ManuallySuspended")),
            OverviewState.SUSPENDED,
            "ManuallySuspended",
        ),
        (
            APPLICATION_INSTANCE,
            (condition("Ready", "False", "Uninstalling"), condition("Deleting", "True", "Uninstalling")),
            OverviewState.DELETING,
            "Uninstalling",
        ),
        (
            OPERATION,
            (condition("Accepted", "True", "TemplateValidated"),),
            OverviewState.PROGRESSING,
            "TemplateValidated",
        ),
        (OPERATION, (condition("Accepted", "False", "TargetNotFound"),), OverviewState.STALLED, "TargetNotFound"),
        (
            OPERATION,
            (condition("Running", "True", "SyncScheduled"), condition("Succeeded", "True", "EngineSucceeded")),
            OverviewState.RUNNING,
            "SyncScheduled",
        ),
        (
            OPERATION,
            (condition("Running", "False", "EngineFinished"), condition("Succeeded", "True", "EngineSucceeded")),
            OverviewState.SUCCEEDED,
            "EngineSucceeded",
        ),
        (OPERATION, (condition("Failed", "True", "Timeout"),), OverviewState.FAILED, "Timeout"),
        (OPERATION, (condition("Cancelled", "True", "UserCancelled"),), OverviewState.CANCELLED, "UserCancelled"),
        (
            CLUSTER,
            (condition("ControllersHealthy", "True", "AllControllersReady"),),
            OverviewState.READY,
            "AllControllersReady",
        ),
        (
            CLUSTER,
            (
                condition("ControllersHealthy", "True", "AllControllersReady"),
                condition("Authenticated", "False", "CredentialRejected"),
            ),
            OverviewState.STALLED,
            "CredentialRejected",
        ),
        (
            CLUSTER,
            (
                condition("ControllersHealthy", "False", "ControllerMissing"),
                condition("JobsBlocked", "True", "RecordsNotStored"),
            ),
            OverviewState.STALLED,
            "RecordsNotStored",
        ),
        (
            CLUSTER,
            (
                condition("Connected", "False", "ControlPlaneUnreachable"),
                condition("ControllersHealthy", "True", "AllControllersReady"),
            ),
            OverviewState.DEGRADED,
            "ControlPlaneUnreachable",
        ),
        (
            CLUSTER,
            (
                condition("Connected", "False", "NoAgent"),
                condition("ControllersHealthy", "True", "AllControllersReady"),
            ),
            OverviewState.READY,
            "AllControllersReady",
        ),
        (SHOP, (condition("Ready", "False", "ResourceNotReady"),), OverviewState.NOT_READY, "ResourceNotReady"),
        (SHOP, (condition("Ready", "Unknown", "Fresh"),), OverviewState.UNSEEN, ""),
        (
            SHOP,
            (
                condition("Ready", "False", GraphReason.WAITING_FOR_GATE),
                condition("Reconciling", "True", "Progressing"),
            ),
            OverviewState.WAITING,
            "WaitingForGate",
        ),
        (
            SHOP,
            (condition("Ready", "False", GraphReason.MISSING_KIND), condition("Reconciling", "True", "Progressing")),
            OverviewState.WAITING,
            "MissingKind",
        ),
        (
            SHOP,
            (condition("Ready", "False", GraphReason.DENIED), condition("Reconciling", "True", "Progressing")),
            OverviewState.WAITING,
            "Denied",
        ),
        (
            SHOP,
            (condition("Ready", "False", "ResourceNotReady"), condition("Reconciling", "True", "Progressing")),
            OverviewState.PROGRESSING,
            "Progressing",
        ),
    ],
)
def test_the_first_rule_that_holds_names_the_state_SEE_1(
    kind: Kind, conditions: tuple[dict[str, Any], ...], state: OverviewState, reason: str
) -> None:
    summary = summary_of(kind, with_conditions(kind, *conditions))
    assert (summary.state, summary.reason) == (state, reason)


@pytest.mark.parametrize("reason", ["VolSyncMoverFailed", "VolSyncError", "VolSyncSyncInProgress"])
@pytest.mark.parametrize("parameters", [{"schedule": "@daily"}, {}])
def test_a_backup_with_a_schedule_that_fails_again_and_again_needs_a_person_SEE_1(
    reason: str, parameters: dict[str, str]
) -> None:
    """It has no deadline that would end it as failed."""
    found = with_conditions(
        OPERATION, condition("Running", "True", reason), condition("Succeeded", "True", "EngineSucceeded")
    )
    found["spec"] = {**found["spec"], "parameters": parameters}

    fails = bool(parameters) and reason != "VolSyncSyncInProgress"
    summary = summary_of(OPERATION, found)
    assert (summary.state, summary.reason) == (OverviewState.DEGRADED if fails else OverviewState.RUNNING, reason)
    assert needs_person(summary.state, is_helpable=summary.is_helpable) is fails


CONFIRM = "it runs on until somebody decides. To uninstall it: kubectl annotate applicationinstances a u=true"
REFUSED = "delete helmreleases is not permitted. To fix: kubectl apply -f rights.yaml"


@pytest.mark.parametrize(
    ("deleting", "blocked", "remedies"),
    [
        (condition("Deleting", "True", "AwaitingConfirmation", message=CONFIRM), (), "kubectl annotate"),
        (
            condition("Deleting", "True", "WaitingForChildResources", message=CONFIRM),
            (),
            "kubectl annotate",
        ),
        (condition("Deleting", "True", "WaitingForChildResources", message="waiting for HelmRelease a/b"), (), ""),
        (condition("Deleting", "True", "Uninstalling", message="deleting HelmRelease a/b"), (), ""),
        (
            condition("Deleting", "True", "Uninstalling", message="delete HelmRelease a/b: no; trying again"),
            (condition("Blocked", "True", "Forbidden", message=REFUSED),),
            "kubectl apply -f rights.yaml",
        ),
        (
            condition("Deleting", "True", "Uninstalling", message="deleting HelmRelease a/b"),
            (condition("Blocked", "True", "NamespaceNotGated", message=REFUSED),),
            "",
        ),
    ],
)
def test_a_deletion_that_waits_for_a_person_says_so_SEE_1(
    deleting: Any, blocked: tuple[Any, ...], remedies: str
) -> None:
    found = summary_of(APPLICATION_INSTANCE, with_conditions(APPLICATION_INSTANCE, deleting, *blocked))

    assert found.state is OverviewState.DELETING
    assert needs_person(found.state, is_helpable=found.is_helpable) is bool(remedies)
    assert bool(found.remedies) is bool(remedies)
    assert all(command.startswith(remedies) for command in found.remedies)


def test_what_is_said_of_an_older_generation_is_not_ready_SEE_1() -> None:
    summary = summary_of(APPLICATION_INSTANCE, with_conditions(APPLICATION_INSTANCE, READY, generation=4, observed=3))
    assert (summary.state, summary.reason) == (OverviewState.PROGRESSING, "NewGeneration")
    assert summary.message == "generation 4 has not been looked at yet; what is told is of 3"


def test_what_is_in_the_way_of_an_older_generation_is_still_told_SEE_1() -> None:
    blocked = condition("Blocked", "True", "NamespaceNotGated")
    summary = summary_of(APPLICATION_INSTANCE, with_conditions(APPLICATION_INSTANCE, blocked, generation=4, observed=3))
    assert (summary.state, summary.reason) == (OverviewState.WAITING, "NamespaceNotGated")


def test_since_is_when_the_reason_began_SEE_1() -> None:
    began = {**READY, "reasonTransitionTime": "2026-03-01T00:00:00.5Z"}
    summary = summary_of(APPLICATION_INSTANCE, with_conditions(APPLICATION_INSTANCE, began))
    assert summary.since == datetime(2026, 3, 1, 0, 0, 0, 500_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("type_", "reason", "message", "remedies"),
    [
        (
            "Blocked",
            "NamespaceNotGated",
            "namespace team is not given to the operator: kubectl label namespace team managed-by=vworkspace",
            ("kubectl label namespace team managed-by=vworkspace",),
        ),
        (
            "Blocked",
            "NameTaken",
            "it exists. If nobody needs it, delete it. To let this instance take it over: "
            "kubectl label helmrelease a -n b x=y",
            ("kubectl label helmrelease a -n b x=y",),
        ),
        (
            "Blocked",
            "Forbidden",
            "To fix: vworkspace-operator manifests --rbac-only --namespace b | kubectl apply --server-side -f -",
            ("vworkspace-operator manifests --rbac-only --namespace b | kubectl apply --server-side -f -",),
        ),
        (
            "Stalled",
            "RetriesExceeded",
            "Helm upgrade failed 3 times",
            (f"vworkspace-operator retry appinst/{NAME} -n {NAMESPACE}",),
        ),
        (
            "Suspended",
            "ManuallySuspended",
            "the HelmRelease is suspended. To fix: kubectl patch helmrelease a -n b -p '{\"spec\":null}'",
            ("kubectl patch helmrelease a -n b -p '{\"spec\":null}'",),
        ),
        (
            "Stalled",
            "MissingRollbackTarget",
            "the chart says: kubectl delete namespace prod",
            (f"vworkspace-operator retry appinst/{NAME} -n {NAMESPACE}",),
        ),
        (
            "Deleting",
            "WaitingForChildResources",
            "waiting for HelmRelease a/b (Flux says UninstallFailed: run kubectl delete namespace a). Flux tries again "
            "by itself; fix what it names, or let go of it with: kubectl annotate a b c=true",
            ("kubectl annotate a b c=true",),
        ),
        ("Stalled", "ValidationFailed", "spec.chart.version must be a version", ()),
    ],
)
def test_the_command_that_is_the_remedy_is_told_SEE_1(
    type_: str, reason: str, message: str, remedies: tuple[str, ...]
) -> None:
    told = with_conditions(APPLICATION_INSTANCE, condition(type_, "True", reason, message=message))
    assert summary_of(APPLICATION_INSTANCE, told).remedies == remedies


def test_a_child_stands_as_the_readiness_of_its_kind_says_PH_1() -> None:
    release = {**HELM_RELEASE.manifest("a", "n"), "status": {}}
    assert summary_of_child(HELM_RELEASE, release).state is OverviewState.PROGRESSING
    going = {**release, "metadata": {"name": "a", "namespace": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert summary_of_child(HELM_RELEASE, going).state is OverviewState.DELETING


@pytest.mark.parametrize(
    ("generation", "observed", "status", "state"),
    [
        (2, 2, "False", OverviewState.NOT_READY),
        (2, 2, "Unknown", OverviewState.PROGRESSING),
        (2, 1, "False", OverviewState.PROGRESSING),
        (2, None, "False", OverviewState.PROGRESSING),
        (None, 2, "False", OverviewState.PROGRESSING),
        (None, None, "False", OverviewState.PROGRESSING),
    ],
)
def test_a_child_has_failed_if_its_controller_says_so_of_its_present_generation_PH_1(
    generation: int | None, observed: int | None, status: str, state: OverviewState
) -> None:
    source = OCI_REPOSITORY.manifest("a", "n")
    source["metadata"]["generation"] = generation
    ready = {"type": "Ready", "status": status, "reason": "Odd", "observedGeneration": observed}
    found = summary_of_child(OCI_REPOSITORY, {**source, "status": {"conditions": [ready], "observedGeneration": 2}})

    assert (found.state, found.reason) == (state, "Odd")


@pytest.mark.parametrize(
    ("kind", "message", "told", "helpable"),
    [
        (SHOP, "2 objects. To fix: kubectl get a", "", False),
        (CONFIG_MAP, "2 objects", "", False),
        (OPERATION, "2 objects", "", False),
        (OPERATOR_BOX, "2 objects", "2 objects", False),
        (OPERATOR_BOX, "2 objects. To fix: kubectl get a", "2 objects. To fix: kubectl get a", True),
    ],
)
def test_only_a_box_says_why_its_deletion_waits_and_helps_with_a_command_SEE_1(
    kind: Kind, message: str, told: str, helpable: bool
) -> None:
    began = "2026-03-01T00:00:00Z"
    serving = condition("Serving", "True", "Deleting", message=message) | {"lastTransitionTime": began}
    meta = {"name": "a", "namespace": "n", "generation": 1, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    status = {"observedGeneration": 1, "conditions": [serving]}

    found = summary_of(kind, {**kind.manifest("a", "n"), "metadata": meta, "status": status})

    assert (found.state, found.message, found.is_helpable) == (OverviewState.DELETING, told, helpable)
    assert found.remedies == (("kubectl get a",) if helpable else ())
    assert found.since == (datetime(2026, 3, 1, tzinfo=UTC) if kind == OPERATOR_BOX else None)


def test_an_object_that_is_deleted_says_whether_its_status_is_older_SEE_1() -> None:
    manifest = with_conditions(APPLICATION_INSTANCE, generation=2, observed=1)
    manifest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = summary_of(APPLICATION_INSTANCE, manifest)

    assert (found.state, found.since, found.is_helpable) == (OverviewState.DELETING, None, False)
    assert found.message == "generation 2 has not been looked at yet; what is told is of 1"


DEPENDS = "when anything that it depends on changes"


@pytest.mark.parametrize(
    ("state", "kind", "reason", "advice", "look"),
    [
        (OverviewState.SUCCEEDED, OPERATION, "", "", ""),
        (OverviewState.FAILED, OPERATION, "", "", ""),
        (OverviewState.CANCELLED, OPERATION, "", "", ""),
        (OverviewState.WAITING, APPLICATION_INSTANCE, "", "", "on change, or within 1 minute"),
        (OverviewState.STALLED, OPERATOR_BOX, "", "", "on change, or within 1 minute"),
        (OverviewState.STALLED, APPLICATION_INSTANCE, "", "", "when its spec changes, or a retry is requested"),
        (OverviewState.STALLED, OPERATION, "", "", DEPENDS),
        (OverviewState.DEGRADED, APPLICATION_INSTANCE, "Drifted", "", DEPENDS),
        (OverviewState.SUSPENDED, APPLICATION_INSTANCE, "", "", "when it is resumed"),
        (OverviewState.UNSEEN, APPLICATION_INSTANCE, "", "other", "once an operator runs for it"),
        (OverviewState.READY, APPLICATION_INSTANCE, "", "", ""),
        (OverviewState.RUNNING, OPERATION, "", "", DEPENDS),
        (OverviewState.DELETING, CONFIG_MAP, "", "", DEPENDS),
    ],
)
def test_each_state_says_when_the_object_is_looked_at_next_SEE_1(
    state: OverviewState, kind: Kind, reason: str, advice: str, look: str
) -> None:
    assert Summary(ObjectRef(kind, "n", "a"), state, reason, advice=advice).next_look == look


@pytest.mark.parametrize(
    ("state", "suspended", "text"),
    [
        (OverviewState.READY, False, "Ready"),
        (OverviewState.READY, True, "Ready, suspended"),
        (OverviewState.SUSPENDED, True, "Suspended"),
        (OverviewState.SUSPENDED, False, "Suspended"),
    ],
)
def test_that_an_object_is_suspended_is_told_beside_any_other_state_SEE_1(
    state: OverviewState, suspended: bool, text: str
) -> None:
    assert Summary(ObjectRef(CONFIG_MAP, "n", "a"), state, is_suspended=suspended).state_text == text


_OF_PHASES = {
    RolloutPhase.COMPLETE: OverviewState.READY,
    RolloutPhase.STOPPED: OverviewState.STALLED,
    RolloutPhase.REFUSED: OverviewState.STALLED,
    RolloutPhase.PAUSED: OverviewState.SUSPENDED,
    RolloutPhase.GATED: OverviewState.WAITING,
    RolloutPhase.JUDGING: OverviewState.PROGRESSING,
    RolloutPhase.PROGRESSING: OverviewState.PROGRESSING,
}


@pytest.mark.parametrize("phase", RolloutPhase)
def test_a_box_stands_as_its_roll_out_does_PH_10(phase: RolloutPhase) -> None:
    """Words, since `status` does not import the room of boxes: each phase is here, so that none is forgotten there."""
    rolled_out = condition("RolledOut", "True" if phase is RolloutPhase.COMPLETE else "False", phase.value)
    accepted = [condition(type_, "True", "Valid") for type_ in (ACCEPTED, PERMITTED, SERVING)]
    found = summary_of(OPERATOR_BOX, with_conditions(OPERATOR_BOX, *accepted, rolled_out))
    assert (found.state, found.reason) == (_OF_PHASES[phase], phase.value)


def test_a_box_that_is_deleted_says_what_it_waits_for_PH_10() -> None:
    conditions = (condition(SERVING, "True", "Deleting", message="2 objects"), condition("RolledOut", "Unknown", "x"))
    box = with_conditions(OPERATOR_BOX, *conditions)
    going = {**box, "metadata": {**box["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}

    found = summary_of(OPERATOR_BOX, going)

    assert (found.state, found.message) == (OverviewState.DELETING, "2 objects")
    assert (found.remedies, found.is_helpable) == ((), False)


def test_a_deleted_box_that_waits_for_its_objects_names_a_command_for_each_policy_PH_10() -> None:
    commands = tuple(
        f"""kubectl patch operatorbox shops --type=merge -p '{{"spec":{{"deletionPolicy":"{policy}"}}}}'"""
        for policy in ("Orphan", "Delete")
    )
    message = f"1 object is left. To leave objects in place: {commands[0]}. To delete them: {commands[1]}"
    going = with_conditions(OPERATOR_BOX, condition(SERVING, "True", "Deleting", message=message))
    going["metadata"]["deletionTimestamp"] = "2026-07-01T12:00:00Z"
    found = summary_of(OPERATOR_BOX, going)
    assert (found.state, found.remedies, found.is_helpable) == (OverviewState.DELETING, commands, True)
    assert found.since is not None


@pytest.mark.parametrize(
    ("rollout", "versions"),
    [
        ({"moved": 5, "total": 5}, ("web-2", "web-2")),
        ({"moved": 0, "total": 0}, ("web-2", "web-2")),
        ({"moved": 2, "total": 5}, ("web-2", "2/5")),
    ],
)
def test_a_box_shows_its_revision_and_how_many_objects_have_it_PH_10(
    rollout: dict[str, int], versions: tuple[str, str]
) -> None:
    box = {**OPERATOR_BOX.manifest("web"), "status": {"revision": "web-2", "rollout": rollout}}
    found = summary_of(OPERATOR_BOX, box)
    assert (found.wanted, found.deployed) == versions


def test_an_instance_shows_what_is_deployed_even_if_its_spec_names_no_version_SEE_1() -> None:
    instance = {**APPLICATION_INSTANCE.manifest("web", "n"), "status": {"deployedChart": {"version": "1.2.0"}}}
    found = summary_of(APPLICATION_INSTANCE, instance)
    assert (found.wanted, found.deployed) == ("", "1.2.0")


@pytest.mark.parametrize(
    ("override", "shown"),
    [
        ({"version": "1.3.0", "operation": "up-1"}, "up-1"),
        ({"version": "1.3.0"}, ""),
        ({"operation": "up-1"}, ""),
        ({"version": "", "operation": "up-1"}, ""),
        (None, ""),
    ],
)
def test_an_instance_shows_the_operation_that_overrides_its_version_SEE_1(override: Any, shown: str) -> None:
    """An override of values alone leaves the version as it is."""
    instance = {**APPLICATION_INSTANCE.manifest("web", "n"), "status": {"releaseOverride": override}}
    assert summary_of(APPLICATION_INSTANCE, instance).override == shown


def test_an_object_that_is_pinned_to_a_revision_that_does_not_exist_is_in_trouble_PH_10() -> None:
    message = f"my-web-1, since the annotation {PIN} names my-web-2, which the box does not have"
    lost = condition("Revision", "True", "NoSuchRevision", message=message)
    found = summary_of(SHOP, with_conditions(SHOP, condition("Ready", "True", "Ready"), lost))
    assert (found.state, found.reason, found.message) == (OverviewState.DEGRADED, "NoSuchRevision", message)
    advice = "Remove the annotation box.vworkspace.io/revision, or take a revision from the history:"
    assert (found.steps, found.is_helpable) == (((advice, "vworkspace-operator box rollout history my-web"),), True)
    stalled = summary_of(SHOP, with_conditions(SHOP, condition("Stalled", "True", "Invalid"), lost))
    assert stalled.reason == "Invalid", "what stands in the object's way comes first"
    pinned = condition("Revision", "True", "Pinned", message="my-web-1")
    assert summary_of(SHOP, with_conditions(SHOP, READY, pinned)).state is OverviewState.READY


@pytest.mark.parametrize(
    ("annotations", "versions"),
    [
        ({}, ("", "")),
        ({PIN: "web-1"}, ("", "")),
        ({BROUGHT_TO: "web-2 2026-01-01T00:00:00Z"}, ("web-2", "web-2")),
        ({BROUGHT_TO: "web-2 2026-01-01T00:00:00Z", PIN: "web-1"}, ("web-1", "web-2")),
        (None, ("", "")),
    ],
)
def test_an_object_of_an_applied_box_shows_its_revision_PH_10(annotations: Any, versions: tuple[str, str]) -> None:
    manifest = CONFIG_MAP.manifest("a", "n")
    manifest["metadata"]["annotations"] = annotations
    found = summary_of(CONFIG_MAP, manifest)
    assert (found.wanted, found.deployed) == versions


@pytest.mark.parametrize(
    ("generation", "failures", "state"),
    [
        (2, 3, OverviewState.NOT_READY),
        (2, 0, OverviewState.PROGRESSING),
        (1, 3, OverviewState.PROGRESSING),
        (None, 3, OverviewState.PROGRESSING),
    ],
    ids=["retried", "first try", "failed before the change", "of an older Flux"],
)
def test_a_release_that_failed_and_is_retried_is_not_ready_while_flux_tries_SEE_3(
    generation: int | None, failures: int, state: OverviewState
) -> None:
    """Flux replaces Ready=False by Unknown during each try, and counts the failures of the generation beside it."""
    release = HELM_RELEASE.manifest("a", "n")
    release["metadata"]["generation"] = 2
    trying = condition("Ready", "Unknown", "Progressing", message="Running 'upgrade' action with timeout of 5m0s")
    counted = {"failures": failures, "lastAttemptedGeneration": generation, "conditions": [trying]}
    assert summary_of_child(HELM_RELEASE, {**release, "status": counted}).state is state


@pytest.mark.parametrize(
    ("kind", "stalled", "look"),
    [
        (APPLICATION_INSTANCE, ("Stalled", "True"), "when its spec changes, or a retry is requested"),
        (OPERATION, ("Accepted", "False"), "when anything that it depends on changes"),
        (CLUSTER, ("Authenticated", "False"), "when anything that it depends on changes"),
        (OPERATOR_BOX, ("RolledOut", "False"), "on change, or within 1 minute"),
        (SHOP, ("Stalled", "True"), "when anything that it depends on changes"),
    ],
)
def test_a_retry_is_named_only_where_it_can_be_requested_SEE_1(kind: Kind, stalled: tuple[str, str], look: str) -> None:
    manifest = with_conditions(kind, condition(*stalled, "Refused"))
    summary = summary_of(kind, manifest)
    assert (summary.state, summary.next_look) == (OverviewState.STALLED, look)
    assert isinstance(retry(kind, manifest, NOW), PlannedAction) == ("retry" in look)


@pytest.mark.parametrize(("value", "overwrite"), [(None, ""), ("me", " --overwrite")])
def test_an_object_without_our_label_waits_for_a_label_and_the_command_sets_it_RES_5(
    value: str | None, overwrite: str
) -> None:
    manifest = MANIFESTS[APPLICATION_INSTANCE]
    labels = {MANAGED_BY: value} if value else {}
    summary = summary_of(APPLICATION_INSTANCE, {**manifest, "metadata": {**manifest["metadata"], "labels": labels}})
    label = f"{MANAGED_BY}={MANAGED_BY_VALUE}"
    assert summary.remedies == (
        f"kubectl label applicationinstances.apps.vworkspace.io {NAME} -n {NAMESPACE} {label}{overwrite}",
    )
    assert summary.next_look == "when it is labelled"


@pytest.mark.parametrize("is_of_control_plane", [True, False])
@pytest.mark.parametrize(("deployed", "former"), [("", ""), ("6.6.0", ""), ("6.5.0", ", or return to 6.5.0")])
def test_who_may_correct_a_release_that_flux_has_given_up_is_told_with_a_version_to_return_to(
    is_of_control_plane: bool, deployed: str, former: str
) -> None:
    annotations = {IDEMPOTENCY_KEY: "job-1"} if is_of_control_plane else {}
    manifest = instance_manifest(metadata={"annotations": annotations})
    manifest["status"] = {"deployedChart": {"version": deployed}} if deployed else {}
    where = "where the object comes from" + (" (the control plane)" if is_of_control_plane else "")

    helped = help_for(APPLICATION_INSTANCE, manifest, "Stalled", "RetriesExceeded", "")

    assert f"correct spec.chart or spec.values {where}{former}; a change is tried automatically" in helped.advice
    assert helped.remedies == (f"vworkspace-operator retry appinst/{NAME} -n {NAMESPACE}",)


@pytest.mark.parametrize(
    ("values", "cause", "command"),
    [
        (
            {"source": "secretRef", "secretRef": {"name": "v", "key": "values.yaml"}},
            'secrets "v" not found',
            "kubectl create secret generic v -n {} --from-file=values.yaml=FILE",
        ),
        (
            {"source": "configMapRef", "configMapRef": {"name": "v", "key": "v.yaml"}},
            'configmaps "v" not found',
            "kubectl create configmap v -n {} --from-file=v.yaml=FILE",
        ),
        (
            {"source": "secretRef", "secretRef": {"name": "v", "key": "values.yaml"}},
            "missing key 'values.yaml'",
            "kubectl create secret generic v -n {} --from-file=values.yaml=FILE --dry-run=client -o yaml "
            "| kubectl apply --server-side -f -",
        ),
    ],
)
def test_missing_values_are_advised_with_the_command_that_stores_them(values: Any, cause: str, command: str) -> None:
    message = f"could not resolve Secret chart values reference '{NAMESPACE}/v' with key 'values.yaml': {cause}"
    helped = help_for(APPLICATION_INSTANCE, instance_manifest(values=values), "Ready", "WaitingForSecret", message)
    create = f"Create the Secret or ConfigMap, from FILE: {command.format(NAMESPACE)}"
    otherwise = "If it is there under another key, correct spec.values. Flux tries again automatically."
    assert helped.advice.endswith(f"{create}. {otherwise}")
    assert helped.remedies == (), "nobody can run it before FILE is there"


def test_values_of_an_object_that_the_spec_does_not_name_are_advised_without_a_command() -> None:
    message = f"could not resolve ConfigMap chart values reference '{NAMESPACE}/other' with key 'v': key not found"
    helped = help_for(APPLICATION_INSTANCE, instance_manifest(), "Ready", "WaitingForSecret", message)
    assert "kubectl" not in helped.advice
    assert "the Secret or ConfigMap that the message names" in helped.advice
    without_key = instance_manifest(values={"source": "configMapRef", "configMapRef": {"name": "other"}})
    assert help_for(APPLICATION_INSTANCE, without_key, "Ready", "WaitingForSecret", message).advice == helped.advice


@pytest.mark.parametrize(("deployed", "meanwhile"), [("", "."), ("6.5.0", "; version 6.5.0 runs on until then.")])
def test_a_chart_that_cannot_be_fetched_names_the_version_that_runs_and_who_tries_again(
    deployed: str, meanwhile: str
) -> None:
    manifest = with_conditions(APPLICATION_INSTANCE, condition("Degraded", "True", "ChartUnreachable"))
    manifest["status"]["deployedChart"] = {"version": deployed} if deployed else None
    summary = summary_of(APPLICATION_INSTANCE, manifest)
    assert summary.advice.endswith(f"Flux tries again automatically{meanwhile}")
    assert summary.next_look == "when Flux has tried again, or its spec changes"


@pytest.mark.parametrize(
    ("type_", "reason", "is_quoted"),
    [
        ("Stalled", "ResourceFailed", True),
        ("Reconciling", "Progressing", True),
        ("Ready", "WaitingForExternal", True),
        ("Stalled", "NameTaken", False),
        ("Stalled", "FieldConflict", False),
    ],
)
def test_no_text_of_a_child_of_a_box_is_offered_as_a_command_SEE_1(type_: str, reason: str, is_quoted: bool) -> None:
    """Whoever writes the status of a child could have had people paste `kubectl delete`."""
    status = "False" if type_ == "Ready" else "True"
    conditions = [condition(type_, status, reason, message="web: To fix: kubectl delete namespace prod")]
    found = summary_of(SHOP, {**SHOP.manifest("a", "n"), "status": {"conditions": conditions}})
    assert (found.remedies == (), found.is_helpable) == (is_quoted, not is_quoted)
