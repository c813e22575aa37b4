"""What `test_reconcile_machine` found, each as a plain story with a sentence on what was wrong."""

from kubelab.flux import SourceFault
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION
from tests.support.instance_oracle import claims_ready, conditions_of
from tests.support.instance_stories import broken, copy_of, status_of, world_with
from tests.support.instance_turmoil import CHART, Turmoil, intent
from tests.support.simulation import FRAGMENT, HELM, INSTANCE, NS, OCI, REPOSITORY
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

# --- old copies of the source ---------------------------------------------------------------------------------------


def test_an_old_copy_does_not_bring_the_old_version_back_REC_7() -> None:
    """A pass on a stale copy applied what had been wanted before, and only its status was refused."""
    world = world_with(version="6.6.0")
    old = copy_of(world)
    world.submit(intent(version="6.7.0"))
    world.run(20)
    version = world.server.store.version

    world.reconcile(INSTANCE, stale=old)

    assert world.server.store.version == version
    assert get_path(world.look(OCI), "spec", "ref", "tag") == "6.7.0"


def test_an_old_copy_does_not_raise_the_dead_REC_10() -> None:
    """The stale copy of a deleted instance made its HelmRelease anew; with nobody to take it down, for ever."""
    world = world_with(collects=False)
    old = copy_of(world)
    world.remove(INSTANCE)
    world.run(20)
    assert world.look(INSTANCE) is None

    world.reconcile(INSTANCE, stale=old)

    assert world.look(HELM) is None
    assert world.look(OCI) is None


# --- failures of the request before ---------------------------------------------------------------------------------


def test_a_tag_that_could_not_be_fetched_says_nothing_of_the_next_tag_REC_5() -> None:
    """FetchFailed stays on the OCIRepository until the next fetch has ended; it was told as the new request's."""
    world = world_with()
    broken(world, SourceFault.NOT_FOUND, "6.7.0")
    world.submit(intent(version="6.7.0"))
    world.run(30)
    assert status_of(world, "Ready") == ("False", "ChartUnreachable", 2)

    world.submit(intent(version="6.5.0"))
    world.reconcile(INSTANCE)

    assert status_of(world, "Ready") == ("False", "Upgrading", 3)


def test_a_chart_version_that_does_not_exist_says_nothing_of_the_next_version_REC_5() -> None:
    """The HelmChart of the version before was asked what is wrong with the version wanted now."""
    world = world_with(source_type="helm")
    broken(world, SourceFault.NOT_FOUND, "6.7.0")
    world.submit(intent(source_type="helm", version="6.7.0"))
    world.run(30)
    assert status_of(world, "Ready") == ("False", "ChartUnreachable", 2)

    world.submit(intent(source_type="helm", version="6.5.0"))
    world.reconcile(INSTANCE)

    assert status_of(world, "Ready") == ("False", "Upgrading", 3)


def test_missing_values_say_nothing_of_other_values_REC_5() -> None:
    """ValuesError names the Secret of before until Flux has looked at the new one; it was told all the same."""
    world = world_with(values={"source": "secretRef", "secretRef": {"name": "values-b", "key": "values.yaml"}})
    assert status_of(world, "Ready") == ("False", "WaitingForSecret", 1)

    world.submit(intent(values={"source": "inline", "inline": {}}))
    world.reconcile(INSTANCE)

    assert status_of(world, "Ready") == ("False", "Installing", 2)


def test_what_flux_said_of_the_source_before_says_nothing_of_the_source_now_REC_5() -> None:
    """helm-controller repeats SourceNotReady for 30 s, with the source's old message in it."""
    world = world_with(0)
    broken(world, SourceFault.UNAUTHORIZED, "6.6.0")
    world.run(25)
    assert get_path(conditions_of(world.look(HELM))["Ready"], "reason") == "SourceNotReady"

    world.submit(intent(version="6.5.0"))
    world.reconcile(INSTANCE)
    assert status_of(world, "Ready") == ("False", "Installing", 2)
    world.flux.tick(world.now)
    world.pass_time(1)
    world.reconcile(INSTANCE)

    assert status_of(world, "Ready") == ("False", "Installing", 2)


