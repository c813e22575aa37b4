"""SEE-3: an object and everything below it as a drawing that has each node once, after all that it waits for."""

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP, HELM_RELEASE, OCI_REPOSITORY, POD
from purekube.boxes.decision.decide import composite_of
from purekube.controller.decision import Snapshot
from tests.support.boxes import box_of, config, deployment
from vworkspace_core.api.installation import InstallTool
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.overview.box_tree import tree_of_box, tree_of_marked
from vworkspace_core.overview.object_graph import (
    MOST_NODES,
    ObjectGraphEdge,
    ObjectGraphNode,
    _folded,
    _laid_out,
    graph_of_parent,
    graph_of_tree,
    walk,
)
from vworkspace_core.overview.origin import ObjectOrigin
from vworkspace_core.overview.severity import Severity, urgency
from vworkspace_core.overview.summary import OverviewState, Summary
from vworkspace_core.overview.tree import Branch

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
NAMES = "abcdef"
EDGES = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=12)


def node(name: str) -> ObjectGraphNode:
    return ObjectGraphNode(name, "Kind", name, "Ready", Severity.GOOD)


@given(EDGES)
@example([("a", "b"), ("b", "c"), ("a", "c")])
@example([("a", "b"), ("b", "a")])
@example([("c", "d"), ("b", "c"), ("a", "b")])
def test_no_two_nodes_share_a_place_and_each_comes_after_what_it_waits_for(pairs: list[tuple[str, str]]) -> None:
    """Also where the edges go in a circle, which ends all the same."""
    drawn = _laid_out([node(name) for name in NAMES], [ObjectGraphEdge(*pair) for pair in pairs])

    places = {one.id: (one.column, one.row) for one in drawn.nodes}
    assert len(set(places.values())) == len(NAMES)
    assert all(0 <= column < len(NAMES) and row >= 0 for column, row in places.values())
    if all(source < target for source, target in pairs):
        for source, target in pairs:
            assert places[source][0] < places[target][0]
        for name, (column, _) in places.items():
            above = [places[source][0] for source, target in pairs if target == name]
            assert column == (1 + max(above) if above else 0), "as far left as it can be"
    assert drawn.columns == 1 + max(column for column, _ in places.values())
    assert drawn.rows == 1 + max(row for _, row in places.values())
    assert [(one.column, one.row) for one in walk(drawn)] == sorted(places.values())


def test_a_drawing_has_a_limit_and_counts_what_it_leaves_out() -> None:
    nodes = [node(str(number)) for number in range(MOST_NODES + 3)]
    drawn = _laid_out(nodes, [ObjectGraphEdge("0", str(MOST_NODES + 1)), ObjectGraphEdge("0", "1")])

    assert (len(drawn.nodes), drawn.left_out) == (MOST_NODES, 3)
    assert drawn.edges == (ObjectGraphEdge("0", "1"),)
    assert _laid_out([], []).columns == _laid_out([], []).rows == 0


@given(st.integers(2, MOST_NODES + 50))
@example(MOST_NODES + 2)
def test_what_fails_is_never_left_out_of_a_drawing_SEE_3(at: int) -> None:
    nodes = [node(str(number)) for number in range(MOST_NODES + 51)]
    nodes[at] = attrs.evolve(nodes[at], state="Failed", severity=Severity.BAD)
    drawn = {one.id for one in _laid_out(nodes, []).nodes}
    assert {"0", "1", str(at)} <= drawn, "with the object that everything comes from"


@given(st.lists(st.sampled_from(Severity), min_size=1, max_size=6), st.integers(0, 4))
@example([Severity.GOOD, Severity.MOVING, Severity.QUIET], 0)
@example([Severity.GOOD, Severity.WAITING, Severity.QUIET, Severity.MOVING], 1)
def test_what_is_left_out_of_a_group_is_counted_with_its_worst_SEE_3(severities: list[Severity], most: int) -> None:
    nodes = [attrs.evolve(node(str(at)), severity=severity) for at, severity in enumerate(severities)]
    *shown, last = _folded(nodes, "part", most)
    if last.id != "rest/part":
        assert len(shown) + 1 == len(nodes)
        return

    others = sorted(severities, key=urgency)[len(shown) :]
    well = [severity for severity in others if severity in (Severity.GOOD, Severity.QUIET)]
    assert Severity.BAD not in others
    assert (last.name, last.severity) == (f"and {len(others)} more", others[0])
    assert (last.message, last.state) == (
        f"{len(well)} of them are ready",
        "Ready" if len(well) == len(others) else "Progressing",
    )


def summary(ref: ObjectRef, state: OverviewState, message: str = "") -> Summary:
    return Summary(ref, state, "Reason", message, None)


