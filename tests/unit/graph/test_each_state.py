"""PH-1: each state of one object with its reason, words and place, from a snapshot that is given as data."""

from typing import Any

import attrs
import pytest

from purekube.apimachinery.errors import Conflict, FieldConflict, Invalid
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.problems import Place
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.controller.decision import Requeue
from purekube.graph.node import ApplyPolicy, Edge, GraphNode, Hold, HoldCause, Item, Rendered, Until
from purekube.graph.owner import CreateRecord, Owner
from purekube.graph.states import NodeState, Observation
from purekube.readiness.result import failed, progressing
from tests.support.graph_snapshots import LINE, MARKS, OWNER, SHOP, live, named, node, of, planned, refused, written

A, B = named("a"), named("b")
EXPRESSION = Place("resources.a.when", "box.yaml", 9)
HELD = Conflict("held", (FieldConflict("kubectl-edit", ".data.size"),))


def holding(cause: HoldCause, place: Place = EXPRESSION) -> Hold:
    return Hold(cause, "because", place)


# --- the node as a whole ----------------------------------------------------------------------------------------------


def test_a_node_that_is_not_wanted_is_told_so_and_does_not_count_PH_1() -> None:
    unwanted = node(include=lambda scope: False)
    behind = node("b", Edge("a", declared=True), title="the web")
    result = planned(unwanted, behind)

    assert of(result) == Observation(
        "a", NodeState.EXCLUDED, "Excluded", "it is not wanted", counts=False, title="ConfigMap a"
    )
    assert of(result, "b") == Observation(
        "b",
        NodeState.EXCLUDED,
        "Excluded",
        "a, on which it depends, is not wanted",
        counts=False,
        title="the web",
    )
    assert of(planned(node(include=lambda scope: holding(HoldCause.NO)))).state is NodeState.EXCLUDED
    assert result.is_ready
    assert result.effects.applies == ()


UNKNOWN = {
    HoldCause.MISSING: (NodeState.WAITING, "ValueMissing"),
    HoldCause.FAULT: (NodeState.ERROR, "ExpressionFailed"),
    HoldCause.LIMIT: (NodeState.ERROR, "LimitExceeded"),
    HoldCause.DENIED: (NodeState.DENIED, "NotAgreed"),
}


@pytest.mark.parametrize("cause", UNKNOWN)
@pytest.mark.parametrize("place", [EXPRESSION, Place()], ids=["of its own", "of the node"])
def test_a_node_that_cannot_be_evaluated_says_why_and_where_PH_1(cause: HoldCause, place: Place) -> None:
    state, reason = UNKNOWN[cause]
    expected = Observation("a", state, reason, "because", place=place if str(place) else LINE, title="ConfigMap a")

    for policy in ApplyPolicy:
        given = node(render=lambda scope: holding(cause, place), policy=policy)
        assert of(planned(given)) == attrs.evolve(expected, is_external=policy is ApplyPolicy.NEVER)
    asked = planned(node(include=lambda scope: holding(cause, place)))
    assert of(asked) == expected
    assert asked.effects.requeue == Requeue.NO


def test_what_misses_a_value_waits_for_its_dependency_first_PH_1() -> None:
    missing = node("b", Edge("a", declared=True), render=lambda scope: holding(HoldCause.MISSING))
    counted = of(planned(node(), missing), "b")

    assert counted == Observation(
        "b",
        NodeState.WAITING,
        "WaitingForDependency",
        "it waits for ConfigMap team/a (Pending)",
        waits_for=("a",),
        title="ConfigMap b",
    )
    choice = node(when=lambda scope: False, is_choice=True)
    assert not of(planned(choice, missing), "b").counts, "what waits for a choice is part of it"
    at_fault = node("b", Edge("a", declared=True), render=lambda scope: holding(HoldCause.FAULT))
    assert of(planned(node(), at_fault), "b").reason == "ExpressionFailed"


@pytest.mark.parametrize("known", [False, True], ids=["unknown", "rendered"])
def test_a_kind_that_is_not_served_is_told_by_its_full_name_REC_12(known: bool) -> None:
    for kind, name in ((CONFIG_MAP, "configmaps"), (SHOP, "shops.tests.example")):
        item = Item("", kind.manifest("a"))
        one = node(kind=kind, render=lambda scope, item=item: Rendered((item,)) if known else holding(HoldCause.FAULT))
        told = of(planned(one, missing_kinds=frozenset({kind})))

        assert (told.state, told.reason) == (NodeState.MISSING_KIND, "MissingKind")
        assert isinstance(told.state, NodeState)
        assert told.message == f"{name} (v1) is not installed in this cluster"
        assert told.name == (f"{kind.kind} team/a" if known else f"{kind.kind} a")
        assert told.place == Place()