# --- Ready before its time ------------------------------------------------------------------------------------------


def test_another_repository_has_to_be_looked_at_before_the_release_is_ready_REC_7() -> None:
    """The same chart version from another URL moves nothing on the HelmRelease: it was ready at once, even when the
    new repository does not exist."""
    world = world_with(source_type="helm")
    broken(world, SourceFault.UNAVAILABLE)

    world.submit(intent(source_type="helm", host="two"))
    world.run(20)

    assert status_of(world, "Ready") == ("False", "ChartUnreachable", 2)
    world.behave()
    world.run(120)
    assert status_of(world, "Ready") == ("True", "HelmReleaseReady", 2)


def test_an_address_that_can_never_work_does_not_keep_the_instance_ready_REC_7() -> None:
    """A stalled OCIRepository has observed its generation and keeps the artifact of the address before."""
    world = world_with()
    broken(world, SourceFault.INVALID_URL)

    world.submit(intent(host="two"))
    world.run(20)

    assert not claims_ready(world.look(INSTANCE))
    assert status_of(world, "Ready") == ("False", "ChartUnreachable", 2)


def test_a_suspended_source_confirms_nothing_new_and_is_told_REC_7() -> None:
    """A suspended OCIRepository observes its generation without fetching: another chart of the same version was
    called ready though the old one ran."""
    world = world_with()
    world.submit(intent(chart="nextcloud-slim"))
    world.reconcile(INSTANCE)
    world.edit(OCI, {"spec": {"suspend": True}}, manager="flux")
    world.run(20)

    assert not claims_ready(world.look(INSTANCE))
    assert status_of(world, "Suspended") == ("True", "ManuallySuspended", 2)
    assert "OCIRepository is suspended" in world.message(INSTANCE, "Suspended")
    world.edit(OCI, {"spec": {"suspend": None}}, manager="flux")
    world.run(20)
    assert claims_ready(world.look(INSTANCE))


def test_a_source_that_flux_has_given_up_on_stalls_the_instance_RES_4() -> None:
    """Reconciling=True was told for ever of what only another spec can cure."""
    world = Turmoil()
    broken(world, SourceFault.INVALID_URL)
    world.submit(intent())

    world.run(20)

    assert status_of(world, "Stalled") == ("True", "URLInvalid", 1)
    assert status_of(world, "Reconciling") == ("False", "Stable", 1)
    assert status_of(world, "Degraded") == ("True", "ChartUnreachable", 1)