def test_a_tree_begins_with_who_asked_and_goes_from_sources_to_the_release_SEE_3() -> None:
    source, release = ObjectRef(OCI_REPOSITORY, "n", "s"), ObjectRef(HELM_RELEASE, "n", "r")
    root = ObjectRef(APPLICATION_INSTANCE, "n", "a")
    tree = Branch(
        summary(root, OverviewState.READY, "password=hunter2-hunter2"),
        (
            Branch(summary(release, OverviewState.READY), made_from=(source,)),
            Branch(summary(source, OverviewState.FAILED)),
        ),
    )
    drawn = graph_of_tree(tree, ObjectOrigin(job="jobs/j-7"))

    first, object_, *_ = walk(drawn)
    assert (first.kind, first.name) == ("job of the control plane", "j-7")
    assert (object_.ref, object_.kind, object_.name) == (root, "ApplicationInstance", "a")
    assert "hunter2" not in object_.message
    found = {(edge.source.partition("/")[0], edge.target.partition("/")[0]): edge.is_open for edge in drawn.edges}
    assert found == {
        ("origin", APPLICATION_INSTANCE.crd_name): True,
        (APPLICATION_INSTANCE.crd_name, OCI_REPOSITORY.crd_name): True,
        (OCI_REPOSITORY.crd_name, HELM_RELEASE.crd_name): False,
    }
    direct = graph_of_tree(Branch(tree.summary), ObjectOrigin(manager="kubectl"))
    assert (direct.nodes[0].kind, direct.nodes[0].name) == ("applied directly", "kubectl")
    assert graph_of_tree(Branch(tree.summary), ObjectOrigin()).nodes[0].name == "writer unknown"


PARENT: dict[str, Any] = {
    "apiVersion": "shop.example/v1", "kind": "Shop",
    "metadata": {"name": "s", "namespace": "n", "uid": "u-1", "resourceVersion": "1", "generation": 1},
    "spec": {"image": "i", "replicas": 2, "parts": []},
}  # fmt: skip


def test_the_graph_of_a_parent_has_each_node_with_its_gate_and_what_it_waits_for_SEE_3() -> None:
    box = box_of(
        deployment("web"), config("a", data={"x": "${web.metadata.uid}"}), config("b", when=["${has(self.spec.host)}"])
    )
    manifest = {**PARENT, "apiVersion": box.kind.api_version, "kind": box.kind.kind}
    drawn = graph_of_parent(composite_of(box), manifest, Snapshot(), NOW)

    found = {one.id.split("/")[1]: one for one in drawn.nodes if one.id.startswith("node/")}
    assert set(found) == {"web", "a", "b"}
    assert {name: one.state for name, one in found.items()} == {"web": "Pending", "a": "Waiting", "b": "Held"}
    assert found["a"].waits_for == ("web",)
    assert any("spec.host" in gate for gate in found["b"].when_conditions)
    edges = {(edge.source, edge.target): edge.is_open for edge in drawn.edges}
    assert edges[found["web"].id, found["a"].id] is False
    (root,) = [one for one in drawn.nodes if one.column == 0]
    assert (root.kind, root.name) == (box.kind.kind, "s")
    assert edges[root.id, found["web"].id] is True
    assert (found["web"].column, found["a"].column) == (1, 2)


def test_a_child_that_no_node_asks_for_any_more_is_drawn_until_it_goes_SEE_3() -> None:
    """A roll-out that stops leaves it: the new revision is not ready, and what its revision does not know stays."""
    before, box = box_of(config("cache"), config("a")), box_of(deployment("web"), config("a"))
    manifest = {**PARENT, "apiVersion": box.kind.api_version, "kind": box.kind.kind}
    composite = composite_of(before)
    made = composite.decide(composite.read(manifest), Snapshot(), NOW).applies
    meta = {"uid": "u-2", "resourceVersion": "2"}
    objects = {
        apply.ref: {**apply.manifest, "metadata": {**apply.manifest["metadata"], **meta, "uid": apply.ref.name}}
        for apply in made
    }
    assert {ref.name for ref in objects} == {"cache", "a"}

    drawn = graph_of_parent(composite_of(box), manifest, Snapshot(objects=objects), NOW)
    (former,) = [one for one in drawn.nodes if one.name == "cache"]
    assert (former.reason, former.ref) == ("Former", ObjectRef(CONFIG_MAP, "n", "cache"))
    assert any(edge.target == former.id for edge in drawn.edges)
    tree = tree_of_box(box, manifest, Snapshot(objects=objects), NOW)
    (child,) = [child.summary for child in tree.children if child.node == "cache"]
    assert child.message == "no resource of its parent asks for it any more; it goes once the others are ready"


