"""What becomes of each item: policies, orphans, recreation, prune at once, hooks, letting go (boxes, 4.3)."""

import json
import shlex

import pytest

from kubelab.inprocess import run_sync
from purekube.apimachinery.errors import Forbidden, Invalid, OperatorError, Unavailable
from purekube.apimachinery.manifest import ObjectRef, content_hash, get_path, metadata
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.controller.decision import RequeuePace
from purekube.graph.node import (
    ApplyPolicy,
    Edge,
    GraphNode,
    Hold,
    HoldCause,
    Item,
    OnImmutable,
    PruneTime,
    Removal,
    Rendered,
    Scope,
    Until,
)
from purekube.graph.node_order import Graph
from purekube.graph.plan import plan
from purekube.ports import PatchType
from tests.support.graph_world import EXTRA, MARKS, NS, PART, GraphWorld, NodeSpec, owner_of


def part(name: str) -> ObjectRef:
    """A child."""
    return ObjectRef(PART, NS, name)


def test_if_absent_is_made_and_left_alone() -> None:
    world = GraphWorld.of(NodeSpec("a", policy=ApplyPolicy.IF_ABSENT))
    world.settle()
    world.change(size=5)
    world.patch(part("a"), {"spec": {"size": 3}})
    world.settle()
    assert get_path(world.live(part("a")), "spec", "size") == 3

    world.delete(part("a"))
    world.settle()
    assert get_path(world.live(part("a")), "spec", "size") == 5


def test_if_absent_takes_what_nobody_controls_as_it_is() -> None:
    """A password that outlived the owner before: it only has to be there."""
    world = GraphWorld.of(NodeSpec("a", policy=ApplyPolicy.IF_ABSENT))
    world.apply_as("tenant", part("a"), {"spec": {"mine": 1}})
    before = world.live(part("a"))
    world.run()

    assert world.live(part("a")) == before
    world.settle()
    world.delete_shop()
    world.settle()
    assert list(world.objects) == [part("a")]


def test_what_is_orphaned_stays_when_its_owner_goes() -> None:
    world = GraphWorld.of(NodeSpec("a", removal=Removal.ORPHAN), NodeSpec("b"))
    world.settle()
    world.delete_shop()
    world.settle()

    assert world.is_gone
    assert list(world.objects) == [part("a")]
    meta = metadata(world.objects[part("a")])
    assert (meta.get("ownerReferences"), MARKS.owner_uid in meta["labels"]) == (None, False)


def test_what_is_orphaned_is_not_pruned_either() -> None:
    world = GraphWorld.of(NodeSpec("a", removal=Removal.ORPHAN), NodeSpec("b"))
    world.settle()
    world.change(without=["a"])
    world.settle()

    assert sorted(ref.name for ref in world.objects) == ["a", "b"]
    assert world.condition("Reconciling") == "False Stable"


def test_what_refers_to_no_owner_is_pruned_and_taken_down_by_its_label() -> None:
    """`owner: Label` of a box, also where a reference would be legal."""
    world = GraphWorld.of(NodeSpec("a", refers=False), NodeSpec("b", refers=False), NodeSpec("c"))
    world.settle()
    assert get_path(world.live(part("a")), "metadata", "ownerReferences") is None

    world.change(without=["a"])
    world.settle()
    assert sorted(ref.name for ref in world.objects) == ["b", "c"]

    world.delete_shop()
    world.settle()
    assert (world.is_gone, list(world.objects)) == (True, [])


def test_what_refers_to_its_owner_from_now_on_or_no_more_stays_its_own() -> None:
    """A changed file: the reference comes and goes with the next apply, and the object is the owner's all the time."""
    world = GraphWorld.of(NodeSpec("a"), NodeSpec("b", refers=False))
    world.settle()
    world.decide.nodes = [NodeSpec("a", refers=False), NodeSpec("b")]
    world.settle()

    held = {ref.name: "ownerReferences" in metadata(live) for ref, live in world.objects.items()}
    assert held == {"a": False, "b": True}
    world.delete_shop()
    world.settle()
    assert (world.is_gone, list(world.objects)) == (True, [])


