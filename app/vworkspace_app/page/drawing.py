"""A graph in pixels, and a recorded run with a slider for its time (SEE-3)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import attrs

from vworkspace_app.page.screens import Heard, Screen, ScreenPart, Tab
from vworkspace_core.overview.object_graph import ObjectGraph, ObjectGraphNode, walk
from vworkspace_core.overview.trace import Moment, Trace
from vworkspace_core.overview.trace_differences import differences

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
    """A node with the position of its upper left corner."""

    node: ObjectGraphNode
    x: int
    y: int


@attrs.frozen
class Line:
    """An edge as an SVG path."""

    path: str
    is_open: bool


@attrs.frozen
class Drawing:
    """All nodes and edges with their positions. `fits` says that a screen is wide enough to show all of it."""

    width: int
    height: int
    nodes: tuple[PlacedNode, ...]
    lines: tuple[Line, ...]
    fits: bool


def drawing_of(object_graph: ObjectGraph) -> Drawing:
    """Return the graph with a position for every node and edge."""
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


_TABS: Final = (Tab("trace", "Trace", ""),)
_LATEST: Final = 30
"""The number of moments whose lines are shown next to the current one."""
_MOST_ROWS: Final = 200
"""The most rows of a table, and the most differences, that are shown."""
_MOST_MARKS: Final = 20


@attrs.frozen
class TracePage:
    """A `ScreenSource` that shows a recorded trace, which never changes."""

    trace: Trace

    @property
    def tabs(self) -> Sequence[Tab]:
        """The only tab."""
        return _TABS

    def subscribe(self, heard: Heard) -> Callable[[], None]:
        """Do nothing, because a trace never changes."""
        return lambda: None

    async def screen(self, path: str, query: Mapping[str, str]) -> Screen | None:
        """Return the screen of the moment `at`, compared with the moment `from` if the query names one."""
        if path != "/":
            return None
        number, moment = self.trace.at(_number(query.get("at", "")) or 0)
        since = _number(query.get("from", ""))
        return Screen(self.trace.title, "trace", tuple(self._parts(number, moment, since)))

    def _parts(self, number: int, moment: Moment, since: int | None) -> Iterator[ScreenPart]:
        last = len(self.trace.moments) - 1
        marked = dict(islice(self.trace.marked.items(), _MOST_MARKS))
        yield ScreenPart(
            "slider", "trace_slider.html", {"number": number, "last": last, "marked": marked, "since": since}
        )
        kept = "" if since is None else f"&from={since}"
        filled = {"number": number, "last": last, "moment": moment, "kept": kept}
        yield ScreenPart("moment", "trace_moment.html", filled)
        if since is not None:
            since, before = self.trace.at(since)
            changes = list(islice(differences(before, moment), _MOST_ROWS))
            yield ScreenPart(
                "differences",
                "trace_differences.html",
                {"number": number, "since": since, "differences": changes},
            )
        yield ScreenPart(
            "graph",
            "object_graph.html",
            {"object_graph": moment.object_graph, "drawing": drawing_of(moment.object_graph)},
        )
        yield ScreenPart(
            "nodes", "object_nodes.html", {"nodes": list(walk(moment.object_graph)), "linked": frozenset()}
        )
        yield ScreenPart("tables", "trace_tables.html", {"tables": moment.tables, "most": _MOST_ROWS})
        before_it = self.trace.moments[max(0, number - _LATEST + 1) : number + 1][::-1]
        yield ScreenPart("told", "trace_reports.html", {"moments": before_it})


def _number(text: str) -> int | None:
    """Return the number of a moment in an address; None if there is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else None
