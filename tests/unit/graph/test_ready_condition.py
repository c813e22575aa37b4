"""PH-1: the author's own condition is asked of every object that its kind calls ready, and its answer counts."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import Manifest
from purekube.apimachinery.problems import Place
from purekube.graph.account import conditions_of
from purekube.graph.node import Edge, GraphNode, Hold, HoldCause, Item, Rendered, Scope, Until
from purekube.graph.node_order import Graph
from purekube.graph.plan import plan
from purekube.graph.states import NodeState
from tests.support.graph_world import MANAGER, PART, GraphWorld, owner_of

LINE = Place("resources.a.readyWhen", "box.yaml", 9)
ANSWERS: dict[str, tuple[bool | Hold, NodeState, str]] = {
    "yes": (True, NodeState.READY, "Ready"),
    "no": (False, NodeState.PROGRESSING, "NotReady"),
    "no, because": (Hold(HoldCause.NO, "two of three", LINE), NodeState.PROGRESSING, "NotReady"),
    "unknown yet": (Hold(HoldCause.MISSING, "no status.value", LINE), NodeState.PROGRESSING, "NotReady"),
    "not agreed": (Hold(HoldCause.DENIED, "not agreed", LINE), NodeState.PROGRESSING, "NotReady"),
    "fault": (Hold(HoldCause.FAULT, "no such key", LINE), NodeState.ERROR, "ExpressionFailed"),
    "limit": (Hold(HoldCause.LIMIT, "too long", LINE), NodeState.ERROR, "ExpressionFailed"),
}


def node(node_id: str, **more: Any) -> GraphNode:
    return GraphNode(node_id, PART, lambda scope: Rendered((Item("", PART.manifest(node_id)),)), **more)


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_the_condition_says_of_a_healthy_object_decides_PH_1(answer: str) -> None:
    given, state, reason = ANSWERS[answer]
    asked: list[Manifest] = []

    def ready(scope: Scope, item: Item, live: Manifest) -> bool | Hold:
        asked.append(live)
        return given

    world = GraphWorld.of()
    graph = Graph.of([node("a", ready=ready), node("b", edges=(Edge("a", Until.READY, declared=True),))])
    first = plan(graph, owner_of(world.shop), world.snapshot(), Scope())
    assert asked == [], "nothing is there to be asked about"
    for apply in first.effects.applies:
        world.apply_as(MANAGER, apply.ref, {"metadata": apply.manifest["metadata"]})
    world.heal()

    planned = plan(graph, owner_of(world.shop), world.snapshot(), Scope())

    (item,) = planned.observations["a"]
    assert item.state is state
    assert item.is_ready == (given is True)
    if given is not True:
        assert item.reason == reason
    if isinstance(given, Hold):
        assert (item.message, item.place) == (given.message, LINE)
    assert [apply.ref.name for apply in planned.effects.applies] == (["b"] if given is True else [])
    (condition,) = [condition for condition in conditions_of(planned) if condition.type == "Ready"]
    assert condition.status == "False", "b is not there yet"
    assert asked[0]["metadata"]["name"] == "a"


def test_an_object_that_its_kind_calls_failed_is_not_asked_about_PH_1() -> None:
    world = GraphWorld.of()
    graph = Graph.of([node("a", ready=lambda scope, item, live: True)])
    for apply in plan(graph, owner_of(world.shop), world.snapshot(), Scope()).effects.applies:
        world.apply_as(MANAGER, apply.ref, {"metadata": apply.manifest["metadata"]})
        world.say(apply.ref, "Stalled")

    (item,) = plan(graph, owner_of(world.shop), world.snapshot(), Scope()).observations["a"]

    assert item.state is NodeState.FAILED
    assert attrs.evolve(item, counts=False).is_ready
