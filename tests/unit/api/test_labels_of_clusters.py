"""Whose an object is by its cluster label (RES-5)."""

from purekube.apimachinery.meta import ObjectMeta
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import CLUSTER_ID
from vworkspace_core.api.managed_namespace import wrong_cluster


def test_an_object_of_this_cluster_has_no_message() -> None:
    ours = ObjectMeta("shop", "team", labels={CLUSTER_ID: "here"})

    assert wrong_cluster(APPLICATION_INSTANCE, ours, "here") == ""
    assert "here" in wrong_cluster(APPLICATION_INSTANCE, ours, "there")
