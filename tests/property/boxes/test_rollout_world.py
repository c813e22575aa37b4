"""Laws of roll-outs on the simulated world, with lost answers, stale copies and crashes at any request (PH-10)."""

from collections.abc import Mapping
from random import Random
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.boxes.applied_definition import applied_box_definition
from purekube.boxes.revisions import BROUGHT_TO, CONDITION, OPERATOR_BOX
from purekube_run.simulation.cluster import condition_of
from purekube_run.simulation.connection import ObservedWrite
from purekube_run.simulation.extension_replica import Extending, ExtensionReplica
from purekube_run.simulation.faults import at_random, calm
from purekube_run.simulation.world import World
from tests.support.boxes import box_of, config, crd
from tests.support.effort import effort

pytestmark = pytest.mark.slow
NS: Final = "team"
SHOP: Final = box_of(config("settings")).kind
BOX: Final = ObjectRef(OPERATOR_BOX, None, "shops")
USER: Final = "system:serviceaccount:vworkspace-system:vworkspace-boxes"
COUNT: Final = 4


def settings_box(value: str, **more: Any) -> dict[str, Any]:
    child = config("settings", "${self.metadata.name}", data={"value": value})
    return {"crd": {"spec": crd()["spec"]}, "resources": [child], **more}


class RolloutWorld(World):
    """A world with one process of applied boxes, in which a box has reached all of its objects."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed=seed, restarts=(1.0, 5.0))
        self.have_namespace(NS)
        self.install([applied_box_definition()])
        self.replica = ExtensionReplica(self, "boxes", Extending(applied=NS), user=USER)
        self.replicas.append(self.replica)

    def prepare(self) -> None:
        self.create({**OPERATOR_BOX.manifest(BOX.name), "spec": settings_box("one")}, OPERATOR_BOX)
        assert self.until(lambda: self.is_rolled_out(), 300)
        for number in range(COUNT):
            spec = {"image": "r/x:1", "parts": []}
            self.create({**SHOP.manifest(f"shop-{number}", NS), "spec": spec}, SHOP)
            self.run(2)
        assert self.until(lambda: self.is_rolled_out() and self.values() == ["one"] * COUNT, 300)

    def apply_box(self, spec: Mapping[str, Any]) -> None:
        self.change(BOX, {"spec": spec})

    def is_rolled_out(self) -> bool:
        return self.condition("RolledOut").get("status") == "True"

    def condition(self, type: str) -> Mapping[str, Any]:
        live = self.get(BOX)
        found = condition_of(live or {}, type)
        return found if found.get("observedGeneration") == get_path(live, "metadata", "generation") else {}

    def parents(self) -> list[Manifest]:
        return sorted(self.objects(SHOP), key=lambda live: str(metadata(live)["name"]))

    def values(self) -> list[Any]:
        found = {str(metadata(live)["name"]): get_path(live, "data", "value") for live in self.objects(CONFIG_MAP)}
        return [found.get(str(metadata(live)["name"])) for live in self.parents()]


def record(live: Manifest) -> str:
    return str(get_path(live, "metadata", "annotations", BROUGHT_TO) or "").partition(" ")[0]


def is_ready_at(live: Manifest, revision: str) -> bool:
    return condition_of(live, "Ready").get("status") == "True" and condition_of(live, CONDITION)["message"] == revision


@settings(max_examples=effort(0.4))
@given(st.integers(0, 2**16), st.integers(1, 3))
@example(0, 1)
def test_no_fault_lets_a_roll_out_exceed_its_budget_skip_a_parent_or_move_one_twice_PH_10(
    seed: int, budget: int
) -> None:
    with RolloutWorld(seed) as world:
        world.prepare()
        (first,) = {record(live) for live in world.parents()}
        moves: dict[str, int] = {}
        broken: list[tuple[list[bool], int]] = []

        def judge(write: ObservedWrite) -> None:
            parents = world.parents()
            moved = [record(live) != first for live in parents]
            late = [live for live in parents if record(live) != first and not is_ready_at(live, record(live))]
            if moved != sorted(moved, reverse=True) or len(late) > budget:
                broken.append((moved, len(late)))  # an error raised here would count as one of the pass
            changed = get_path(write.request.body, "metadata", "annotations") or {}
            if BROUGHT_TO in changed and write.error is None:
                moves[write.request.name] = moves.get(write.request.name, 0) + 1

        world.on_write.append(judge)
        world.replica.schedule = at_random(Random(seed), 0.1)
        world.apply_box(settings_box("two", rollout={"maxUnavailable": budget}))
        world.run(120)
        world.replica.schedule = calm
        assert world.until(lambda: world.is_rolled_out() and world.values() == ["two"] * COUNT, 1800)
        assert broken == []
        assert moves == {f"shop-{number}": 1 for number in range(COUNT)}


@settings(max_examples=effort(0.2))
@given(st.integers(0, 2**16))
@example(0)
def test_undo_restores_what_was_there_byte_for_byte_whatever_fails_meanwhile_PH_10(seed: int) -> None:
    bad = config("settings", "${self.metadata.name}", data={"value": "two", "Bad key!": "x"})
    with RolloutWorld(seed) as world:
        world.prepare()
        before = {str(metadata(live)["name"]): live["data"] for live in world.objects(CONFIG_MAP)}
        records = [record(live) for live in world.parents()]
        world.replica.schedule = at_random(Random(seed), 0.1)
        policy = {"maxUnavailable": 2, "onFailure": "Undo", "progressDeadline": "30s"}
        world.apply_box({**settings_box("x"), "resources": [bad], "rollout": policy})
        world.run(180)
        world.replica.schedule = calm
        assert world.until(lambda: world.condition("RolledOut").get("reason") == "Undone", 1800)
        world.run(60)
        assert [record(live) for live in world.parents()] == records
        assert {str(metadata(live)["name"]): live["data"] for live in world.objects(CONFIG_MAP)} == before
        assert all(is_ready_at(live, record(live)) for live in world.parents())
