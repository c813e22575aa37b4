"""The life of an instance on the in-memory cluster, with a Flux that misleads (REC-5 to REC-12, RUN-9)."""

from typing import Any

import attrs
import pytest

from kubelab.flux import (
    Action,
    FluxBehaviour,
    FluxOutcome,
    OutcomeKind,
    ReleaseRule,
    SourceFault,
    SourceOutcome,
    SourceRule,
)
from kubelab.flux.crds import flux_crds
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path
from purekube.apimachinery.resources import HELM_RELEASE
from tests.support.flux_world import left_behind
from tests.support.instance_worlds import instance_manifest
from tests.support.simulation import HELM, INSTANCE, NS, OCI, REPOSITORY, Simulation
from vworkspace_core.api.labels import FIELD_MANAGER, FINALIZER


def chart(version: str = "6.6.0", source_type: str = "oci", url: str = "") -> dict[str, str]:
    default = "oci://registry.example/charts" if source_type == "oci" else "https://charts.example"
    return {"sourceType": source_type, "url": url or default, "name": "nextcloud", "version": version}


def failing(action: Action, version: str, message: str = "boom") -> FluxBehaviour:
    outcome = FluxOutcome(OutcomeKind.FAIL, message)
    return FluxBehaviour(release_rules=(ReleaseRule(outcome, action=action, version=version),))


def ready_of(manifest: Manifest) -> tuple[str, str]:
    condition = next(c for c in manifest["status"]["conditions"] if c["type"] == "Ready")
    return condition["status"], condition["reason"]


def settled(**spec: Any) -> Simulation:
    world = Simulation()
    world.submit(instance_manifest(**spec))
    world.settle(INSTANCE)
    return world


@pytest.mark.parametrize("source_type", ["oci", "helm"])
def test_from_creation_to_ready_in_at_most_five_writes(source_type: str) -> None:
    world = Simulation()
    world.submit(instance_manifest(chart=chart(source_type=source_type)))
    world.server.audit.clear()

    world.settle(INSTANCE)

    assert world.condition(INSTANCE, "Ready") == ("True", "HelmReleaseReady")
    assert world.operator_writes() <= 5
    running = [(w.namespace, w.release, w.version.partition("+")[0]) for w in world.flux.workloads]
    assert running == [(NS, "nextcloud", "6.6.0")]


def test_a_settled_instance_stays_silent_through_fluxs_intervals() -> None:
    world = settled()
    world.server.audit.clear()

    for _ in range(24):
        world.pass_time(150)
        world.reconcile(INSTANCE)

    assert world.operator_writes() == 0


def test_a_settled_instance_stays_silent_through_a_passing_trouble_of_its_source() -> None:
    world = settled()
    world.server.audit.clear()
    trouble = SourceOutcome(SourceFault.UNAVAILABLE, "503", times=2)
    world.flux.behaviour = FluxBehaviour(source_rules=(SourceRule(trouble),))

    for _ in range(40):
        world.pass_time(15)
        world.reconcile(INSTANCE)

    assert world.operator_writes() == 0


def test_a_lasting_trouble_of_the_source_degrades_and_recovers_while_ready_stays() -> None:
    world = settled()
    world.flux.behaviour = FluxBehaviour(source_rules=(SourceRule(SourceOutcome(SourceFault.UNAVAILABLE, "503")),))
    for _ in range(40):
        world.pass_time(30)
        world.reconcile(INSTANCE)
    assert world.condition(INSTANCE, "Degraded") == ("True", "ChartUnreachable")

    world.flux.behaviour = FluxBehaviour()
    for _ in range(60):
        world.pass_time(30)
        world.reconcile(INSTANCE)

    assert world.condition(INSTANCE, "Degraded") == ("False", "Recovered")
    after_first = [ready_of(m) for m in world.history if ready_of(m)[0] == "True"]
    assert {ready_of(m) for m in world.history[-len(after_first) :]} == {("True", "HelmReleaseReady")}


