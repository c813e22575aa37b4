"""Letting go of what is deployed and taking it up again: D2, D16, L4 (RES-5, REC-10), with the garbage collector on."""

from typing import Any

import attrs
import pytest

from kubelab.flux import Action, OutcomeKind
from kubelab.inprocess import run_sync
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.meta import ABANDON
from purekube.apimachinery.resources import CONFIG_MAP, HELM_RELEASE, HELM_REPOSITORY, JOB, OCI_REPOSITORY
from purekube.ports import Propagation
from tests.support.instance_oracle import check_confirmed, claims_ready
from tests.support.instance_stories import copy_of
from tests.support.instance_turmoil import Interrupted, LiveRule, Turmoil, died, intent
from tests.support.operation_simulation import Cluster
from tests.support.simulation import HELM, INSTANCE, NS, OCI

ABANDONED = {"metadata": {"annotations": {ABANDON: "true"}}}
VALUES = {"source": "secretRef", "secretRef": {"name": "values-a", "key": "values.yaml"}}
INGRESS = {"ingress": {"enabled": True, "host": "one.example"}}


def installed(**spec: Any) -> Turmoil:
    world = Turmoil()
    world.put_secret("values-a", "a: 1")
    world.submit(intent(**spec))
    world.run(30)
    assert claims_ready(world.look(INSTANCE))
    return world


def owners(world: Turmoil) -> list[Any]:
    """Owner references of whatever an instance could have made."""
    kinds = (HELM_RELEASE, OCI_REPOSITORY, HELM_REPOSITORY, CONFIG_MAP)
    return [one["metadata"].get("ownerReferences") for one in world.everything(*kinds).values()]


def collect(world: Turmoil) -> None:
    """Everybody who might take something has the time to."""
    for _ in range(5):
        world.server.run_gc()
        world.run(60)


@pytest.mark.parametrize("spec", [{}, {"source_type": "helm"}, {"values": VALUES, "integrations": INGRESS}])
def test_what_is_abandoned_runs_on_RES_5(spec: dict[str, Any]) -> None:
    """The HelmRelease kept its owner reference, the garbage collector deleted it, and Flux uninstalled."""
    world = installed(**spec)
    made = len(owners(world))
    world.edit(INSTANCE, ABANDONED)
    world.try_remove(INSTANCE)
    world.run(1)
    collect(world)

    assert world.look(INSTANCE) is None
    assert [workload.release for workload in world.flux.workloads] == ["nextcloud"]
    assert len(owners(world)) == made
    assert not any(owners(world))
    assert not get_path(world.look(HELM), "spec", "suspend"), "Flux goes on with it"
    told = [event for event in world.events.events if event.reason == "Abandoned"]
    assert [(event.type, "stays" in event.note) for event in told] == [("Warning", True)]


def test_an_uninstall_that_hangs_is_let_go_of_and_the_workload_stays_REC_10() -> None:
    world = installed()
    world.rules.append(LiveRule(world, Action.UNINSTALL, OutcomeKind.FAIL, None))
    world.script()
    world.try_remove(INSTANCE)
    world.run(60)

    told = world.message(INSTANCE, "Deleting")
    assert world.condition(INSTANCE, "Deleting") == ("True", "WaitingForChildResources")
    assert "Flux says UninstallFailed: Helm uninstall failed" in told, "D16: it was not repeated"
    assert "hunter2" not in told
    assert f"kubectl annotate applicationinstances.apps.vworkspace.io {INSTANCE.name} -n {NS} {ABANDON}=true" in told

    world.edit(INSTANCE, ABANDONED)
    world.run(60)
    world.behave()
    collect(world)

    assert world.look(INSTANCE) is None
    assert world.look(HELM) is None, "it was being deleted already; suspended, so that Flux leaves the workload"
    assert [workload.release for workload in world.flux.workloads] == ["nextcloud"]


def test_letting_go_waits_for_a_right_that_is_missing_and_says_so() -> None:
    world = installed()
    world.forbidden.add("helmreleases")
    world.edit(INSTANCE, ABANDONED)
    world.try_remove(INSTANCE)
    world.run(60)

    assert world.look(INSTANCE) is not None
    assert "letting go of HelmRelease" in world.message(INSTANCE, "Deleting")
    world.behave()
    world.run(400)
    collect(world)

    assert world.look(INSTANCE) is None
    assert [workload.release for workload in world.flux.workloads] == ["nextcloud"]


