"""Every watch of the operator reaches the instances it concerns, in process and over HTTP (REC-1, REC-8, REC-12).

Each story changes one thing that some informer sees, and waits for what only a reconcile of the instance can do.
Deadlines are a minute, and the resync is ten: what happens here happens because a change was noticed.
"""

from typing import Any

import pytest

from kubelab.flux.crds import flux_crds
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.meta import ABANDON
from purekube.apimachinery.resources import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, HELM_RELEASE, NAMESPACE, SECRET
from tests.support.e2e_world import (
    CLUSTER,
    EDITED,
    FIRST,
    INSTANCE,
    LATER,
    NAME,
    NS,
    RELEASE,
    SOURCE,
    World,
    install,
    instance,
    source_of,
)
from tests.support.servers import FACES, Face
from tests.support.source_names import source_ref
from tests.support.stories import on_every_face
from vworkspace_core.api import kinds as own_kinds
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import FIELD_MANAGER

READY = {"Ready": "True/HelmReleaseReady", "Reconciling": "False/Stable"}
LABELS = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER}


def labelled(**changes: Any) -> dict[str, Any]:
    """The instance as somebody applies it by hand, with other fields in its spec."""
    manifest = instance(metadata={"name": NAME, "namespace": NS, "labels": LABELS})
    return {**manifest, "spec": {**manifest["spec"], **changes}}


async def is_ready(world: World) -> None:
    await world.until(lambda: world.conditions().get("Ready") == READY["Ready"], "Ready")


@on_every_face
async def test_an_instance_that_anybody_applies_is_reconciled(world: World) -> None:
    world.create_object(labelled(), APPLICATION_INSTANCE)

    await is_ready(world)

    assert world.running() == [FIRST]


@pytest.mark.slow
@on_every_face
async def test_a_namespace_that_is_gated_later_lets_its_instances_go_on_RES_5(world: World) -> None:
    namespace = ObjectRef(NAMESPACE, None, NS)
    ungated = world.edit(namespace, {"metadata": {"labels": {"managed-by": None}}})
    await world.until(lambda: world.operator_witness.knows(ungated), "the operator told of it")  # watches have no order
    world.create_object(labelled(), APPLICATION_INSTANCE)
    await world.until(lambda: world.conditions().get("Blocked") == "True/NamespaceNotGated", "Blocked")
    assert world.find(RELEASE) is None

    world.edit(namespace, {"metadata": {"labels": {"managed-by": "vworkspace"}}})

    await is_ready(world)
    assert world.conditions()["Blocked"] == "False/Unblocked"


@pytest.mark.slow
@pytest.mark.parametrize("face", FACES, ids=lambda face: face.name)
def test_flux_that_is_installed_later_is_noticed_REC_12(face: Face) -> None:
    async def story(world: World) -> None:
        world.create_object(labelled(), APPLICATION_INSTANCE)
        await world.until(lambda: world.conditions().get("Blocked") == "True/MissingDependencies", "Blocked")

        install(world.hands, flux_crds())

        await is_ready(world)

    face.run(story, crds=crd_manifests())


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.name)
def test_our_own_definitions_that_are_installed_later_are_noticed_RUN_1(face: Face) -> None:
    async def story(world: World) -> None:
        install(world.hands, crd_manifests())
        await world.ready()

    face.run(story, crds=flux_crds())


@pytest.mark.slow
@on_every_face
async def test_flux_that_is_taken_away_is_noticed_REC_12(world: World) -> None:
    await world.ready()

    world.delete_object(ObjectRef(CUSTOM_RESOURCE_DEFINITION, None, HELM_RELEASE.crd_name))

    await world.until(lambda: world.conditions().get("Blocked") == "True/MissingDependencies", "Blocked")


@pytest.mark.slow
@pytest.mark.parametrize("ref", [RELEASE, SOURCE], ids=lambda ref: ref.kind.kind)
@pytest.mark.parametrize("face", FACES, ids=lambda face: face.name)
def test_a_downstream_object_that_somebody_deletes_comes_back_REC_8(face: Face, ref: ObjectRef) -> None:
    async def story(world: World) -> None:
        await world.ready()
        before = world.get(ref)["metadata"]["uid"]

        world.delete_object(ref)

        await world.until(lambda: (world.find(ref) or {"metadata": {}})["metadata"].get("uid", before) != before, "it")
        await is_ready(world)

    face.run(story)


