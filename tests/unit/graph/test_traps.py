"""The traps of other graph engines, one by one: what each of them met, ours does not (PH-1 to PH-3)."""

import pytest

from purekube.apimachinery.errors import Forbidden, Invalid, OperatorError, Unavailable
from purekube.apimachinery.manifest import ObjectRef, get_path, metadata
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.graph.node import Until
from purekube.ports import Propagation
from tests.support.graph_world import EXTRA, NS, PART, SHOP, GraphWorld, NodeSpec


def chain(*ids: str, until: Until = Until.READY) -> list[NodeSpec]:
    """Each node waits for the one before."""
    return [NodeSpec(one, ((before, until),) if before else ()) for before, one in zip(("", *ids), ids, strict=False)]


def part(name: str) -> ObjectRef:
    """A child."""
    return ObjectRef(PART, NS, name)


def test_a_kind_without_a_generation_drifts_and_is_mended() -> None:
    """Trap 1 (PH-2): drift is seen by content."""
    world = GraphWorld.of(NodeSpec("settings", kind=CONFIG_MAP))
    world.settle()
    world.patch(ObjectRef(CONFIG_MAP, NS, "settings"), {"data": {"size": None, "more": "theirs"}})

    world.settle()

    assert get_path(world.live(ObjectRef(CONFIG_MAP, NS, "settings")), "data") == {
        "size": "1",
        "read": "[]",
        "more": "theirs",
    }


def test_a_child_that_nobody_has_looked_at_is_not_ready() -> None:
    """Trap 2: a kind with a status, and an object that has none."""
    world = GraphWorld.of(*chain("a", "b"))
    world.run()

    assert world.condition("Ready") == "False ResourceNotReady"
    assert world.names() == ["a"]


def test_the_status_blames_the_obstacle_and_not_what_waits_behind_it() -> None:
    """Trap 4 (L14): the sentence names the stuck object, and who waits for it."""
    world = GraphWorld.of(*chain("a", "b", "c"))
    world.settle(but=lambda ref: ref.name == "b")

    assert world.condition("Ready") == "False ResourceNotReady"
    assert world.message() == "Part team/b: its controller has not written a status yet. Waiting behind it: c"


@pytest.mark.parametrize("what", ["include/FAULT", "render/MISSING", "gate/LIMIT"])
def test_teardown_needs_no_expression(what: str) -> None:
    """Trap 5 (L11): nothing can be evaluated any more, and everything goes in order."""
    world = GraphWorld.of(*chain("a", "b", "c"))
    world.settle()
    world.change(fault=dict.fromkeys("abc", what))
    world.delete_shop()
    world.decide.nodes = ()

    world.settle()

    assert (world.is_gone, world.objects) == (True, {})
    assert world.names("delete") == ["c", "b", "a"]


def test_what_dependants_use_is_pruned_behind_them() -> None:
    """Trap 13 (L10): by recorded waves, the next when that is gone."""
    world = GraphWorld.of(*chain("a", "b", "c"))
    world.settle()
    world.hold(part("c"), "tests.example/busy")
    world.decide.nodes = (NodeSpec("other"),)
    world.settle()

    assert set(world.objects) == {part("a"), part("b"), part("c"), part("other")}
    assert world.condition("Reconciling") == "True Pruning"
    assert "held by tests.example/busy" in world.message("Reconciling")

    world.hold(part("c"))
    world.settle()

    assert world.names("delete") == ["c", "b", "a"]


def test_the_old_goes_once_the_new_is_ready() -> None:
    """Trap 14 (L10): a new version that never comes up leaves what the old one runs on."""
    world = GraphWorld.of(NodeSpec("old"), *chain("web"))
    world.settle()
    world.decide.nodes = [*chain("web", "new")]
    world.settle(but=lambda ref: ref.name == "new")

    assert part("old") in world.objects

    world.settle()

    assert part("old") not in world.objects


def test_a_denied_delete_keeps_its_candidate() -> None:
    """Trap 15: it is told, and tried again."""
    world = GraphWorld.of(NodeSpec("a"), NodeSpec("b"))
    world.settle()
    world.decide.nodes = (NodeSpec("a"),)
    world.refuse(lambda verb, ref: Forbidden("no, says the webhook") if verb == "delete" else None)
    world.run()

    assert world.condition("Ready") == "True ResourcesReady"
    assert world.message("Reconciling") == "Part team/b: delete: no, says the webhook"

    world.relent()
    world.settle()

    assert list(world.objects) == [part("a")]
    assert world.condition("Reconciling") == "False Stable"


def test_it_is_not_ready_before_the_later_ones_are_even_wanted() -> None:
    """Trap 16 (D13): a closed gate keeps it from being ready; a choice does not."""
    world = GraphWorld.of(NodeSpec("a"), NodeSpec("b"), closed=["b"])
    world.settle()

    assert world.condition("Ready") == "False WaitingForGate"

    world.decide.nodes = (NodeSpec("a"), NodeSpec("b", is_choice=True))
    world.settle()

    assert world.condition("Ready") == "True ResourcesReady"


