"""The drawing of a graph of objects as SVG, and the page of a recorded trace (SEE-3).

A node of a graph is an object of the cluster; a trace is the recorded course of a run, moment by moment.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import islice
from typing import Final

import attrs

from purekube.apimachinery.manifest import Kind
from purekube.graph.states import NodeState
from vworkspace_app.page.rendering import clip
from vworkspace_app.page.screens import Extent, PageContent, ScreenPart, ScreenSource, Tab
from vworkspace_core.overview.object_graph import ObjectGraph, ObjectGraphNode, walk
from vworkspace_core.overview.severity import Severity, urgency
from vworkspace_core.overview.trace import Moment, Trace, differences

FRAME: Final = 1132
"""The maximum width in pixels of a drawing on a screen of 1280 pixels."""
NARROW: Final = 300
"""The maximum width in pixels of a drawing on a phone of 360 pixels."""
NODE_WIDTH: Final = 200
NODE_HEIGHT: Final = 92
GATED_HEIGHT: Final = 110
"""The height in pixels of nodes in a drawing where a node has gates (conditions), which need one more line of text."""
_SLIM_WIDTH: Final = 160
"""The width in pixels of a node if six are side by side."""
_GAP: Final = 30
"""The space in pixels between two adjacent nodes, which an edge crosses."""
_BESIDE: Final = 16
_PADDING: Final = 6
_MOST_ABREAST, _MOST_SLIM = 5, 6
_STACKED: Final = 560
_WELL: Final = "Nothing is in the way of these objects."
_INDENT: Final = 16
_MOST_INDENTS: Final = 5
_SMALL, _LARGE = 7.0, 8.3
"""The widths of a character in small and in large text, in pixels, in the widest common font."""


@attrs.frozen
class PlacedText:
    """A line of text in a drawn node, with its vertical position `y` in pixels.

    `role` is the text's meaning: `kind`, `name`, `state`, `reason` and so on.
    """

    role: str
    y: int
    text: str


@attrs.frozen
class PlacedNode:
    """A node with the position of its upper left corner, its size and its texts."""

    node: ObjectGraphNode
    x: int
    y: int
    width: int
    height: int
    texts: tuple[PlacedText, ...]
    tip: str


@attrs.frozen
class Line:
    """An edge of a drawing, which leads to the node `target`, as an SVG path.

    `is_open` is True if the object at the start of the edge does not block the target. `tip` is the tooltip.
    """

    path: str
    target: str
    is_open: bool
    tip: str


@attrs.frozen
class Drawing:
    """A drawing with its size in pixels, and all nodes and edges with their positions."""

    width: int
    height: int
    nodes: tuple[PlacedNode, ...]
    lines: tuple[Line, ...]


def drawings_of(object_graph: ObjectGraph) -> tuple[Drawing, Drawing]:
    """Return two drawings of a graph: one for wide screens and one for narrow screens."""
    down = object_graph.rows <= _MOST_ABREAST and object_graph.columns > _MOST_SLIM
    across = object_graph.rows if down else object_graph.columns
    fits = across <= _MOST_SLIM
    return (_plane(object_graph, down=down) if fits else _stack(object_graph, _STACKED)), _stack(object_graph, NARROW)


def _plane(object_graph: ObjectGraph, *, down: bool) -> Drawing:
    """Return a drawing in which the columns of the graph are next to each other, or with `down` below each other."""
    node_width = NODE_WIDTH if down or object_graph.columns <= _MOST_ABREAST else _SLIM_WIDTH
    height = _height(object_graph)
    step_x, step_y = node_width + (_BESIDE if down else _GAP), height + (_GAP if down else _BESIDE)
    at = {
        node.id: _placed(
            node,
            _PADDING + (node.row if down else node.column) * step_x,
            _PADDING + (node.column if down else node.row) * step_y,
            node_width,
            height,
        )
        for node in object_graph.nodes
    }
    return _drawing(at, object_graph, _path_down if down else _path)


def _height(object_graph: ObjectGraph) -> int:
    return GATED_HEIGHT if any(node.when_conditions for node in object_graph.nodes) else NODE_HEIGHT


def _stack(object_graph: ObjectGraph, width: int) -> Drawing:
    """Return a drawing with one node per row, each indented below its source node."""
    at: dict[str, PlacedNode] = {}
    height = _height(object_graph)
    for row, (node, depth) in enumerate(_by_source(object_graph)):
        x = _PADDING + min(depth, _MOST_INDENTS) * _INDENT
        at[node.id] = _placed(node, x, _PADDING + row * (height + 10), width - _PADDING - x, height)
    return _drawing(at, object_graph, _elbow)


def _by_source(object_graph: ObjectGraph) -> Iterator[tuple[ObjectGraphNode, int]]:
    """Yield each node once, with its depth in a tree of the nodes.

    A node with several sources is placed below the last of them.
    """
    order = {node.id: node for node in walk(object_graph)}
    place = {name: at for at, name in enumerate(order)}
    below: dict[str, list[str]] = {name: [] for name in order}
    parents = {edge.target: edge.source for edge in sorted(object_graph.edges, key=lambda edge: place[edge.source])}
    for name in order:
        if name in parents:
            below[parents[name]].append(name)
    seen = set[str]()
    for root in sorted(order, key=lambda name: name in parents):
        waiting = [(root, 0)]
        while waiting:
            name, depth = waiting.pop()
            if name not in seen:
                seen.add(name)
                yield order[name], depth
                waiting += [(child, depth + 1) for child in reversed(below[name])]


def _drawing(
    at: Mapping[str, PlacedNode], object_graph: ObjectGraph, path: Callable[[PlacedNode, PlacedNode], str]
) -> Drawing:
    edges = ((at[edge.source], at[edge.target], edge.is_open) for edge in object_graph.edges)
    lines = (Line(path(a, b), b.node.id, is_open, _tip_of_edge(a.node, b.node, is_open)) for a, b, is_open in edges)
    width = max((placed.x + placed.width for placed in at.values()), default=0)
    height = max((placed.y + placed.height for placed in at.values()), default=0)
    return Drawing(width + _PADDING, height + _PADDING, tuple(at.values()), tuple(lines))


def _placed(node: ObjectGraphNode, x: int, y: int, width: int, height: int) -> PlacedNode:
    small, large = int((width - 28) / _SMALL), int((width - 28) / _LARGE)
    reason = "" if node.reason == node.state else node.reason
    texts = (
        PlacedText("kind", 20, clip(f"{node.kind} · {node.phase}" if node.phase else node.kind, small)),
        PlacedText("name", 40, clip(node.name, large)),
        PlacedText("state", 61, clip(node.state, small - 2)),
        PlacedText("reason", 79, clip(reason, small)),
        PlacedText("gate", 97, clip(_gate(node), small)),
    )
    return PlacedNode(node, x, y, width, height, tuple(text for text in texts if text.text), tip_of(node))


def _gate(node: ObjectGraphNode) -> str:
    """Return a few words about a node's `when` condition, or "" if there is nothing to report.

    They are `gate open` for a node that is ready, and `gate shut` with the condition for a node that waits for it.
    """
    if not node.when_conditions:
        return ""
    shut = f"gate shut: {node.when_conditions[0]}"
    return {NodeState.HELD.value: shut, NodeState.READY.value: "gate open"}.get(node.state, "")


def tip_of(node: ObjectGraphNode) -> str:
    """Return the text of a node's tooltip: its state with reason and message, and the nodes that it waits for."""
    state = " ".join(dict.fromkeys(filter(None, (node.state, node.reason))))
    waits = f"waits for {', '.join(node.waits_for)}" if node.waits_for else ""
    phase = f"phase {node.phase}" if node.phase else ""
    gates = [f"gate: {gate}" for gate in node.when_conditions]
    return " · ".join(filter(None, (f"{node.kind} {node.name}", state, clip(node.message, 300), waits, phase, *gates)))


