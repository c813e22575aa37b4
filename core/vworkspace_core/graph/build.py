"""Nodes become a graph: their order, their waves, and circles refused with the path of the circle (PH-1, L6)."""

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush

import attrs

from vworkspace_core.apimachinery.places import Place
from vworkspace_core.graph.node import NOWHERE, Edge, GraphNode, Until


class GraphError(Exception):
    """Nodes that make no graph. `place` is where the mistake stands."""

    def __init__(self, message: str, place: Place = NOWHERE) -> None:
        super().__init__(message)
        self.message = message
        self.place = place


class Cycle(GraphError):
    """Nodes that wait for each other. `path` begins and ends with the same id; each waits for the next."""

    def __init__(self, path: Sequence[str], place: Place = NOWHERE) -> None:
        self.path = tuple(path)
        super().__init__(f"these wait for each other: {' -> '.join(self.path)}", place)


class DuplicateNode(GraphError):
    """Two nodes of one id."""

    def __init__(self, node_id: str, place: Place = NOWHERE) -> None:
        self.id = node_id
        super().__init__(f"two resources have the id {node_id}", place)


class UnknownNode(GraphError):
    """An edge to a node that is not there."""

    def __init__(self, node_id: str, by: str, place: Place = NOWHERE) -> None:
        self.id = node_id
        self.by = by
        super().__init__(f"{by} depends on {node_id}, and there is no such resource", place)


@attrs.frozen(eq=False)
class Graph:
    """Nodes in the order in which they are looked at: a node comes after everything that it waits for.

    `waves` is the length of the longest way to a node: what waits for nothing is in wave 0. `edges` are those of each
    node, and those that follow from `roll_on`.
    """

    nodes: Mapping[str, GraphNode]
    waves: Mapping[str, int]
    edges: Mapping[str, tuple[Edge, ...]]

    @classmethod
    def of(cls, nodes: Iterable[GraphNode]) -> "Graph":
        """The graph of `nodes`, which are independent of each other where no edge says otherwise.

        Raises DuplicateNode, UnknownNode, Cycle.
        """
        by_id: dict[str, GraphNode] = {}
        for node in nodes:
            if node.id in by_id:
                raise DuplicateNode(node.id, node.place)
            by_id[node.id] = node
        edges = {node.id: _edges_of(node, by_id) for node in by_id.values()}
        order = _ordered(edges)
        waves: dict[str, int] = {}
        for node_id in order:
            waves[node_id] = 1 + max((waves[edge.to] for edge in _hard(edges[node_id])), default=-1)
        return cls({node_id: by_id[node_id] for node_id in order}, waves, edges)

    @property
    def depth(self) -> int:
        """How many waves there are."""
        return max(self.waves.values(), default=-1) + 1


def _edges_of(node: GraphNode, nodes: Mapping[str, GraphNode]) -> tuple[Edge, ...]:
    edges = list(node.edges)
    for target in node.roll_on:
        rendered = target in nodes and nodes[target].is_rolled_as_rendered
        edges.append(Edge(target, Until.APPLIED if rendered else Until.OBSERVED, node.place, declared=True))
    for edge in edges:
        if edge.to not in nodes:
            raise UnknownNode(edge.to, node.id, edge.place)
    return tuple(edges)


def _hard(edges: Iterable[Edge]) -> Iterable[Edge]:
    return (edge for edge in edges if edge.until is not Until.NOTHING)


def _ordered(edges: Mapping[str, tuple[Edge, ...]]) -> list[str]:
    """Behind all that is waited for, and where that is possible behind all that is only looked at."""
    position = {node_id: index for index, node_id in enumerate(edges)}
    hard = {node_id: {edge.to for edge in _hard(own)} for node_id, own in edges.items()}
    soft = {node_id: {edge.to for edge in own} - hard[node_id] - {node_id} for node_id, own in edges.items()}
    followers: dict[str, list[str]] = {node_id: [] for node_id in edges}
    for node_id in edges:
        for target in hard[node_id] | soft[node_id]:
            followers[target].append(node_id)
    hard_left = {node_id: len(own) for node_id, own in hard.items()}
    soft_left = {node_id: len(own) for node_id, own in soft.items()}
    heap: list[tuple[int, int, str]] = []
    for node_id in edges:
        if not hard_left[node_id]:
            heappush(heap, (soft_left[node_id], position[node_id], node_id))
    order: dict[str, None] = {}
    while heap:
        node_id = heappop(heap)[2]
        if node_id in order:
            continue  # it stands in the heap once more for each soft reference that came to be met
        order[node_id] = None
        for follower in followers[node_id]:
            left = hard_left if node_id in hard[follower] else soft_left
            left[follower] -= 1
            if not hard_left[follower]:
                heappush(heap, (soft_left[follower], position[follower], follower))
    if len(order) < len(edges):
        raise _cycle({node_id: own for node_id, own in edges.items() if node_id not in order})
    return list(order)


def _cycle(edges: Mapping[str, tuple[Edge, ...]]) -> Cycle:
    """One of the circles among nodes each of which waits for another of them, or for one that does."""
    seen: dict[str, Edge] = {}
    node_id = next(iter(edges))
    while node_id not in seen:
        seen[node_id] = next(edge for edge in _hard(edges[node_id]) if edge.to in edges)
        node_id = seen[node_id].to
    path, at = [node_id], seen[node_id]
    while at.to != node_id:
        path.append(at.to)
        at = seen[at.to]
    return Cycle([*path, node_id], seen[node_id].place)