def test_an_upgrade_reaches_ready_only_when_that_version_is_deployed() -> None:
    world = settled()
    world.submit(instance_manifest(chart=chart("6.7.0")))

    while world.condition(INSTANCE, "Ready") != ("True", "HelmReleaseReady") or not _observed(world, 2):
        world.reconcile(INSTANCE)
        if _observed(world, 2) and world.condition(INSTANCE, "Ready") == ("True", "HelmReleaseReady"):
            break
        world.pass_time(1)

    assert [w.version.partition("+")[0] for w in world.flux.workloads] == ["6.7.0"]


def _observed(world: Simulation, generation: int) -> bool:
    return bool(get_path(world.get(INSTANCE), "status", "observedGeneration") == generation)


@pytest.mark.slow
@pytest.mark.parametrize("source_type", ["oci", "helm"])
def test_an_upgrade_after_a_failed_one_shows_neither_the_old_failure_nor_a_flap(source_type: str) -> None:
    world = settled(chart=chart(source_type=source_type))
    world.flux.behaviour = failing(Action.UPGRADE, "6.7.0")
    world.submit(instance_manifest(chart=chart("6.7.0", source_type)))
    world.settle(INSTANCE)
    assert world.condition(INSTANCE, "Degraded") == ("True", "HelmReleaseFailed")
    assert world.condition(INSTANCE, "Stalled") is not None

    world.submit(instance_manifest(chart=chart("6.8.0", source_type)))
    del world.history[:-1]  # the status that stands is where the new story begins
    for _ in range(60):
        world.reconcile(INSTANCE)
        world.pass_time(0.5)
    world.settle(INSTANCE)

    readies = [ready_of(manifest) for manifest in world.history[1:]]
    assert ("False", "HelmReleaseFailed") not in readies
    assert ("False", "RolledBack") not in readies
    assert [status for status, _ in readies].count("True") >= 1
    assert readies == sorted(readies, key=lambda ready: ready[0] == "True"), f"Ready flapped: {readies}"
    assert world.condition(INSTANCE, "Degraded") == ("False", "Recovered")
    assert world.condition(INSTANCE, "Stalled") is None


def test_a_failed_upgrade_tells_the_failure_and_not_the_rollback() -> None:
    world = settled()
    world.flux.behaviour = failing(Action.UPGRADE, "6.7.0", "timed out waiting for the condition")
    world.submit(instance_manifest(chart=chart("6.7.0")))

    found = world.settle(INSTANCE)

    assert ready_of(found) == ("False", "RolledBack")
    told = next(c["message"] for c in found["status"]["conditions"] if c["type"] == "Degraded")
    assert "timed out waiting for the condition" in told


def test_going_back_to_the_version_that_flux_rolled_back_to_becomes_ready() -> None:
    """Found by the simulated Flux: a rollback's history entry has no ociDigest, and no new release is made for it."""
    world = settled()
    world.flux.behaviour = failing(Action.UPGRADE, "6.7.0")
    world.submit(instance_manifest(chart=chart("6.7.0")))
    world.settle(INSTANCE)

    world.submit(instance_manifest(chart=chart("6.6.0")))
    world.settle(INSTANCE)

    assert world.condition(INSTANCE, "Ready") == ("True", "HelmReleaseReady")
    assert world.condition(INSTANCE, "Stalled") is None


def test_a_moved_tag_is_not_confirmed_by_the_digest_of_before() -> None:
    world = settled()
    url = f"{chart()['url']}/nextcloud"
    world.flux.behaviour = FluxBehaviour(digest_salts={f"{url}:6.6.0": "pushed again"})

    world.settle(INSTANCE)
    world.pass_time(400)
    world.settle(INSTANCE)

    digest = get_path(world.get(OCI), "status", "artifact", "revision").partition("@")[2]
    assert get_path(world.get(HELM), "status", "history", 0, "ociDigest") == digest
    assert world.condition(INSTANCE, "Ready") == ("True", "HelmReleaseReady")