@pytest.mark.slow
@on_every_face
async def test_a_downstream_field_that_somebody_takes_is_named_and_handed_back_REC_6(world: World) -> None:
    await world.ready()

    world.edit(RELEASE, {"spec": {"timeout": "1h"}})
    await world.until(lambda: world.conditions().get("Blocked") == "True/FieldConflict", "Blocked")

    (blocked,) = (
        condition for condition in world.get(INSTANCE)["status"]["conditions"] if condition["type"] == "Blocked"
    )
    assert "kubectl-edit" in blocked["message"]
    assert ".spec.timeout" in blocked["message"]
    assert world.get(RELEASE)["spec"]["timeout"] == "1h", "nothing was forced"
    world.edit(RELEASE, {"spec": {"timeout": None}})
    await world.until(lambda: world.conditions().get("Blocked") == "False/Unblocked", "Unblocked")
    assert world.get(RELEASE)["spec"]["timeout"] == "5m"


@pytest.mark.slow
@on_every_face
async def test_a_held_field_keeps_chart_and_values_together_REC_3(world: World) -> None:
    """A `kubectl edit` of one field: the new chart ran with the old values, and the instance said Ready."""
    await world.ready()
    world.edit(RELEASE, {"spec": {"timeout": "1h"}})
    await world.until(lambda: world.conditions().get("Blocked") == "True/FieldConflict", "Blocked")
    since = len(world.history)

    values = {"source": "inline", "inline": {"replicaCount": 7}}
    world.edit(INSTANCE, {"spec": {"chart": {"version": LATER}, "values": values}})
    await world.until(
        lambda: world.get(INSTANCE)["status"]["observedGeneration"] == world.get(INSTANCE)["metadata"]["generation"],
        "a look at the new generation",
    )
    await world.clock.sleep(3)

    assert world.running() == [FIRST]
    assert world.find(source_of(LATER)) is None, "nothing is made for what cannot be used"
    assert not [event for event in world.history.events(SOURCE.kind, since=since) if event.type != "MODIFIED"]
    world.edit(RELEASE, {"spec": {"timeout": None}})
    await world.until(lambda: world.running() == [LATER], "chart and values together")
    await is_ready(world)
    assert world.get(RELEASE)["spec"]["values"] == {"replicaCount": 7}
    await world.until(lambda: world.find(SOURCE) is None, "the old source pruned")


@pytest.mark.slow
@on_every_face
async def test_an_abandoned_instance_runs_on_RES_5(world: World) -> None:
    await world.ready()
    world.edit(INSTANCE, {"metadata": {"annotations": {ABANDON: "true"}}})
    world.delete_object(INSTANCE)
    await world.until(lambda: world.find(INSTANCE) is None, "the instance gone")
    await world.clock.sleep(3)

    assert world.running() == [FIRST]
    for ref in (RELEASE, SOURCE):
        assert not world.get(ref)["metadata"].get("ownerReferences")


@pytest.mark.slow
@on_every_face
async def test_a_stranger_that_goes_away_lets_the_instance_have_its_name_REC_6(world: World) -> None:
    stranger = {
        **HELM_RELEASE.manifest(NAME, NS),
        "spec": {"interval": "5m", "chartRef": {"kind": "OCIRepository", "name": "theirs"}},
    }
    world.create_object(stranger, HELM_RELEASE)
    world.create_object(labelled(), APPLICATION_INSTANCE)
    await world.until(lambda: world.conditions().get("Blocked") == "True/NameTaken", "Blocked")
    assert "f:spec" not in str(world.get(RELEASE)["metadata"]["managedFields"]).partition(FIELD_MANAGER)[2]

    world.delete_object(RELEASE)

    await is_ready(world)


