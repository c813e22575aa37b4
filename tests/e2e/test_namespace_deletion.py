"""`kubectl delete namespace` of a gated namespace ends, with the rights that are printed (U1, REC-10, RES-5)."""

import json
import re
import shlex

import attrs
import pytest

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.meta import ABANDON
from purekube.apimachinery.resources import EVENT, HELM_RELEASE, JOB, NAMESPACE
from purekube.controller.ownership import UNRECORDED
from tests.support.e2e_world import CLUSTER, INSTANCE, NS, QUICK, World, instance
from tests.support.namespace_ends import end_namespace, is_ended, take_roles
from tests.support.operation_requests import AT_WORK, FLUX, Operating, rules
from tests.support.run_by import run_by
from tests.support.servers import ENVIRONMENT, FACES, Face
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.instances.context import Settings

NAMESPACE_REF = ObjectRef(NAMESPACE, None, NS)
LABELS = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER}
IMPATIENT = Settings(cluster_id=CLUSTER, namespace_end_seconds=2.0)
FLUX_STOPPED = attrs.evolve(QUICK, uninstall_seconds=3600.0, release_secrets=False)
"""An uninstall that does not end. Helm's records are kept elsewhere, or the namespace would take them along, and Flux
would find nothing to uninstall."""

both = pytest.mark.parametrize("face", FACES, ids=lambda face: face.name)


def conditions_while_deleting(world: World) -> list[dict[str, str]]:
    """What the instance said from the time on that somebody wanted it gone, its status having been written."""
    said = []
    for event in world.history.events(APPLICATION_INSTANCE):
        found = {condition["type"]: condition for condition in get_path(event.object, "status", "conditions") or ()}
        if get_path(event.object, "metadata", "deletionTimestamp") and "Deleting" in found:
            said.append({kind: f"{one['status']} {one['message']}" for kind, one in found.items()})
    return said


def delete_namespace(world: World) -> None:
    world.delete_object(NAMESPACE_REF)


@pytest.mark.slow
@both
@pytest.mark.parametrize("roles_go_first", [True, False], ids=["the Role first", "as it comes"])
def test_a_namespace_with_an_application_ends_REC_10(face: Face, roles_go_first: bool) -> None:
    async def story(world: World) -> None:
        await world.ready()
        if roles_go_first and world.reached is not None:
            take_roles(world, NS)
        delete_namespace(world)
        await end_namespace(world, NS)
        assert world.running() == []

    face.run(story)


@pytest.mark.slow
@both
def test_while_a_slow_flux_uninstalls_the_instance_says_so_and_is_not_ready(face: Face) -> None:
    async def story(world: World) -> None:
        await world.ready()
        delete_namespace(world)
        await end_namespace(world, NS)
        said = conditions_while_deleting(world)
        assert said
        assert said[-1]["Ready"].startswith("False ")
        assert "waiting for HelmRelease " in said[-1]["Deleting"]

    face.run(story, behaviour=attrs.evolve(QUICK, uninstall_seconds=1.5))


@pytest.mark.slow
@both
def test_without_flux_the_instance_lets_go_and_an_event_names_the_command_that_ends_it(face: Face) -> None:
    async def story(world: World) -> None:
        await world.ready()
        delete_namespace(world)
        await world.until(lambda: (is_ended(world, NS), world.find(INSTANCE)) == (False, None), "the instance let go")
        await world.until(lambda: _left_behind(world), "an Event about the namespace")
        (note,) = _left_behind(world)
        kind, name, namespace, patch = _command(note)
        assert (kind, namespace) == (HELM_RELEASE.crd_name, NS)
        release = ObjectRef(HELM_RELEASE, namespace, name)
        assert world.find(release) is not None
        world.edit(release, json.loads(patch))
        await end_namespace(world, NS)

    face.run(story, behaviour=FLUX_STOPPED, decisions=IMPATIENT)


def _left_behind(world: World) -> list[str]:
    found = world.hands.do(lambda api: api.list(EVENT, namespace="default")).items
    return [
        str(item["note"])
        for item in found
        if item.get("reason") == "ReleaseLeftBehind" and get_path(item, "regarding", "name") == NS
    ]


def _command(note: str) -> tuple[str, str, str, str]:
    words = shlex.split(re.split("with: |let go of it: ", note)[1].partition("; ")[0])
    assert words[:2] == ["kubectl", "patch"]
    return words[2], words[3], words[5], words[8]


@pytest.mark.slow
@both
def test_an_abandoned_instance_lets_go_in_it_too_RES_5(face: Face) -> None:
    async def story(world: World) -> None:
        await world.ready()
        world.edit(INSTANCE, {"metadata": {"annotations": {ABANDON: "true"}}})
        if world.reached is not None:
            take_roles(world, NS)
        delete_namespace(world)
        await world.until(lambda: (is_ended(world, NS), world.find(INSTANCE)) == (False, None), "the instance let go")
        for release in world.hands.do(lambda api: api.list(HELM_RELEASE, namespace=NS)).items:
            world.edit(ref_of(release, HELM_RELEASE), {"metadata": {"finalizers": None}})
        await end_namespace(world, NS)

    face.run(story, behaviour=FLUX_STOPPED)


@pytest.mark.slow
@run_by(ENVIRONMENT.run)
async def test_a_namespace_that_never_had_the_role_ends(world: World) -> None:
    take_roles(world, NS)
    manifest = instance()
    manifest["metadata"]["labels"] = LABELS
    world.create_object(manifest, APPLICATION_INSTANCE)
    await world.until(lambda: world.conditions().get("Blocked") == "True/Forbidden", "the right that is missing")
    delete_namespace(world)
    await end_namespace(world, NS)


@pytest.mark.slow
@both
def test_a_namespace_in_which_an_operation_runs_ends_OPS_11(face: Face) -> None:
    async def story(world: World) -> None:
        ops = Operating(world)
        await ops.prepare()
        ref = ops.submit("runCommand.job", "long")
        await ops.reaches(ref, "Running")
        await world.until(lambda: _unlocked(world.find(ops.engine_ref(ref))), "its Job, recorded")
        if world.reached is not None:
            take_roles(world, NS)
        delete_namespace(world)
        await end_namespace(world, NS)
        assert (world.find(ref), world.running()) == (None, [])

    face.run(story, behaviour=FLUX, engines=rules(AT_WORK))


def _unlocked(job: Manifest | None) -> bool:
    return job is not None and UNRECORDED not in (get_path(job, "metadata", "finalizers") or ())


@pytest.mark.slow
@run_by(ENVIRONMENT.run, behaviour=FLUX, engines=rules(AT_WORK))
async def test_a_job_that_could_not_be_recorded_before_the_role_went_is_told_with_its_cure_OPS_1(world: World) -> None:
    ops = Operating(world)
    await ops.prepare()
    world.lever.hang_after_create = JOB
    ref = ops.submit("runCommand.job", "long")
    await world.until(lambda: world.lever.hung, "the Job made, and the operator not told")
    take_roles(world, NS)
    await world.lever.restart()
    delete_namespace(world)
    await world.until(lambda: not is_ended(world, NS) and "kubectl patch" in str(ops.told(ref)), "the cure")
    told = await ops.says(ref, "Running", ops.condition(ref, "Running"))
    kind, name, namespace, patch = _command(told)
    assert (kind, namespace) == ("jobs.batch", NS)
    world.edit(ObjectRef(JOB, namespace, name), json.loads(patch))
    await end_namespace(world, NS)
