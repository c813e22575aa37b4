"""A graph in pixels: the position of each node, and the line of each edge (SEE-3).

Edges go from left to right. A graph that is too deep for a screen goes from top to bottom instead, if it is narrow
enough: a page scrolls down, and nothing is cut off on the right.
"""

from typing import Final

import attrs

from vworkspace_core.overview.object_graph import ObjectGraph, ObjectGraphNode

NODE_WIDTH: Final = 224
NODE_HEIGHT: Final = 74
_GAP: Final = 34
"""The space between the ends of an edge, in pixels."""
_BESIDE: Final = 16
_PADDING: Final = 6
_MOST_ABREAST: Final = 5
"""The number of nodes that fit side by side on a screen of 1280 pixels."""


@attrs.frozen
class PlacedNode:
    """A node with its upper left corner."""

    node: ObjectGraphNode
    x: int
    y: int


@attrs.frozen
class Line:
    """An edge as the path of an SVG."""

    path: str
    is_open: bool


@attrs.frozen
class Drawing:
    """Every node and edge with its position. `fits`: a screen is wide enough to show all of it."""

    width: int
    height: int
    nodes: tuple[PlacedNode, ...]
    lines: tuple[Line, ...]
    fits: bool


def drawing_of(object_graph: ObjectGraph) -> Drawing:
    """Return the positions of everything in a graph."""
    down = object_graph.rows <= _MOST_ABREAST < object_graph.columns
    across, along = (object_graph.rows, object_graph.columns) if down else (object_graph.columns, object_graph.rows)
    step_x, step_y = NODE_WIDTH + (_BESIDE if down else _GAP), NODE_HEIGHT + (_GAP if down else _BESIDE)
    at = {
        node.id: PlacedNode(
            node,
            _PADDING + (node.row if down else node.column) * step_x,
            _PADDING + (node.column if down else node.row) * step_y,
        )
        for node in object_graph.nodes
    }
    lines = (Line(_path(at[edge.source], at[edge.target], down=down), edge.is_open) for edge in object_graph.edges)
    return Drawing(
        across * step_x - (step_x - NODE_WIDTH) + 2 * _PADDING,
        along * step_y - (step_y - NODE_HEIGHT) + 2 * _PADDING,
        tuple(at.values()),
        tuple(lines),
        across <= _MOST_ABREAST,
    )


def _path(source: PlacedNode, target: PlacedNode, *, down: bool) -> str:
    """Return a curve from the edge of one node to that of the other."""
    if down:
        x1, y1 = source.x + NODE_WIDTH // 2, source.y + NODE_HEIGHT
        x2, y2 = target.x + NODE_WIDTH // 2, target.y
        return f"M{x1} {y1} C{x1} {y1 + _GAP // 2} {x2} {y2 - _GAP // 2} {x2} {y2}"
    x1, y1 = source.x + NODE_WIDTH, source.y + NODE_HEIGHT // 2
    x2, y2 = target.x, target.y + NODE_HEIGHT // 2
    return f"M{x1} {y1} C{x1 + _GAP // 2} {y1} {x2 - _GAP // 2} {y2} {x2} {y2}"