def test_ready_stuck_unknown_after_a_success_is_believed_in_the_end_helm_controller_1409() -> None:
    world = Simulation(behaviour=FluxBehaviour(ready_stuck_unknown=True))
    world.submit(instance_manifest())

    world.settle(INSTANCE)
    world.pass_time(90)
    world.reconcile(INSTANCE)

    assert world.condition(INSTANCE, "Ready") == ("True", "HelmReleaseReady")


def test_suspended_by_hand_and_resumed_by_hand_meet_no_conflict() -> None:
    world = settled()
    world.edit(HELM, {"spec": {"suspend": True}}, manager="flux")
    world.settle(INSTANCE)
    assert world.condition(INSTANCE, "Suspended") == ("True", "ManuallySuspended")
    assert world.condition(INSTANCE, "Ready") == ("True", "HelmReleaseReady")

    world.edit(HELM, {"spec": {"suspend": None}}, manager="flux")
    world.settle(INSTANCE)

    assert world.condition(INSTANCE, "Suspended") == ("False", "Active")
    assert world.condition(INSTANCE, "Blocked") is None


def test_a_field_conflict_blocks_names_the_holder_and_heals_when_handed_back_REC_8() -> None:
    world = settled()
    world.edit(HELM, {"spec": {"interval": "1h"}})

    world.settle(INSTANCE)

    assert world.condition(INSTANCE, "Blocked") == ("True", "FieldConflict")
    assert world.condition(INSTANCE, "Ready") == ("True", "HelmReleaseReady")
    told = next(c["message"] for c in world.get(INSTANCE)["status"]["conditions"] if c["type"] == "Blocked")  # type: ignore[index]
    assert 'field manager "kubectl-edit" holds .spec.interval' in told
    assert get_path(world.get(HELM), "spec", "interval") == "1h", "nothing is forced"

    _hand_back(world, told)
    world.settle(INSTANCE)

    assert world.condition(INSTANCE, "Blocked") == ("False", "Unblocked")
    assert get_path(world.get(HELM), "spec", "interval") == "5m"


def _hand_back(world: Simulation, told: str) -> None:
    """Do what the message says: its JSON patch, to the letter."""
    import json
    import shlex

    from kubelab.inprocess import run_sync
    from purekube.ports import PatchType

    words = shlex.split(told.partition("To hand it back: ")[2])
    assert words[:2] == ["kubectl", "patch"]
    patch = json.loads(words[words.index("-p") + 1])
    run_sync(world.admin.patch(HELM, patch, patch_type=PatchType.JSON, field_manager="kubectl"))


@pytest.mark.slow
def test_fields_of_other_managers_survive() -> None:
    world = settled()
    world.edit(HELM, {"metadata": {"annotations": {"team": "blue"}}, "spec": {"dependsOn": [{"name": "database"}]}})
    world.submit(instance_manifest(chart=chart("6.7.0")))

    world.settle(INSTANCE)

    assert get_path(world.get(HELM), "metadata", "annotations", "team") == "blue"
    assert get_path(world.get(HELM), "spec", "dependsOn") == [{"name": "database"}]


def test_a_field_of_ours_that_somebody_removed_comes_back() -> None:
    world = settled()
    world.edit(HELM, {"spec": {"maxHistory": None}})

    world.settle(INSTANCE)

    assert get_path(world.get(HELM), "spec", "maxHistory") == 10
    assert world.condition(INSTANCE, "Blocked") is None


def test_a_second_instance_with_the_same_release_name_never_takes_over_REC_4() -> None:
    world = settled()
    before = world.get(HELM)
    twin = instance_manifest(chart=chart("9.9.9"))
    twin["metadata"]["name"] = "twin"
    world.submit(twin)
    twin_ref = attrs.evolve(INSTANCE, name="twin")

    world.settle(twin_ref)

    assert world.condition(twin_ref, "Blocked") == ("True", "NameTaken")
    assert world.condition(twin_ref, "Ready") == ("False", "NotDeployed")
    assert world.get(HELM) == before