def test_who_takes_the_reference_off_by_hand_keeps_the_object() -> None:
    world = GraphWorld.of(NodeSpec("a"))
    world.settle()
    world.patch(part("a"), {"metadata": {"ownerReferences": None}})
    world.delete_shop()
    world.settle()
    assert [ref.name for ref in world.objects] == ["a"]


def test_an_immutable_field_is_told() -> None:
    world = GraphWorld.of(NodeSpec("a", body={"fixed": "one"}))
    world.settle()
    world.decide.nodes = (NodeSpec("a", body={"fixed": "two"}),)
    world.run()

    assert world.condition("Stalled") == "True ResourceFailed"
    assert "fixed is immutable" in world.message()
    assert "box.yaml:7: resources.a" in world.message()


def test_an_immutable_field_makes_it_anew_where_that_is_asked_for() -> None:
    """`onImmutable: Recreate`: by the uid that was looked at, and what waits for it goes on."""
    world = GraphWorld.of(NodeSpec("a", body={"fixed": "one"}))
    world.settle()
    uid = metadata(world.objects[part("a")])["uid"]
    world.decide.nodes = (NodeSpec("a", body={"fixed": "two"}, on_immutable=OnImmutable.RECREATE),)
    world.hold(part("a"), "tests.example/busy")
    world.run()
    assert world.message().startswith("Part team/a: deleted at ")

    world.hold(part("a"))
    world.settle()
    assert get_path(world.live(part("a")), "spec", "fixed") == "two"
    assert metadata(world.objects[part("a")])["uid"] != uid
    assert world.condition("Ready") == "True ResourcesReady"


def test_prune_at_once_does_not_wait_for_the_others() -> None:
    world = GraphWorld.of(NodeSpec("a", prune=PruneTime.AT_ONCE), NodeSpec("b"), NodeSpec("c"))
    world.settle()
    world.change(size=2, without=["a", "c"])
    world.settle(but=lambda ref: ref.name == "b")

    assert sorted(ref.name for ref in world.objects) == ["b", "c"]


@pytest.mark.parametrize(
    "fault", ["include/MISSING", "include/FAULT", "render/MISSING", "render/FAULT", "render/LIMIT"]
)
def test_what_is_unknown_is_not_pruned_at_once(fault: str) -> None:
    """L7: with and without the label that tells the node."""
    world = GraphWorld.of(NodeSpec("a", prune=PruneTime.AT_ONCE, listed=True), items={"a": ["x", "y"]})
    world.settle()
    world.change(items={"a": []}, fault={"a": fault})
    world.patch(part("a-x"), {"metadata": {"labels": {MARKS.node: None}}})
    world.settle()

    assert sorted(ref.name for ref in world.objects) == ["a-x", "a-y"]
    world.change(fault={"a": None})
    world.settle()
    assert world.objects == {}


def test_a_closed_gate_holds_what_is_not_wanted_any_more() -> None:
    """Decision 132: neither written nor deleted."""
    world = GraphWorld.of(NodeSpec("a", listed=True, is_choice=True), items={"a": ["x", "y"]})
    world.settle()
    world.change(items={"a": ["x"]}, closed=["a"], size=2)
    world.settle()

    assert sorted(ref.name for ref in world.objects) == ["a-x", "a-y"]
    assert world.condition("Ready") == "True ResourcesReady"
    world.change(closed=[])
    world.settle()
    assert [ref.name for ref in world.objects] == ["a-x"]


def test_what_waits_for_a_choice_is_part_of_it() -> None:
    """Decision 129: a choice keeps nobody from being ready, nor does what is behind it."""
    nodes = (NodeSpec("a", is_choice=True), NodeSpec("b", (("a", Until.APPLIED),)), NodeSpec("c"))
    world = GraphWorld.of(*nodes, closed=["a"])
    world.settle()

    assert list(world.objects) == [part("c")]
    assert world.condition("Ready") == "True ResourcesReady"


def test_a_delete_is_of_the_object_that_was_looked_at() -> None:
    """L9: one that was made anew meanwhile survives."""
    world = GraphWorld.of(NodeSpec("a"), NodeSpec("b"))
    world.settle()
    world.decide.nodes = (NodeSpec("a"),)
    world.cache = world.snapshot()
    world.delete(part("b"))
    world.apply_as("tenant", part("b"), {"spec": {"mine": 1}})
    result = world.run()

    assert result is not None
    assert result.requeue.pace is RequeuePace.IMMEDIATE
    assert get_path(world.live(part("b")), "spec") == {"mine": 1}