def test_a_parent_that_is_being_deleted_is_drawn_with_the_objects_that_exist_SEE_3() -> None:
    box = box_of(config("a"))
    composite = composite_of(box)
    label = composite.marks.owner_uid
    mine, other = ObjectRef(CONFIG_MAP, "n", "mine"), ObjectRef(CONFIG_MAP, "n", "other")
    objects = {
        ref: {
            **CONFIG_MAP.manifest(ref.name, "n"),
            "metadata": {"name": ref.name, "namespace": "n", "labels": {label: uid}},
        }
        for ref, uid in ((mine, "u-1"), (other, "u-2"))
    }
    meta = {**PARENT["metadata"], "deletionTimestamp": "2026-06-01T11:00:00Z"}
    going = {**PARENT, "apiVersion": box.kind.api_version, "kind": box.kind.kind, "metadata": meta}

    drawn = graph_of_parent(composite, going, Snapshot(objects=objects), NOW)
    assert [one.name for one in drawn.nodes if one.ref is not None] == ["s", "mine"]
    tree = tree_of_box(box, going, Snapshot(objects=objects), NOW)
    assert [child.summary.ref for child in tree.children] == [mine]
    nameless = {**going, "metadata": {**meta, "uid": ""}}
    assert tree_of_marked(box.kind, nameless, objects).children == ()


def test_the_tree_of_a_box_has_missing_nodes_too_and_says_what_they_wait_for_SEE_1() -> None:
    box = box_of(deployment("web"), config("a", data={"x": "${web.metadata.uid}"}))
    manifest = {**PARENT, "apiVersion": box.kind.api_version, "kind": box.kind.kind}
    tree = tree_of_box(box, manifest, Snapshot(), NOW)

    found = {child.node: child for child in tree.children}
    assert {name: child.summary.state for name, child in found.items()} == {
        "web": OverviewState.PROGRESSING,
        "a": OverviewState.WAITING,
    }
    assert found["a"].waits_for == ("web",)
    assert found["web"].summary.ref.kind.kind == "Deployment"
    assert attrs.evolve(found["web"].summary).since is None


@pytest.mark.parametrize(
    ("origin", "kind", "name"),
    [
        (ObjectOrigin(job="prod-1/42", manager="m", tool=InstallTool.HELM, name="n"), "job of the control plane", "42"),
        (ObjectOrigin(manager="m", tool=InstallTool.HELM, name="shop"), "Helm release", "shop"),
        (ObjectOrigin(manager="m", tool=InstallTool.ARGO_CD, name="apps/shop"), "Application of Argo CD", "apps/shop"),
        (ObjectOrigin(manager="kubectl"), "applied directly", "kubectl"),
        (ObjectOrigin(), "applied directly", "writer unknown"),
    ],
)
def test_a_drawing_begins_with_who_asked_for_the_object(origin: ObjectOrigin, kind: str, name: str) -> None:
    ref = ObjectRef(APPLICATION_INSTANCE, "team", "shop")
    drawn = graph_of_tree(Branch(Summary(ref, OverviewState.READY)), origin)
    asked = drawn.nodes[0]
    assert (asked.id, asked.kind, asked.name, asked.state, asked.severity) == ("origin", kind, name, "", Severity.QUIET)
    assert [(edge.source, edge.target) for edge in drawn.edges] == [("origin", drawn.nodes[1].id)]


def test_nodes_of_a_column_are_in_the_order_of_what_they_come_from_and_near_it_SEE_3() -> None:
    edges = [("a", "z"), ("b", "x"), ("c", "y"), ("a", "m"), ("d", "m")]
    drawn = _laid_out([node(name) for name in "abcdxyzm"], [ObjectGraphEdge(*pair) for pair in edges])

    assert {one.id: (one.column, one.row) for one in drawn.nodes} == {
        "a": (0, 0),
        "b": (0, 1),
        "c": (0, 2),
        "d": (0, 3),
        "z": (1, 0),
        "x": (1, 1),
        "m": (1, 2),
        "y": (1, 3),
    }
    assert drawn.left_out == 0


def test_the_requester_and_the_object_are_drawn_whatever_fails_and_no_third_one_for_that() -> None:
    nodes = [node(str(number)) for number in range(MOST_NODES + 1)]
    nodes[3:] = [attrs.evolve(each, severity=Severity.BAD) for each in nodes[3:]]

    assert {"0", "1"} <= {one.id for one in _laid_out(nodes, []).nodes}
    assert "2" not in {one.id for one in _laid_out(nodes, []).nodes}


def test_pods_are_drawn_below_what_made_them_and_ids_have_the_namespace_SEE_3() -> None:
    owner, pod = (Summary(ObjectRef(kind, "ns", "a"), OverviewState.READY) for kind in (HELM_RELEASE, POD))
    below = Branch(owner, (Branch(pod),))
    top = Branch(Summary(ObjectRef(APPLICATION_INSTANCE, None, "a"), OverviewState.READY), (below,))

    drawn = graph_of_tree(top, ObjectOrigin())

    ids = [f"{APPLICATION_INSTANCE.crd_name}//a", f"{HELM_RELEASE.crd_name}/ns/a", f"{POD.crd_name}/ns/a"]
    assert [one.id for one in drawn.nodes] == ["origin", *ids]
    assert [(edge.source, edge.target) for edge in drawn.edges] == list(pairwise(["origin", *ids]))