# --- what it waits for ------------------------------------------------------------------------------------------------


def test_of_the_dependencies_that_it_waits_for_three_are_named_PH_1() -> None:
    names = [f"n{number}" for number in range(5)]
    for count in range(1, 6):
        edges = [Edge(name, declared=True) for name in names[:count]]
        told = of(planned(*map(node, names), node("a", *edges)))
        listed = ", ".join(f"ConfigMap team/{name} (Pending)" for name in names[: min(count, 3)])
        more = f" and {count - 3} more" if count > 3 else ""

        assert told == Observation(
            "a",
            NodeState.WAITING,
            "WaitingForDependency",
            f"it waits for {listed}{more}",
            ref=A,
            waits_for=tuple(names[:count]),
        )


def test_a_dependency_that_is_read_and_declared_is_named_once_PH_1() -> None:
    told = of(planned(node("n"), node("a", Edge("n", until=Until.OBSERVED), Edge("n", declared=True))))

    assert told.message == "it waits for ConfigMap team/n (Pending)"


def test_what_waits_for_a_choice_and_for_something_else_counts_PH_1() -> None:
    choice = node("b", when=lambda scope: False, is_choice=True)
    edges = Edge("b", declared=True), Edge("c", declared=True)

    for render in (node().render, lambda scope: holding(HoldCause.MISSING)):
        behind_both, behind_choice = node("a", *edges, render=render), node("a", edges[0], render=render)
        assert of(planned(choice, node("c"), behind_both)).counts
        assert not of(planned(choice, behind_choice)).counts


def test_a_dependency_that_is_named_twice_is_waited_for_once_PH_1() -> None:
    edges = Edge("b", Until.READY, declared=True), Edge("b", Until.OBSERVED, declared=True)

    assert of(planned(node("b"), node("a", *edges))).waits_for == ("b",)


READY, PENDING, CONFLICTED, UNHEALTHY, WAITING = "ready", "pending", "conflict", "unhealthy", "waiting"
MET = {
    (READY, Until.APPLIED): True,
    (READY, Until.OBSERVED): True,
    (READY, Until.READY): True,
    (PENDING, Until.APPLIED): True,
    (PENDING, Until.OBSERVED): False,
    (PENDING, Until.READY): False,
    ("created", Until.APPLIED): False,
    (CONFLICTED, Until.APPLIED): True,
    (CONFLICTED, Until.READY): True,
    ("unsettled conflict", Until.APPLIED): False,
    (UNHEALTHY, Until.APPLIED): True,
    (UNHEALTHY, Until.OBSERVED): True,
    (UNHEALTHY, Until.READY): False,
    ("failed", Until.OBSERVED): True,
    ("failed", Until.READY): False,
    ("refused", Until.APPLIED): False,
    ("refused", Until.OBSERVED): False,
    ("left", Until.READY): True,
    ("left", Until.OBSERVED): True,
}


def dependency(how: str) -> tuple[GraphNode, dict[str, Any], Owner]:
    """A first node in this state, with what is observed of it."""
    first = node()
    there = {A: live(first)}
    match how:
        case "ready":
            return first, {"objects": there}, OWNER
        case "pending":
            return first, {}, OWNER
        case "created":
            return node(policy=ApplyPolicy.IF_ABSENT), {}, OWNER
        case "conflict":
            return first, {"objects": there, "failures": refused(HELD)}, OWNER
        case "unsettled conflict":
            return first, {"failures": refused(HELD)}, OWNER
        case "unhealthy":
            return node(readiness=lambda live: progressing("Slow", "slow")), {"objects": there}, OWNER
        case "failed":
            return node(readiness=lambda live: failed("Broken", "broken")), {"objects": there}, OWNER
        case "refused":
            return first, {"objects": there, "failures": refused(Invalid("no"))}, OWNER
        case _:
            return node(policy=ApplyPolicy.ONCE), {}, attrs.evolve(OWNER, records=(CreateRecord("a", "a", uid="x"),))


@pytest.mark.parametrize(("how", "until"), MET)
def test_each_dependency_is_met_from_the_state_on_that_it_names_PH_1(how: str, until: Until) -> None:
    first, observed, owner = dependency(how)
    result = planned(first, node("b", Edge("a", until, declared=True)), owner=owner, **observed)

    assert (of(result, "b").state is not NodeState.WAITING) == MET[how, until]
    after = {A} if (how, until) == (PENDING, Until.APPLIED) else set()
    assert [apply.after for apply in result.effects.applies if apply.ref == B] == [after] * MET[how, until]


