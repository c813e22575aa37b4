"""Nodes become a graph, or are refused with a circle that is one (L6)."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.problems import Place
from purekube.graph import Cycle, DuplicateNode, Edge, Graph, GraphNode, Rendered, UnknownNode, Until
from tests.support.graph_world import PART

IDS = "abcdefg"
EDGES = st.dictionaries(
    st.sampled_from(IDS), st.dictionaries(st.sampled_from(IDS), st.sampled_from(list(Until)), max_size=4), max_size=7
)


def nodes_of(edges: Mapping[str, Mapping[str, Until]], ids: Sequence[str] = IDS) -> list[GraphNode]:
    """Nodes with these edges."""
    return [
        GraphNode(
            one,
            PART,
            lambda scope: Rendered(),
            tuple(Edge(to, until, Place(f"{one} to {to}")) for to, until in edges.get(one, {}).items()),
        )
        for one in ids
    ]


def reaches(edges: Mapping[str, Mapping[str, Until]], start: str) -> set[str]:
    """Everything that it waits for, by a search of its own."""
    found: set[str] = set()
    pending = [start]
    while pending:
        for to, until in edges.get(pending.pop(), {}).items():
            if until is not Until.NOTHING and to not in found:
                found.add(to)
                pending.append(to)
    return found


def built_of(nodes: list[GraphNode]) -> Graph | Cycle:
    """The graph, or why there is none."""
    try:
        return Graph.of(nodes)
    except Cycle as cycle:
        return cycle


@given(EDGES)
@example({"a": {"a": Until.APPLIED}})
@example({"a": {"a": Until.NOTHING}, "b": {"c": Until.NOTHING}, "c": {"b": Until.NOTHING}})
def test_graph_builds_exactly_where_no_circle_is(edges: Mapping[str, Mapping[str, Until]]) -> None:
    built = built_of(nodes_of(edges))
    assert isinstance(built, Cycle) == any(one in reaches(edges, one) for one in IDS)
    if isinstance(built, Cycle):
        assert built.path[0] == built.path[-1]
        assert all(edges[one][other] is not Until.NOTHING for one, other in pairwise(built.path))
        assert str(built.place) == f"{built.path[0]} to {built.path[1]}"
        assert " -> ".join(built.path) in built.message
        return
    graph = built
    order = list(graph.nodes)
    assert sorted(order) == list(IDS)
    for one in IDS:
        for other in reaches(edges, one):
            assert order.index(other) < order.index(one)
            assert graph.waves[other] < graph.waves[one]
    assert graph.depth == 1 + max(graph.waves.values())


@given(st.permutations(IDS))
def test_graph_looks_at_soft_references_first_where_it_can(ids: Sequence[str]) -> None:
    soft = {one: {other: Until.NOTHING} for one, other in pairwise(ids)}

    assert list(Graph.of(nodes_of(soft)).nodes) == list(reversed(ids))


def test_graph_of_a_thousand_nodes_is_built_and_its_circle_found() -> None:
    """A chain of a thousand nodes, then the same closed to a circle: no recursion, no waiting."""
    ids = [f"n{number}" for number in range(1000)]
    chain = {one: {before: Until.READY} for before, one in pairwise(ids)}

    assert Graph.of(nodes_of(chain, ids)).depth == 1000
    with pytest.raises(Cycle) as raised:
        Graph.of(nodes_of({**chain, ids[0]: {ids[-1]: Until.READY}}, ids))
    assert len(raised.value.path) == 1001


def test_graph_refuses_two_of_one_id_and_edges_to_nowhere() -> None:
    with pytest.raises(DuplicateNode, match="two resources have the id a"):
        Graph.of(nodes_of({}, "aa"))
    with pytest.raises(UnknownNode, match="a depends on z, and there is no such resource") as raised:
        Graph.of(nodes_of({"a": {"z": Until.READY}}, "a"))
    assert str(raised.value.place) == "a to z"


def test_each_mistake_names_its_node_and_its_place() -> None:
    with pytest.raises(UnknownNode, match="a depends on z") as unknown:
        Graph.of([GraphNode("a", PART, lambda scope: Rendered(), (Edge("z", Until.READY, Place("here")),))])
    assert (unknown.value.id, unknown.value.by, unknown.value.place) == ("z", "a", Place("here"))
    twice = GraphNode("a", PART, lambda scope: Rendered(), place=Place("there"))
    with pytest.raises(DuplicateNode) as duplicate:
        Graph.of([twice, twice])
    assert (duplicate.value.id, duplicate.value.place) == ("a", Place("there"))
