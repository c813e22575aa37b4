"""A graph's nodes in dependency order, and their waves (depths in the graph); a cycle is refused with its path (PH-1).

A node is a resource of the graph, with its child objects.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush

import attrs

from purekube.apimachinery.problems import Place
from purekube.graph.node import NOWHERE, Edge, GraphNode, Until


class GraphError(Exception):
    """The error raised when nodes and edges form no acyclic graph.

    `place` is the position of the mistake in the file that declares the nodes; it is empty for nodes that are not from
    a file.
    """

    def __init__(self, message: str, place: Place = NOWHERE) -> None:
        super().__init__(message)
        self.message = message
        self.place = place


class Cycle(GraphError):
    """A dependency cycle. `path` begins and ends with the same id, and each node in it depends on the next."""

    def __init__(self, path: Sequence[str], place: Place = NOWHERE) -> None:
        self.path = tuple(path)
        super().__init__(f"these wait for each other: {' -> '.join(self.path)}", place)


class DuplicateNode(GraphError):
    """The error raised when two nodes have the same id."""

    def __init__(self, node_id: str, place: Place = NOWHERE) -> None:
        self.id = node_id
        super().__init__(f"two resources have the id {node_id}", place)


class UnknownNode(GraphError):
    """The error raised when an edge leads to a node that does not exist."""

    def __init__(self, node_id: str, by: str, place: Place = NOWHERE) -> None:
        self.id = node_id
        self.by = by
        super().__init__(f"{by} depends on {node_id}, and there is no such resource", place)


@attrs.frozen(eq=False)
class Graph:
    """The nodes of a graph in an order in which each comes after all nodes on which it depends.

    `waves` holds the length of the longest dependency path of each node; a node without dependencies is in wave 0.
    `edges` are the dependencies of each node, including those that follow from `roll_on`.
    """

    nodes: Mapping[str, GraphNode]
    waves: Mapping[str, int]
    edges: Mapping[str, tuple[Edge, ...]]

    @classmethod
    def of(cls, nodes: Iterable[GraphNode]) -> "Graph":
        """Build the graph of `nodes`. Nodes are independent unless an edge (a dependency) connects them. Raises
        DuplicateNode for an id that is used twice, UnknownNode for an edge to a missing node, and Cycle.
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
        """The number of waves: one more than the length of the longest dependency path."""
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
    """Return the nodes' ids in order: each after its dependencies, and if possible after its soft references.

    `edges` maps the id of each node to its dependencies. Raises Cycle if there is no such order.
    """
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
            continue  # a node is pushed again for each soft reference that is met
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
    """Return one cycle in a graph in which each node depends on another node of the graph.

    `edges` maps the id of each node to its dependencies.
    """
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