# --- one item: the checks in their order ------------------------------------------------------------------------------


def test_an_item_that_cannot_exist_is_told_with_the_place_of_its_node_PH_1() -> None:
    nameless = node(render=lambda scope: Rendered((Item("", written("")),)))
    other = node(render=lambda scope: Rendered((Item("", {**written(), "kind": "Secret"}),)))
    cluster_owner = attrs.evolve(OWNER, meta=ObjectMeta("shop", "", "u-1"))

    for result, message in (
        (planned(nameless), "metadata.name is empty"),
        (planned(other), "it is v1 Secret and not v1 ConfigMap"),
        (planned(node(), owner=cluster_owner), "metadata.namespace is empty, and its owner has none either"),
    ):
        told = of(result)
        assert (told.state, told.reason, told.message) == (NodeState.ERROR, "InvalidObject", message)
        assert (told.place.line, told.counts) == (7, True)
        assert result.effects.applies == ()


@pytest.mark.parametrize("name", ["a", "a-b.c9", "9", "a" * 253])
def test_a_name_that_is_written_down_is_that_of_an_object_OPS_1(name: str) -> None:
    once = node(policy=ApplyPolicy.ONCE, render=lambda scope: Rendered((Item("", written(name)),)))

    assert of(planned(once)).reason == "Recording"


@pytest.mark.parametrize("name", ["A", "-a", "a-", "a.", "a_b", "a" * 254, "a\n"])
def test_another_name_is_not_written_down_OPS_1(name: str) -> None:
    once = node(policy=ApplyPolicy.ONCE, render=lambda scope: Rendered((Item("", written(name)),)))
    result = planned(once)

    assert (
        of(result).message
        == f"metadata.name {name!r} is no name of an object: lower case letters, digits, - and . only"
    )
    assert result.records == ()
    always = node(render=lambda scope: Rendered((Item("", written(name)),)))
    assert of(planned(always)).state is NodeState.PENDING, "the server refuses what is applied"


GATES: list[tuple[bool | Hold, NodeState, str, str, bool]] = [
    (False, NodeState.HELD, "GateClosed", "its gate is closed", False),
    (holding(HoldCause.NO), NodeState.HELD, "GateClosed", "because", True),
    (holding(HoldCause.MISSING), NodeState.HELD, "GateClosed", "because", True),
    (holding(HoldCause.DENIED), NodeState.HELD, "GateClosed", "because", True),
    (holding(HoldCause.FAULT), NodeState.ERROR, "ExpressionFailed", "because", True),
    (holding(HoldCause.LIMIT), NodeState.ERROR, "ExpressionFailed", "because", True),
    (Hold(HoldCause.NO, ""), NodeState.HELD, "GateClosed", "its gate is closed", False),
]


@pytest.mark.parametrize(("gate", "state", "reason", "message", "placed"), GATES)
@pytest.mark.parametrize("is_choice", [False, True])
def test_a_closed_gate_holds_the_object_and_says_why_PH_1(
    gate: bool | Hold, state: NodeState, reason: str, message: str, placed: bool, is_choice: bool
) -> None:
    result = planned(node(when=lambda scope: gate, is_choice=is_choice))
    told = of(result)

    counts = not (is_choice and state is NodeState.HELD)
    place = EXPRESSION if placed else Place()
    assert told == Observation("a", state, reason, message, ref=A, counts=counts, place=place)
    assert (result.effects.applies, result.effects.only_if_current) == ((), False)


def test_a_closed_gate_keeps_what_is_not_wanted_any_more_PH_3() -> None:
    extra = {B: live(node("b"), labels={MARKS.owner_uid: "u-1", MARKS.node: "a"})}

    for gate, deletes in ((True, ["b"]), (False, []), (holding(HoldCause.NO), []), (holding(HoldCause.FAULT), [])):
        result = planned(node(when=lambda scope, gate=gate: gate), objects={A: live(node()), **extra})
        assert [delete.ref.name for delete in result.unwanted] == deletes