def test_a_slow_branch_holds_up_nothing_beside_it() -> None:
    """Trap 17 (L5): and its own descendants wait."""
    world = GraphWorld.of(*chain("slow", "behind"), *chain("quick", "next"))
    world.settle(but=lambda ref: ref.name == "slow")

    assert set(world.objects) == {part("slow"), part("quick"), part("next")}


@pytest.mark.parametrize("until", [Until.APPLIED, Until.READY])
def test_a_refused_dependency_is_not_applied_past(until: Until) -> None:
    """Trap 17 (L4, L5): what refers to it waits; what does not goes on in the same pass."""
    world = GraphWorld.of(*chain("a", "b", "c", until=until), NodeSpec("z"))
    refused = Invalid("spec.size: too large")
    face = world.refuse(lambda verb, ref: refused if (verb, ref.name) == ("apply", "a") else None)
    world.run()

    assert [ref.name for verb, ref in face.writes if verb == "apply"] == ["z"]
    assert world.condition("Stalled") == "True ResourceFailed"
    assert world.message() == (
        "Part team/a: apply: spec.size: too large (box.yaml:7: resources.a). Waiting behind it: b, c"
    )


def test_a_cache_behind_its_own_writes_makes_nothing_twice() -> None:
    """Trap 18: names are fixed, and each apply names the copy that it was decided on."""
    world = GraphWorld.of(NodeSpec("a"), NodeSpec("b", kind=EXTRA))
    before = world.snapshot()
    world.run()
    uids = {ref: metadata(live)["uid"] for ref, live in world.objects.items()}

    world.cache = before
    result = world.run()

    assert result is not None
    assert result.error is not None
    assert {ref: metadata(live)["uid"] for ref, live in world.objects.items()} == uids


@pytest.mark.parametrize("references", [False, True])
def test_a_foreground_cascade_keeps_the_order_where_it_is_strict(references: bool) -> None:
    """Argo CD deletes so: without owner references the garbage collector takes nothing down out of order."""
    world = GraphWorld.of(*chain("a", "b"), references=references)
    world.settle()
    world.hold(part("b"), "tests.example/busy")
    world.delete_shop(Propagation.FOREGROUND)
    world.run()

    left = set(world.objects)
    assert left == ({part("b")} if references else {part("a"), part("b")})

    world.hold(part("b"))
    world.settle()
    assert (world.is_gone, world.objects) == (True, {})


def test_an_unanswered_write_is_tried_again_and_told() -> None:
    """What may pass is no end: it is paced by the kernel."""
    world = GraphWorld.of(NodeSpec("a"))
    gone: list[OperatorError] = [Unavailable("no answer")]
    world.refuse(lambda verb, ref: gone.pop() if verb == "apply" and gone else None)
    result = world.run()

    assert result is not None
    assert result.requeue.pace.name == "BACKOFF"
    assert world.message() == "Part team/a: apply: no answer; tried again"
    assert world.condition("Reconciling") == "True Progressing"

    world.settle()
    assert world.condition("Ready") == "True ResourcesReady"


def test_an_owner_recreated_under_its_name_touches_nothing_of_the_old_one() -> None:
    """L8: the name is taken, and by whom is said."""
    world = GraphWorld.of(NodeSpec("a"))
    world.settle()
    shop = ObjectRef(SHOP, NS, "shop")
    world.hold(shop)
    world.delete_shop(Propagation.ORPHAN)
    assert world.is_gone
    before = world.objects
    world.create(size=9)
    world.run()

    assert world.objects == before
    assert world.condition("Ready") == "False NameTaken"
    uid = world.shop.metadata.uid
    assert world.message().endswith(
        "an object of this name exists and was not made for this Shop. If nobody needs it, delete it. To let it be "
        f"taken over: kubectl label parts.tests.example a -n team box.example/owner-uid={uid} --overwrite"
    )

    world.patch(part("a"), {"metadata": {"labels": {"box.example/owner-uid": world.shop.metadata.uid}}})
    world.settle()
    assert get_path(world.live(part("a")), "spec", "size") == 9


def test_what_is_adopted_was_nobodys() -> None:
    """`adopt`: an object that nobody controls is taken over, one that somebody controls never is."""
    world = GraphWorld.of(NodeSpec("a", adopt=True))
    world.apply_as("helm", part("a"), {"spec": {"mine": 1}})
    world.settle()

    assert world.condition("Ready") == "True ResourcesReady"
    assert get_path(world.live(part("a")), "spec") == {"mine": 1, "size": 1, "read": {}}

    world.apply_as("helm", ObjectRef(CONFIG_MAP, NS, "x"), {})
    uid = metadata(world.objects[ObjectRef(CONFIG_MAP, NS, "x")])["uid"]
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": uid, "controller": True}
    world.patch(part("a"), {"metadata": {"ownerReferences": [other]}})
    world.change(size=2)
    world.run()
    assert world.condition("Ready") == "False NameTaken"
    who = f"ConfigMap x (uid {uid})"
    told = f"an object of this name is controlled by {who}; let it give it up, or choose another name"
    assert world.message().endswith(told)
