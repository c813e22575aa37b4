"""Nodes become a graph: their order, their waves, and circles refused with the path of the circle (PH-1, L6)."""

from collections.abc import Iterable, Mapping, Sequence

import attrs

from vworkspace_core.apimachinery.places import Place
from vworkspace_core.graph.node import NOWHERE, Edge, Node


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

    `waves` is the length of the longest way to a node: what has no dependency is in wave 0.
    """

    nodes: Mapping[str, Node]
    waves: Mapping[str, int]

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> "Graph":
        """The graph of `nodes`, which are independent of each other where no edge says otherwise.

        Raises DuplicateNode, UnknownNode, Cycle.
        """
        raise NotImplementedError

    @property
    def depth(self) -> int:
        """How many waves there are."""
        return max(self.waves.values(), default=-1) + 1

    def edges_of(self, node: Node) -> tuple[Edge, ...]:
        """Its own edges, and those that follow from `roll_on`."""
        raise NotImplementedError