@on_every_face
async def test_a_policy_of_the_cluster_counts_when_it_comes_and_when_it_goes_RES_3(world: World) -> None:
    await world.ready()
    policy = {"forbiddenVersions": [FIRST]}
    spec = {"clusterId": CLUSTER, "controlPlaneEndpoint": "https://odoo.example.com", "policy": policy}
    world.create_object({**own_kinds.CLUSTER.manifest(CLUSTER), "spec": spec}, own_kinds.CLUSTER)
    await world.until(lambda: world.conditions().get("Blocked") == "True/PolicyDenied", "Blocked")
    assert world.running() == [FIRST], "what runs goes on"

    world.edit(ObjectRef(own_kinds.CLUSTER, None, CLUSTER), {"spec": {"policy": None}})

    await world.until(lambda: world.conditions().get("Blocked") == "False/Unblocked", "Unblocked")
    assert world.conditions()["Ready"] == READY["Ready"]


@on_every_face
async def test_a_chart_from_a_helm_repository_runs_too_REC_3(world: World) -> None:
    chart = {"sourceType": "helm", "url": "https://charts.example.com", "name": "nextcloud", "version": FIRST}
    world.create_object(labelled(chart=chart), APPLICATION_INSTANCE)

    await is_ready(world)

    assert world.find(source_ref(NS, NAME, chart)) is not None
    assert world.find(SOURCE) is None
    assert world.running() == [FIRST]


@pytest.mark.slow
@on_every_face
async def test_values_that_come_later_are_waited_for_and_noticed_REC_4(world: World) -> None:
    values = {"source": "secretRef", "secretRef": {"name": "values", "key": "values.yaml"}}
    integrations = {"ingress": {"enabled": True, "host": "cloud.example.com"}}
    world.create_object(labelled(values=values, integrations=integrations), APPLICATION_INSTANCE)
    await world.until(lambda: world.conditions().get("Ready") == "False/WaitingForSecret", "WaitingForSecret")

    secret = SECRET.manifest("values", NS)
    secret["metadata"]["labels"] = {"reconcile.fluxcd.io/watch": "Enabled"}
    world.create_object({**secret, "stringData": {"values.yaml": "replicaCount: 3\n"}}, SECRET)

    await is_ready(world)
    beneath = ObjectRef(CONFIG_MAP, NS, world.get(RELEASE)["spec"]["valuesFrom"][0]["name"])
    world.delete_object(beneath)
    await world.until(lambda: world.find(beneath), "our ConfigMap again")


@pytest.mark.slow
@on_every_face
async def test_a_second_instance_of_the_same_release_is_told_so_and_gets_it_when_the_first_goes(world: World) -> None:
    await world.ready()
    second = ObjectRef(APPLICATION_INSTANCE, NS, "another")
    manifest = labelled()
    world.create_object({**manifest, "metadata": {**manifest["metadata"], "name": "another"}}, APPLICATION_INSTANCE)
    await world.until(lambda: _condition(world, second, "Blocked") == "True/NameTaken", "Blocked")
    uid = world.get(RELEASE)["metadata"]["uid"]

    assert (await world.result(world.ask_deletion(8)))["outcome"] == "succeeded"

    await world.until(lambda: _condition(world, second, "Ready") == READY["Ready"], "the second one Ready")
    assert world.get(RELEASE)["metadata"]["uid"] != uid
    assert world.running() == [FIRST]


def _condition(world: World, ref: ObjectRef, kind: str) -> str:
    conditions = (world.find(ref) or {}).get("status", {}).get("conditions", ())
    return next((f"{one['status']}/{one['reason']}" for one in conditions if one["type"] == kind), "")


@pytest.mark.slow
@on_every_face
async def test_suspending_stops_upgrades_and_resuming_lets_them_go_on_RES_4(world: World) -> None:
    await world.ready()
    world.edit(INSTANCE, {"spec": {"suspend": True}})
    await world.until(lambda: world.conditions().get("Suspended") == "True/ManuallySuspended", "Suspended")
    world.edit(INSTANCE, {"spec": {"chart": {"version": EDITED}}})
    await world.until(lambda: world.find(source_of(EDITED)), "the new source")
    assert world.running() == [FIRST]

    world.edit(INSTANCE, {"spec": {"suspend": False}})

    await world.until(lambda: world.running() == [EDITED], "the upgrade")
    await is_ready(world)
    assert world.conditions()["Suspended"] == "False/Active"