def _tip_of_edge(source: ObjectGraphNode, target: ObjectGraphNode, is_open: bool) -> str:
    names = f"{target.kind} {target.name} comes after {source.kind} {source.name}"
    return names if is_open else f"{names}, which is not ready · {tip_of(source)}"


def _path(source: PlacedNode, target: PlacedNode) -> str:
    """Return the SVG path of a curve from the right edge of `source` to the left edge of `target`."""
    x1, y1 = source.x + source.width, source.y + source.height // 2
    x2, y2 = target.x, target.y + target.height // 2
    return f"M{x1} {y1} C{x1 + _GAP // 2} {y1} {x2 - _GAP // 2} {y2} {x2} {y2}"


def _path_down(source: PlacedNode, target: PlacedNode) -> str:
    """Return the SVG path of a curve from the bottom edge of `source` to the top edge of `target`."""
    x1, y1 = source.x + source.width // 2, source.y + source.height
    x2, y2 = target.x + target.width // 2, target.y
    return f"M{x1} {y1} C{x1} {y1 + _GAP // 2} {x2} {y2 - _GAP // 2} {x2} {y2}"


def _elbow(source: PlacedNode, target: PlacedNode) -> str:
    """Return the SVG path of a line from the left of `source` down, then right to `target`."""
    x1, y1 = source.x + _INDENT // 2, source.y + source.height
    y2 = target.y + target.height // 2
    return f"M{x1} {y1} V{y2} H{target.x}"


