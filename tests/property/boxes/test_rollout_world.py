"""Laws of roll-outs on the simulated world, with lost answers, stale copies and crashes at any request (PH-10)."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from purekube.apimachinery.conditions import condition_of
from purekube.apimachinery.definitions import BROUGHT_TO, OPERATOR_BOX
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import CONFIG_MAP, SECRET
from purekube.boxes.rollouts.applied import AppliedBox
from purekube.boxes.rollouts.applied_definition import applied_box_definition
from purekube.boxes.rollouts.revisions import CONDITION
from purekube_run.simulation.connection import ObservedWrite
from purekube_run.simulation.extensions.extension_replica import Extending, ExtensionReplica
from purekube_run.simulation.faults import at_random, calm
from purekube_run.simulation.world import World
from tests.support.boxes import box_of, config, crd, secret
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

    def prepare(self, spec: Mapping[str, Any] = settings_box("one")) -> None:
        self.create({**OPERATOR_BOX.manifest(BOX.name), "spec": spec}, OPERATOR_BOX)
        assert self.until(lambda: self.is_rolled_out(), 300)
        for number in range(COUNT):
            spec = {"image": "r/x:1", "parts": []}
            self.create({**SHOP.manifest(f"shop-{number}", NS), "spec": spec}, SHOP)
            self.run(2)
        assert self.until(lambda: self.is_rolled_out() and get_path(self.get(BOX), "status", "ready") == COUNT, 300)

    def apply_box(self, spec: Mapping[str, Any]) -> None:
        self.change(BOX, {"spec": spec})

    def is_rolled_out(self) -> bool:
        return self.condition("RolledOut").get("status") == "True"

    def condition(self, type: str) -> Mapping[str, Any]:
        live = self.get(BOX)
        found = condition_of(live or {}, type)
        return found if found.get("observedGeneration") == get_path(live, "metadata", "generation") else {}

    def is_judged(self) -> bool:
        """Report whether the status holds the judgement of the present definition over all objects."""
        live = self.get(BOX)
        found, revision = (get_path(live, "status", name) for name in ("judgement", "revision"))
        asked = AppliedBox.read(live or {}).revision
        return bool(found) and (found["revision"], revision, found["objects"]) == (asked, asked, COUNT)

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
@example(16, 2)
def test_no_fault_lets_a_roll_out_exceed_its_budget_skip_a_parent_or_move_one_twice_PH_10(
    seed: int, budget: int
) -> None:
    with RolloutWorld(seed) as world:
        world.prepare()
        (first,) = {record(live) for live in world.parents()}
        moves: dict[str, int] = {}
        broken: list[tuple[list[bool], int]] = []
        unjudged: list[str] = []

        def judge(write: ObservedWrite) -> None:
            if write.request.kind in (SHOP, CONFIG_MAP) and not world.is_judged():
                unjudged.append(str(write.request))
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
        assert unjudged == []
        assert moves == {f"shop-{number}": 1 for number in range(COUNT)}


@settings(max_examples=effort(0.2))
@given(st.integers(0, 2**16))
@example(0)
def test_undo_restores_what_was_there_byte_for_byte_whatever_fails_meanwhile_PH_10(seed: int) -> None:
    ready_when = ["${settings.data.value == 'one'}"]
    bad = config("settings", "${self.metadata.name}", data={"value": "two"}, readyWhen=ready_when)
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


Child = tuple[str, str, str, str]
"""A resource of a definition: id, kind, suffix of its name, value of its data."""
CHILDREN: Final = st.tuples(
    st.sampled_from(("first", "second", "third")),
    st.sampled_from(("ConfigMap", "Secret")),
    st.sampled_from(("", "-more")),
    st.sampled_from(("one", "two")),
)
DEFINITIONS: Final = st.lists(
    CHILDREN, min_size=1, max_size=3, unique_by=(lambda child: child[0], lambda child: child[1:3])
)


def box_with(children: Sequence[Child], *, is_bad: bool = False) -> dict[str, Any]:
    """A box with these resources; an API server refuses the last one of a bad box."""
    resources = []
    for identifier, kind, suffix, value in children:
        data = {"value": value, **({"Bad key!": "x"} if is_bad and identifier == children[-1][0] else {})}
        resource = (config if kind == "ConfigMap" else secret)(identifier, data=data)
        resource["template"]["metadata"] = {"name": "${self.metadata.name}" + suffix}
        resources.append(resource)
    return {"crd": {"spec": crd()["spec"]}, "resources": resources, "rollout": {"progressDeadline": "30s"}}


def state_of(world: RolloutWorld) -> Mapping[str, Any]:
    """The children with their content, and what each parent says of itself, without times and what servers assign."""
    made, uids = {}, {str(metadata(live)["uid"]): str(metadata(live)["name"]) for live in world.parents()}
    for kind in (CONFIG_MAP, SECRET):
        for live in world.objects(kind):
            meta = metadata(live)
            owners = [owner["name"] for owner in meta.get("ownerReferences") or ()]
            labels = {name: uids.get(value, value) for name, value in (meta.get("labels") or {}).items()}
            marks = (labels, sorted(meta.get("annotations") or ()), meta.get("finalizers"), owners)
            made[f"{kind.kind} {meta['name']}"] = (live.get("data"), marks)
    said = {
        str(metadata(live)["name"]): (
            record(live),
            metadata(live).get("finalizers"),
            sorted((each["type"], each["status"], each["reason"]) for each in live["status"]["conditions"]),
        )
        for live in world.parents()
    }
    return {"children": made, "parents": said}


@settings(max_examples=effort(0.4))
@given(st.integers(0, 2**16), st.lists(st.tuples(DEFINITIONS, st.booleans()), min_size=1, max_size=4), DEFINITIONS)
@example(
    0,
    [([("first", "ConfigMap", "", "one"), ("second", "Secret", "", "one")], False)],
    [("third", "ConfigMap", "", "two")],
)
@example(1, [([("first", "ConfigMap", "", "one")], True)], [("first", "Secret", "-more", "one")])
def test_state_after_any_history_of_definitions_is_that_of_the_last_one_on_fresh_objects_PH_10(
    seed: int, history: list[tuple[list[Child], bool]], last: list[Child]
) -> None:
    random = Random(seed)
    with RolloutWorld(seed) as world:
        world.prepare(box_with(history[0][0]))
        world.replica.schedule = at_random(random, 0.1)
        for children, is_bad in history:
            world.apply_box(box_with(children, is_bad=is_bad))
            world.run(random.choice((0, 1, 5, 60)))
        world.apply_box(box_with(last))
        world.run(60)
        world.replica.schedule = calm
        assert world.until(world.is_rolled_out, 1800)
        world.run(300)
        after = state_of(world)
        written: list[str] = []
        world.on_write.append(lambda write: written.append(str(write.request)))
        world.replica.kill("restarted")
        world.run(300)
        assert written == []
    with RolloutWorld(seed) as fresh:
        fresh.prepare(box_with(last))
        fresh.run(60)
        assert after == state_of(fresh)
