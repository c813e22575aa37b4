"""The order in which a box's resources are made, and the detection of cycles (PH-1, PH-6)."""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from purekube.apimachinery.manifest import Kind
from purekube.boxes.box import BoxNode
from purekube.boxes.problems import Findings
from purekube.cel import VariablePath
from purekube.graph import Cycle, Edge, Graph, GraphNode, Rendered

_LONGEST_CIRCLE: Final = 12
"""The most ids of a cycle that a message names."""


def ordered(nodes: Sequence[BoxNode], externals: Sequence[str], findings: Findings) -> tuple[BoxNode, ...]:
    """Return the nodes in topological order with their waves; unchanged if they form a cycle, which is reported."""
    known = {node.id for node in nodes}.union(externals)
    stand_ins = [_stand_in(name, (), ()) for name in externals]
    for node in nodes:
        roll_on = tuple(name for name in node.roll_on if name in known)
        stand_ins.append(_stand_in(node.id, [edge for edge in node.edges if edge.to in known], roll_on))
    try:
        graph = Graph.of(stand_ins)
    except Cycle as error:
        first = next((node.place for node in nodes if node.id == error.path[0]), None)
        place = error.place if str(error.place) or first is None else first
        findings.problem(place.path, f"these wait for each other: {_circle(error.path)}")
        return tuple(nodes)
    by_id = {node.id: node for node in nodes}
    return tuple(attrs.evolve(by_id[name], wave=graph.waves[name]) for name in graph.nodes if name in by_id)


def known_nodes(nodes: Sequence[BoxNode], known: set[str]) -> list[BoxNode]:
    """Return the nodes without edges to unknown ones."""
    return [attrs.evolve(node, edges=tuple(edge for edge in node.edges if edge.to in known)) for node in nodes]


def _stand_in(name: str, edges: Sequence[Edge], roll_on: Sequence[str]) -> GraphNode:
    """Return a node for the order alone."""
    kind = Kind("", "v1", "Order", "orders")
    return GraphNode(name, kind, lambda scope: Rendered(), tuple(edges), roll_on=tuple(roll_on))


def _circle(path: Sequence[str]) -> str:
    """Return a cycle in words. A long one is cut in the middle: breaking it anywhere is enough."""
    if len(path) > _LONGEST_CIRCLE:
        path = (*path[: _LONGEST_CIRCLE - 2], f"({len(path) - _LONGEST_CIRCLE + 1} more)", path[-1])
    return " → ".join(path)


def descendants(reads: Mapping[str, Sequence[VariablePath]]) -> Mapping[str, set[str]]:
    """Return for each id all that its template reads, directly or through others."""
    direct = {name: {path[0] for path in paths if path[0] in reads} for name, paths in reads.items()}
    found: dict[str, set[str]] = {}
    for name in direct:
        seen, open_ = set[str](), [name]
        while open_:
            for other in direct.get(open_.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    open_.append(other)
        found[name] = seen
    return found