def graph_part(object_graph: ObjectGraph, linked: Set[Kind] = frozenset(), remark: str = "") -> ScreenPart:
    """Return the part of a screen with the drawn graph and the note `remark`.

    Objects of the `linked` kinds link to their own pages.
    """
    wide, narrow = drawings_of(object_graph)
    worst = min(object_graph.nodes, key=_distance_to_cause, default=None)
    is_well = worst is None or urgency(worst.severity) > urgency(Severity.MOVING)
    numbers = {node.id: number for number, node in enumerate(walk(object_graph))}
    filled = {"object_graph": object_graph, "wide": wide, "narrow": narrow, "linked": linked, "numbers": numbers}
    filled["remark"] = remark
    return ScreenPart(
        "graph", "object_graph.html", {**filled, "tip": _WELL if is_well or worst is None else tip_of(worst)}
    )


def _distance_to_cause(node: ObjectGraphNode) -> tuple[int, bool, int]:
    """Return a sort key for nodes: those that best explain the state of the others come first.

    These are the most severe nodes. Among them, nodes that wait for no other come first, and then those that are
    farthest downstream, such as a pod before its release.
    """
    return urgency(node.severity), bool(node.waits_for), -node.column


_TABS: Final = (Tab("trace", "Trace", ""),)
_LATEST: Final = 30
"""The maximum number of moments whose messages are shown: the present moment and the ones before it."""
_MOST_ROWS: Final = 200
"""The maximum number of rows of a table, and of differences, that are shown."""
_MOST_MARKS: Final = 20


@attrs.frozen
class TracePage(ScreenSource):
    """The source of the screens (page contents) of a recorded trace, which is a simulated run, moment by moment.

    Its content never changes.
    """

    trace: Trace

    @property
    def tabs(self) -> Sequence[Tab]:
        """The only tab of the page."""
        return _TABS

    @property
    def extent(self) -> Extent:
        """The heading of the page, which says that it shows the recorded run."""
        return Extent("one recorded run")

    async def screen(self, path: str, query: Mapping[str, str]) -> PageContent | None:
        """Return the screen for one moment of the trace, or None if `path` is not `/`.

        The query's `at` is the number of the moment. With `from`, another number, the two moments are compared.
        """
        if path != "/":
            return None
        number, moment = self.trace.at(_number(query.get("at", "")) or 0)
        since = _number(query.get("from", ""))
        return PageContent(self.trace.title, "trace", tuple(self._parts(number, moment, since)))

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
        yield graph_part(moment.object_graph)
        yield ScreenPart(
            "nodes", "object_nodes.html", {"nodes": list(walk(moment.object_graph)), "linked": frozenset()}
        )
        yield ScreenPart("tables", "trace_tables.html", {"tables": moment.tables, "most": _MOST_ROWS})
        before_it = self.trace.moments[max(0, number - _LATEST + 1) : number + 1][::-1]
        yield ScreenPart("told", "trace_reports.html", {"moments": before_it})


def _number(text: str) -> int | None:
    """Return the number of a moment from a URL's query; None if the text is not a number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else None