@pytest.mark.slow
def test_a_process_that_ends_while_it_lets_go_is_gone_on_from() -> None:
    for calls in range(10):
        for happens in (True, False):
            world = installed(values=VALUES, integrations=INGRESS)
            world.edit(INSTANCE, ABANDONED)
            world.try_remove(INSTANCE)
            world.interrupted(INSTANCE, Interrupted(calls, happens, died, lasting=True))
            collect(world)
            assert world.look(INSTANCE) is None
            assert [workload.release for workload in world.flux.workloads] == ["nextcloud"], (calls, happens)
            assert not any(owners(world))


@pytest.mark.parametrize("how", ["abandoned", "orphaned"])
@pytest.mark.parametrize("version", ["6.6.0", "7.0.0"])
def test_what_was_left_is_taken_up_by_the_instance_of_that_name_REC_4(how: str, version: str) -> None:
    """NameTaken, for good and without a cure."""
    world = installed(values=VALUES, integrations=INGRESS)
    if how == "abandoned":
        world.edit(INSTANCE, ABANDONED)
    world.try_remove(INSTANCE, Propagation.BACKGROUND if how == "abandoned" else Propagation.ORPHAN)
    world.run(1)
    collect(world)
    assert world.look(INSTANCE) is None
    release = world.look(HELM)
    assert release is not None

    world.submit(intent(version=version, values=VALUES))
    world.run(120)

    assert claims_ready(world.look(INSTANCE)), world.message(INSTANCE, "Blocked")
    assert get_path(world.look(HELM), "metadata", "uid") == release["metadata"]["uid"], "taken up, not made anew"
    assert len(world.flux.workloads) == 1
    check_confirmed(world, copy_of(world))
    uid = copy_of(world)["metadata"]["uid"]
    assert [[one["uid"] for one in held] for held in owners(world)] == [[uid]] * 2, "nothing of before is left over"


@pytest.mark.parametrize("how", ["abandoned", "orphaned"])
def test_a_release_that_was_left_is_not_uninstalled_for_another_of_the_same_instance_REC_4(how: str) -> None:
    """It has this instance's labels, and is not what this instance wants."""
    world = installed()
    if how == "abandoned":
        world.edit(INSTANCE, ABANDONED)
    world.try_remove(INSTANCE, Propagation.BACKGROUND if how == "abandoned" else Propagation.ORPHAN)
    world.run(1)
    collect(world)
    release = world.look(HELM)
    assert release is not None

    again = intent()
    world.submit({**again, "spec": {**again["spec"], "release": {**again["spec"]["release"], "name": "other"}}})
    world.run(120)

    assert claims_ready(world.look(INSTANCE)), world.message(INSTANCE, "Blocked")
    assert {workload.release for workload in world.flux.workloads} == {"nextcloud", "other"}
    assert world.look(HELM) == release, "nothing of it has changed"
    assert world.look(OCI) is not None, "it still has its source"


def test_another_name_or_cluster_takes_nothing_up_REC_4() -> None:
    world = installed()
    world.try_remove(INSTANCE, Propagation.ORPHAN)
    world.run(1)
    collect(world)
    before = world.look(HELM)
    twin = attrs.evolve(INSTANCE, name="twin")
    world.submit(intent("twin"))
    world.run(60)

    assert world.condition(twin, "Blocked") == ("True", "NameTaken")
    assert world.look(HELM) == before
    told = world.message(twin, "Blocked")
    assert "If nobody needs it, delete it" in told
    assert "app.vworkspace.io/application-instance=twin" in told, "the command by which it may have it all the same"
    for ref in (HELM, OCI):
        words = world.message(twin, "Blocked").partition("kubectl label ")[2].split()
        assert words[:4] == [ref.kind.crd_name, world.actual(ref).name, "-n", NS]
        assert words.pop() == "--overwrite", "without it kubectl changes no label of the former instance"
        world.edit(ref, {"metadata": {"labels": dict(word.split("=") for word in words[4:])}})
        world.run(120)
    assert claims_ready(world.look(twin))


def test_a_job_that_is_abandoned_runs_on_RES_5() -> None:
    """`what was started is left to itself`, and the Job was collected."""
    world = Cluster()
    ref = world.submit("runCommand.job", "one")
    world.settle(ref)
    (job,) = run_sync(world.admin.list(JOB, namespace=NS)).items
    where = ObjectRef(JOB, NS, job["metadata"]["name"])
    world.edit(ref, ABANDONED)
    run_sync(world.admin.delete(ref))
    world.settle(ref)
    world.server.run_gc()

    assert world.get(ref) is None
    left = world.get(where)
    assert left is not None
    assert not left["metadata"].get("ownerReferences")
    assert not left["metadata"].get("finalizers")
    (told,) = [event for event in world.events.events if event.reason == "Abandoned"]
    assert told.note.endswith(f"{where} is left to itself")