def test_a_release_made_by_a_human_is_never_taken_over_REC_4() -> None:
    world = Simulation()
    by_hand = {
        **HELM_RELEASE.manifest("nextcloud", NS),
        "spec": {"interval": "1h", "chartRef": {"kind": "OCIRepository", "name": "x"}},
    }
    from kubelab.inprocess import run_sync

    run_sync(world.admin.create(by_hand, kind=HELM_RELEASE, field_manager="kubectl-create"))
    before = world.get(HELM)
    world.submit(instance_manifest())

    world.settle(INSTANCE)

    assert world.condition(INSTANCE, "Blocked") == ("True", "NameTaken")
    assert get_path(world.get(HELM), "spec") == get_path(before, "spec")
    world.remove(HELM)
    world.settle(INSTANCE)
    assert world.condition(INSTANCE, "Ready") == ("True", "HelmReleaseReady")


def test_a_release_deleted_by_hand_is_made_again() -> None:
    world = settled()
    world.remove(HELM)

    world.settle(INSTANCE)

    assert world.condition(INSTANCE, "Ready") == ("True", "HelmReleaseReady")
    assert len(world.flux.workloads) == 1


def test_missing_flux_is_named_and_its_arrival_is_enough_REC_12() -> None:
    world = Simulation(with_flux=False)
    world.submit(instance_manifest())
    world.reconcile(INSTANCE)
    assert world.condition(INSTANCE, "Blocked") == ("True", "MissingDependencies")

    for crd in flux_crds():
        world.create_definition(crd)
    world.settle(INSTANCE)

    assert world.condition(INSTANCE, "Ready") == ("True", "HelmReleaseReady")
    assert world.condition(INSTANCE, "Blocked") == ("False", "Unblocked")


def test_the_old_source_is_pruned_once_the_new_one_is_in_use_REC_14() -> None:
    world = settled()
    world.submit(instance_manifest(chart=chart(source_type="helm")))

    world.reconcile(INSTANCE)
    assert world.get(OCI) is not None, "not before the new one is in use"
    world.settle(INSTANCE)

    assert world.get(OCI) is None
    assert world.get(REPOSITORY) is not None
    assert world.condition(INSTANCE, "Ready") == ("True", "HelmReleaseReady")


def test_deletion_uninstalls_and_leaves_nothing_REC_10() -> None:
    world = settled()
    world.remove(INSTANCE)

    _until_gone(world)

    assert (world.get(HELM), world.get(OCI)) == (None, None)
    assert not world.flux.workloads
    kinds = [c["reason"] for m in world.history for c in m["status"]["conditions"] if c["type"] == "Deleting"]
    assert kinds[:1] == ["Uninstalling"] or kinds[:1] == ["WaitingForChildResources"]


def test_deleting_a_suspended_instance_uninstalls_all_the_same_REC_10() -> None:
    world = settled()
    world.edit(HELM, {"spec": {"suspend": True}}, manager="flux")
    world.settle(INSTANCE)
    world.remove(INSTANCE)

    _until_gone(world)

    assert not world.flux.workloads
    assert not left_behind(world.flux)


def test_deletion_needs_no_garbage_collector_REC_10() -> None:
    world = Simulation(collects=False)
    world.submit(instance_manifest())
    world.settle(INSTANCE)
    world.remove(INSTANCE)

    _until_gone(world)

    assert (world.get(HELM), world.get(OCI)) == (None, None)


