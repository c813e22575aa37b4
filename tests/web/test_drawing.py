"""SEE-3: positions of nodes, edges and bars in drawings."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vworkspace_app.page.drawing import FRAME, NARROW, Drawing, drawings_of, graph_part, tip_of
from vworkspace_app.page.lanes import lanes_part
from vworkspace_core.overview.lanes import RANGES, Bar, Lane, LaneQuery, lane_view
from vworkspace_core.overview.object_graph import ObjectGraph, ObjectGraphEdge, ObjectGraphNode, _laid_out
from vworkspace_core.overview.severity import Severity

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
NAMES = [f"n-{at}" for at in range(14)]
EDGES = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=30)
CHAIN = list(pairwise(NAMES))
FAN = [("n-0", name) for name in NAMES[1:]]


def graph(pairs: list[tuple[str, str]]) -> ObjectGraph:
    nodes = [
        ObjectGraphNode(name, "Kind" * 30, name * 30, "State" * 30, Severity.GOOD, "Reason" * 30) for name in NAMES
    ]
    return _laid_out(nodes, [ObjectGraphEdge(*pair) for pair in pairs])


@given(EDGES)
@example(CHAIN)
@example(FAN)
@example([*CHAIN, *FAN])
@example([("n-0", "n-1"), ("n-1", "n-0"), ("n-2", "n-2")])
def test_every_drawing_fits_its_frame_and_shows_every_node_and_edge_SEE_3(pairs: list[tuple[str, str]]) -> None:
    object_graph = graph(pairs)
    for drawing, frame in zip(drawings_of(object_graph), (FRAME, NARROW), strict=True):
        assert drawing.width <= frame
        assert {placed.node.id for placed in drawing.nodes} == set(NAMES)
        assert [line.target for line in drawing.lines] == [edge.target for edge in object_graph.edges]
        assert_apart(drawing)


def assert_apart(drawing: Drawing) -> None:
    boxes = [(placed.x, placed.y, placed.x + placed.width, placed.y + placed.height) for placed in drawing.nodes]
    assert all(a >= 0 and b >= 0 and c <= drawing.width and d <= drawing.height for a, b, c, d in boxes)
    for at, (left, top, right, bottom) in enumerate(boxes):
        for other in boxes[at + 1 :]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


@pytest.mark.parametrize(("pairs", "width"), [(CHAIN, 212), (FAN[:4], 442), (FAN, 442), ([*CHAIN, *FAN[6:]], 560)])
def test_a_deep_graph_goes_down_and_one_that_is_deep_and_wide_is_a_list_SEE_3(
    pairs: list[tuple[str, str]], width: int
) -> None:
    named = {name for pair in pairs for name in pair}
    nodes = [ObjectGraphNode(name, "Kind", name, "Ready", Severity.GOOD) for name in NAMES if name in named]
    more = (
        [ObjectGraphNode(f"m-{at}", "Kind", f"m-{at}", "Ready", Severity.GOOD) for at in range(9)]
        if width == 560
        else []
    )
    wide, _ = drawings_of(_laid_out([*nodes, *more], [ObjectGraphEdge(*pair) for pair in pairs]))
    assert wide.width == width


def test_on_a_phone_an_object_stands_below_what_it_comes_from_SEE_3() -> None:
    _, narrow = drawings_of(graph([("n-0", "n-3"), ("n-3", "n-5"), ("n-0", "n-4")]))
    order = sorted(narrow.nodes, key=lambda placed: placed.y)
    assert [(placed.node.id, placed.x) for placed in order[:4]] == [("n-0", 6), ("n-3", 22), ("n-5", 38), ("n-4", 22)]


def test_the_reason_of_a_node_and_of_an_edge_is_told_in_a_sentence_SEE_3() -> None:
    bad = ObjectGraphNode(
        "a", "Service", "s", "Held", Severity.WAITING, "Gate", "no address", None, None, ("b",), ("x > 1",)
    )
    assert tip_of(bad) == "Service s · Held Gate · no address · waits for b · gate: x > 1"
    after = ObjectGraphNode("c", "Ingress", "i", "Waiting", Severity.WAITING)
    wide, _ = drawings_of(_laid_out([bad, after], [ObjectGraphEdge("a", "c", is_open=False)]))
    assert wide.lines[0].tip.startswith("Ingress i comes after Service s, which is not ready · Service s · Held Gate")


def test_the_sentence_of_a_graph_is_about_the_cause_and_not_what_it_comes_from_SEE_3() -> None:
    """Of objects that are equally bad the lowest one that waits for nothing: a pod, before its release and instance."""

    def node(name: str, severity: Severity, *waits_for: str) -> ObjectGraphNode:
        return ObjectGraphNode(name, "Kind", name, "State", severity, waits_for=waits_for)

    def sentence(*nodes: ObjectGraphNode) -> str:
        edges = [ObjectGraphEdge(a.id, b.id) for a, b in pairwise(nodes)]
        return str(graph_part(_laid_out(nodes, edges)).context["tip"])

    bad, waiting, good = Severity.BAD, Severity.WAITING, Severity.GOOD
    assert sentence(node("app", bad), node("release", waiting), node("pod", bad)).startswith("Kind pod ")
    assert sentence(node("app", bad), node("release", waiting), node("pod", good)).startswith("Kind app ")
    assert sentence(node("app", waiting), node("a", waiting), node("b", waiting, "a")).startswith("Kind a ")
    assert sentence(node("app", good), node("pod", good)) == "Nothing is in the way of these objects."


@given(st.lists(st.floats(0, 50_000), min_size=2, max_size=6), st.sampled_from([*RANGES]))
@example([60.0, 60.0], "1h")
@example([50_000.0, 0.0], "1m")
def test_every_bar_is_within_its_frame_whatever_the_range_SEE_3(minutes: list[float], range_: str) -> None:
    times = [NOW - timedelta(minutes=each) for each in sorted(minutes, reverse=True)]
    bars = tuple(Bar(begin, end, "ready", Severity.GOOD) for begin, end in pairwise(times))
    part = lanes_part(lane_view([Lane("Kind", "a", Severity.GOOD, bars)], LaneQuery(range_), NOW), frozenset())
    for _, placed, _ in part.context["lanes"]:
        assert all(bar.x >= 0 and bar.width > 0 and bar.x + bar.width <= 100.01 for bar in placed)


def test_a_node_of_a_box_shows_its_phase_and_whether_its_gate_is_open_SEE_3() -> None:
    def texts(state: str) -> list[str]:
        node = ObjectGraphNode(
            "a", "Service", "s", state, Severity.WAITING, when_conditions=("x is 1",), phase="network"
        )
        wide, _ = drawings_of(_laid_out([node], []))
        return [text.text for text in wide.nodes[0].texts]

    assert texts("Held") == ["Service · network", "s", "Held", "gate shut: x is 1"]
    assert texts("Ready") == ["Service · network", "s", "Ready", "gate open"]