def test_a_refused_delete_is_sent_once_in_a_pass() -> None:
    """And what is stuck for good is not called progress."""
    world = GraphWorld.of(NodeSpec("a"), NodeSpec("b"), NodeSpec("c"))
    world.settle()
    world.decide.nodes = (NodeSpec("a"),)
    asked = []

    def refuse(verb: str, ref: ObjectRef) -> OperatorError | None:
        asked.append((verb, ref.name))
        return Forbidden("no") if (verb, ref.name) == ("delete", "b") else None

    world.refuse(refuse)
    world.run()

    assert asked.count(("delete", "b")) == 1
    assert list(world.objects) == [part("a"), part("b")]


def test_waiting_behind_what_is_stuck_is_no_progress() -> None:
    """kstatus: Stalled and Reconciling are not both True where nothing moves."""
    world = GraphWorld.of(NodeSpec("a"), NodeSpec("b", (("a", Until.APPLIED),)))
    world.refuse(lambda verb, ref: Invalid("no") if (verb, ref.name) == ("apply", "a") else None)
    world.run()

    assert world.condition("Stalled") == "True ResourceFailed"
    assert world.condition("Reconciling") == "False Stable"


def test_hooks_run_to_their_end_before_anything_goes() -> None:
    """L11: a drain that has run is not run again, also when the process dies or its object goes."""
    world = GraphWorld.of(NodeSpec("a"), hooks=[NodeSpec("drain")])
    world.settle()
    world.delete_shop()
    for _ in range(4):
        world.run()

    assert set(world.objects) == {part("a"), part("drain")}
    assert world.condition("Deleting") == "True Draining"
    assert world.message("Deleting") == "Part team/drain: its controller has not written a status yet"

    world.hold(part("a"), "tests.example/busy")
    world.say(part("drain"))
    world.run()
    assert world.condition("Deleting") == "True WaitingForRemoval"
    world.delete(part("drain"))
    world.hold(part("a"))
    world.settle()
    assert (world.is_gone, world.objects) == (True, {})
    assert world.names("create") == ["drain"]


def test_a_hook_that_fails_is_told_and_holds_everything() -> None:
    world = GraphWorld.of(NodeSpec("a"), hooks=[NodeSpec("drain")])
    world.settle()
    world.delete_shop()
    for _ in range(3):
        world.run()
    world.say(part("drain"), "Stalled")
    world.run()

    assert world.condition("Stalled") == "True ResourceFailed"
    assert world.message("Deleting") == "Part team/drain: drain said so"
    assert part("a") in world.objects

    world.decide.compiles = False
    world.settle()
    assert (world.is_gone, world.objects) == (True, {})


def test_teardown_tells_each_step_and_what_refuses_it() -> None:
    """L11: with what is left, since when, and behind what."""
    world = GraphWorld.of(NodeSpec("a"), NodeSpec("b", (("a", Until.READY),)))
    world.settle()
    world.delete_shop()
    world.refuse(lambda verb, ref: Forbidden("not now") if (verb, ref.name) == ("delete", "b") else None)
    world.run()
    assert world.condition("Deleting") == "True DeletingResources"
    assert world.message("Deleting") == "Part team/b: delete: not now; then Part team/a"

    world.relent()
    world.hold(part("b"), "tests.example/busy")
    world.run()
    assert world.condition("Deleting") == "True WaitingForRemoval"
    assert world.message("Deleting") == (
        "Part team/b: deleted at 2026-01-01T00:00:00Z, not gone yet, held by tests.example/busy; then Part team/a"
    )


# --- fields of others -------------------------------------------------------------------------------------------------


