"""One manager name for several writers, row by row as measured on a real API server."""

from typing import Any

import pytest

from kubelab.model.calls import WriteRequest
from kubelab.model.failure import ApiFailure
from kubelab.writes import pipeline
from purekube.ports import PatchType
from tests.support.ssa_world import World

FINALIZER = "x.example/f"
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "controller": True}


def refused(act: Any) -> ApiFailure:
    with pytest.raises(ApiFailure) as caught:
        act()
    return caught.value


def test_an_apply_of_a_finalizer_alone_erases_what_the_name_applied_before() -> None:
    world = World().apply("m", {"str": "x"}, labels={"l": "1"}, annotations={"n": "1"})
    world.apply("m", finalizers=[FINALIZER])
    assert "spec" not in world.object
    assert not {"labels", "annotations"} & set(world.meta)
    assert world.meta["generation"] == 2


def test_an_apply_without_the_finalizer_drops_it() -> None:
    world = World().apply("m", {"str": "x"}, finalizers=[FINALIZER]).apply("m", {"str": "x"})
    assert "finalizers" not in world.meta


def test_a_finalizer_by_merge_patch_is_an_entry_of_its_own_and_survives_applies() -> None:
    world = World().apply("m", {"str": "x"})
    version = world.meta["resourceVersion"]
    world.merge("m", {"metadata": {"finalizers": [FINALIZER], "resourceVersion": version}})
    world.apply("m", {"str": "y"}).apply("m", {"str": "z"})
    assert world.meta["finalizers"] == [FINALIZER]
    fields: dict[str, Any] = {"f:metadata": {"f:finalizers": {".": {}, f'v:"{FINALIZER}"': {}}}}
    assert world.entry("m", "Update")["fieldsV1"] == fields
    stale = refused(lambda: world.merge("m", {"metadata": {"finalizers": [], "resourceVersion": version}}))
    assert (stale.status, stale.causes) == (409, ())


def test_a_json_patch_that_adds_finalizers_overwrites_those_of_others() -> None:
    world = World().apply("a", {"str": "x"}, finalizers=["a.example/f"])
    write = WriteRequest(manager="b", now="2026-01-01T00:01:00Z", name="a", namespace="t")
    operation = [{"op": "add", "path": "/metadata/finalizers", "value": ["b.example/f"]}]
    outcome = pipeline.patch(world.definition, world.object, operation, PatchType.JSON, write)
    assert outcome.object["metadata"]["finalizers"] == ["b.example/f"]


def test_an_annotation_by_merge_patch_conflicts_with_the_own_apply() -> None:
    world = World().apply("m", {"str": "x"}).merge("m", {"metadata": {"annotations": {"n": "1"}}})
    failure = refused(lambda: world.apply("m", {"str": "x"}, annotations={"n": "2"}))
    assert failure.causes[0].message == 'conflict with "m" using tests.example/v1'


def test_status_by_merge_patch_conflicts_with_the_own_status_apply() -> None:
    world = World().apply("m", {"str": "x"}).merge("m", {"status": {"note": "1"}}, sub="status")
    failure = refused(lambda: world.apply("m", sub="status", status={"note": "2"}))
    assert [cause.field for cause in failure.causes] == [".status.note"]


def test_a_status_apply_does_not_look_at_the_uid_but_at_the_resource_version() -> None:
    world = World().apply("m", {"str": "x"})
    old = world.meta["resourceVersion"]
    world.apply("m", sub="status", status={"note": "1"}, uid="wrong")
    assert (world.object["status"], world.meta["uid"]) == ({"note": "1"}, "uid-1")
    failure = refused(lambda: world.apply("m", sub="status", status={"note": "2"}, resourceVersion=old))
    assert (failure.status, failure.causes) == (409, ())


def test_an_object_with_another_controller_is_taken_over_silently() -> None:
    world = World().apply("m", {"str": "x"}, ownerReferences=[{**OWNER, "uid": "1"}])
    world.apply("m", {"str": "y"}, ownerReferences=[{**OWNER, "uid": "2"}])
    assert [owner["uid"] for owner in world.meta["ownerReferences"]] == ["2"]
    assert world.spec["str"] == "y"


def test_a_value_set_back_by_hand_stays_owned_by_the_hand() -> None:
    world = World().apply("m", {"str": "x"}).merge("hand", {"spec": {"str": "y"}}).merge("hand", {"spec": {"str": "x"}})
    world.apply("m", {"str": "x"})
    assert refused(lambda: world.apply("m", {"str": "z"})).status == 409
    index = next(i for i, entry in enumerate(world.entries) if entry["manager"] == "hand")
    write = WriteRequest(manager="admin", now="2026-01-01T00:01:00Z", name="a", namespace="t")
    cure = [{"op": "remove", "path": f"/metadata/managedFields/{index}"}]
    world.live = dict(pipeline.patch(world.definition, world.object, cure, PatchType.JSON, write).object)
    assert world.apply("m", {"str": "z"}).spec["str"] == "z"
