"""The scale subresource, and `kubectl`'s way from client-side to server-side apply."""

import json
from typing import Any

import pytest

from kubelab.model.failure import ApiFailure
from kubelab.model.scale import scale_of
from purekube.apimachinery.manifest import LAST_APPLIED
from tests.support.ssa_world import World, thing

SCALED = thing(scale=True)


def scale(replicas: Any, **metadata: Any) -> dict[str, Any]:
    meta = {"name": "a", "namespace": "t", **metadata}
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": meta, "spec": {"replicas": replicas}}


def test_a_scale_shows_the_numbers_of_the_object() -> None:
    world = World(SCALED).create("U", {"replicas": 3})
    world.merge("ctl", {"status": {"count": 2}}, sub="status")
    shown = scale_of(SCALED, world.object)
    assert (shown["kind"], shown["spec"], shown["status"]) == ("Scale", {"replicas": 3}, {"replicas": 2})
    assert shown["metadata"]["resourceVersion"] == world.meta["resourceVersion"]
    assert "managedFields" not in shown["metadata"]


def test_a_put_of_a_scale_changes_replicas_and_nothing_else_S_51() -> None:
    world = World(SCALED).create("U", {"replicas": 1, "str": "x"})
    world.put("hpa", scale(4), sub="scale")
    assert (world.spec["replicas"], world.spec["str"], world.meta["generation"]) == (4, "x", 2)
    assert world.owned("hpa", "Update", "scale") == {"f:replicas": {}}


def test_a_scale_keeps_the_optimistic_lock() -> None:
    world = World(SCALED).create("U", {"replicas": 1})
    with pytest.raises(ApiFailure) as caught:
        world.put("hpa", scale(4, resourceVersion="99"), sub="scale")
    assert caught.value.status == 409


def test_an_apply_of_replicas_that_scale_holds_conflicts_S_51() -> None:
    world = World(SCALED).apply("A", {"replicas": 1}).put("hpa", scale(4), sub="scale")
    with pytest.raises(ApiFailure) as caught:
        world.apply("A", {"replicas": 1})
    assert caught.value.causes[0].message == 'conflict with "hpa" with subresource "scale" using tests.example/v1'


def test_a_scale_can_be_applied_S_51() -> None:
    world = World(SCALED).create("U", {"replicas": 1, "str": "x"})
    with pytest.raises(ApiFailure):
        world.apply_raw("hpa", scale(4), sub="scale")
    world.apply("A", {"str": "x"})
    world.merge("V", {"metadata": {"managedFields": [{}]}})
    world.apply_raw("hpa", scale(1), sub="scale")
    assert world.owned("hpa", "Apply", "scale") == {"f:replicas": {}}


@pytest.mark.parametrize("body", [[], {}, {"kind": "Other"}, scale("three"), scale(True)])
def test_what_is_no_scale_is_400(body: Any) -> None:
    world = World(SCALED).create("U", {"replicas": 1})
    with pytest.raises(ApiFailure) as caught:
        world.put("hpa", body, sub="scale")
    assert caught.value.status == 400


def client_side(spec: Any) -> World:
    """An object as client-side `kubectl apply` leaves it."""
    world = World()
    last = json.dumps(world.body(spec))
    return world.create("kubectl-client-side-apply", spec, annotations={LAST_APPLIED: last})


def test_kubectl_takes_over_what_it_applied_client_side_without_conflict() -> None:
    world = client_side({"str": "x"}).apply("kubectl", {"str": "y"})
    assert world.spec["str"] == "y"
    assert json.loads(world.meta["annotations"][LAST_APPLIED])["spec"] == {"str": "y"}
    world.apply("kubectl", {"str": "z"}, annotations={"n": "1", LAST_APPLIED: "whatever"}, force=True)
    assert json.loads(world.meta["annotations"][LAST_APPLIED])["metadata"]["annotations"] == {"n": "1"}


def test_another_manager_gets_no_such_favour() -> None:
    with pytest.raises(ApiFailure) as caught:
        client_side({"str": "x"}).apply("flux", {"str": "y"})
    assert caught.value.status == 409


def test_kubectl_still_conflicts_on_what_others_changed_since() -> None:
    world = client_side({"str": "x", "str2": "k"}).merge("U", {"spec": {"str": "u"}})
    with pytest.raises(ApiFailure) as caught:
        world.apply("kubectl", {"str": "y", "str2": "l"})
    assert [cause.field for cause in caught.value.causes] == [".spec.str"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"apiVersion": "other/v1"}'])
def test_a_broken_annotation_is_no_ticket(text: str) -> None:
    world = World().create("U", {"str": "x"}, annotations={LAST_APPLIED: text})
    with pytest.raises(ApiFailure) as caught:
        world.apply("kubectl", {"str": "y"})
    assert caught.value.status == 409