def test_deleting_an_instance_that_never_owned_the_release_leaves_it_alone() -> None:
    world = settled()
    twin = instance_manifest()
    twin["metadata"]["name"] = "twin"
    world.submit(twin)
    twin_ref = attrs.evolve(INSTANCE, name="twin")
    world.settle(twin_ref)
    world.remove(twin_ref)

    world.reconcile(twin_ref)

    assert world.get(twin_ref) is None
    assert len(world.flux.workloads) == 1


def test_without_flux_the_finalizer_waits_and_says_so_unless_abandoned_REC_10_RES_5() -> None:
    world = settled()
    for crd in flux_crds():
        world.remove(ObjectRef(_definitions(), None, crd["metadata"]["name"]))
    world.remove(INSTANCE)
    world.reconcile(INSTANCE)
    assert world.condition(INSTANCE, "Deleting") == ("True", "WaitingForChildResources")

    world.edit(INSTANCE, {"metadata": {"annotations": {"vworkspace.io/abandon": "true"}}})
    world.reconcile(INSTANCE)

    assert world.get(INSTANCE) is None
    assert [(e.type, e.reason) for e in world.events.events][-1] == ("Warning", "Abandoned")


def test_without_flux_what_never_had_a_release_is_let_go_of_at_once_REC_10() -> None:
    """The agent's apply puts the finalizer on; where nothing was ever applied there is nothing to uninstall."""
    world = Simulation(with_flux=False)
    world.submit(instance_manifest())
    world.edit(INSTANCE, {"metadata": {"finalizers": [FINALIZER]}}, manager=FIELD_MANAGER)
    world.reconcile(INSTANCE)
    assert world.condition(INSTANCE, "Blocked") == ("True", "MissingDependencies")

    world.remove(INSTANCE)
    world.reconcile(INSTANCE)

    assert world.get(INSTANCE) is None


def _definitions() -> Any:
    from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION

    return CUSTOM_RESOURCE_DEFINITION


def test_an_instance_that_lost_its_label_is_finalized_all_the_same_RES_5() -> None:
    world = settled()
    world.edit(INSTANCE, {"metadata": {"labels": {"app.vworkspace.io/managed-by": None}}})
    world.remove(INSTANCE)

    _until_gone(world)

    assert not world.flux.workloads


def _until_gone(world: Simulation) -> None:
    for _ in range(200):
        if world.reconcile(INSTANCE) is None:
            return
        world.pass_time(1)
    raise AssertionError(f"still there: {world.get(INSTANCE)}")


def test_a_stale_copy_never_overwrites_a_newer_status_REC_7() -> None:
    world = settled()
    old = world.get(INSTANCE)
    world.submit(instance_manifest(chart=chart("6.7.0")))
    world.settle(INSTANCE)
    before = world.get(INSTANCE)

    world.reconcile(INSTANCE, stale=old)

    after = world.get(INSTANCE)
    assert get_path(after, "status") == get_path(before, "status")


def test_the_retry_annotation_sets_a_stalled_release_going_again_REC_14() -> None:
    world = settled()
    world.flux.behaviour = failing(Action.UPGRADE, "6.7.0")
    world.submit(instance_manifest(chart=chart("6.7.0")))
    world.settle(INSTANCE)
    assert world.condition(INSTANCE, "Stalled") is not None

    world.flux.behaviour = FluxBehaviour()
    world.edit(INSTANCE, {"metadata": {"annotations": {"vworkspace.io/retry": "token-1"}}})
    world.settle(INSTANCE)

    assert world.condition(INSTANCE, "Ready") == ("True", "HelmReleaseReady")
    assert get_path(world.get(HELM), "status", "lastHandledResetAt") == "token-1"


def test_placeholder_is_ready_and_owns_nothing_REC_11() -> None:
    world = Simulation()
    world.submit(instance_manifest(mode="placeholder", chart=None, release=None, values=None))

    world.settle(INSTANCE)

    assert world.condition(INSTANCE, "Ready") == ("True", "Placeholder")
    assert world.get(HELM) is None
    assert not get_path(world.get(INSTANCE), "metadata", "finalizers")