def test_a_field_that_somebody_takes_is_told_and_not_fought() -> None:
    """L12: and given back by the command that the message has, it heals."""
    world = GraphWorld.of(NodeSpec("a"), NodeSpec("b"))
    world.settle()
    world.patch(part("a"), {"spec": {"size": 9, "theirs": 1}})
    result = world.run()

    assert result is not None
    assert result.requeue.pace is RequeuePace.SLOW
    assert world.condition("Stalled") == "True FieldConflict"
    assert 'field manager "kubectl-edit" holds .spec.size' in world.message()
    assert get_path(world.live(part("a")), "spec", "size") == 9

    command = shlex.split(world.message().partition("To hand it back: ")[2])
    assert command[:6] == ["kubectl", "patch", "parts.tests.example", "a", "-n", "team"]
    steps = json.loads(command[-1])
    run_sync(world.kube.patch(part("a"), steps, patch_type=PatchType.JSON, field_manager="person"))
    world.settle()
    assert get_path(world.live(part("a")), "spec") == {"size": 1, "read": {}, "theirs": 1}
    assert world.condition("Ready") == "True ResourcesReady"


def test_items_of_others_in_a_keyed_list_are_left_alone() -> None:
    """PH-2: an injected sidecar is no drift; a field of ours in our own item is."""
    world = GraphWorld.of(NodeSpec("a", body={"parts": [{"name": "main", "size": 1}]}))
    world.settle()
    world.apply_as("injector", part("a"), {"spec": {"parts": [{"name": "sidecar", "size": 7}]}})
    world.settle()
    before = world.live(part("a"))
    assert len(get_path(before, "spec", "parts")) == 2

    world.patch(part("a"), {"spec": {"parts": [{"name": "sidecar", "size": 7}]}})
    world.settle()
    assert [one["name"] for one in get_path(world.live(part("a")), "spec", "parts")] == ["sidecar", "main"]


# --- what the engine is told ------------------------------------------------------------------------------------------


def test_pods_are_rolled_on_the_content_of_others() -> None:
    """`rollOn`: what we render, or what is there where others decide that."""
    body = {"template": {"metadata": {"annotations": {"own": "1"}}}}
    nodes = (
        NodeSpec("settings", kind=CONFIG_MAP),
        NodeSpec("secret", kind=CONFIG_MAP, policy=ApplyPolicy.NEVER),
        NodeSpec("web", kind=EXTRA, roll_on=("settings", "secret"), body=body),
    )
    world = GraphWorld.of(*nodes)
    world.settle()
    assert world.condition("Ready") == "False WaitingForExternal"
    assert world.message() == "ConfigMap team/secret: it does not exist. Waiting behind it: web"

    web, secret = ObjectRef(EXTRA, NS, "web"), ObjectRef(CONFIG_MAP, NS, "secret")
    world.apply_as("tenant", secret, {"data": {"a": "1"}})
    world.settle()
    path = ("spec", "template", "metadata", "annotations")
    first = get_path(world.live(web), *path)
    assert first == {
        "own": "1",
        MARKS.roll: content_hash([[{"data": {"size": "1", "read": "[]"}}], [{"data": {"a": "1"}}]]),
    }

    world.apply_as("tenant", secret, {"data": {"a": "2"}})
    world.settle()
    assert get_path(world.live(web), *path) != first
    world.delete_shop()
    world.settle()
    assert list(world.objects) == [secret]


def nodes_of(answer: Rendered | Hold, *, included: bool = True) -> list[GraphNode]:
    """Two nodes, the second of which answers so and has an inferred and a declared edge to the first."""
    first = GraphNode(
        "a", PART, lambda scope: Rendered((Item("", PART.manifest("a")),)), include=lambda scope: included
    )
    return [first, GraphNode("b", PART, lambda scope: answer, (Edge("a", Until.READY),))]


def states(nodes: list[GraphNode]) -> list[str]:
    """How they stand in an empty world."""
    world = GraphWorld.of()
    planned = plan(Graph.of(nodes), owner_of(world.shop), world.snapshot(), Scope())
    return [observation.state for observation in planned.everything]


def test_only_the_branch_that_was_taken_is_a_dependency() -> None:
    """Trap 12: an inferred edge counts where the evaluation touched it."""
    item = (Item("", PART.manifest("b")),)
    edge = Edge("a", Until.READY)

    assert states(nodes_of(Rendered(item, frozenset()))) == ["Pending", "Pending"]
    assert states(nodes_of(Rendered(item, frozenset({edge})))) == ["Pending", "Waiting"]
    assert states(nodes_of(Rendered(item))) == ["Pending", "Waiting"]
    assert states(nodes_of(Rendered(item, frozenset()), included=False)) == ["Excluded", "Pending"]
    assert states(nodes_of(Rendered(item, frozenset({edge})), included=False)) == ["Excluded", "Excluded"]


