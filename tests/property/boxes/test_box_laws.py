"""Laws of boxes at work, on a virtual clock with simulated workloads (L2, L3, L11, L13, L14, L19, L21)."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubelab.inprocess import run_sync
from kubelab.model.calls import RequestTarget
from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import ObjectRef, canonical_json, content_hash, get_path
from purekube.apimachinery.resources import CONFIG_MAP, SECRET
from purekube.boxes.box import Box
from purekube.boxes.decision.decide import composite_of, decide
from purekube.composites.observe import observe_live
from purekube.composites.parent import STANDARD
from purekube.controller.decision import as_data
from purekube.ports import PatchType
from purekube_run.simulation.faults import Crash, interruption
from tests.support.box_world import PureWorld
from tests.support.boxes import box_of, config, crd, deployment, secret
from tests.support.composite_world import NS, condition_of
from tests.support.effort import effort
from tests.support.faulty_kube import FaultyKube

GATE: Final = {"field": "children.deployment.status.readyReplicas", "equals": "${self.spec.replicas}"}
PARTS: Final[Mapping[str, Any]] = {"p": "${self.spec.parts}", "key": "${p.name}"}


def shop_box(**more: Any) -> Box:
    """A Deployment, a list by key, and something that waits for both behind a gate on a child."""
    return box_of(
        config("settings", data={"image": "${self.spec.image}"}),
        deployment("web", spec={"replicas": "${self.spec.replicas}"}, rollOn=["settings"]),
        config("part", "part-${p.name}", {"name": "${p.name}"}, forEach=PARTS),
        config("last", data={"ready": "${string(web.status.readyReplicas)}"}, when=[GATE], dependsOn=["part"]),
        status={"fields": {"ready": "${readyReplicas(web)}"}},
        **more,
    )


SHOP: Final = shop_box()
SPECS = st.builds(
    lambda image, replicas, names: {
        "image": image,
        "replicas": replicas,
        "parts": [{"name": name} for name in names],
    },
    st.sampled_from(["r/x:1", "r/y:2"]),
    st.integers(0, 3),
    st.lists(st.sampled_from(["a", "b", "c-1", "x.y"]), unique=True, max_size=3),
)


def settled(spec: Mapping[str, Any], box: Box = SHOP, wrap: Any = lambda api: api) -> PureWorld:
    world = PureWorld(box, spec, wrap)
    world.settle()
    return world


@pytest.mark.slow
@settings(max_examples=effort(0.5))
@given(SPECS)
@example({"image": "r/x:1", "replicas": 0, "parts": []})
def test_conditions_do_not_flap_and_what_is_in_the_way_has_a_name(spec: Mapping[str, Any]) -> None:
    world = settled(spec)

    assert world.reconcile().writes == 0  # type: ignore[union-attr]
    for kind in STANDARD:
        said = [condition_of(status, kind).get("status") for status in world.statuses]
        assert sum(one != other for one, other in pairwise(said)) <= 2
    for status in world.statuses:
        ready = condition_of(status, "Ready")
        assert ready["status"] == "True" or (ready["reason"] and ": " in ready["message"])
    assert (world.condition()["status"] == "True") is (spec["replicas"] > 0)  # zero is left out by the controller


@settings(max_examples=effort(0.3))
@given(SPECS, st.randoms(use_true_random=False))
def test_another_order_of_a_list_writes_nothing_and_one_less_removes_one(spec: Mapping[str, Any], random: Any) -> None:
    world = settled(spec)
    parts = list(spec["parts"])
    random.shuffle(parts)
    before = {ref: live["metadata"]["resourceVersion"] for ref, live in world.children().items()}
    world.edit({"spec": {"parts": parts}})
    world.settle()
    assert {ref: live["metadata"]["resourceVersion"] for ref, live in world.children().items()} == before

    if parts and world.condition()["status"] == "True":
        gone = parts.pop()["name"]
        world.edit({"spec": {"parts": parts}})
        world.settle()
        assert before.keys() - world.children().keys() == {ObjectRef(CONFIG_MAP, NS, f"part-{gone}")}


TAINTED: Final = box_of(
    {
        "id": "copy",
        "template": {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "copy"},
            "data": {"password": "${given.data.password}"},
        },
    },
    config("names", data={"of": "${given.metadata.name + given.metadata.uid}"}),
    deployment("web", rollOn=["given"]),
    externals=[{"id": "given", "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "given"}}],
)


def decided(data: str) -> Any:
    """The decision on a world whose external Secret holds this."""
    world = PureWorld(TAINTED, {"image": "r/x:1", "parts": []})
    world.make({**SECRET.manifest("given", NS), "data": {"password": data}}, SECRET)
    parent = composite_of(TAINTED).read(world.get(world.ref) or {})
    observed = run_sync(observe_live(world.admin, composite_of(TAINTED), parent))
    return as_data(decide(TAINTED, parent, observed, world.now))


def untainted(decision: Any) -> bytes:
    """Everything but Secrets: nothing else may tell what a Secret holds, by a hash neither."""
    plain = [apply["manifest"] for apply in decision.get("apply", ()) if apply["manifest"]["kind"] != "Secret"]
    return canonical_json([plain, decision.get("status"), decision.get("events")])


@pytest.mark.parametrize(("one", "other"), [("YQ==", "Yg=="), ("", "c2VjcmV0"), ("YQ==", "")])
def test_what_a_secret_holds_shows_in_secrets_only_whoever_the_tenant_is(one: str, other: str) -> None:
    first, second = decided(one), decided(other)

    assert first != second
    assert untainted(first) == untainted(second)
    assert "c2VjcmV0" not in str(second.get("status"))


@pytest.mark.parametrize("apply", ["Always", "IfAbsent"])
def test_pods_are_rolled_once_when_a_secret_changes_and_no_tenant_can_guess_at_it(apply: str) -> None:
    """`rollOn` goes by the version of a Secret: its content stands in no hash."""
    box = box_of(secret("pw", {"p": "hunter2"}, apply=apply), deployment("web", rollOn=["pw"]))
    world = settled({"image": "r/x:1", "parts": []}, box)
    web, pw = (next(ref for ref in world.children() if ref.name == name) for name in ("web", "pw"))
    first = world.get(web) or {}
    assert get_path(first, "metadata", "generation") == 1, "it is applied once the Secret has a version"
    version = [get_path(world.get(pw), "metadata", key) for key in ("uid", "resourceVersion")]
    path = ("spec", "template", "metadata", "annotations", "box.vworkspace.io/roll-hash")
    assert get_path(first, *path) == content_hash([[version]])

    run_sync(world.admin.patch(pw, {"data": {"more": "eA=="}}, patch_type=PatchType.MERGE, field_manager="me"))
    world.settle()
    assert get_path(world.get(web), "metadata", "generation") == 2
    assert get_path(world.get(web), *path) != get_path(first, *path)


# --- the process dies at any request ----------------------------------------------------------------------------------

STORY_SPEC: Final = {"image": "r/x:1", "replicas": 1, "parts": [{"name": "a"}]}


def shape(world: PureWorld) -> Sequence[Any]:
    """What is left, but for what differs from world to world."""
    uid = str(get_path(world.get(world.ref), "metadata", "uid"))
    return sorted(
        (str(ref), canonical_json([live.get("spec"), live.get("data")]).replace(uid.encode(), b""))
        for ref, live in world.children().items()
    )


def requests_of_a_story() -> int:
    world = PureWorld(SHOP, STORY_SPEC, FaultyKube)
    world.settle()
    count: int = world.api.count
    return count


def survived(number: int, *, after: bool, crash: bool) -> None:
    world = PureWorld(SHOP, STORY_SPEC, FaultyKube)
    world.api.strike_at(number, interruption(after=after, crash=crash))
    for _ in range(2):  # the process is started again
        try:
            world.settle()
        except (Crash, OperatorError):
            continue
    world.settle()
    assert world.condition()["status"] == "True"
    assert shape(world) == shape(settled(STORY_SPEC))


@pytest.mark.slow
@pytest.mark.parametrize("crash", [True, False])
@pytest.mark.parametrize("after", [True, False])
def test_a_box_survives_a_sigkill_at_every_request(after: bool, crash: bool) -> None:
    for number in range(1, requests_of_a_story() + 1):
        survived(number, after=after, crash=crash)


@pytest.mark.parametrize("number", [2, 6, 9])
def test_a_box_survives_a_sigkill_at_some_requests(number: int) -> None:
    survived(number, after=True, crash=True)


@pytest.mark.slow
@pytest.mark.parametrize("after", [True, False])
def test_a_removal_survives_a_sigkill_at_every_request(after: bool) -> None:
    first = settled(STORY_SPEC, wrap=FaultyKube)
    first.api.count = 0
    first.server.delete(*_target(first))
    first.settle()
    assert first.get(first.ref) is None
    for number in range(1, first.api.count + 1):
        world = settled(STORY_SPEC, wrap=FaultyKube)
        world.server.delete(*_target(world))
        world.api.strike_at(number, interruption(after=after, crash=True))
        for _ in range(2):
            try:
                world.settle()
            except Crash:
                continue
        assert world.get(world.ref) is None
        assert world.children() == {}


def _target(world: PureWorld) -> Any:
    return (RequestTarget(world.server.resource(world.box.kind), NS, "shop"),)


def test_a_box_whose_kind_has_no_status_fields_of_its_own_settles() -> None:
    plain = box_of(config("settings", data={"image": "${self.spec.image}"}), kind=crd())

    assert settled(STORY_SPEC, plain).condition()["status"] == "True"