def test_a_chart_version_that_is_in_no_index_stalls_until_an_index_has_it_RES_4() -> None:
    """The same for the HelmChart, which Flux tries again with every new index."""
    world = Turmoil()
    broken(world, SourceFault.NOT_FOUND, "6.6.0")
    world.submit(intent(source_type="helm"))
    world.run(20)
    assert status_of(world, "Stalled") == ("True", "InvalidChartReference", 1)

    world.behave()
    world.edit(CHART, {"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "now"}}}, manager="flux")
    world.run(60)

    assert claims_ready(world.look(INSTANCE))
    assert "Stalled" not in conditions_of(world.look(INSTANCE))


# --- people's hands -------------------------------------------------------------------------------------------------


def test_labels_that_somebody_took_off_our_own_object_come_back_PH_2() -> None:
    """An object that the instance controls, without its labels, was called a stranger's: NameTaken, by ourselves."""
    world = world_with()
    world.edit(OCI, {"metadata": {"labels": None}})

    world.run(20)

    assert get_path(world.look(OCI), "metadata", "labels", "app.vworkspace.io/instance-uid")
    assert world.condition(INSTANCE, "Blocked") is None


def test_an_obstacle_has_one_event_of_its_own_reason_REC_1() -> None:
    world = world_with()
    world.submit(intent(version="6.7.0"))
    world.run(3)
    assert status_of(world, "Reconciling")[0] == "True"
    world.edit(HELM, {"spec": {"interval": "1h", "timeout": "1h"}}, manager="kubectl-edit")
    world.reconcile(INSTANCE)
    assert status_of(world, "Reconciling")[:2] == ("False", "Stable")

    reasons = [event.reason for event in world.events.events]
    assert reasons.count("FieldConflict") == 1
    assert "Stable" not in reasons


def test_the_command_that_hands_many_fields_back_is_whole_REC_8() -> None:
    """The message was cut at 1 KiB in the middle of its command."""
    world = world_with()
    world.edit(HELM, {"spec": {"interval": "1h", "timeout": "1h"}}, manager="kubectl-edit")
    world.edit(HELM, {"spec": {"maxHistory": 3, "install": {"remediation": {"retries": 9}}}}, manager="team-blue")
    world.edit(HELM, {"spec": {"driftDetection": {"mode": "enabled"}}}, manager="kubectl-client-side-apply")
    world.edit(HELM, {"spec": {"upgrade": {"cleanupOnFail": False}}}, manager="somebody-with-a-long-name")
    world.run(20)
    assert world.condition(INSTANCE, "Blocked") == ("True", "FieldConflict")

    assert world.hand_back()
    world.run(20)

    assert world.condition(INSTANCE, "Blocked") == ("False", "Unblocked")
    assert get_path(world.look(HELM), "spec", "maxHistory") == 10


def test_the_command_names_a_resource_of_the_core_group_as_kubectl_does_REC_8() -> None:
    """`kubectl patch configmaps.` was what people were told to run."""
    ingress = {"ingress": {"enabled": True, "host": "cloud.example"}}
    values = {"source": "secretRef", "secretRef": {"name": "values-a", "key": "values.yaml"}}
    world = world_with(values=values, integrations=ingress)
    world.edit(FRAGMENT, {"data": {"values.yaml": "{}"}})
    world.run(20)

    assert f"kubectl patch configmaps {world.actual(FRAGMENT).name} -n {NS} " in world.message(INSTANCE, "Blocked")
    assert world.hand_back()
    world.run(20)
    assert world.condition(INSTANCE, "Blocked") == ("False", "Unblocked")


def test_a_version_set_by_hand_does_not_end_in_a_release_that_is_not_valid_REC_8() -> None:
    """After a change from helm to oci, the `chart.spec.version` that somebody holds stayed and made the HelmRelease
    invalid: ValidationFailed and Stalled, without a word on who or how."""
    world = world_with(source_type="helm")
    world.edit(HELM, {"spec": {"chart": {"spec": {"version": "6.5.0"}}}})
    world.submit(intent(source_type="oci"))
    world.run(20)

    assert world.condition(INSTANCE, "Blocked") == ("True", "FieldConflict")
    assert '.spec.chart, held by field manager "kubectl-edit"' in world.message(INSTANCE, "Blocked")
    assert "Stalled" not in conditions_of(world.look(INSTANCE))
    assert world.hand_back()
    world.run(30)
    assert claims_ready(world.look(INSTANCE))
    assert world.look(REPOSITORY) is None


# --- the definition of the kind --------------------------------------------------------------------------------------


def test_a_definition_that_is_going_is_seen_live_REC_10() -> None:
    """It was looked up in a cache, whose event came after those of its instances."""
    world = world_with()
    ref = ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, APPLICATION_INSTANCE.crd_name)
    assert world.observe(INSTANCE)[1].definition_ending is False
    world.edit(ref, {"metadata": {"finalizers": ["example.org/hold"]}})
    world.remove(ref)
    assert world.observe(INSTANCE)[1].definition_ending is True