def test_what_cannot_be_evaluated_is_not_excluded_by_a_branch_it_may_not_take() -> None:
    """L7: unknown stays unknown."""
    hold = Hold(HoldCause.MISSING, "not there yet")

    assert states(nodes_of(hold, included=False)) == ["Excluded", "Waiting"]


@pytest.mark.parametrize(
    ("manifests", "message"),
    [
        ([("", {**PART.manifest("b"), "kind": "Pod"})], "it is tests.example/v1 Pod and not tests.example/v1 Part"),
        ([("", PART.manifest(""))], "metadata.name is empty"),
        ([("", PART.manifest("a"))], "a wants this object already"),
        ([("x", PART.manifest("b")), ("x", PART.manifest("c"))], "two items have the key 'x'"),
    ],
)
def test_what_cannot_be_an_object_is_told(manifests: list[tuple[str, dict[str, object]]], message: str) -> None:
    world = GraphWorld.of()
    nodes = nodes_of(Rendered(tuple(Item(key, manifest) for key, manifest in manifests), frozenset()))
    planned = plan(Graph.of(nodes), owner_of(world.shop), world.snapshot(), Scope())

    assert [(one.state, one.message) for one in planned.observations["b"]] == [("Error", message)]
    assert [apply.ref.name for apply in planned.effects.applies] == ["a"]


@pytest.mark.parametrize(
    ("error", "pace", "reason"),
    [
        (Invalid("no"), RequeuePace.NONE, "False ResourceFailed"),
        (Unavailable("no"), RequeuePace.BACKOFF, "False ResourceNotReady"),
        (Forbidden("a quota"), RequeuePace.SLOW, "False Denied"),
        (
            Forbidden('User "u" cannot patch resource "parts" in API group "tests.example" in the namespace "team"'),
            RequeuePace.REFUSED,
            "False Denied",
        ),
    ],
)
def test_a_refused_write_is_paced_by_what_can_help(error: Exception, pace: RequeuePace, reason: str) -> None:
    world = GraphWorld.of(NodeSpec("a"))
    world.refuse(lambda verb, ref: error if verb == "apply" else None)  # type: ignore[arg-type, return-value]
    result = world.run()

    assert result is not None
    assert (result.requeue.pace, world.condition("Ready")) == (pace, reason)


def test_a_missing_kind_holds_its_branch_only() -> None:
    """Trap 10: it is noticed when it comes."""
    world = GraphWorld.of(NodeSpec("a", kind=EXTRA), NodeSpec("b", (("a", Until.READY),)), NodeSpec("c"))
    world.missing.add(EXTRA)
    world.settle()
    assert list(world.objects) == [part("c")]
    assert world.condition("Ready") == "False MissingKind"
    assert "extras.tests.example (v1) is not installed" in world.message()

    world.missing.clear()
    world.settle()
    assert world.condition("Ready") == "True ResourcesReady"


@pytest.mark.parametrize("ready", [False, True])
def test_what_is_unwanted_is_named_by_its_uid_also_while_it_waits_for_the_rest(ready: bool) -> None:
    world = GraphWorld.of(NodeSpec("a"), NodeSpec("b"), NodeSpec("c"))
    world.settle()
    world.hold(part("c"), "example.org/hold")
    world.delete(part("c"))
    world.change(size=2)
    world.apply_as("tenant", part("b"), {"spec": {"note": "changed"}})
    shop, live = world.shop, world.objects
    if ready:
        world.say(part("b"))

    planned = plan(Graph.of([NodeSpec("b").node()]), owner_of(shop), world.snapshot(), Scope(shop.manifest["spec"]))

    uid = metadata(live[part("a")])["uid"]
    assert [(delete.ref, delete.uid) for delete in planned.unwanted] == [(part("a"), uid)], (
        "what is going is not asked again"
    )
    assert [observation.ref for observation in planned.everything] == [part("b")]
