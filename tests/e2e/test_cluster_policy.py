"""A policy counts whoever made its Cluster object, whatever it is called and whenever it came (RES-3, D6, SL1)."""

from typing import Any

import pytest

from purekube.apimachinery.manifest import ObjectRef
from tests.support.e2e_world import CLUSTER, FIRST, INSTANCE, LATER, World, conditions
from tests.support.servers import FACES, Face
from vworkspace_core.api import kinds as own_kinds


def have_cluster(world: World, name: str, **policy: Any) -> None:
    spec = {"clusterId": CLUSTER, "controlPlaneEndpoint": "https://odoo.example.com"}
    manifest = {**own_kinds.CLUSTER.manifest(name), "spec": {**spec, **({"policy": policy} if policy else {})}}
    world.create_object(manifest, own_kinds.CLUSTER)


@pytest.mark.slow
@pytest.mark.parametrize("face", FACES, ids=lambda face: face.name)
@pytest.mark.parametrize("suffix", ["a", "z"])
def test_an_administrator_s_policy_counts_beside_the_operator_s_own_object(face: Face, suffix: str) -> None:
    theirs = f"{CLUSTER}-{suffix}"  # not as an id: each worker draws a name of its own for the cluster

    async def story(world: World) -> None:
        have_cluster(world, f"{CLUSTER}-m")  # as the operator makes it for itself: with no policy
        await world.ready(FIRST)
        have_cluster(world, theirs, forbiddenVersions=[LATER])
        try:
            job = world.ask(LATER, 8)
            assert (await world.result(job))["outcome"] == "failed"
            assert conditions(world.find(INSTANCE))["Blocked"] == "True/PolicyDenied"
            world.delete_object(known_ref(theirs))
            await world.until(
                lambda: conditions(world.find(INSTANCE)).get("Ready") == "True/HelmReleaseReady", "lifted"
            )
        finally:
            for name in (theirs, f"{CLUSTER}-m"):
                if world.find(known_ref(name)) is not None:
                    world.delete_object(known_ref(name))

    face.run(story)


def known_ref(name: str) -> ObjectRef:
    return ObjectRef(own_kinds.CLUSTER, None, name)
