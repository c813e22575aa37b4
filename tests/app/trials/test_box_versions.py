"""Versions of a box's kind in the cluster that trials run in: what converts there is the box itself (PH-8)."""

from purekube.apimachinery.manifest import Kind, ObjectRef
from purekube_run.simulation.extensions.box_world import BoxWorld
from tests.support.box_site import example

OLD = Kind("example.com", "v1alpha1", "Registry", "registries")


def test_an_object_of_an_older_version_is_reconciled_as_the_one_that_is_stored() -> None:
    box = example("registry")
    with BoxWorld(box) as world:
        spec = {
            "externalURL": "https://r.example",
            "version": "1.0.0",
            "coreImage": "core:1",
            "tls": {"secretName": "t"},
        }
        world.create({**OLD.manifest("hub", "default"), "spec": spec}, OLD)
        stored = world.get(ObjectRef(box.kind, "default", "hub"))
        assert stored is not None
        assert stored["spec"]["components"] == [{"name": "core", "image": "core:1", "minAvailable": 1}]
        seen = world.get(ObjectRef(OLD, "default", "hub"))
        assert seen is not None
        assert seen["spec"]["coreImage"] == "core:1"
