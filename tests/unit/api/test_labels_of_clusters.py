"""Whose an object is by its cluster label (RES-5)."""

from purekube.apimachinery.meta import ObjectMeta
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import APPLICATION_INSTANCE as INSTANCE_NAME
from vworkspace_core.api.labels import CLUSTER_ID, marks_of
from vworkspace_core.api.managed_namespace import wrong_cluster


def test_an_object_of_this_cluster_has_no_message() -> None:
    ours = ObjectMeta("shop", "team", labels={CLUSTER_ID: "here"})

    assert wrong_cluster(APPLICATION_INSTANCE, ours, "here") == ""
    assert "here" in wrong_cluster(APPLICATION_INSTANCE, ours, "there")


def test_an_object_of_the_instance_of_that_name_in_another_cluster_is_not_its_own() -> None:
    _, named = marks_of(ObjectMeta("shop", "team", "u-1", labels={CLUSTER_ID: "here"}))

    assert (named[INSTANCE_NAME], named[CLUSTER_ID]) == ("shop", "here")
