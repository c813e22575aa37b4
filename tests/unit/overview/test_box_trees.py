"""The tree of an object of a box: a branch for each resource, from the first pass to a conflict (SEE-1, PH-4)."""

from functools import partial
from typing import Any

import pytest

from kubelab.inprocess import run_sync
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP, DEPLOYMENT
from purekube.controller.decision import Snapshot
from purekube.ports import PatchType
from tests.support.box_world import PureWorld
from tests.support.boxes import box_of, config, deployment
from tests.support.composite_world import NS
from vworkspace_core.overview.box_tree import tree_of_box
from vworkspace_core.overview.tree import Branch

GATE = "waits until spec.host exists (spec.resources[3].when[0])"
ELSEWHERE = [
    ("late", ObjectRef(CONFIG_MAP, NS, "late"), "Waiting", "GateClosed", GATE),
    ("never", ObjectRef(CONFIG_MAP, NS, ""), "Excluded", "Excluded", "it is not wanted"),
]


def maps(name: str, state: str = "Ready", reason: str = "Exists", message: str = "") -> list[tuple[Any, ...]]:
    """The ConfigMaps that are there; the one of that name stands otherwise."""
    found: list[tuple[Any, ...]] = [
        (node, ObjectRef(CONFIG_MAP, NS, node.replace("[", "-").strip("]")), "Ready", "Exists", "")
        for node in ("a", "m[x]", "m[y]")
    ]
    return [(*each[:2], state, reason, message) if each[0] == name else each for each in found]


def web(*said: str) -> tuple[Any, ...]:
    return ("web", ObjectRef(DEPLOYMENT, NS, "web"), *said)


@pytest.fixture
def world() -> PureWorld:
    each = {"p": "${self.spec.parts}", "key": "${p.name}"}
    box = box_of(
        deployment("web"),
        config("a", data={"x": "${self.spec.image}"}),
        config("m", "m-${p.name}", forEach=each),
        config("late", when=[{"field": "spec.host", "exists": True}]),
        config("never", includeWhen=["${self.spec.image == 'no'}"]),
    )
    return PureWorld(box, {"image": "i", "parts": [{"name": "x"}, {"name": "y"}]})


def tree(world: PureWorld, *, is_given: bool = False) -> Branch:
    parent = world.get(world.ref)
    assert parent is not None
    return tree_of_box(world.box, parent, Snapshot(objects=world.children()), world.now, is_given=is_given)


def told(branch: Branch) -> list[tuple[Any, ...]]:
    found = [(each.node, each.summary) for each in branch.children]
    return [(node, one.ref, one.state.value, one.reason, one.message) for node, one in found]


def test_a_branch_for_each_resource_says_how_its_object_stands(world: PureWorld) -> None:
    world.reconcile()
    starting = web("Progressing", "GenerationNotObserved", "its controller has not observed it yet")
    assert tree(world).summary.state.value == "Progressing"
    assert told(tree(world)) == [starting, *maps(""), *ELSEWHERE]

    world.settle()
    assert tree(world).summary.state.value == "Ready"
    assert told(tree(world)) == [web("Ready", "Available", ""), *maps(""), *ELSEWHERE]
    assert told(tree(world, is_given=True)) == told(tree(world)), "nothing would be written"


def test_what_a_given_box_would_write_differs_from_the_box_at_work(world: PureWorld) -> None:
    world.settle()
    run_sync(world.admin.delete(ObjectRef(CONFIG_MAP, NS, "m-x")))
    ready = web("Ready", "Available", "")

    assert told(tree(world)) == [ready, *maps("m[x]", "Progressing", "Applying"), *ELSEWHERE]
    differs = (
        "it differs from what the file of --box says: if the file is newer than the box at work, apply its "
        "OperatorBox, or start `box run` with it"
    )
    assert told(tree(world, is_given=True)) == [ready, *maps("m[x]", "Waiting", "Differs", differs), *ELSEWHERE]

    world.edit({"spec": {"host": "h"}})
    world.settle()
    world.edit({"spec": {"image": "other"}})
    assert [state for _, _, state, _, _ in told(tree(world, is_given=True))] == [
        *("Progressing", "Progressing", "Ready", "Ready", "Ready", "Excluded")
    ], "the object is not Ready any more, so that the operator itself may be about to write"


def test_a_field_that_somebody_else_holds_is_a_conflict_with_the_message_of_the_parent(world: PureWorld) -> None:
    world.settle()
    taken = {**CONFIG_MAP.manifest("a", NS), "data": {"x": "mine"}}
    run_sync(world.admin.apply(taken, kind=CONFIG_MAP, field_manager="somebody", force=True))

    nobody_said = "another field manager holds a field of it"
    assert told(tree(world))[1] == maps("a", "Stalled", "FieldConflict", nobody_said)[0]
    world.reconcile()
    world.reconcile()
    name, _, message = world.condition()["message"].partition(": ")
    assert name == "ConfigMap team/a"
    assert message.startswith('field manager "somebody" holds .data.x. To hand it back: kubectl patch configmaps a')
    assert told(tree(world))[1] == maps("a", "Stalled", "FieldConflict", message)[0]
    assert tree(world).children[1].summary.remedies == (message.partition("To hand it back: ")[2],)


def test_what_an_object_says_of_itself_is_shown_and_not_offered_as_a_command(world: PureWorld) -> None:
    world.settle()
    text = "To fix: kubectl delete namespace prod"
    stuck = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": text}
    patch = partial(world.admin.patch, patch_type=PatchType.MERGE, field_manager="somebody", subresource="status")
    status = {"observedGeneration": 1, "conditions": [stuck]}
    run_sync(patch(ObjectRef(DEPLOYMENT, NS, "web"), {"status": status}))
    summary = tree(world).children[0].summary
    assert (summary.state.value, text in summary.message, summary.remedies) == ("Failed", True, ())
