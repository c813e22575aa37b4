"""PH-1, PH-4: which objects each node requires, what it reads of the others, and what its pods are replaced for."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.manifest import content_hash
from purekube.apimachinery.resources import CONFIG_MAP, SECRET
from purekube.controller.decision import Snapshot
from purekube.graph.node import (
    ApplyPolicy,
    Child,
    Edge,
    GraphNode,
    Hold,
    HoldCause,
    Item,
    NodeChildren,
    NodeKnowledge,
    Rendered,
    Scope,
    Until,
)
from purekube.graph.node_order import Graph, GraphError
from purekube.graph.owner import CreateRecord, Owner, label_text
from purekube.graph.required_objects import WantedItem, WantedNode, evaluate
from purekube.graph.states import NodeState
from tests.support.graph_snapshots import LINE, MARKS, OWNER, live, named, node, planned, written

A, B, C, D = map(named, "abcd")
INFERRED, DECLARED = Edge("a"), Edge("a", declared=True)


def wanted(*nodes: GraphNode, owner: Owner = OWNER, **observed: Any) -> tuple[Scope, dict[str, WantedNode]]:
    """Return the scope and the results of an evaluation."""
    snapshot = Snapshot(**observed)
    whole, found = evaluate(Graph.of(nodes), owner, snapshot, Scope({"x": 1}), tuple(owner.held(snapshot)))
    return whole, dict(found)


def of(node_id: str, *nodes: GraphNode, **more: Any) -> WantedNode:
    return wanted(*nodes, **more)[1][node_id]


def hold(cause: HoldCause, *touched: Edge) -> Hold:
    return Hold(cause, "because", LINE, frozenset(touched) if touched else None)


@pytest.mark.parametrize("answer", [False, hold(HoldCause.NO)])
def test_a_node_that_is_not_wanted_is_excluded_whatever_it_would_render_PH_1(answer: bool | Hold) -> None:
    one = node("b", DECLARED, include=lambda scope: answer, render=lambda scope: hold(HoldCause.FAULT))

    assert of("b", node(), one) == WantedNode(one, NodeKnowledge.EXCLUDED)


@pytest.mark.parametrize("cause", set(HoldCause) - {HoldCause.NO})
def test_a_node_of_which_that_is_unknown_is_unknown_PH_1(cause: HoldCause) -> None:
    asked = node("b", DECLARED, include=lambda scope: hold(cause))
    rendered = node("b", DECLARED, render=lambda scope: hold(cause))

    assert of("b", node(), asked) == WantedNode(asked, NodeKnowledge.UNKNOWN, hold=hold(cause))
    assert of("b", node(), rendered) == WantedNode(rendered, NodeKnowledge.UNKNOWN, edges=(DECLARED,), hold=hold(cause))


SOFT = Edge("a", Until.NOTHING)
ITEM = (Item("", written("b")),)
BRANCHES: list[tuple[Edge, Rendered | Hold, bool, bool]] = [
    (INFERRED, Rendered(ITEM), True, True),
    (INFERRED, Rendered(ITEM, frozenset({INFERRED})), True, True),
    (INFERRED, Rendered(ITEM, frozenset()), False, False),
    (DECLARED, Rendered(ITEM, frozenset()), True, True),
    (INFERRED, hold(HoldCause.MISSING), True, False),
    (INFERRED, hold(HoldCause.MISSING, INFERRED), True, True),
    (INFERRED, hold(HoldCause.MISSING, Edge("z")), False, False),
    (DECLARED, hold(HoldCause.MISSING), True, True),
    (SOFT, Rendered(ITEM), False, False),
    (attrs.evolve(SOFT, declared=True), Rendered(ITEM), False, False),
]


@pytest.mark.parametrize(("edge", "answer", "counts", "excludes"), BRANCHES)
def test_an_edge_counts_where_it_is_declared_or_was_read_PH_1(
    edge: Edge, answer: Rendered | Hold, counts: bool, excludes: bool
) -> None:
    one = node("b", edge, render=lambda scope: answer)

    assert of("b", node(), one).edges == ((edge,) if counts else ())
    excluded = of("b", node(include=lambda scope: False), one)
    assert (excluded.knowledge is NodeKnowledge.EXCLUDED, excluded.excluded_by) == (excludes, "a" if excludes else "")
    assert excluded.edges == ((edge,) if counts else ())
    assert len(excluded.items) == (0 if excludes or isinstance(answer, Hold) else 1)


@pytest.mark.parametrize(("keys", "repeated"), [(["x", "y", "x"], "'x'"), (["", ""], "'(none)'"), (["x", ""], "")])
def test_two_items_of_one_key_are_a_fault_of_the_node_PH_1(keys: list[str], repeated: str) -> None:
    items = tuple(Item(key, written(f"b{number}")) for number, key in enumerate(keys))
    one = node("b", DECLARED, render=lambda scope: Rendered(items), place=LINE)
    found = of("b", node(), one)

    assert len(found.items) == (0 if repeated else 2)
    if repeated:
        fault = Hold(HoldCause.FAULT, f"two items have the key {repeated}", LINE)
        assert found == WantedNode(one, NodeKnowledge.UNKNOWN, edges=(DECLARED,), hold=fault)


def test_an_item_has_its_manifest_its_live_object_and_its_problem_PH_1() -> None:
    there, strange = live(node()), written("b")
    again = node("c", render=lambda scope: Rendered((Item("k", written("a")),)))
    _, found = wanted(node(), node("b"), again, objects={A: there, B: strange})
    item = Item("", written())

    assert found["a"].items == (WantedItem(item, A, OWNER.rendered(node(), item, A, 0), there),)
    (foreign,) = found["b"].items
    assert (foreign.live, foreign.is_foreign, foreign.problem) == (strange, True, "")
    (twice,) = found["c"].items
    assert (twice.live, twice.problem) == (there, "a wants this object already")


def test_what_is_only_read_is_sent_nowhere_and_has_no_mark_PH_1() -> None:
    one, there = node(policy=ApplyPolicy.NEVER), written()

    assert of("a", one, objects={A: there}).items == (WantedItem(Item("", written()), A, written(), there),)


@pytest.mark.parametrize("policy", ApplyPolicy)
@pytest.mark.parametrize("adopt", [False, True])
@pytest.mark.parametrize("controlled", [False, True])
def test_what_nobody_controls_is_taken_where_the_node_may_REC_4(
    policy: ApplyPolicy, adopt: bool, controlled: bool
) -> None:
    owners = {"ownerReferences": [{"uid": "u-2", "controller": True}]} if controlled else {}
    there = {**written(), "metadata": {"name": "a", **owners}}
    (item,) = of("a", node(policy=policy, adopt=adopt), objects={A: there}).items

    may = not controlled and (adopt or policy is ApplyPolicy.IF_ABSENT)
    assert item.is_foreign == (policy is not ApplyPolicy.NEVER and not may)


def test_a_record_keeps_the_name_and_nothing_else_of_what_it_is_about_OPS_1() -> None:
    first, second = CreateRecord("a", "first", "elsewhere", "k", "u-1"), CreateRecord("a", "second", item="l")
    other = CreateRecord("b", "other", item="k")
    owner = attrs.evolve(OWNER, records=(other, second, first))
    labelled = {**written("later"), "metadata": {"name": "later", "labels": {"own": "1"}}}
    items = tuple(Item(key, labelled, {"x": key}) for key in "kl")
    once = node(policy=ApplyPolicy.ONCE, render=lambda scope: Rendered(items))

    found = of("a", once, owner=owner).items
    assert [one.record for one in found] == [first, second]
    assert [one.ref for one in found] == [named("first"), named("second")]
    assert [one.item for one in found] == [
        Item(key, {**labelled, "metadata": {"name": name, "labels": {"own": "1"}}}, {"x": key})
        for key, name in (("k", "first"), ("l", "second"))
    ]
    always = of("a", attrs.evolve(once, policy=ApplyPolicy.ALWAYS), owner=owner).items
    assert [(one.record, one.ref.name) for one in always] == [(None, "later"), (None, "later")]
    unknown = attrs.evolve(OWNER, records=(CreateRecord("a", "x"), other))
    assert [one.record for one in of("a", once, owner=unknown).items] == [None, None]


# --- what is read of others -------------------------------------------------------------------------------------------


def test_a_node_reads_what_came_before_it_and_by_their_labels_what_comes_later_PH_4() -> None:
    seen: list[Scope] = []

    def render(scope: Scope) -> Rendered:
        seen.append(attrs.evolve(scope, nodes=dict(scope.nodes)))
        return Rendered((Item("", written("b"), {"y": 2}),))

    later = node("c/d", Edge("b"), render=node("c").render)
    listed = live(node("c/d", render=node("c").render))
    listed["metadata"]["labels"][MARKS.item] = "k"
    foreign = written("b")
    whole, _ = wanted(
        *(node(), node("b", Edge("a"), render=render), later, node("d"), node("e")),
        objects={B: foreign, C: listed, A: live(node()), D: live(node("d"))},
    )

    assert seen[0].values == whole.values == {"x": 1}
    before, after = seen[0].nodes, whole.nodes
    a = NodeChildren(NodeKnowledge.RENDERED, (Child("", A, written(), live(node())),))
    assert before["a"] == after["a"] == a
    assert before["b"] == NodeChildren()
    assert before["c/d"] == NodeChildren(items=(Child("k", C, live=listed),))
    assert listed["metadata"]["labels"][MARKS.node] == label_text("c/d") != "c/d"
    assert before["d"] == NodeChildren(items=(Child("", D, live=live(node("d"))),))
    assert before["e"] == NodeChildren() != after["e"]
    assert after["b"] == NodeChildren(NodeKnowledge.RENDERED, (Child("", B, written("b"), None, {"y": 2}),))


def test_an_expression_reads_what_is_rendered_over_what_exists_PH_4() -> None:
    there = {"data": {"size": "9", "more": "1"}, "status": {}}

    assert Child("", A).object is None
    assert Child("", A, live=there).object is there
    assert Child("", A, rendered=there).object is there
    assert Child("", A, {"data": {"size": "1"}}, there).object == {"data": {"size": "1", "more": "1"}, "status": {}}


# --- what pods are replaced for ---------------------------------------------------------------------------------------


def rolled(*targets: GraphNode, **observed: Any) -> str | None:
    """Return the hash on the pod template of a node that follows all of the others."""
    pods = {**written("web"), "spec": {"template": {}}}
    web = node("web", render=lambda scope: Rendered((Item("", pods),)), roll_on=tuple(one.id for one in targets))
    (item,) = of("web", *targets, web, **observed).items
    metadata = item.manifest["spec"]["template"].get("metadata")
    return None if metadata is None else str(metadata["annotations"][MARKS.roll])


def test_pods_are_replaced_for_what_is_rendered_or_for_what_exists_PH_4() -> None:
    there = {**live(node()), "data": {"size": "9"}, "status": {"x": 1}}
    ours, theirs = [{"data": {"size": "1"}}], [{"data": {"size": "9"}}]
    absent: list[Any] = [{}]

    assert rolled() is None
    for policy in ApplyPolicy:
        content = ours if policy is ApplyPolicy.ALWAYS else theirs
        assert rolled(node(policy=policy), objects={A: there}) == content_hash([content])
        expected = ours if policy is ApplyPolicy.ALWAYS else absent
        assert rolled(node(policy=policy)) == content_hash([expected])
    both = rolled(node(), node("b", policy=ApplyPolicy.NEVER), objects={B: there})
    assert both == content_hash([ours, theirs])
    assert rolled(node(render=lambda scope: Rendered())) == content_hash([[]])


def test_pods_are_replaced_and_stay_where_what_they_follow_is_excluded_PH_4() -> None:
    """To be rolled on a change says nothing about whether to exist, which a dependency does."""
    off = node(include=lambda scope: False)
    assert rolled(off) == content_hash([[]])
    assert of("web", off, node("web", Edge("a", Until.APPLIED, declared=True), roll_on=("a",))).excluded_by == "a"
    result = planned(off, node("web", roll_on=("a",)))
    assert [one.state for one in result.observations["web"]] == [NodeState.PENDING]


def test_of_a_secret_only_the_version_is_hashed_PH_4() -> None:
    """Who reads the pod template could find a value by trying."""
    secret = node(kind=SECRET, render=lambda scope: Rendered((Item("", {**SECRET.manifest("a"), "data": {}}),)))
    ref = attrs.evolve(A, kind=SECRET)
    there = live(secret)

    assert rolled(secret, objects={ref: there}) == content_hash([[["u-a", "5"]]])
    assert rolled(secret) == content_hash([[[None, None]]])
    assert CONFIG_MAP != SECRET


@pytest.mark.parametrize(
    ("policy", "kind", "until"),
    [
        (ApplyPolicy.ALWAYS, CONFIG_MAP, Until.APPLIED),
        (ApplyPolicy.ALWAYS, SECRET, Until.OBSERVED),
        *((policy, CONFIG_MAP, Until.OBSERVED) for policy in set(ApplyPolicy) - {ApplyPolicy.ALWAYS}),
    ],
)
def test_what_pods_are_replaced_for_comes_before_them_PH_4(policy: Any, kind: Any, until: Until) -> None:
    target = GraphNode("t", kind, lambda scope: Rendered(), policy=policy)
    web = node("a", Edge("z"), roll_on=("t",))
    graph = Graph.of([web, node("z"), target])

    assert graph.edges["a"] == (Edge("z"), Edge("t", until, declared=True))
    assert graph.edges["a"][1].place == LINE
    assert (list(graph.nodes), dict(graph.waves), graph.depth) == (["z", "t", "a"], {"z": 0, "t": 0, "a": 1}, 2)


def test_a_wave_is_one_more_than_the_longest_way_below_it_PH_1() -> None:
    far = node("c", Edge("b"), Edge("a"), Edge("d", Until.NOTHING))
    graph = Graph.of([far, node("d", Edge("c")), node("b", Edge("a")), node()])

    assert (dict(graph.waves), graph.depth) == ({"a": 0, "b": 1, "c": 2, "d": 3}, 4)
    assert (Graph.of([]).depth, Graph.of([node()]).depth) == (0, 1)


def test_what_pods_are_replaced_for_must_exist_PH_4() -> None:
    with pytest.raises(GraphError, match="a depends on z, and there is no such resource") as raised:
        Graph.of([node(roll_on=("z",))])
    assert raised.value.place == LINE