def test_what_another_controls_is_left_alone_and_told_REC_4() -> None:
    theirs = {"kind": "Other", "name": "they", "uid": "u-2", "controller": True}
    controlled = {**written(), "metadata": {"name": "a", "namespace": "team", "ownerReferences": [theirs]}}
    result = planned(node(adopt=True), objects={A: controlled})

    told = of(result)
    assert told == Observation(
        "a",
        NodeState.FOREIGN,
        "NameTaken",
        "an object of this name is controlled by Other they (uid u-2); let it give it up, or choose another name",
        ref=A,
    )
    assert told.live is None
    assert (result.effects.awaits, result.effects.applies) == ((A,), ())
    assert result.scope.nodes["a"].items[0].live is None, "no expression reads what is not ours"


def test_what_nobody_controls_is_told_with_the_command_that_hands_it_over_REC_4() -> None:
    found = {**written(), "metadata": {"name": "a", "namespace": "team", "labels": {MARKS.owner_uid: "u-0"}}}
    result = planned(node(), objects={A: found})

    assert of(result).message == (
        "an object of this name exists and was not made for this Shop. If nobody needs it, delete it. "
        "To let it be taken over: kubectl label configmaps a -n team box.example/owner-uid=u-1 --overwrite"
    ), "kubectl does not change the label of a former owner without that option"
    bare = {**found, "metadata": {"name": "a", "namespace": "team"}}
    assert of(planned(node(), objects={A: bare})).message.endswith(" box.example/owner-uid=u-1")
    assert result.effects.awaits == (A,)
    for taken in (node(adopt=True), node(policy=ApplyPolicy.IF_ABSENT)):
        assert planned(taken, objects={A: found}).effects.awaits == ()
    assert of(planned(node(adopt=True), objects={A: found})).reason == "Applying"
    assert of(planned(node(policy=ApplyPolicy.IF_ABSENT), objects={A: found})).state is NodeState.READY
    for policy in (ApplyPolicy.ALWAYS, ApplyPolicy.ONCE):
        assert of(planned(node(policy=policy), objects={A: found})).state is NodeState.FOREIGN


@pytest.mark.parametrize(
    ("finalizers", "held"),
    [({}, ""), ({"finalizers": []}, ""), ({"finalizers": ["x/y", "z"]}, ", held by x/y, z"), ({"finalizers": "x"}, "")],
)
def test_what_is_being_deleted_is_told_with_what_keeps_it_PH_3(finalizers: dict[str, Any], held: str) -> None:
    going = live(node(), deletionTimestamp="2026-01-01T00:00:00Z", **finalizers)
    result = planned(node("b"), node("a", Edge("b", declared=True)), objects={A: going})

    assert of(result) == Observation(
        "a",
        NodeState.LEAVING,
        "Terminating",
        f"deleted at 2026-01-01T00:00:00Z, not gone yet{held}",
        ref=A,
    )
    assert of(result).live is going
    assert result.records == ()


def test_the_checks_of_an_item_have_an_order_PH_1() -> None:
    """Each node has all obstacles from one of them on, and only the first is told."""
    theirs = {"uid": "u-2", "controller": True, "kind": "Other", "name": "they"}
    going = {**written(), "metadata": {"deletionTimestamp": "now", "labels": {MARKS.owner_uid: "u-1"}}}
    controlled = {**written(), "metadata": {"deletionTimestamp": "now", "ownerReferences": [theirs]}}
    faulty, closed = holding(HoldCause.FAULT), holding(HoldCause.MISSING)
    bad = node(
        "a", Edge("b", declared=True), when=lambda s: faulty, render=lambda s: Rendered((Item("", written("")),))
    )
    held = node("a", Edge("b", declared=True), when=lambda s: faulty)
    shut = node("a", Edge("b", declared=True), when=lambda s: closed)

    table: list[tuple[GraphNode, dict[ObjectRef, Manifest], frozenset[Kind], str]] = [
        (bad, {A: controlled}, frozenset({CONFIG_MAP}), "MissingKind"),
        (bad, {A: controlled}, frozenset(), "InvalidObject"),
        (held, {A: controlled}, frozenset(), "ExpressionFailed"),
        (shut, {A: controlled}, frozenset(), "NameTaken"),
        (shut, {A: going}, frozenset(), "Terminating"),
        (shut, {}, frozenset(), "WaitingForDependency"),
    ]
    for one, objects, missing, reason in table:
        result = planned(node("b"), one, objects=objects, missing_kinds=missing, failures=refused(Invalid("no")))
        assert of(result).reason == reason
        assert result.effects.awaits == ((A,) if reason == "NameTaken" else ())
    shut_alone = node("a", when=lambda s: closed)
    assert of(planned(shut_alone, failures=refused(Invalid("no")))).reason == "GateClosed"
