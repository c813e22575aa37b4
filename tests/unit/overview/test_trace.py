"""SEE-3: a recorded run and its file."""

from datetime import UTC, datetime

import attrs
import pytest

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import HELM_RELEASE
from vworkspace_core.overview import trace
from vworkspace_core.overview.object_graph import ObjectGraph, ObjectGraphEdge, ObjectGraphNode
from vworkspace_core.overview.severity import Severity
from vworkspace_core.overview.trace import FORMAT, Moment, Trace, read, written

NODES = (
    ObjectGraphNode("a", "Shop", "a", "Ready", Severity.GOOD),
    ObjectGraphNode(
        "b",
        "HelmRelease",
        "b",
        "Held",
        Severity.WAITING,
        "GateClosed",
        "why",
        waits_for=("a",),
        when_conditions=("x",),
        row=1,
    ),
)
MOMENT = Moment(
    datetime(2026, 1, 1, tzinfo=UTC),
    "s",
    ObjectGraph(NODES, (ObjectGraphEdge("a", "b", False),)),
    ("apply b",),
    {"n": "1"},
)
TRACE = Trace("a run", (MOMENT, Moment(datetime(2026, 1, 2, tzinfo=UTC), "s", ObjectGraph((), ()))))


def test_what_is_written_is_read_again_without_ways_out_of_it_SEE_3() -> None:
    assert read(written(TRACE)) == TRACE
    ref = ObjectRef(HELM_RELEASE, "ns", "b")
    linked = ObjectGraphNode("a", "Shop", "a", "Ready", Severity.GOOD, since=datetime(2026, 1, 1, tzinfo=UTC), ref=ref)
    node = (
        read(written(Trace("t", (Moment(MOMENT.at, "s", ObjectGraph((linked,), ())),))))
        .moments[0]
        .object_graph.nodes[0]
    )
    assert (node.ref, node.since) == (None, None)


def test_blank_lines_between_moments_are_no_moments_but_are_counted_SEE_3() -> None:
    head, *moments = written(TRACE)

    assert read([head, b"\n", moments[0], b"  \n", moments[1], b""]) == TRACE
    with pytest.raises(ValueError, match="line 4: Input data was truncated"):
        read([head, b"\n", moments[0], b"{"])


def test_moments_with_a_mark_are_known_by_their_number_SEE_3() -> None:
    marked = attrs.evolve(MOMENT, mark="broken")

    assert read(written(Trace("t", (MOMENT, marked, MOMENT, marked)))).marked == {1: "broken", 3: "broken"}
    assert read(written(TRACE)).marked == {}


def test_a_moment_is_found_by_its_number_and_the_nearest_beyond_the_ends_SEE_3() -> None:
    assert [TRACE.at(number)[0] for number in (-5, 0, 1, 99)] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], "there is no moment in it"),
        ([b"{"], "line 1:"),
        ([b'{"format": "other", "title": ""}'], f"line 1: the format is 'other', not {FORMAT}"),
        ([next(written(TRACE)), b'{"at": 1}'], "line 2:"),
        ([next(written(TRACE))], "there is no moment in it"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_with_its_line_SEE_3(lines: list[bytes], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        read(lines)


def test_a_file_has_as_many_moments_as_the_limit_and_no_more_SEE_3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "MOST_MOMENTS", len(TRACE.moments))
    assert read(written(TRACE)) == TRACE
    with pytest.raises(ValueError, match=r"line 4: there are more than 2 moments"):
        read(written(Trace("a run", (*TRACE.moments, MOMENT))))
